"""Near-orthogonal encodings: restricted isometry, Lemmas A.2 and A.3, and what a pairwise threshold gives."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.lab.checks import TOLERANCE, empty_if, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.claims.sizes import Codes, room
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import encodings

SPARSE_VECTORS = 4000


@LEDGER.theory(
    "defA1-rip",
    kind="definition",
    says="restricted isometry and orthogonality: mu <= delta <= sqrt(2) q mu, and no sparse vectors exceed delta",
    cases=(Codes(encodings=2), Codes(Task(9, 3, 1), 2048, encodings=2), Codes(Task(10, 2, 1), 128, encodings=2)),
)
def sparse_vectors_respect_the_constants(config: Codes, seed: int) -> Verdict:
    task = config.task
    rng = np.random.default_rng(seed)
    rows, exceeded, certified = [], 0.0, 0.0
    for E in encodings.draw(seed, config.encodings, task.length, config.encoding_width, config.threshold):
        rip, mu = encodings.rip_constants(E, task.sparsity), encodings.coherence(E)
        sampled = max(_distortion(rng, E, task.sparsity) for _ in range(SPARSE_VECTORS // config.encodings))
        exceeded = max(exceeded, _ratio(sampled, rip.delta))
        bound = encodings.rip_certificate(mu, task.sparsity)
        certified = max(certified, _ratio(mu, rip.delta), _ratio(rip.delta, bound))
        rows.append({"mu": mu, "isometry": rip.isometry, "orthogonality": rip.orthogonality, "sampled": sampled})
    verdict = Verdict.worst(
        {
            "sparse vectors over delta": Verdict.at_most(exceeded, 1 + TOLERANCE, details=tuple(rows)),
            "delta outside its certificate": Verdict.at_most(certified, 1 + TOLERANCE),
        }
    )
    orthogonal = all(row["mu"] <= TOLERANCE for row in rows)
    return empty_if(orthogonal, verdict, "all encodings that were drawn are orthogonal: delta is 0")


def _ratio(value: float, bound: float) -> float:
    """value/bound; a bound of 0 up to rounding (other inner products are 1/d_e or more) is met by a value of 0."""
    if bound <= TOLERANCE:
        return 0.0 if value <= TOLERANCE else math.inf
    return value / bound


def _distortion(rng: np.random.Generator, E: np.ndarray, sparsity: int) -> float:
    """What one random pair of disjoint sparse vectors says about delta."""
    order = rng.permutation(len(E))
    a = rng.integers(1, min(sparsity, len(E) - 1) + 1)
    b = rng.integers(1, min(2 * sparsity, len(E) - a) + 1)
    v, w = rng.standard_normal(a), rng.standard_normal(b)
    Ev, Ew = v @ E[order[:a]], w @ E[order[a : a + b]]
    isometry = abs(Ev @ Ev / (v @ v) - 1)
    return float(max(isometry, abs(Ev @ Ew) / math.sqrt((v @ v) * (w @ w))))


@dataclass(frozen=True)
class Widths(Config):
    """Random signs at growing encoding widths."""

    task: Task = option(Task(8, 2, 1), "sizes of the task")
    encoding_widths: tuple[int, ...] = option((64, 256, 1024, 4096), "encoding dimensions d_e", low=1, high=2**16)
    encodings: int = option(24, "sets of encodings to draw at each", low=2, high=4096)

    def check(self) -> None:
        room(self.task)
        require(
            len(set(self.encoding_widths)) >= 2, f"encoding_widths={self.encoding_widths} must be at least two widths"
        )


@LEDGER.theory(
    "lemA2",
    kind="asymptotic",
    says="random signs satisfy it with delta of order sqrt(q log T/d_e): the exact delta falls as d_e^{-1/2}",
    cases=Widths(),
)
def delta_falls_with_the_square_root_of_the_width(config: Widths, seed: int) -> Verdict:
    task, rows, spreads = config.task, [], []
    for width in config.encoding_widths:
        law = encodings.draw(seed, config.encodings, task.length, width)
        deltas = np.array([encodings.rip_constants(E, task.sparsity).delta for E in law])
        constant = width * deltas.min() ** 2 / (task.sparsity * math.log(task.length))
        spreads.append(deltas.std(ddof=1) / deltas.mean() / math.sqrt(len(law)))
        rows.append(
            {"d_e": width, "mean delta": deltas.mean(), "least delta": deltas.min(), "C that was enough": constant}
        )
    widths, deltas = np.log([row["d_e"] for row in rows]), np.log([row["mean delta"] for row in rows])
    exponent = float(np.polyfit(widths, deltas, 1)[0])
    weights = (widths - widths.mean()) / ((widths - widths.mean()) ** 2).sum()  # of the slope of a fitted line
    error = 2 * float(np.linalg.norm(weights * spreads))
    violated = (
        ()
        if error <= 0.1
        else (
            f"encodings={config.encodings} and encoding_widths={config.encoding_widths}"
            f" give the exponent to {error:.2g}, which must be at most 0.1",
        )
    )
    verdict = Verdict.at_most(
        abs(exponent + 0.5),
        0.1,
        details=tuple(rows),
        note=f"exponent {exponent:.3f}; measured is its distance from -1/2",
    )
    return under(violated, verdict)


@dataclass(frozen=True)
class Adversary(Config):
    """Sizes of the encodings that break the printed lemma."""

    task: Task = option(Task(21, 5, 1), "sizes of the task")
    encoding_width: int = option(2**14, "encoding dimension d_e, a power of two", low=4, high=2**18)

    def check(self) -> None:
        room(self.task)


def adversary(config: Adversary):
    """The counterexample with its exact constants, and Lemma A.3's hypothesis on delta."""
    task = config.task
    found = encodings.counterexample(task.length, task.sparsity, config.encoding_width)
    rip = encodings.rip_constants(found.encodings, task.sparsity)
    overlap = float(np.abs(encodings.overlaps(found.encodings[None], found.subset[None])).max())
    row = {
        "delta": rip.delta,
        "|<e_i, e_y>|": overlap,
        "printed bound": encodings.overlap_bound_printed(rip.delta),
        "corrected bound": encodings.overlap_bound(rip.delta, task.sparsity),
        "d_e": config.encoding_width,
    }
    violated = () if rip.delta < 0.5 - TOLERANCE else (f"delta={rip.delta:.3g} must be below 1/2",)
    if rip.delta >= 0.1:
        row["outside Theorem 3.3"] = "delta >= 1/10"
    return overlap, rip.delta, row, violated


