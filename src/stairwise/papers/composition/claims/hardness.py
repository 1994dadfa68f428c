"""Why one length of composition alone is hard: inner products, the Gram spectrum, statistical queries (Appendix B)."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.lab.checks import empty_if, exactly, identical, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.sizes import Listed, distinct, enumerable, hidden_of
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import inner, queries, spectrum

LARGEST_GRAM = 1500


@dataclass(frozen=True)
class Pairs(Config):
    """Pairs of hidden tuples: all inputs are listed, or some are drawn."""

    task: Task = option(Task(2, 3), "the composition")
    pairs: int = option(12, "random pairs (pi, rho)", low=1, high=10_000)
    samples: int = option(0, "random sequences; 0 = all of them", low=0, high=10**7)

    def check(self) -> None:
        if not self.samples:
            enumerable(self.task)

    def drawn(self, seed: int):
        """Pairs, the first of a tuple with itself; in each later one some blocks are equal, so that products differ."""
        rng = np.random.default_rng([seed, 10])
        for index in range(self.pairs):
            one = hidden_of(self.task, seed + index)
            two = rng.permuted(one, axis=1) if index else one
            keep = rng.random(self.task.blocks) < 0.5
            yield one, np.where(keep[:, None], one, two)


# --- Lemma 10 ---------------------------------------------------------------------------------------------------------


@LEDGER.theory(
    "lem10",
    kind="identity",
    says="<f_pi, f_rho> = prod_i (<pi_i, rho_i> - 1)/(N (N-1)^{k-1}): exactly by enumeration, |z| < 4 by sampling",
    cases=(
        *(Pairs(Task(k, N, any_blocks=True)) for k, N in ((1, 3), (2, 3), (3, 3), (2, 4), (4, 2), (4, 3))),
        *(Pairs(Task(k, 5), pairs=6, samples=20_000) for k in (4, 8, 16)),
    ),
)
def agreement_is_a_product_over_blocks(config: Pairs, seed: int) -> Verdict:
    if config.samples:
        return _by_sampling(config, seed)
    inputs = inner.every_tuple(config.task.blocks, config.task.alphabet)
    wrong = [
        (one.tolist(), two.tolist())
        for one, two in config.drawn(seed)
        if inner.counted(one, two, inputs) != inner.inner_product(one, two)
    ]
    row = {"pairs": config.pairs, "sequences": len(inputs), "mismatches": len(wrong)}
    return Verdict.at_most(len(wrong), 0, details=(row,))


def _by_sampling(config: Pairs, seed: int) -> Verdict:
    rng, rows = np.random.default_rng([seed, 11]), []
    for one, two in config.drawn(seed):
        mean, error = inner.sampled(one, two, config.samples, rng)
        exact = float(inner.inner_product(one, two))
        # one sequence moves the mean by 1/n at most: what is too rare to be drawn may be missed by as much
        rows.append({"exact": exact, "sampled": mean, "z": (mean - exact) / max(error, 1 / config.samples)})
    verdict = Verdict.at_most(max(abs(row["z"]) for row in rows), 4.0, details=tuple(rows))
    return empty_if(config.samples <= 4, verdict, f"samples={config.samples} must be at least 5: no mean is off by 4/n")


@LEDGER.theory(
    "lem10-printed",
    kind="identity",
    says="as printed: every factor of the product has index k, <f_pi, f_rho> = (<pi_k, rho_k> - 1)^k/(N (N-1)^{k-1})",
    cases=Listed(Task(2, 3)),
)
def the_printed_index_is_wrong(config: Listed, seed: int) -> Verdict:
    k, N = config.task.blocks, config.task.alphabet
    one = np.tile(np.arange(N), (k, 1))
    two = one.copy()
    two[0] = np.roll(two[0], 1)  # no agreement in the first block, all in the last
    found = inner.counted(one, two, inner.every_tuple(k, N))
    printed = inner.inner_product_printed(one, two)
    row = {"pi": str(one.tolist()), "rho": str(two.tolist()), "counted": str(found), "printed": str(printed)}
    verdict = Verdict.at_most(float(abs(found - printed)), 0.0, otherwise="refuted", details=(row,))
    return under((f"task.blocks={k} must be at least 2",) if k == 1 else (), verdict)


@LEDGER.theory(
    "rem11",
    kind="identity",
    says="the cyclic functions have the same inner product as the plain ones, from every starting block i",
    cases=tuple(Pairs(Task(k, N, any_blocks=True), pairs=8) for k, N in ((2, 3), (3, 3), (2, 4), (4, 2), (4, 3))),
)
def every_start_agrees_alike(config: Pairs, seed: int) -> Verdict:
    require(config.samples == 0, f"samples={config.samples} must be 0: starts are compared over all sequences")
    k, N = config.task.blocks, config.task.alphabet
    inputs = inner.every_tuple(k, N)
    wrong = sum(
        inner.counted(one, two, inputs, start) != inner.inner_product(one, two)
        for one, two in config.drawn(seed)
        for start in range(k)
    )
    return Verdict.at_most(wrong, 0, details=({"pairs": config.pairs, "starts": k, "sequences": len(inputs)},))


# --- the spectrum -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gram(Config):
    """A composition whose hidden tuples can all be listed."""

    task: Task = option(Task(2, 3), "the composition")

    def check(self) -> None:
        enumerable(self.task, LARGEST_GRAM)


@LEDGER.theory(
    "sq-spectrum",
    kind="identity",
    says="beyond the paper: the Gram operator has one nonzero eigenvalue, 1/(N (N-1)^{2k-1}), (N-1)^{2k} times",
    cases=tuple(Gram(Task(k, N, any_blocks=True)) for k, N in ((1, 3), (2, 3), (3, 3), (1, 4), (1, 5))),
)
def the_gram_operator_has_one_eigenvalue(config: Gram, seed: int) -> Verdict:
    k, N = config.task.blocks, config.task.alphabet
    values = np.sort(np.linalg.eigvalsh(spectrum.gram(k, N)))[::-1]
    expected, count = float(spectrum.gram_eigenvalue(k, N)), spectrum.gram_multiplicity(k, N)
    formula = np.where(np.arange(len(values)) < count, expected, 0.0)
    verdict = identical({"spectrum": (values, formula)}, tolerance=1e-9)
    return under(distinct(config.task), verdict)


@dataclass(frozen=True)
class Queries(Config):
    """Random normalised queries, over all hidden tuples and all inputs."""

    task: Task = option(Task(2, 3), "the composition")
    queries: int = option(20, "random queries", low=1, high=1000)
    tolerance: float = option(0.1, "tolerance tau", above=0.0, high=1.0)
    probability: float = option(0.5, "chance delta over pi that one answer must exceed it", above=0.0, high=1.0)

    def check(self) -> None:
        enumerable(self.task, LARGEST_GRAM)


def answer_table(task: Task):
    """f_pi(sigma, x) for all hidden tuples and inputs: (tuples, sequences, N)."""
    tuples = inner.every_tuple(task.blocks, task.alphabet)
    return np.stack([inner.fold(hidden, tuples) for hidden in tuples])


def normalised_query(task: Task, sequences: int, rng: np.random.Generator) -> np.ndarray:
    """g(sigma, x, y) with E_sigma g = 0 for all x, y and sum_y E g^2 = 1."""
    g = rng.standard_normal((sequences, task.alphabet, task.alphabet))
    g -= g.mean(axis=0)
    return g / np.sqrt((g**2).sum(axis=2).mean())


def answers_to(g: np.ndarray, table: np.ndarray) -> np.ndarray:
    """E_{sigma, x} g(sigma, x, f_pi(sigma, x)) for every pi."""
    count, N = g.shape[0], g.shape[1]
    picked = g[np.arange(count)[None, :, None], np.arange(N)[None, None, :], table]
    return picked.mean(axis=(1, 2))


def aligned_query(table: np.ndarray, index: int) -> np.ndarray:
    """The query that correlates best with one function: 1(y = f_pi) - 1/N, normalised."""
    N = table.shape[2]
    g = np.eye(N)[table[index]] - 1 / N
    g = g - g.mean(axis=0)
    return g / np.sqrt((g**2).sum(axis=2).mean())


@LEDGER.theory(
    "thm5-average",
    kind="bound",
    says="beyond the paper: no normalised query has E_pi[answer^2] above 1/(N (N-1)^{2k-1})",
    cases=(Queries(Task(2, 3)), Queries(Task(1, 4)), Queries(Task(3, 3, any_blocks=True), queries=5)),
)
def no_query_sees_much_on_average(config: Queries, seed: int) -> Verdict:
    k, N = config.task.blocks, config.task.alphabet
    table, rng = answer_table(config.task), np.random.default_rng([seed, 12])
    tried = [normalised_query(config.task, table.shape[1], rng) for _ in range(config.queries)]
    tried.append(aligned_query(table, len(table) // 2))
    squares = [float((answers_to(g, table) ** 2).mean()) for g in tried]
    bound = float(spectrum.gram_eigenvalue(k, N))
    row = {
        "random queries, mean": float(np.mean(squares[:-1])),
        "aligned with one function": squares[-1],
        "queries needed": spectrum.average_queries(k, N, config.tolerance, config.probability),
        "rms <f, f'> of a pair": spectrum.rms_inner_product(k, N),
    }
    return under(distinct(config.task), Verdict.at_most(max(squares), bound * (1 + 1e-9), details=(row,)))


@LEDGER.theory(
    "appB-center",
    kind="identity",
    says="Appendix B: centring a query subtracts (1/N^2) sum_{x,y} E_sigma g(sigma, x, y), whatever pi is",
    cases=(Gram(Task(2, 3)), Gram(Task(1, 4)), Gram(Task(4, 2))),
)
def centring_a_query_hides_nothing(config: Gram, seed: int) -> Verdict:
    table, N = answer_table(config.task), config.task.alphabet
    g = np.random.default_rng([seed, 13]).standard_normal((table.shape[1], N, N))
    difference = answers_to(g, table) - answers_to(g - g.mean(axis=0), table)
    constant = g.mean(axis=0).sum() / N**2
    return identical({"the same for every pi": (difference, np.full(len(table), constant))})


# --- Theorem 5 --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqLearner(Config):
    """Sizes of Theorem 5's calculator."""

    blocks: int = option(16, "blocks k", low=1, high=10**6)
    alphabet: int = option(1000, "letters N", low=2, high=10**9)
    r: int = option(0, "agreements r of the packing; 0 = the smallest with r! r >= 2 N^2", low=0, high=10**6)

    def check(self) -> None:
        require(self.r <= self.alphabet, f"r={self.r} must be at most alphabet={self.alphabet}")

    def bound(self):
        return queries.sq_bound(self.blocks, self.alphabet, self.r or queries.useful_r(self.alphabet))


