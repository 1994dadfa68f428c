"""For PyTorch: the tasks as data sets, and a PyTorch twin of every model that papers train."""

from stairwise.extras import missing

try:
    import torch  # noqa: F401
except ImportError:
    raise ImportError(missing("stairwise.interop.torch", "hf")) from None

from stairwise.interop.torch.datasets import IterableDataset
from stairwise.interop.torch.twin import twin

__all__ = ["IterableDataset", "twin"]
