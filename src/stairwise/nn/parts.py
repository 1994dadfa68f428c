"""The parts that a sequence model is made of, by name: what may be chosen, and which choices go together.

A config that offers them inherits `Parts` and declares its own `positions`; the model is then built with
`Transformer(..., **parts.chosen(config))`. Nothing here imports JAX, so configs can be listed without it.
"""

from dataclasses import dataclass
from typing import Any

from stairwise.config import Config, option, require

SOFTMAX = "softmax"
MIXERS = (SOFTMAX, "linear", "gated", "delta", "diagonal", "lstm", "mingru")
POSITIONS = ("none", "learned", "sinusoidal", "rotary", "alibi", "t5", "randomised")
NORMS = ("none", "rms", "layer")
EIGENVALUES = ("positive", "signed")
ON_SCORES = ("rotary", "alibi", "t5")  # positions that act on attention scores, which a recurrence has not
SIGNED = ("delta", "diagonal")  # mixers whose eigenvalues may be negative
SPREAD = 4  # rows of a randomised table over the length of a sequence

POSITIONS_HELP = (
    "how positions are told: none (NoPE), learned, sinusoidal, rotary, alibi, t5 (learned bias of the distance),"
    " randomised (a learned table four times as long, read at random increasing places in training)"
)


@dataclass(frozen=True, kw_only=True)
class Parts(Config):
    """What mixes positions, and how often the layers are run."""

    mixer: str = option(
        SOFTMAX,
        "what mixes positions: softmax attention, or a recurrence: linear attention, gated linear attention, delta"
        " (DeltaNet), diagonal (a selective state-space layer), lstm, mingru",
        choices=MIXERS,
        since="0.1",
    )
    householders: int = option(1, "Householder steps per token (delta)", low=1, high=8, since="0.1")
    eigenvalues: str = option(
        "positive",
        "range of a recurrence's eigenvalues: positive, [0, 1]; signed, [-1, 1] (delta, diagonal)",
        choices=EIGENVALUES,
        since="0.1",
    )
    loops: int = option(
        1, "times that the layers are run, one after another with the same weights", low=1, high=64, since="0.1"
    )


def chosen(parts: Parts) -> dict[str, Any]:
    """The arguments of `Transformer` that `Parts` has."""
    return {name: getattr(parts, name) for name in ("mixer", "householders", "eigenvalues", "loops")}


def rows(positions: str, length: int) -> int:
    """Rows of the table of positions for sequences of a length: more of them where places are drawn."""
    return SPREAD * length if positions == "randomised" else length


def check_parts(parts: Parts, positions: str, width: int, heads: int, *, causal: bool = True) -> None:
    """ConfigError in one line for a combination that makes no sense."""
    mixer, householders, eigenvalues = parts.mixer, parts.householders, parts.eigenvalues
    recurrent = mixer != SOFTMAX
    require(
        causal or not recurrent, f"mixer={mixer} must be {SOFTMAX}: the model reads both ways, a recurrence one way"
    )
    require(
        not (recurrent and positions in ON_SCORES),
        f"positions={positions} must be one of none, learned, sinusoidal, randomised where mixer={mixer}:"
        f" {', '.join(ON_SCORES)} act on attention scores",
    )
    require(mixer == "delta" or householders == 1, f"householders={householders} must be 1 where mixer={mixer}")
    require(
        mixer in SIGNED or eigenvalues == "positive", f"eigenvalues={eigenvalues} must be positive where mixer={mixer}"
    )
    require(
        positions != "rotary" or heads < 1 or width // heads % 2 == 0,
        f"width={width} must be an even multiple of heads={heads} where positions=rotary",
    )
    require(positions != "sinusoidal" or width % 2 == 0, f"width={width} must be even where positions=sinusoidal")