@LEDGER.theory(
    "thm5",
    kind="bound",
    says="a statistical-query learner needs tau^2 <= 2 (2r/N)^{k/2} or q >= (r! r/(2N))^{k/2}/2 (r! r >= 2N^2)",
    cases=tuple(SqLearner(16, N) for N in (100, 1000, 10_000)),
)
def queries_or_tolerance(config: SqLearner, seed: int) -> Verdict:
    k, N = config.blocks, config.alphabet
    bound, printed = config.bound(), queries.sq_bound(k, N, queries.printed_r(N))
    rows = (
        {"choice": "r! r >= 2 N^2", **bound._asdict(), "log10 N^{k/2}": k / 2 * math.log10(N)},
        {"choice": "r = log N", **printed._asdict(), "with Gamma": queries.log10_queries_at_log(k, N)},
    )
    if bound.vacuous:
        note = f"r={bound.r} needs {' and '.join(queries.unmet(bound, N))}"
        return Verdict("vacuous", bound.log10_queries, 0.0, note=note, details=rows)
    required = k / 2 * math.log10(N) + math.log10(0.5) if config.r == 0 else 0.0
    note = "measured is log10 of the queries, required log10 of N^{k/2}/2"
    return Verdict.at_least(bound.log10_queries, required - 1e-9, details=rows, note=note)


