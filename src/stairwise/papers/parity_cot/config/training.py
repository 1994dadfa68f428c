"""A GPT-2-like decoder, and how it is trained on parities: on fresh or repeated data, until right or out of budget."""

from dataclasses import dataclass
from typing import Any

from stairwise.config import Config, option, require
from stairwise.nn import parts
from stairwise.papers.parity_cot.config.task import PaddedTask

DTYPES = ("float32", "bfloat16")
LARGEST_INDEX = 2**31


@dataclass(frozen=True)
class Decoder(parts.Parts):
    """Pre-norm decoder with GELU and a tied head; the perceptron is four times as wide.

    The paper's has softmax attention, learned positions and LayerNorm.
    """

    width: int = option(64, "hidden width (the paper: 720)", low=1, high=2**14)
    layers: int = option(1, "layers", low=1, high=64)
    heads: int = option(4, "heads; must divide the width", low=1, high=2**10)
    std: float = option(0.125, "scale of the initial weights (GPT-2: 0.02)", above=0.0, high=10.0, numeric=True)
    dropout: float = option(0.0, "dropout in training (the authors' code: 0.1)", low=0.0, below=1.0)
    compute: str = option("float32", "precision of the activations", choices=DTYPES)
    parameters: str = option("float32", "precision of weights and Adam (the authors' code: bfloat16)", choices=DTYPES)
    positions: str = option("learned", parts.POSITIONS_HELP, choices=parts.POSITIONS, since="0.1")
    norm: str = option("layer", "norm before mixer, perceptron and head", choices=parts.NORMS, since="0.1")
    residual: bool = option(True, "residual connections around mixer and perceptron", since="0.1")

    def check(self) -> None:
        require(self.width % self.heads == 0, f"heads={self.heads} must divide width={self.width}")
        parts.check_parts(self, self.positions, self.width, self.heads)

    def check_draws_nothing(self) -> None:
        """For experiments whose training brings no key: neither dropout nor random places."""
        require(self.dropout == 0, f"model.dropout={self.dropout:g} must be 0")
        require(
            self.positions != "randomised", f"model.positions={self.positions} must be fixed: no places are drawn here"
        )

    def arguments(self, length: int) -> dict[str, Any]:
        """The arguments of `Transformer` for sequences of this length, all but vocabulary, scale, dropout and key."""
        return parts.chosen(self) | {
            "width": self.width,
            "layers": self.layers,
            "heads": self.heads,
            "causal": True,
            "positions": self.positions,
            "max_length": parts.rows(self.positions, length),
            "norm": self.norm,
            "attention_residual": self.residual,
            "mlp_residual": self.residual,
            "compute_dtype": self.compute,
        }


@dataclass(frozen=True)
class Training(Config):
    """Adam on cross-entropy over the supervised tokens, evaluated on held-out sequences every `look` samples."""

    task: PaddedTask = option(PaddedTask(), "the parity")
    model: Decoder = option(Decoder(), "the model", stored_as="decoder")
    learning_rate: float = option(1e-3, "learning rate of Adam", above=0.0, high=1.0, numeric=True, stored_as="rate")
    decay: float = option(
        0.0,
        "share of the rate that is gone, linearly, at the end of the budget (authors: 1)",
        low=0.0,
        high=1.0,
        numeric=True,
    )
    clip: float = option(1.0, "largest norm of a gradient (authors: 1); 0 = any", low=0.0)
    samples: int = option(
        0, "distinct training inputs, passed over again and again; 0: fresh ones", low=0, high=10**9, numeric=True
    )
    batch: int = option(128, "sequences of one step", low=1, high=2**20)
    budget: int = option(100_352, "sequences processed in all; a multiple of look", low=1, high=LARGEST_INDEX - 1)
    look: int = option(1024, "sequences processed between evaluations; a multiple of batch", low=1, high=2**24)
    test_examples: int = option(1024, "held-out sequences", low=1, high=2**20, stored_as="validation")
    threshold: float = option(1.0, "exact match that counts as learnt", above=0.0, high=1.0, numeric=True)
    past: int = option(0, "evaluations to go on for after that", low=0, numeric=True)
    attention: int = option(0, "held-out sequences on which attention is measured; 0: it is not", low=0, high=2**14)
    points: int = option(8, "measurements kept for each doubling of the samples", low=1, high=1000)
    watch: bool = option(False, "keep the mean attention of the supervised rows at every measurement too")

    def check(self) -> None:
        require(self.look % self.batch == 0, f"look={self.look} must be a multiple of batch={self.batch}")
        require(self.budget % self.look == 0, f"budget={self.budget} must be a multiple of look={self.look}")
        require(
            self.attention <= self.test_examples,
            f"attention={self.attention} must be at most test_examples={self.test_examples}",
        )
        require(
            not self.watch or self.model.mixer == parts.SOFTMAX,
            f"watch=True must be False where model.mixer={self.model.mixer}: only softmax attention has weights",
        )
        require(
            self.attention > 0 or not self.watch, f"attention={self.attention} must be at least 1 where watch is set"
        )
        used = self.samples + self.test_examples
        require(
            used <= self.pool,
            f"samples={self.samples} + test_examples={self.test_examples} must be at most {self.pool}"
            f" (2**bits, bits={self.task.bits})",
        )

    @property
    def pool(self) -> int:
        """Inputs that training and validation sets are taken from."""
        return min(2**self.task.bits, LARGEST_INDEX)

    @property
    def looks(self) -> int:
        return self.budget // self.look

    @property
    def steps(self) -> int:
        return self.budget // self.batch
