"""A guard against a compiler that computes wrongly, and flags with which it is done sooner.

From 0.10.2 on, JAX hands sums and maxima on the CPU to a library (YNNPACK) whose programs can be wrong without a word:
https://github.com/jax-ml/jax/issues/39103. `jit` loses rows there, and of a softmax of constants one program in twenty
returned nothing but NaN. 0.10.1 is right; later ones are right with that library kept to matrix products.
"""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata

FIRST_WRONG, FIRST_UNKNOWN = (0, 10, 2), (0, 12, 0)  # a flag that a release does not know ends the process
OPTION = "--xla_cpu_experimental_ynn_fusion_type="
REST = "-reduce"  # all that the release would hand over, but for reductions

SOONER: dict[str, bool | int | str] = {  # a program that runs for milliseconds takes half as long to compile with these
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_cpu_experimental_ynn_fusion_type": "",
}
# a program that runs for seconds, also where a claim has its others compiled with few optimisations
THOROUGH: dict[str, bool | int | str] = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
}
GRAPHS: dict[str, bool | int | str] = {  # a loop is one launch, where a GPU would wait for the host at each kernel
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUDNN,WHILE,CONDITIONAL,DYNAMIC_SLICE_FUSION",
    "xla_gpu_graph_min_graph_size": 1,
}
LIBRARY: dict[str, bool | int | str] = {  # the compiler's own products are tried one by one, which takes seconds
    "xla_gpu_enable_triton_gemm": False,
}
GPU_KNOWN = ((0, 11, 2), (0, 12, 0))
THREADS = "OPENBLAS_NUM_THREADS"  # of NumPy
SOONER_KNOWN = ((0, 10, 2), (0, 11, 0))  # the first release that was tried with them, and the first that was not


def needs_guard(version: str) -> bool:
    """Whether this release of jaxlib is one of those that compile wrongly."""
    return FIRST_WRONG <= _numbers(version) < FIRST_UNKNOWN


def sooner(version: str) -> dict[str, bool | int | str]:
    """Options of the compiler, by name, for programs that run only once; none where the release may not know them.

    Programs round differently with them, so nothing that is trained or compared bit by bit is compiled so.
    """
    first, unknown = SOONER_KNOWN
    return dict(SOONER) if first <= _numbers(version) < unknown else {}


def known_to(kind: str, version: str, options: dict[str, bool | int | str]) -> dict[str, bool | int | str]:
    """Those options of the compiler, by name, on this kind of device; none where the user has set one of them."""
    first, unknown = GPU_KNOWN
    known = "nvidia" in kind.lower() and first <= _numbers(version) < unknown
    set_by_user = any(name in os.environ.get("XLA_FLAGS", "") for name in options)
    return dict(options) if known and not set_by_user else {}


def for_stage(graph: bool = False, tuned: bool = False) -> dict[str, bool | int | str]:
    """Options for a program of a stage on the device that it runs on, if its compiler takes them."""
    import jax

    asked = [options for options, wanted in ((GRAPHS, graph), (LIBRARY, not tuned)) if wanted]
    kind, version = jax.devices()[0].device_kind, installed()
    chosen = {name: value for options in asked for name, value in known_to(kind, version, options).items()}
    return chosen if chosen and _taken() else {}


def waits_for_one_core() -> bool:
    """Whether the device's compiler has a part of every program on one core, as a GPU's has."""
    import jax

    return jax.default_backend() == "gpu"


@cache
def _taken() -> bool:
    import jax

    try:
        jax.jit(lambda x: x + 1, compiler_options=GRAPHS | LIBRARY)(0.0)
    except Exception:  # a release or a plug-in that does not know them
        return False
    return True


@contextmanager
def children_compile_sooner() -> Iterator[None]:
    """Processes started within have these options, as far as the user has not decided about them.

    Their products of matrices take one core each: threads of several processes would wait for one another.
    """
    before = {name: os.environ.get(name) for name in ("XLA_FLAGS", THREADS)}
    flags = (before["XLA_FLAGS"] or "").replace(f"{OPTION}{REST}", "")  # the guard's own
    chosen = [flag(name, value) for name, value in sooner(installed()).items() if name not in flags]
    if chosen:
        os.environ["XLA_FLAGS"] = " ".join([*chosen, *flags.split()])
    os.environ.setdefault(THREADS, "1")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def flag(name: str, value: bool | int | str) -> str:
    return f"--{name}={str(value).lower() if isinstance(value, bool) else value}"


def installed() -> str:
    """The version of jaxlib; nothing where it is not known."""
    try:
        return metadata.version("jaxlib")
    except metadata.PackageNotFoundError:
        return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


def guard() -> None:
    """Keep reductions from it, unless the user decided about it. It must be done before JAX runs its first program."""
    flags = os.environ.get("XLA_FLAGS", "")
    if OPTION in flags:
        return
    version = installed()
    if not needs_guard(version):
        return
    # first: XLA reads no flag that follows a word without dashes, such as intra_op_parallelism_threads=1
    os.environ["XLA_FLAGS"] = f"{OPTION}{REST} {flags}".strip()
    if getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None):
        late = f"jaxlib {version} compiles wrongly on the CPU and JAX has run already: import stairwise before, or set"
        warnings.warn(f"{late} XLA_FLAGS={OPTION}{REST}", stacklevel=3)


def right() -> bool:
    """Whether `jit` agrees with plain arithmetic on the smallest program known to be compiled wrongly."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    rows, eye = 32_769, jnp.eye(3, dtype=jnp.float32)
    counted = jnp.arange(rows, dtype=jnp.float32)
    x = jnp.stack([counted, 0 * counted, 0 * counted], axis=1)
    norms = jax.jit(jax.vmap(lambda row: jnp.sum(jnp.matmul(eye, row, precision="highest") ** 2)))(x)
    return bool(np.array_equal(norms, np.arange(rows, dtype=np.float32) ** 2))