@LEDGER.theory(
    "thm5-printed",
    kind="bound",
    says="as printed: with r = log N, q >= N^{(k/2) log N}; and tau^2 <= 2 (2 log N/N)^{-k/2}",
    cases=tuple(SqLearner(16, N) for N in (100, 1000, 10_000)),
)
def the_printed_choice_gives_fewer_queries(config: SqLearner, seed: int) -> Verdict:
    k, N = config.blocks, config.alphabet
    proven, printed = queries.log10_queries_at_log(k, N), queries.log10_queries_printed(k, N)
    row = {
        "log10 q from the proof's own expression": proven,
        "log10 q printed": printed,
        "log10 q at r = floor(log N)": queries.sq_bound(k, N, queries.printed_r(N)).log10_queries,
        "log10 tau^2 printed (sign of the exponent)": queries.log10_tolerance_squared_printed(k, N),
    }
    note = "((log N)! log N/(2N))^{k/2}/2 is N^{(k/2)(log log N - 2 + o(1))}; the printed tau^2 exceeds 1"
    return Verdict.at_least(proven, printed, otherwise="refuted", details=(row,), note=note)


@LEDGER.theory(
    "thm5-small",
    kind="bound",
    says="beyond the paper: with at most 6 letters Theorem 5 is vacuous for every r, and the average-case bound is not",
    cases=(SqLearner(16, 3), SqLearner(16, 5), SqLearner(16, 6)),
)
def few_letters_are_vacuous(config: SqLearner, seed: int) -> Verdict:
    require(config.alphabet <= 10_000, f"alphabet={config.alphabet} must be at most 10000 to try every r")
    empty = queries.vacuous_for_every_r(config.blocks, config.alphabet)
    average = spectrum.log10_average_queries(config.blocks, config.alphabet)
    row = {"vacuous for every r": empty, "log10 of average-case queries / (delta tau^2)": average}
    violated = () if config.alphabet <= 6 else (f"alphabet={config.alphabet} must be at most 6",)
    facts = {"vacuous for every r": empty, "the average-case bound exceeds one query": average > 0}
    return under(violated, exactly(facts, details=(row,)))
