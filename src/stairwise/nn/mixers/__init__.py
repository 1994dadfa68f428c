"""What mixes positions, by name: softmax attention, or one of the recurrences."""

from typing import Any

from jaxtyping import PRNGKeyArray

from stairwise.nn.attention import MultiHeadAttention
from stairwise.nn.mixers.delta import DeltaNet
from stairwise.nn.mixers.diagonal import DiagonalStateSpace
from stairwise.nn.mixers.gated import GatedLinearAttention
from stairwise.nn.mixers.linear import LinearAttention
from stairwise.nn.mixers.lstm import LSTM
from stairwise.nn.mixers.mingru import MinGRU
from stairwise.nn.mixers.recurrence import Recurrence
from stairwise.nn.parts import MIXERS

Mixer = MultiHeadAttention | Recurrence


def make_mixer(
    *,
    mixer: str,
    width: int,
    heads: int,
    householders: int,
    eigenvalues: str,
    dropout: float,
    key: PRNGKeyArray,
    **initial: Any,
) -> Mixer:
    """The mixer of a name; `initial` is its scales and dtype. Heads mean nothing to diagonal, lstm and mingru."""
    if heads < 1 or width % heads:
        raise ValueError(f"heads={heads} must be at least 1 and divide width={width} (Transformer)")
    signed = eigenvalues == "signed"
    match mixer:
        case "softmax":
            return MultiHeadAttention(width, heads, dropout=dropout, key=key, **initial)
        case "linear":
            return LinearAttention(width, heads, key=key, **initial)
        case "gated":
            return GatedLinearAttention(width, heads, key=key, **initial)
        case "delta":
            return DeltaNet(width, heads, householders=householders, signed=signed, key=key, **initial)
        case "diagonal":
            return DiagonalStateSpace(width, signed=signed, key=key, **initial)
        case "lstm":
            return LSTM(width, key=key, **initial)
        case "mingru":
            return MinGRU(width, key=key, **initial)
    raise ValueError(f"mixer={mixer} must be one of {', '.join(MIXERS)} (Transformer)")
