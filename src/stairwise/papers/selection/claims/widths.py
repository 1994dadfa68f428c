"""The separation in width, and the remark on how a transformer may compute a subset's encoding."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, hypothesis, row, slope
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.claims.sizes import Codes
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import construction, encodings, fcn, widths

ACCURACIES = (2.0, 1.2, 0.7, 0.5, 0.3, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-4)  # for every number of steps
PAIR = 2  # q, so that every subset is looked at
DRAWS = 100  # sets of encodings whose share of failures is counted
FAILURE = 0.05  # chance that it may have
SUBSETS = 200  # of them whose error is computed


@dataclass(frozen=True)
class Separation(Config):
    """Transformers and nets that average pairs of tokens to the same error, at growing lengths."""

    lengths: tuple[int, ...] = option((16, 32, 64, 96), "lengths T", low=4, high=256)
    width: int = option(2, "token dimension d", low=1, high=64)
    accuracy: float = option(0.01, "error on the unit ball", above=0.0, below=1.0)
    repeats: int = option(8, "sets of encodings per length", low=2, high=100)

    def check(self) -> None:
        require(len(set(self.lengths)) >= 4, f"lengths={self.lengths} must be at least four of them")


@LEDGER.rate(
    "sec3.2-width",
    statement=("Section 3.2, near-optimal width", "Section 3.3, separation in width"),
    says=r"at the same error a transformer of width $\Theta(d + q\log T)$ selects, and a net needs $Td$: $d_e$ grows "
    r"like $\log T$, which is within $\log T$ of the cited lower bound $d + q$ (here $q = 2$)",
    of=(widths.transformer_width, widths.encoding_enough, widths.net_width, widths.lost_to_the_lower_bound),
    hypotheses={
        "the error is below what a narrow net leaves (Theorem 3.5)": lambda config: all(
            config.accuracy**2 < fcn.lower_bound(Task(T, PAIR, config.width)) for T in config.lengths
        )
    },
    cases=(Separation(), Separation(width=5, accuracy=0.001)),
    seeds=3,
)
def a_transformer_is_exponentially_narrower(config: Separation, seed: int):
    lengths, q, d = sorted(set(config.lengths)), PAIR, config.width
    least = []
    for T in lengths:
        draws = [widths.least_encoding(seed * config.repeats + repeat, T) for repeat in range(config.repeats)]
        least.append(draws)
        attention = np.mean([widths.transformer_width(d, width) for width in draws])
        (rows,) = encodings.draw(seed * config.repeats, 1, T, draws[0])
        overlaps = encodings.overlaps(rows[None], encodings.draw_subsets(seed, SUBSETS, T, q))[0]
        yield at_most(
            f"largest overlap of the subsets at T = {T}",
            np.abs(overlaps).max(),
            widths.pair_overlap(rows),
            rounding=1e-9,
        )
        scale = construction.scale_sufficient(T, config.accuracy)
        yield at_most(
            f"error of the transformer at T = {T}", construction.worst_error(overlaps, q, scale), config.accuracy
        )
        net = widths.net_width(T, d)
        task = Task(T, q, d)
        yield at_least(
            f"risk of a net of width {net - 1} at T = {T}", fcn.optimal_risk(T, q, d, net - 1), fcn.lower_bound(task)
        )
        yield at_most(f"risk of a net of width {net}", fcn.optimal_risk(T, q, d, net), 0.0)
        yield row({"T": T, "d_e": float(np.mean(draws)), "transformer": attention, "net": net})
    logs = [math.log(T) for T in lengths]
    enough = [widths.encoding_enough(T, 0.5) for T in lengths]
    over = np.divide(least, np.array(enough)[:, None])
    yield at_most("least d_e, over what is enough in half of all draws", np.median(over, axis=1), 1.0)
    yield slope(
        "least d_e over what is enough, against T", lengths, over, 0.0, side="at most", within=0.25, against="T"
    )
    shortest = lengths[0]
    tried = [
        widths.pair_overlap(
            encodings.draw(seed * DRAWS + n, 1, shortest, math.ceil(widths.encoding_enough(shortest, FAILURE)))[0]
        )
        for n in range(DRAWS)
    ]
    allowed = FAILURE + 4 * math.sqrt(FAILURE * (1 - FAILURE) / DRAWS)
    yield at_most(f"draws that fail, of {DRAWS}", np.mean(np.array(tried) > 0.5), allowed)
    agree = sum(math.comb(40, m) / 2**40 * math.exp(-m / 8) for m in range(41))  # E e^{-m/8} of 40 fair coins
    yield equal("d_e that is enough for one triple", widths.encoding_enough(1, agree), 40)
    yield equal("d_e that T^3 triples add", widths.encoding_enough(10, agree) / 40 - 1, 3 * math.log(10, 1 / agree))
    net = [widths.net_width(T, d) for T in lengths]
    yield slope("width of a net against T", lengths, net, 1.0)
    yield equal("width of the construction", widths.transformer_width(d, 100), d + 200)
    lost = [widths.lost_to_the_lower_bound(T, q, d) for T in lengths]
    yield at_most("what is lost to the lower bound, over log T", np.divide(lost, logs), 1.0)
    yield equal("the same for wide subsets", widths.lost_to_the_lower_bound(1000, 10**9, 1), math.log(1000), 1e-6)


@LEDGER.bound(
    "lemA3-newton",
    statement="Remark after Lemma A.3",
    says=r"Newton's iteration makes $e_y$ to within $\varepsilon$ in $\lceil\log_2(\log\frac{\sqrt{q/(1-\delta)}}"
    r"{\varepsilon}/\log\frac{1}{\delta})\rceil$ steps, of order $\log\log\frac{q}{\varepsilon}$; that layers"
    r" can take such a step is cited, and not checked",
    of=(widths.newton_steps, widths.newton_error, widths.newton_encoding),
    cases=(Codes(Task(8, 2, 1), 64), Codes(Task(12, 4, 1), 256), Codes(Task(20, 6, 1), 2048)),
    seeds=3,
)
def newton_makes_the_encoding(config: Codes, seed: int):
    q = config.task.sparsity
    law = encodings.draw(seed, config.encodings, config.task.length, config.encoding_width, config.threshold)
    subsets = encodings.draw_subsets(seed, config.subsets, config.task.length, q)
    wanted = encodings.subset_encodings(law, subsets)
    rows = law[:, subsets].reshape(-1, q, config.encoding_width)
    deltas = np.linalg.norm(rows @ rows.swapaxes(1, 2) - np.eye(q), 2, axis=(1, 2))
    yield hypothesis("delta < 1", deltas.max() < 1)
    wanted = wanted.reshape(len(rows), -1)
    for accuracy in (1e-2, 1e-6):
        steps = [widths.newton_steps(float(delta), q, accuracy) for delta in np.maximum(deltas, 1e-12)]
        made = [widths.newton_encoding(each, count) for each, count in zip(rows, steps, strict=True)]
        yield at_most(f"error of e_y at {accuracy:g}", np.linalg.norm(np.array(made) - wanted, axis=1), accuracy)
        yield row({"accuracy": accuracy, "most steps": max(steps), "largest delta": float(deltas.max())})
    # with G = (1 - delta) I the bound is attained, and one step less is not enough
    for delta in (0.3, 0.5):
        scaled = np.eye(q, config.encoding_width) * math.sqrt(1 - delta)
        wanted = scaled.T @ np.full(q, 1 / (1 - delta))
        errors = [float(np.linalg.norm(widths.newton_encoding(scaled, steps) - wanted)) for steps in range(5)]
        bounds = [widths.newton_error(delta, q, steps) for steps in range(5)]
        yield equal(f"error over its bound at delta = {delta:g}", np.divide(errors, bounds), np.ones(5), 1e-6)
        needed = [next(n for n in range(5) if errors[n] <= accuracy) for accuracy in ACCURACIES]
        steps = [widths.newton_steps(delta, q, accuracy) for accuracy in ACCURACIES]
        yield equal(f"steps at delta = {delta:g}", steps, needed)
