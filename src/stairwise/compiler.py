"""A guard against a compiler that computes wrongly.

From 0.10.2 on, JAX hands sums and maxima on the CPU to a library (YNNPACK) whose programs can be wrong without a word:
https://github.com/jax-ml/jax/issues/39103. `jit` loses rows there, and of a softmax of constants one program in twenty
returned nothing but NaN. 0.10.1 is right; later ones are right with that library kept to matrix products.
"""

import os
import sys
import warnings
from importlib import metadata

FIRST_WRONG, FIRST_UNKNOWN = (0, 10, 2), (0, 12, 0)  # a flag that a release does not know ends the process
OPTION = "--xla_cpu_experimental_ynn_fusion_type="
REST = "-reduce"  # all that the release would hand over, but for reductions


def needs_guard(version: str) -> bool:
    """Whether this release of jaxlib is one of those that compile wrongly."""
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    return FIRST_WRONG <= numbers < FIRST_UNKNOWN


def guard() -> None:
    """Keep reductions from it, unless the user decided about it. It must be done before JAX runs its first program."""
    flags = os.environ.get("XLA_FLAGS", "")
    if OPTION in flags:
        return
    try:
        version = metadata.version("jaxlib")
    except metadata.PackageNotFoundError:
        return
    if not needs_guard(version):
        return
    os.environ["XLA_FLAGS"] = f"{flags} {OPTION}{REST}".strip()
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