@LEDGER.theory(
    "lemA3",
    kind="bound",
    says="as printed: |<e_i, e_y>| <= delta/(1-2 delta) for i off y",
    cases=Adversary(),
)
def the_printed_overlap_bound_is_false(config: Adversary, seed: int) -> Verdict:
    overlap, delta, row, violated = adversary(config)
    verdict = Verdict.at_most(
        overlap,
        encodings.overlap_bound_printed(delta),
        otherwise="refuted",
        note="Hadamard columns and one sign vector equally close to q of them; the printed bound belongs to the"
        " iterated dual certificate of Candes and Tao, not to E_y (E_y^T E_y)^{-1} 1",
        details=(row,),
    )
    return under(violated, verdict)


@LEDGER.theory(
    "lemA3-corrected",
    kind="bound",
    says="<e_i, e_y> = 1 on y, at most sqrt(q) delta/(1-delta) off y; ||e_y|| <= sqrt(q)/(1-2 delta)",
    cases=(Codes(Task(9, 3, 1), 2048), Codes(Task(8, 2, 1), 256), Codes(Task(10, 2, 1), 512)),
)
def the_corrected_bounds_hold(config: Codes, seed: int) -> Verdict:
    task, q = config.task, config.task.sparsity
    law = encodings.draw(seed, config.encodings, task.length, config.encoding_width, config.threshold)
    subsets = encodings.draw_subsets(seed, config.subsets, task.length, q)
    queries = encodings.subset_encodings(law, subsets)
    on_y = np.einsum("nsqw,nsw->nsq", law[:, subsets], queries)
    deltas = np.array([encodings.rip_constants(E, q).delta for E in law])
    off_y = np.abs(encodings.overlaps(law, subsets)).max(axis=(1, 2))
    norms = np.linalg.norm(queries, axis=2).max(axis=1)
    ratios = off_y / [encodings.overlap_bound(delta, q) for delta in deltas]
    violated = () if deltas.max() < 0.5 - TOLERANCE else (f"delta={deltas.max():.3g} must be below 1/2",)
    norm_ratios = norms * np.maximum(1 - 2 * deltas, 0) / math.sqrt(q)
    row = {
        "largest delta": deltas.max(),
        "largest overlap": off_y.max(),
        "sets above the printed bound": int((off_y > deltas / np.maximum(1 - 2 * deltas, 1e-300)).sum()),
    }
    verdicts = {
        "overlap off y over its bound": Verdict.at_most(float(ratios.max()), 1 + TOLERANCE, details=(row,)),
        "overlap on y off 1 by": Verdict.at_most(float(np.abs(on_y - 1).max()), TOLERANCE),
        "norm over its bound": Verdict.at_most(float(norm_ratios.max()), 1 + TOLERANCE),
    }
    return under(violated, Verdict.worst(verdicts))


@LEDGER.theory(
    "appF-pairwise-rip",
    kind="bound",
    says="Appendix F: sampling with a pairwise threshold gives the restricted isometry and orthogonality property",
    cases=Codes(Task(200, 3, 5), 170, 0.35, encodings=4),
)
def a_pairwise_threshold_is_not_enough(config: Codes, seed: int) -> Verdict:
    task, q = config.task, config.task.sparsity
    law = encodings.draw(seed, config.encodings, task.length, config.encoding_width, config.threshold)
    mu = max(encodings.coherence(E) for E in law)
    few = encodings.rip_supports(task.length, q) <= encodings.LARGEST_ENUMERATION // 10
    floor = max(encodings.rip_constants(E, q).delta if few else encodings.rip_floor(E, q) for E in law)
    row = {"threshold": config.threshold, "mu": mu, "delta" if few else "delta at least": floor}
    return Verdict.worst(
        {
            "delta below 1/10, as Theorem 3.3 needs": Verdict.at_most(
                mu if not few else floor,
                0.1,
                otherwise="refuted",
                details=(row,),
                note="delta is at least the coherence mu, and at least the norm of G between one position and the 2q"
                " closest to it",
            ),
            "delta at most the threshold": Verdict.at_most(floor, config.threshold, otherwise="refuted"),
        }
    )
