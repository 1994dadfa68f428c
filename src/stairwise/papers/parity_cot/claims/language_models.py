"""Language models on word problems: Figures 6 and 7, what length alone does to them, and decoders of ours."""

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import ConfigError
from stairwise.extras import missing
from stairwise.lab.contract.checks import at_most, equal, note, row, skip_if, true
from stairwise.lab.contract.claims import Claim
from stairwise.measure import attention, estimates
from stairwise.nn import transformer
from stairwise.papers.parity_cot import entropies, gsm8k, word_problems
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.config.gsm8k import Figures67, Prefixes
from stairwise.train import keys

BELOW_ZERO = -1e-9  # the upper end of an interval that lies below 0
FIGURE_6 = (1, 11, 21, 28)  # the layers it shows, of 28
NEEDS = "needs weights: --model PATH_OR_NAME [--tuned PATH_OR_NAME], and PyTorch and Transformers (extra hf)"


# --- Figures 6 and 7 --------------------------------------------------------------------------------------------------


NOT_COMPARED = "the seed draws the random weights of the note, which are not compared"


def sparser_with_cot(config: Figures67, seed: int):
    """Criterion: each difference's 95 % interval over problems lies below 0.

    The note says what the criterion cannot see: the same difference at equal length, and in random weights.
    """
    if not config.model:
        yield skip_if(True, NEEDS)
        return
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise ConfigError(missing("--model", "hf")) from None
    chosen = word_problems.read(config.data).held_out[: config.limit]
    texts = [gsm8k.texts(problem) for problem in chosen]
    model = _load(config.model)
    trained = _values(config, model, texts)
    chance = _values(config, entropies.randomise(model, seed), texts)
    pairs = {"with CoT - without": (trained["with CoT"], trained["without CoT"])}
    if config.tuned:
        tuned = _values(config, _load(config.tuned), texts)
        pairs["tuned - pre-trained, with CoT"] = (tuned["with CoT"], trained["with CoT"])
    rows = {name: entropies.compare(*pair) for name, pair in pairs.items()}
    rows["random weights: with CoT - without"] = entropies.compare(chance["with CoT"], chance["without CoT"])
    for name in pairs:  # eq. (1) is the first variant
        yield at_most(f"eq. (1), {name}: upper end", rows[name][0].difference.high, BELOW_ZERO)
    matched, random = rows["with CoT - without"][1], rows["random weights: with CoT - without"][0]
    said = f"at equal length {matched.difference}; random weights {random.difference}"
    yield note(said if config.tuned else f"{said}; no tuned model given")
    yield from (row(_row(name, each)) for name, some in rows.items() for each in some)


LEDGER.claims += [
    Claim(
        "fig6",
        kind="empirical",
        statement=("Figure 6",),
        says="eq. (1) is lower with CoT than without in layers 1, 11, 21, 28 of Qwen2-7B, and lower again in"
        " Qwen2-Math-7B",
        cases=(Figures67(layers=FIGURE_6),),
        check=sparser_with_cot,
        one_seed=NOT_COMPARED,
    ),
    Claim(
        "fig7",
        kind="empirical",
        statement=("Figure 7",),
        says="the same over all layers: eq. (1) is lower with CoT than without, and lower again after tuning on CoT"
        " data",
        cases=(Figures67(),),
        check=sparser_with_cot,
        one_seed=NOT_COMPARED,
    ),
]


