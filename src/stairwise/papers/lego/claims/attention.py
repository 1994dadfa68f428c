"""Figures 2, 5, 6, 7 and the remark on positions: where decoders look; pass lines were written before the runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, note, row
from stairwise.lab.contract.plots import grouped
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.config.practical import Practical, Shape
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.decoder import Decoder
from stairwise.train.draws import draws_of
from stairwise.train.keys import role_key

MASS, EACH = 0.5, 0.15  # Figure 2: attention on the two clauses needed, and on each of them
ROUNDING = 1e-5  # equivariance, in float32
SEEDS = 3  # of each action, before their diagonals are compared
SOLVED, FAILED = 0.9, 0.1  # exact match from which a length counts as solved, and up to which as not solved


def _diagonals(records: Sequence[Any], length: int) -> list[dict[str, Any]]:
    """For every trial: mean attention to the right predicate and to the answer itself, and their relative drops from
    the first quarter of places to the last."""
    import numpy as np

    from stairwise.papers.lego.figures.attention import diagonal, kind

    def drop(values: Any) -> float:
        quarter = max(1, len(values) // 4)
        return float((values[:quarter].mean() - values[-quarter:].mean()) / max(values.mean(), 1e-9))

    rows = []
    for record in records:
        found: dict[str, Any] = {"arm": kind(record), "seed": record.seed, "L": length}
        for part in ("predicate", "answer"):
            values = np.asarray(diagonal(record, length, part))
            found |= {part: float(values.mean()), f"{part} drop": drop(values)}
        rows.append(found)
    return rows


def _without_residual(records: Sequence[Any]) -> list[Any]:
    """The decoders whose answers reach the FFN through attention only, as in the theory; all, where there are none."""
    return [record for record in records if not record.config.model.attention_residual] or list(records)


def _judged(records: Sequence[Any]) -> list[Any]:
    """Those of the first protocol, which is the paper's on a GPU."""
    from stairwise.papers.lego.figures.length_curves import first_lessons

    return first_lessons(records)


@LEDGER.empirical(
    "fig2",
    experiment="length",
    statement="Figure 2",
    says=r"without a residual around attention: median mass above 0.5 on predicate $\ell+1$ and answer $\ell$ together,"
    " above 0.15 on each",
)
def two_diagonals(records: Sequence[Any]):
    import numpy as np

    length = min(records[0].config.map_lengths)
    arms = grouped(_diagonals(_without_residual(_judged(records)), length), lambda found: found["arm"])
    for arm, chosen in arms.items():
        predicate, answer = (np.array([found[part] for found in chosen]) for part in ("predicate", "answer"))
        yield at_least(f"{arm}: both", np.median(predicate + answer), MASS)
        yield at_least(f"{arm}: predicate", np.median(predicate), EACH)
        yield at_least(f"{arm}: answer", np.median(answer), EACH)
    for found in _diagonals(records, length):
        yield row(found)


def _decay(records: Sequence[Any], part: str, faster_is_free: bool):
    """Attention falls from the shorter to the longer length, and along the sentence more for one action than for the
    other."""
    import numpy as np

    from stairwise.papers.lego.cells import difference

    chosen = _without_residual(_judged(records))
    lengths = sorted(chosen[0].config.map_lengths)[-2:]
    free = {True: [], False: []}
    falls = []
    for record, short, long in zip(chosen, *(_diagonals(chosen, length) for length in lengths), strict=True):
        falls.append(short[part] - long[part])
        free[record.config.task.group.free].append(long[f"{part} drop"])
    if min(len(free[True]), len(free[False])) < SEEDS:
        yield note(f"fewer than {SEEDS} seeds of each kind of action: nothing to compare")
    else:
        gap = difference(np.array(free[faster_is_free]), np.array(free[not faster_is_free]))
        who = "free" if faster_is_free else "other"
        yield at_least("fall of the median with length", float(np.median(falls)), 0.0)
        yield at_least(f"extra drop of the {who} action, low end of its interval", gap.low, 0.0)
        yield note(f"extra drop {gap}")
    for length in lengths:
        for found in _diagonals(chosen, length):
            yield row(found)


@LEDGER.empirical(
    "fig6",
    experiment="length",
    statement="Figure 6",
    says="attention to the right predicate falls with $L$, and along the sentence more for the symmetric action",
)
def symmetric_predicates_decay(records: Sequence[Any]):
    yield from _decay(records, "predicate", faster_is_free=False)


