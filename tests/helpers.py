"""What tests share: the one way to compare arrays."""

import numpy as np


def assert_close(a, b, tol: float) -> None:
    """max|a-b| <= tol * max|b|, over all entries together; shapes must agree."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    assert a.shape == b.shape, f"shapes {a.shape} and {b.shape}"
    assert np.isfinite(a).all(), "a has entries that are not finite"
    assert np.isfinite(b).all(), "b has entries that are not finite"
    error, scale = np.max(np.abs(a - b), initial=0.0), np.max(np.abs(b), initial=0.0)
    assert error <= tol * scale, f"max|a-b| = {error:.3g} > {tol:g} * {scale:.3g}"