def _load(name: str) -> Any:
    try:
        return entropies.load(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _values(config: Figures67, model: Any, texts: Sequence[Any]) -> dict[str, np.ndarray]:
    """The entropies in the layers that count."""
    found = entropies.measure(model, texts, batch=config.batch).values
    depth = next(iter(found.values())).shape[1]
    chosen = [layer - 1 for layer in config.layers or range(1, depth + 1)]
    if max(chosen) >= depth:
        raise ConfigError(
            f"layers={','.join(map(str, config.layers))} must lie in 1..{depth}, the layers of {model.name}"
        )
    return {condition: values[:, chosen] for condition, values in found.items()}


def _row(name: str, row: Any) -> dict[str, Any]:
    low, high = row.difference.low, row.difference.high
    means = {"first": row.first, "second": row.second, "difference": row.difference.value, "low": low, "high": high}
    return {"comparison": name, "tokens": str(row.variant), **means, "share lower": row.lower}


# --- what length alone does -------------------------------------------------------------------------------------------


@LEDGER.bound(
    "fig6-length",
    statement="ours",
    says="eq. (1) of a text is at most that of its prefixes, for every head and any weights: longer looks sparser",
    of=(attention.sparsest_row,),
    cases=Prefixes(),
    seeds=3,
)
def longer_is_never_less_sparse(config: Prefixes, seed: int):
    """A causal head's rows on a prefix are its rows on the whole text, so the minimum runs over a superset.

    The texts of Figure 6 share the question and differ in length; how far random weights fall is in the table.
    """
    lowest, mean = jax.jit(partial(_read_prefixes, config))(keys.role_key(seed, "prefixes"))
    rises = [float(jnp.max(after - before)) for before, after in itertools.pairwise(lowest)]
    yield at_most("largest rise of a head from a prefix to the text", rises, 1e-12)
    falls = [float(jnp.mean(before - after)) for before, after in itertools.pairwise(lowest)]
    yield true("the mean over heads and texts falls at every length", np.array(falls) > 0)
    even = jnp.tril(jnp.ones((8, 8))) / jnp.arange(1, 9)[:, None]
    told = attention.sparsest_row(even, jnp.tril(jnp.ones((8, 8), dtype=bool)), jnp.arange(8) >= 2)
    yield equal("eq. (1) of even attention", float(told), 1.0, 1e-6)
    yield true("eq. (1) lies between 0 and 1", np.array((lowest >= 0) & (lowest <= 1 + 1e-12)))
    yield true("eq. (1) is at most the mean over tokens", np.asarray(lowest <= mean + 1e-12))
    for length, one, other in zip(config.lengths, lowest, mean, strict=True):
        yield row({"tokens": length, "eq. (1)": float(jnp.mean(one)), "mean over tokens": float(jnp.mean(other))})


def _read_prefixes(config: Prefixes, key):
    """Eq. (1) and the mean over tokens [length, text, layer, head]; what follows a prefix is another random text."""
    model = transformer.Transformer(
        vocab=config.vocabulary, width=config.width, layers=config.layers, heads=config.heads, causal=True,
        positions="rotary", std=config.std, compute_dtype="float64", key=keys.role(key, "model"),
    )  # fmt: skip
    size = config.lengths[-1]
    shape = (config.texts, 2, size)
    texts = jax.random.randint(keys.role(key, "texts"), shape, 0, config.vocabulary, dtype=jnp.int32)
    seen, place = jnp.tril(jnp.ones((size, size), dtype=bool)), jnp.arange(size, dtype=jnp.int32)

    def read(length, text):
        weights = model.with_attention(jnp.where(place < length, *text))[1]
        rows = place < length
        return attention.sparsest_row(weights, seen, rows), attention.mean_row(weights, seen, rows)

    return jax.vmap(jax.vmap(read, (None, 0)), (0, None))(jnp.array(config.lengths, dtype=jnp.int32), texts)


# --- decoders of ours -------------------------------------------------------------------------------------------------


@LEDGER.empirical(
    "gsm8k-sparser",
    experiment="gsm8k",
    statement="ours",
    says="decoders of ours, trained on GSM8K with CoT: sparser heads than with borrowed reasoning of equal length, on"
    " the same texts",
)
def cot_data_makes_attention_sparser(records: Sequence[Any]):
    """Criterion: by eq. (1) and by the mean over tokens, the 95 % interval of the paired difference lies below 0."""
    arms = {
        name: _by_seed(records, *shares) for name, shares in {"cot": (1, 1), "borrowed": (1, 0), "none": (0, 1)}.items()
    }
    differences = [
        {"text": f"{look} ({against})", **_difference(arms["cot"], arms[against], look)}
        for against, looks in {"borrowed": ("min cot", "mean cot", "min question", "mean question"),
                               "none": ("min question", "mean question")}.items()
        for look in looks
    ]  # fmt: skip
    for each in differences[:2]:
        yield at_most(f"with CoT - {each['text']}: upper end", each["high"], BELOW_ZERO)
    said = "; ".join(f"{d['text']} {d['difference']:+.4f} [{d['low']:+.4f}, {d['high']:+.4f}]" for d in differences)
    yield note(f"{len(arms['cot'])} seeds; {said}")
    yield from map(row, differences)
    for name, some in arms.items():
        for seed, record in some.items():
            looks = {look: record.final(look) for look in ("min cot", "mean cot", "loss", "accuracy")}
            yield row({"arm": name, "seed": seed} | looks)


def _by_seed(records: Sequence[Any], reasoning: float, own: float) -> dict[int, Any]:
    return {
        record.seed: record
        for record in records
        if (record.config.reasoning, record.config.own if reasoning else own) == (reasoning, own)
    }


def _difference(first: dict[int, Any], second: dict[int, Any], look: str) -> dict[str, float]:
    """first - second, paired by seed: the mean, its interval, and how many seeds are below 0."""
    values = np.array([record.final(look) - second[seed].final(look) for seed, record in first.items()])
    estimate = estimates.bootstrap(values, np.mean)
    below = int(np.sum(values < 0))
    return {"difference": estimate.value, "low": estimate.low, "high": estimate.high, "seeds below 0": below}
