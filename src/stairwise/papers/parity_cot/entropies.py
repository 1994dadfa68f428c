"""Normalised attention entropy of Hugging Face causal language models on word problems, with and without CoT.

Wen et al. (2025), eq. (1), for one head on one text:  Ent = min over tokens i >= 2 of H(P_i) / ln i.

Both texts of a problem begin with the question, so the minimum of the longer one, with CoT, runs over more tokens; a
longer text has a lower minimum whatever the model. Hence the variants, all taken from one pass: the mean instead of
the minimum, the answer's tokens only, and as many tokens of both answers as the shorter has ("matched"). Hence also the
baseline: the same model with noise in the place of its matrices.

Attention is reduced one layer at a time, by a hook that takes the weights, keeps one number per head and token, and
drops them. PyTorch and Transformers (the extra `hf`) are imported when first used.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from stairwise.measure import pretrained
from stairwise.measure.estimates import Estimate, bootstrap
from stairwise.papers.parity_cot.gsm8k import ProblemTexts, batches

if TYPE_CHECKING:
    import torch

CONDITIONS = ("with CoT", "without CoT")


class Variant(NamedTuple):
    """Which tokens of a text count, and how they become one number."""

    reduction: str  # min: eq. (1); mean
    rows: str  # all tokens, or those of the answer
    matched: bool  # of the answer, only as many tokens as the shorter of the two has

    def __str__(self) -> str:
        return f"{self.reduction}, {self.rows}{', matched' if self.matched else ''}"


VARIANTS = tuple(Variant(*choice) for choice in itertools.product(("min", "mean"), ("all", "answer"), (False, True)))
EQUATION_1 = VARIANTS[0]


class LanguageModel(NamedTuple):
    """A causal language model with its tokenizer."""

    name: str
    network: Any
    tokenizer: Any


class Encoded(NamedTuple):
    """A text as tokens; those before `question` are the question's, and `matched` counts the answer's matched ones."""

    tokens: list[int]
    question: int
    matched: int


class Entropies(NamedTuple):
    """What `measure` finds: condition -> (problem, layer, head, variant)."""

    name: str
    values: Mapping[str, Float[np.ndarray, "problems layers heads variants"]]


# --- models -----------------------------------------------------------------------------------------------------------


def load(name: str, *, device: str = "auto", dtype: str = "auto") -> LanguageModel:
    """A model by path or name, with eager attention: the other implementations never form the weights."""
    network, tokenizer = pretrained.load(name, device=device, dtype=dtype, attn_implementation="eager")
    return LanguageModel(name, network, tokenizer)


def randomise(model: LanguageModel, seed: int = 0) -> LanguageModel:
    """Put noise in the place of every matrix of the model, of the same standard deviation; the model itself is lost.

    So that attention has the sharpness of the trained model (a fresh initialisation is often close to uniform, where
    no text could look sparser than another), and no second model needs memory.
    """
    import torch

    generator = torch.Generator(device=model.network.device).manual_seed(seed)
    with torch.no_grad():
        for weight in model.network.parameters():
            if weight.ndim >= 2:
                weight.normal_(0.0, float(weight.float().std()), generator=generator)
    return model._replace(name=f"{model.name} (random weights)")


# --- texts ------------------------------------------------------------------------------------------------------------


def encode(tokenizer: Any, texts: ProblemTexts) -> dict[str, Encoded]:
    """Both texts of a problem as tokens.

    A tokenizer may merge the end of the question with what follows: the question ends where its own tokens and the
    text's part.
    """
    question = tokenizer(texts.question)["input_ids"]
    both = [tokenizer(text)["input_ids"] for text in (texts.with_cot, texts.without_cot)]
    shared = [_common(question, tokens) for tokens in both]
    matched = min(len(tokens) - start for tokens, start in zip(both, shared, strict=True))
    made = [Encoded(tokens, start, matched) for tokens, start in zip(both, shared, strict=True)]
    return dict(zip(CONDITIONS, made, strict=True))


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


# --- entropies --------------------------------------------------------------------------------------------------------


def measure(
    model: LanguageModel,
    problems: Sequence[ProblemTexts],
    *,
    skip_sink: bool = False,
    batch: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> Entropies:
    """The entropies of every head on every problem, in both conditions; `progress` hears how many problems are done.

    skip_sink   attention given that it is not on the first token, which drains many heads of language models
    batch       problems read side by side, padded on the right; what it changes is speed
    """
    encoded = [encode(model.tokenizer, texts) for texts in problems]
    found: dict[str, list[np.ndarray]] = {condition: [] for condition in CONDITIONS}
    for chosen in batches(len(encoded), batch):
        for condition in CONDITIONS:
            found[condition].append(entropies(model, [encoded[i][condition] for i in chosen], skip_sink=skip_sink))
            lost = [i + 1 for i, one in zip(chosen, found[condition][-1], strict=True) if not np.isfinite(one).all()]
            if lost:
                raise ValueError(f"model={model.name}: problem {lost[0]} {condition} gives no finite entropy")
        progress(chosen.stop)
    return Entropies(model.name, {name: np.concatenate(parts) for name, parts in found.items()})


def entropies(
    model: LanguageModel, sequences: Sequence[Encoded], *, skip_sink: bool = False
) -> Float[np.ndarray, "batch layers heads variants"]:
    """One forward pass over right-padded sequences, each layer reduced as it is computed."""
    import torch

    device, lengths = model.network.device, [len(one.tokens) for one in sequences]
    _check_length(model, max(lengths))
    pretrained.check_tokens(model.name, model.network, itertools.chain(*(one.tokens for one in sequences)))
    tokens = torch.zeros(len(sequences), max(lengths), dtype=torch.long)
    for row, one in enumerate(sequences):
        tokens[row, : lengths[row]] = torch.tensor(one.tokens)
    present = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    sets = _row_sets(sequences, max(lengths)).to(device)

    def reduce(module: Any, weights: "torch.Tensor") -> np.ndarray:
        window = getattr(module, "sliding_window", None)
        rows, counted = row_entropy(weights, present.to(device), window, skip_sink=skip_sink)
        return _reduced(rows, counted[:, None] & sets).cpu().numpy()

    inputs = {"input_ids": tokens.to(device), "attention_mask": present.long().to(device), "use_cache": False}
    with torch.inference_mode(), each_attention(model.network, reduce) as layers:
        model.network.base_model(**inputs)
        if not layers:  # older releases of Transformers form the weights only when asked to
            model.network.base_model(**inputs, output_attentions=True)
    if not layers:
        kind = type(model.network).__name__
        raise ValueError(
            f"model={model.name} gives no attention weights ({kind}): it must have softmax attention and be loaded with"
            " attn_implementation=eager"
        )
    return np.stack(layers, axis=1)


def _check_length(model: LanguageModel, length: int) -> None:
    limit = getattr(model.network.config, "max_position_embeddings", None)
    if limit is not None and length > limit:
        raise ValueError(f"model={model.name}: a text has {length} tokens and the model reads at most {limit}")


@contextmanager
def each_attention(
    network: Any, reduce: Callable[[Any, "torch.Tensor"], np.ndarray]
) -> Iterator[list[Float[np.ndarray, "batch heads variants"]]]:
    """The list that fills, layer by layer, with what `reduce(module, weights)` makes of weights [batch, head, i, j].

    The weights themselves are dropped from the module's output, so that one layer's are alive at a time. (A module
    around another one then finds nothing left to count twice.)
    """
    found: list[np.ndarray] = []

    def hook(module, inputs, output):
        parts = output if isinstance(output, tuple) else ()
        place = next((k for k, part in enumerate(parts) if _square(part)), None)
        if place is None:
            return None
        found.append(reduce(module, parts[place]))
        return (*parts[:place], None, *parts[place + 1 :])

    modules = [module for module in network.modules() if "attention" in type(module).__name__.lower()]
    handles = [module.register_forward_hook(hook) for module in modules]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _square(part: Any) -> bool:
    return getattr(part, "ndim", 0) == 4 and part.shape[-1] == part.shape[-2]


def row_entropy(
    weights: "torch.Tensor", present: "torch.Tensor", window: int | None = None, *, skip_sink: bool = False
) -> tuple["torch.Tensor", "torch.Tensor"]:
    """H(P_i) / ln(visible keys) for every query [batch, head, i], and which queries see two keys or more [batch, i].

    `present` marks what is no padding. A layer with a sliding window sees the last `window` keys.
    """
    import torch

    weights = weights.float()  # half precision loses the small terms of the sum
    limit = window or weights.shape[-1]
    visible = present.cumsum(1).clamp(max=limit)
    if skip_sink:
        weights = weights.clone()
        weights[..., 0] = 0
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
        visible = visible - (torch.arange(weights.shape[-1], device=weights.device) < limit).long()
    rows = torch.special.entr(weights).sum(-1) / visible.clamp(min=2).log()[:, None]
    return rows, present & (visible > 1)


def _row_sets(sequences: Sequence[Encoded], length: int) -> "torch.Tensor":
    """For every sequence the tokens [batch, set, i] of: all, all matched, answer, answer matched."""
    import torch

    place = torch.arange(length)
    sets = []
    for one in sequences:
        matched = place < one.question + one.matched
        answer = place >= one.question
        sets.append(torch.stack([place >= 0, matched, answer, answer & matched]))
    return torch.stack(sets)


def _reduced(rows: "torch.Tensor", sets: "torch.Tensor") -> "torch.Tensor":
    """(batch, head, i) and (batch, set, i) -> (batch, head, variant), in the order of VARIANTS; NaN of no tokens."""
    import torch

    rows, sets = rows[:, :, None], sets[:, None]
    smallest = rows.masked_fill(~sets, torch.inf).amin(-1)
    count = sets.sum(-1)
    mean = rows.masked_fill(~sets, 0).sum(-1) / count
    return torch.cat([smallest.masked_fill(count == 0, torch.nan), mean], dim=-1)


# --- comparisons ------------------------------------------------------------------------------------------------------


class EntropyComparison(NamedTuple):
    """A variant of the entropy in two situations, paired by problem: means over heads and problems."""

    variant: Variant
    first: float
    second: float
    difference: Estimate  # first - second, its interval over problems
    lower: float  # share of (problem, head) in which the first is lower
    not_higher: float


Values = Float[np.ndarray, "problems layers heads variants"]


def compare(first: Values, second: Values, repeats: int = 1000) -> list[EntropyComparison]:
    """Every variant of the first against the second, with a paired bootstrap over problems."""
    rows = []
    for k, variant in enumerate(VARIANTS):
        a, b = first[..., k].astype(np.float64), second[..., k].astype(np.float64)
        difference = bootstrap((a - b).mean(axis=(1, 2)), np.mean, repeats)
        lower, not_higher = float(np.mean(a < b)), float(np.mean(a <= b))
        rows.append(EntropyComparison(variant, float(a.mean()), float(b.mean()), difference, lower, not_higher))
    return rows


def per_head(values: Values, variant: Variant = EQUATION_1) -> Float[np.ndarray, "layers heads"]:
    """The mean over problems, one number per head: what Figures 6 and 7 show."""
    return values[..., VARIANTS.index(variant)].mean(axis=0)
