"""Benchmarks: the same work in plain PyTorch and here, side by side in one run (`stairwise bench`).

A bench is a module that lists jobs; a job makes one row. Modules are named, not imported: they need JAX and PyTorch.
"""

BENCHES = {
    "parity_cot": ("stairwise.bench.parity_cot", "stairwise.bench.parity_cot_theory"),
    "sweep": ("stairwise.bench.sweep",),
    "selection": ("stairwise.bench.selection",),
    "composition": ("stairwise.bench.composition",),
    "lego": ("stairwise.bench.lego", "stairwise.bench.lego_theory"),
    "parity_onestep": ("stairwise.bench.parity_onestep",),
    "store": ("stairwise.bench.store",),
}
USUAL = tuple(name for name in BENCHES if name != "store")  # it writes ten thousand trials first
GROWING = tuple(name for name in USUAL if name != "sweep")
