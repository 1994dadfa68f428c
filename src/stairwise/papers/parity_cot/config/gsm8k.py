"""Word problems as training data, and language models to look into (Figures 6 and 7)."""

from dataclasses import dataclass

from stairwise.config import Config, option, require
from stairwise.papers.parity_cot import word_problems

DATA = (
    "folder with train.jsonl and test.jsonl, or one file of JSON lines; kept as the digest of its content"
    " (default: the published GSM8K, in the folder $STAIRWISE_GSM8K)"
)


@dataclass(frozen=True)
class Corpus(Config):
    """Problems as tokens: words, single digits, signs."""

    vocabulary: int = option(
        1024, "tokens: the most frequent of the training problems, and `unknown`", low=16, high=2**15
    )
    length: int = option(256, "tokens of the longest text with CoT; longer problems are left out", low=16, high=4096)
    problems: int = option(7473, "training problems at most", low=2)
    held_out: int = option(64, "problems that are measured on at most", low=2)
    strip_calculator: bool = option(False, "leave out the calculator's <<16-3-4=9>>")


@dataclass(frozen=True)
class Model(Config):
    """The sizes of a decoder, and its start."""

    width: int = option(64, "width of the residual stream", low=2)
    layers: int = option(2, "layers", low=1)
    heads: int = option(4, "heads of a layer", low=1)
    std: float = option(0.02, "standard deviation of the initial weights", above=0.0, numeric=True)
    compute: str = option(
        "float32", "what the stream is computed in", choices=("float32", "bfloat16"), stored_as="precision"
    )

    def check(self) -> None:
        require(
            self.width % (2 * self.heads) == 0,
            f"width={self.width} must be a multiple of 2 heads={2 * self.heads} (rotary positions turn pairs)",
        )


@dataclass(frozen=True)
class Reading(Config):
    """A decoder of the kernel, trained on the text of word problems.

    With CoT: reasoning=1, own=1. Its control of equal length: reasoning=1, own=0. Without CoT: reasoning=0.
    """

    data: str = option(word_problems.PUBLISHED, DATA)
    corpus: Corpus = option(Corpus(), "the problems as tokens")
    reasoning: float = option(
        1.0, "share of the problems with reasoning between question and result", low=0.0, high=1.0, numeric=True
    )
    own: float = option(
        1.0,
        "share of those whose reasoning is their own; the others borrow that of a problem with as much of it",
        low=0.0,
        high=1.0,
        numeric=True,
    )
    model: Model = option(Model(), "the decoder", stored_as="")
    batch: int = option(8, "problems a step", low=1)
    steps: int = option(400, "Adam steps", low=1)
    learning_rate: float = option(
        1e-3, "peak rate: warmed up over 5 % of the steps, then linear to 0", above=0.0, numeric=True
    )
    measure_every: int = option(50, "steps between two looks at the held-out problems", low=1)

    def check(self) -> None:
        object.__setattr__(self, "data", word_problems.address(self.data))


@dataclass(frozen=True)
class Figures67(Config):
    """The language models of Figures 6 and 7, and the problems that they read."""

    model: str = option("", "path or name of the pre-trained model (the paper: Qwen2-7B)")
    tuned: str = option("", "the same, fine-tuned on CoT data (the paper: Qwen2-Math-7B); none: only one model")
    data: str = option(word_problems.PUBLISHED, f"test problems: {DATA}")
    layers: tuple[int, ...] = option((), "the layers that count, from 1; none: all", low=1)
    limit: int = option(1319, "problems at most", low=2)
    batch: int = option(1, "problems read side by side", low=1)

    def check(self) -> None:
        object.__setattr__(self, "data", word_problems.address(self.data))


@dataclass(frozen=True)
class Prefixes(Config):
    """Random weights that read random texts, cut at several lengths."""

    lengths: tuple[int, ...] = option((16, 32, 64), "tokens of the text, ascending", low=3, high=2048)
    texts: int = option(8, "texts", low=2, high=4096)
    width: int = option(32, "width of the residual stream", low=2, high=4096)
    layers: int = option(1, "layers", low=1, high=64)
    heads: int = option(4, "heads of a layer", low=1, high=256)
    vocabulary: int = option(64, "tokens", low=2, high=2**15)
    std: float = option(
        0.3, "standard deviation of the weights: large enough for attention that is not uniform", above=0.0
    )

    def check(self) -> None:
        require(len(self.lengths) >= 2, f"lengths={self.lengths} must be two or more")
        require(list(self.lengths) == sorted(set(self.lengths)), f"lengths={self.lengths} must ascend")
        require(
            self.width % (2 * self.heads) == 0,
            f"width={self.width} must be a multiple of 2 heads={2 * self.heads} (rotary positions turn pairs)",
        )
