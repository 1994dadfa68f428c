"""What the PyTorch sides share: arrays of ours as tensors, work that waits for its device, the compiled form of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
import torch

from benchmarks.row import Work


class Mirror:
    """Work in PyTorch around a loss, which may be compiled, forward and backward; all else stays as it is."""

    loss: Callable[..., torch.Tensor]

    def __init__(self) -> None:
        self.loss_of = self.loss

    def compiled(self):
        """Itself, with the compiled loss."""
        self.loss_of = torch.compile(self.loss)
        return self


def tensor(array: Any, device: str = "cpu") -> torch.Tensor:
    """A copy on the device; integers as int64, which is what PyTorch indexes with."""
    values = np.array(array)
    return torch.from_numpy(values.astype(np.int64) if values.dtype.kind in "iu" else values).to(device)


def waiting(call: Callable[[], Any], device: str, units: int = 1, times: int = 1) -> Work:
    """So many calls in a row, then a wait for the device."""

    def run() -> None:
        for _ in range(times):
            call()
        if device == "cuda":
            torch.cuda.synchronize()

    return Work(run, units * times)


def blocking(call: Callable[[], Any], units: int = 1) -> Work:
    """A call of ours and a wait for its arrays."""
    return Work(lambda: jax.block_until_ready(call()), units)


def relative_error(pairs: list[tuple[Any, Any]]) -> float:
    """The largest max|a - b| / max|b| of several pairs of arrays, ours and theirs.

    >>> relative_error([(np.array([1.0, 2.0]), torch.tensor([1.0, 4.0]))])
    0.5
    """
    worst = 0.0
    for ours, theirs in pairs:
        b = theirs.detach().cpu().numpy() if isinstance(theirs, torch.Tensor) else np.asarray(theirs)
        difference = np.abs(np.asarray(ours, dtype=np.float64) - b).max()
        worst = max(worst, float(difference / max(np.abs(b).max(), 1e-30)))
    return worst


@contextmanager
def full_precision() -> Iterator[None]:
    """Matrix products in float32 as float32 on both sides: what is compared is the formula, not the rounding."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with jax.default_matmul_precision("highest"):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
