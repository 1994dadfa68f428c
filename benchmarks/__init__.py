"""Benchmarks: the same work in plain PyTorch and here, side by side in one run (`stairwise bench`).

A bench is a module that lists jobs; a job makes one row. Modules are named, not imported: they need JAX and PyTorch.
"""

BENCHES = {
    "parity_cot": ("benchmarks.parity_cot", "benchmarks.parity_cot_theory"),
    "sweep": ("benchmarks.sweep",),
    "selection": ("benchmarks.selection",),
    "composition": ("benchmarks.composition",),
    "lego": ("benchmarks.lego", "benchmarks.lego_theory"),
    "parity_onestep": ("benchmarks.parity_onestep",),
    "seeds": ("benchmarks.seeds",),
    "users": ("benchmarks.users",),
    "store": ("benchmarks.store",),
}
NOT_USUAL = ("seeds", "users", "store")  # sizes of a GPU; whole trainings; ten thousand trials
USUAL = tuple(name for name in BENCHES if name not in NOT_USUAL)
GROWING = tuple(name for name in USUAL if name != "sweep")
