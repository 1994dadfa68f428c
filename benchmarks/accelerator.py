"""What a GPU adds to a row: how long its device waits, how much memory it took, and the rate it could reach."""

import statistics
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.row import Row, Work, first_line, race


def memory() -> dict[str, float]:
    """The most device memory that JAX has held in this process, and what it may hold."""
    stats = jax.devices()[0].memory_stats() or {}
    names = {"peak so far, MB": "peak_bytes_in_use", "limit, MB": "bytes_limit"}
    return {name: stats[key] / 2**20 for name, key in names.items() if key in stats}


def waiting_share(row: Row) -> dict[str, Any]:
    """The share of a row's wall time in which the device runs nothing of ours: launches, and the host between them.

    The profile slows the host down, but not the kernels: their time comes from it, the wall time from the row.
    """
    if row.timed is None or not row.ours:
        return {}
    try:
        busy = busy_nanoseconds(profile(row.timed)) / 1e6 / row.timed.units
    except Exception as error:  # a machine may forbid its users the counters
        return {"waiting share": f"not measured: {type(error).__name__}: {first_line(error)}"}
    return {"device busy, ms": busy, "waiting share": 1 - busy / statistics.median(row.ours)}


def profile(work: Work) -> Any:
    """Of one call."""
    from jax.profiler import ProfileData

    work.call()  # compiles, where it was not timed itself
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            work.call()
        return ProfileData.from_file(str(next(Path(folder).rglob("*.xplane.pb"))))


def busy_nanoseconds(profile: Any) -> float:
    """How long at least one stream of the GPU ran a kernel or copied."""
    spans = [
        (event.start_ns, event.start_ns + event.duration_ns)
        for plane in profile.planes
        if plane.name.startswith("/device:GPU")
        for line in plane.lines
        if (line.name or "").startswith("Stream")
        for event in line.events
    ]
    if not spans:
        raise RuntimeError("the profile has no kernel of a GPU")
    return covered(spans)


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length of the union of intervals.

    >>> covered([(0, 2), (1, 3), (5, 6)])
    4.0
    """
    total, end = 0.0, float("-inf")
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


@cache
def matrix_rate(size: int, precision: str = "bfloat16") -> float:
    """Flops a second of a large matrix product, the best of several: what a model's rate is measured by.

    Of random matrices: products of constants take less power, and so run faster than any model can. In float32 a GPU
    multiplies with TF32's 10 bits.
    """
    times = 10
    a = jax.random.normal(jax.random.key(0), (size, size), dtype=jnp.float32).astype(precision)
    scale = jnp.asarray(size**-0.5, dtype=precision)
    product = jax.jit(lambda a: jax.lax.fori_loop(0, times, lambda _, x: (a @ x) * scale, a))
    taken = race({"product": Work(lambda: jax.block_until_ready(product(a)), times)}, 5)["product"]
    return 2 * size**3 / (min(taken) / 1e3)