@LEDGER.empirical(
    "fig7",
    experiment="length",
    statement="Figure 7",
    says="attention of an answer to itself falls with $L$, and along the sentence more for the cyclic action",
)
def cyclic_answers_decay(records: Sequence[Any]):
    yield from _decay(records, "answer", faster_is_free=True)


# --- order and positions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reordered(Config):
    """A decoder with random weights, and sentences whose predicates are told in two orders."""

    task: Task = option(Task("C6", 24, 5), "the chains")
    model: Shape = option(Shape(width=16), "the decoder")
    sentences: int = option(8, "sentences", low=1, high=4096)

    def check(self) -> None:
        require(
            self.model.standard,
            f"model.mixer={self.model.mixer}, model.layers={self.model.layers} must be the paper's: softmax, 1 layer",
        )


def nope(config: Any) -> dict[str, bool]:
    return {"no positions (NoPE)": config.model.positions == "none"}


def weights_and_order(config: Reordered, seed: int):
    """Under float32: the largest change of any logit and of any attention weight when predicates are told otherwise."""
    import numpy as np

    from stairwise.papers.lego.theory.chains import drawn
    from stairwise.papers.lego.train import make_task

    task = make_task(config.task)
    order = draws_of(seed, "order of the predicates").permutation(task.length).astype(np.int32)
    found = _change(config.task, config.model)(np.uint32(seed), drawn(task, seed, config.sentences), order)
    return tuple(float(value) for value in found)


@cache
def _change(sizes: Task, model: Shape) -> Callable[..., Any]:
    """One program for all seeds."""
    import jax

    from stairwise.papers.lego.evaluate import equivariance
    from stairwise.papers.lego.train import make_decoder, make_task

    whole, task = Practical(task=sizes, model=model, test_lengths=(sizes.length,)), make_task(sizes)

    @jax.jit
    def change(seed, chains, order):
        return equivariance(make_decoder(whole, role_key(seed, "weights")), task, chains, order)

    return change


@LEDGER.bound(
    "fig5",
    statement="Figure 5",
    says=r"NoPE: permuting predicates permutes attention columns and changes no logit, to $10^{-5}$ in float32; a"
    r" decoder that is given positions does change, by more than $10^{-3}$",
    of=(Decoder.with_attention,),
    hypotheses=nope,
    cases=(Reordered(), Reordered(Task("S5", 48, 20), Shape(width=16, attention_residual=False))),
    seeds=3,
)
def order_does_not_matter(config: Reordered, seed: int):
    logits, attention = weights_and_order(config, seed)
    yield at_most("change of logits over the largest logit", logits, ROUNDING)
    yield at_most("change of attention", attention, ROUNDING)
    told = replace(config, model=replace(config.model, positions="rotary"))
    yield at_least("change of logits with rotary positions", weights_and_order(told, seed)[0], 1e-3)


@LEDGER.empirical(
    "fig5-trained",
    experiment="length",
    statement="Figure 5",
    says=r"the same of every trained decoder: logits move by less than $10^{-5}$ of the largest when predicates are"
    " permuted",
)
def trained_decoders_do_not_mind(records: Sequence[Any]):
    names = ("order logits", "order attention")
    for record in records:
        if record.config.model.positions == "none":
            for name in names:
                yield at_most(f"{name}, seed {record.seed}", record.final(name), ROUNDING)


@LEDGER.empirical(
    "sec8-nope",
    experiment="positions",
    statement="Section 8",
    says="trained at $L$, NoPE solves $2L$ (all seeds at least 0.9), learned and rotary positions do not (all seeds at"
    " most 0.1)",
    hypotheses={
        "tested at twice the training length": lambda config: 2 * config.task.length in config.test_lengths,
    },
)
def positions_do_not_extrapolate(records: Sequence[Any]):
    config = records[0].config
    trained, twice = config.task.length, 2 * config.task.length
    if twice not in config.test_lengths:
        return
    for name, runs in grouped(records, lambda record: record.config.model.positions).items():
        near = [r.final(f"exact {trained}") for r in runs] if trained in config.test_lengths else []
        far = [record.final(f"exact {twice}") for record in runs]
        if name == "none":
            yield at_least("lowest exact match without positions", min(far), SOLVED)
        elif name in ("learned", "rotary"):
            yield at_most(f"highest exact match with {name} positions", max(far), FAILED)
        shown = {"positions": name, f"lowest L={trained}": min(near, default=None)}
        yield row({**shown, f"lowest L={twice}": min(far), f"highest L={twice}": max(far)})
