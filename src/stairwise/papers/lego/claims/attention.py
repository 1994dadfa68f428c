"""Figures 2, 5, 6, 7 and the remark on positions: where decoders look; pass lines were written before the runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stairwise.lab.checks import under
from stairwise.lab.config import Config, option
from stairwise.lab.contract import Verdict
from stairwise.papers.lego.claims.figures import NO, groups
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.config.practical import Practical, Shape
from stairwise.papers.lego.config.task import Task

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
        row: dict[str, Any] = {"arm": kind(record), "seed": record.seed, "L": length}
        for part in ("predicate", "answer"):
            values = np.asarray(diagonal(record, length, part))
            row |= {part: float(values.mean()), f"{part} drop": drop(values)}
        rows.append(row)
    return rows


def _without_residual(records: Sequence[Any]) -> list[Any]:
    """The decoders whose answers reach the FFN through attention only, as in the theory; all, where there are none."""
    return [record for record in records if not record.config.model.attention_residual] or list(records)


@LEDGER.empirical(
    "fig2",
    experiment="attention",
    says="without a residual around attention: median mass > .5 on predicate l+1 and answer l together, > .15 on each",
)
def two_diagonals(records: Sequence[Any]) -> Verdict:
    import numpy as np

    length = min(records[0].config.map_lengths)
    rows = _diagonals(records, length)
    arms = groups(_diagonals(_without_residual(records), length), lambda row: row["arm"])
    checks = {}
    for arm, chosen in arms.items():
        predicate, answer = (np.array([row[part] for row in chosen]) for part in ("predicate", "answer"))
        checks[f"{arm}: both"] = Verdict.at_least(np.median(predicate + answer), MASS, **NO)
        checks[f"{arm}: predicate"] = Verdict.at_least(np.median(predicate), EACH, **NO)
        checks[f"{arm}: answer"] = Verdict.at_least(np.median(answer), EACH, **NO)
    verdict = Verdict.worst(checks)
    return replace(verdict, details=(*verdict.details, *rows))


def _decay(records: Sequence[Any], part: str, faster_is_free: bool) -> Verdict:
    """Attention falls from the shorter to the longer length, and along the sentence more for one action than for the
    other."""
    import numpy as np

    from stairwise.papers.lego.cells import difference

    chosen = _without_residual(records)
    lengths = sorted(chosen[0].config.map_lengths)[-2:]
    rows = [row for length in lengths for row in _diagonals(chosen, length)]
    free = {True: [], False: []}
    falls = []
    for record, short, long in zip(chosen, *(_diagonals(chosen, length) for length in lengths), strict=True):
        falls.append(short[part] - long[part])
        free[record.config.task.group.free].append(long[f"{part} drop"])
    if min(len(free[True]), len(free[False])) < SEEDS:
        note = f"fewer than {SEEDS} seeds of each kind of action: nothing to compare"
        return Verdict.reported(min(falls), details=tuple(rows), note=note)
    gap = difference(np.array(free[faster_is_free]), np.array(free[not faster_is_free]))
    who = "free" if faster_is_free else "other"
    verdict = Verdict.worst(
        {
            "diluted with length": Verdict.at_least(float(np.median(falls)), 0.0, **NO),
            f"the {who} action drops faster": Verdict.at_least(gap.low, 0.0, note=f"extra drop {gap}", **NO),
        }
    )
    return replace(verdict, details=(*verdict.details, *rows))


@LEDGER.empirical(
    "fig6",
    experiment="attention",
    says="attention to the right predicate falls with L, and along the sentence more for the symmetric action",
)
def symmetric_predicates_decay(records: Sequence[Any]) -> Verdict:
    return _decay(records, "predicate", faster_is_free=False)


@LEDGER.empirical(
    "fig7",
    experiment="attention",
    says="attention of an answer to itself falls with L, and along the sentence more for the cyclic action",
)
def cyclic_answers_decay(records: Sequence[Any]) -> Verdict:
    return _decay(records, "answer", faster_is_free=True)


# --- order and positions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reordered(Config):
    """A decoder with random weights, and sentences whose predicates are told in two orders."""

    task: Task = option(Task("C6", 24, 5), "the chains")
    model: Shape = option(Shape(width=16), "the decoder")
    sentences: int = option(8, "sentences", low=1, high=4096)


@LEDGER.theory(
    "fig5",
    kind="identity",
    says="NoPE: permuting predicates permutes attention columns and changes no logit, to 1e-5 in float32",
    cases=(Reordered(), Reordered(Task("S5", 48, 20), Shape(width=16, attention_residual=False))),
)
def order_does_not_matter(config: Reordered, seed: int) -> Verdict:
    import jax
    import numpy as np

    from stairwise.papers.lego.evaluate import equivariance
    from stairwise.papers.lego.theory.chains import drawn
    from stairwise.papers.lego.train import make_decoder, make_task

    whole = Practical(task=config.task, model=config.model, test_lengths=(config.task.length,))
    task = make_task(config.task)
    order = np.random.default_rng(seed).permutation(task.length).astype(np.int32)

    @jax.jit
    def change(seed, chains, order):
        return equivariance(make_decoder(whole, jax.random.key(seed)), task, chains, order)

    found = change(np.uint32(seed), drawn(task, seed, config.sentences), order)
    logits, attention = (float(value) for value in found)
    told = config.model.positions
    violated = () if told == "none" else (f"NoPE: model.positions={told}",)
    rows = (
        {"largest change of": "logits / largest logit", "is": logits},
        {"largest change of": "attention", "is": attention},
    )
    return under(violated, Verdict.at_most(max(logits, attention), ROUNDING, details=rows))


@LEDGER.empirical(
    "fig5-trained",
    experiment="attention",
    says="the same of every trained decoder: logits move by less than 1e-5 of the largest when predicates are permuted",
)
def trained_decoders_do_not_mind(records: Sequence[Any]) -> Verdict:
    chosen = [record for record in records if record.config.model.positions == "none"]
    names = ("order logits", "order attention")
    rows = [{"seed": record.seed, **{name: record.final(name) for name in names}} for record in chosen]
    largest = max(row[name] for row in rows for name in names)
    return Verdict.at_most(largest, ROUNDING, details=tuple(rows), **NO)


@LEDGER.empirical(
    "sec8-nope",
    experiment="positions",
    says="trained at L, NoPE solves 2L (all seeds >= .9), learned and rotary positions do not (all seeds <= .1)",
)
def positions_do_not_extrapolate(records: Sequence[Any]) -> Verdict:
    config = records[0].config
    trained, twice = config.task.length, 2 * config.task.length
    if twice not in config.test_lengths:
        return Verdict.reported(0.0, note=f"test_lengths has no {twice}: nothing to judge")
    rows, checks = [], {}
    for name, runs in groups(records, lambda record: record.config.model.positions).items():
        near = [r.final(f"exact {trained}") for r in runs] if trained in config.test_lengths else []
        far = [record.final(f"exact {twice}") for record in runs]
        row: dict[str, Any] = {"positions": name, f"lowest L={trained}": min(near, default=None)}
        rows.append({**row, f"lowest L={twice}": min(far), f"highest L={twice}": max(far)})
        if name == "none":
            checks[name] = Verdict.at_least(min(far), SOLVED, **NO)
        elif name in ("learned", "rotary"):
            checks[name] = Verdict.at_most(max(far), FAILED, **NO)
    if not checks:
        return Verdict.reported(0.0, details=tuple(rows), note="no arm that the statement speaks of")
    verdict = Verdict.worst(checks)
    return replace(verdict, details=(*verdict.details, *rows))
