"""Why one length of composition alone is hard: inner products, the Gram spectrum, statistical queries (Appendix B)."""

import math
from dataclasses import dataclass
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, note, row, true, vacuous_if
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.sizes import DISTINCT, Listed, enumerable, hidden_of
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import inner, packing, queries, spectrum
from stairwise.train.draws import draws_of

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
        rng = draws_of(seed, "pairs")
        for index in range(self.pairs):
            one = hidden_of(self.task, seed, index)
            two = rng.permuted(one, axis=1) if index else one
            keep = rng.random(self.task.blocks) < 0.5
            yield one, np.where(keep[:, None], one, two)


# --- Lemma 10 ---------------------------------------------------------------------------------------------------------


@LEDGER.exact(
    "lem10",
    statement="Lemma 10",
    says=(
        r"$\langle f_\pi, f_\rho\rangle = \frac{1}{N(N-1)^{k-1}}\prod_i(\langle\pi_i, \rho_i\rangle - 1)$: by listing "
        r"all inputs, or within 4 deviations by sampling"
    ),
    of=(inner.inner_product,),
    seeds=3,
    cases=(
        *(Pairs(Task(k, N, any_blocks=True)) for k, N in ((1, 3), (2, 3), (3, 3), (2, 4), (4, 2), (4, 3))),
        *(Pairs(Task(k, 5), pairs=6, samples=20_000) for k in (4, 8, 16)),
    ),
)
def agreement_is_a_product_over_blocks(config: Pairs, seed: int):
    if not config.samples:
        inputs = inner.every_tuple(config.task.blocks, config.task.alphabet)
        same = [inner.counted(one, two, inputs) == inner.inner_product(one, two) for one, two in config.drawn(seed)]
        yield true("counted agreements are those of the formula", same)
        return
    rng, away = draws_of(seed, "inputs"), []
    for one, two in config.drawn(seed):
        mean, error = inner.sampled(one, two, config.samples, rng)
        exact = float(inner.inner_product(one, two))
        # one sequence moves the mean by 1/n at most: what is too rare to be drawn may be missed by as much
        away.append(abs(mean - exact) / max(error, 1 / config.samples))
        yield row(exact=exact, sampled=mean, deviations=away[-1])
    yield at_most("sampled agreement off the formula, in deviations", away, 4.0)
    yield vacuous_if(config.samples <= 4, f"samples={config.samples} must be at least 5: no mean is off by 4/n")


@LEDGER.misprint(
    "lem10-printed",
    statement=("Lemma 10", "Remark 11"),
    says=r"as printed: every factor of the product has index $k$, $\prod_{i=1}^k(\langle\pi_k, \rho_k\rangle - 1)$",
    of=(inner.inner_product_printed,),
    means=r"the factors are $\langle\pi_i, \rho_i\rangle - 1$, as in the product that the proof writes out",
    corrected="lem10",
    hypotheses={"k >= 2": lambda config: config.task.blocks >= 2},
    cases=Listed(Task(2, 3)),
)
def the_printed_index_is_wrong(config: Listed, seed: int):
    k, N = config.task.blocks, config.task.alphabet
    one = np.tile(np.arange(N), (k, 1))
    two = one.copy()
    two[0] = np.roll(two[0], 1)  # no agreement in the first block, all in the last
    found, printed = inner.counted(one, two, inner.every_tuple(k, N)), inner.inner_product_printed(one, two)
    yield equal("inner product", float(found), float(printed))
    yield row(pi=str(one.tolist()), rho=str(two.tolist()), counted=str(found), printed=str(printed))


@LEDGER.exact(
    "rem11",
    statement="Remark 11",
    says=r"the cyclic functions have the same inner product as the plain ones, from every starting block $i$",
    of=(inner.inner_product,),
    seeds=3,
    cases=tuple(Pairs(Task(k, N, any_blocks=True), pairs=8) for k, N in ((2, 3), (3, 3), (2, 4), (4, 2), (4, 3))),
)
def every_start_agrees_alike(config: Pairs, seed: int):
    require(config.samples == 0, f"samples={config.samples} must be 0: starts are compared over all sequences")
    inputs = inner.every_tuple(config.task.blocks, config.task.alphabet)
    same = [
        inner.counted(one, two, inputs, start) == inner.inner_product(one, two)
        for one, two in config.drawn(seed)
        for start in range(config.task.blocks)
    ]
    yield true("counted agreements are those of the formula from every start", same)


# --- the spectrum -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gram(Config):
    """A composition whose hidden tuples can all be listed."""

    task: Task = option(Task(2, 3), "the composition")

    def check(self) -> None:
        enumerable(self.task, LARGEST_GRAM)


@LEDGER.exact(
    "sq-spectrum",
    statement="ours",
    says=r"beyond the paper: the Gram operator has one nonzero eigenvalue, $1/(N(N-1)^{2k-1})$, $(N-1)^{2k}$ times",
    of=(spectrum.gram_eigenvalue, spectrum.gram_multiplicity, spectrum.rms_inner_product),
    hypotheses=DISTINCT,
    cases=tuple(Gram(Task(k, N, any_blocks=True)) for k, N in ((1, 3), (2, 3), (3, 3), (1, 4), (1, 5))),
)
def the_gram_operator_has_one_eigenvalue(config: Gram, seed: int):
    k, N = config.task.blocks, config.task.alphabet
    table = answer_table(config.task)
    agree = np.mean([table == other for other in table], axis=(2, 3)) - 1 / N
    values = np.sort(np.linalg.eigvalsh(agree / len(agree)))[::-1]
    expected, count = float(spectrum.gram_eigenvalue(k, N)), spectrum.gram_multiplicity(k, N)
    yield equal("spectrum", values, np.where(np.arange(len(values)) < count, expected, 0.0), 1e-9)
    yield equal("Gram matrix by Lemma 10", agree / len(agree), spectrum.gram(k, N))
    yield equal("root mean square of a product", np.sqrt((agree**2).mean()), spectrum.rms_inner_product(k, N))


@dataclass(frozen=True)
class Queries(Config):
    """Random normalised queries, over all hidden tuples and all inputs."""

    task: Task = option(Task(2, 3), "the composition")
    queries: int = option(20, "random queries", low=1, high=1000)
    tolerance: float = option(0.1, "tolerance tau", above=0.0, high=1.0)
    probability: float = option(0.5, "chance delta over pi that one answer must exceed it", above=0.0, high=1.0)

    def check(self) -> None:
        enumerable(self.task, LARGEST_GRAM)


def answer_table(task: Task) -> np.ndarray:
    """f_pi(sigma, x) for all hidden tuples and inputs: (tuples, sequences, N)."""
    tuples = inner.every_tuple(task.blocks, task.alphabet)
    return np.stack([inner.fold(hidden, tuples) for hidden in tuples])


def normalised(g: np.ndarray) -> np.ndarray:
    """g(sigma, x, y) with E_sigma g = 0 for all x, y and sum_y E g^2 = 1."""
    g = g - g.mean(axis=0)
    return g / np.sqrt((g**2).sum(axis=2).mean())


def answers_to(g: np.ndarray, table: np.ndarray) -> np.ndarray:
    """E_{sigma, x} g(sigma, x, f_pi(sigma, x)) for every pi."""
    count, N = g.shape[0], g.shape[1]
    picked = g[np.arange(count)[None, :, None], np.arange(N)[None, None, :], table]
    return picked.mean(axis=(1, 2))


@LEDGER.bound(
    "thm5-average",
    statement="ours",
    says=(
        r"beyond the paper: no normalised query has $E_\pi[\mathrm{answer}^2]$ above $1/(N(N-1)^{2k-1})$, and those "
        r"in the functions' span reach it"
    ),
    of=(spectrum.gram_eigenvalue, spectrum.average_queries),
    hypotheses=DISTINCT,
    seeds=3,
    cases=(Queries(Task(2, 3)), Queries(Task(1, 4)), Queries(Task(3, 3, any_blocks=True), queries=5)),
)
def no_query_sees_much_on_average(config: Queries, seed: int):
    k, N = config.task.blocks, config.task.alphabet
    table, rng = answer_table(config.task), draws_of(seed, "random queries")
    tried = [normalised(rng.standard_normal((table.shape[1], N, N))) for _ in range(config.queries)]
    squares = [float((answers_to(g, table) ** 2).mean()) for g in tried]
    eigenvalue = float(spectrum.gram_eigenvalue(k, N))
    yield at_most("mean square answer of random queries", squares, eigenvalue, rounding=1e-9)
    one, several = np.eye(N)[table[len(table) // 2]], np.tensordot(rng.standard_normal(len(table)), np.eye(N)[table], 1)
    all_of_it = spectrum.average_queries(k, N, 1.0, 1.0)
    for name, g in (("one function", one), ("a random sum of functions", several)):
        best = answers_to(normalised(g), table)
        yield equal(f"mean square answer of the query made of {name}", (best**2).mean(), eigenvalue, 1e-9)
        share, tau = float(np.mean(np.abs(best) >= config.tolerance)), config.tolerance
        needed = spectrum.average_queries(k, N, tau, share) if share else 0.0
        yield at_most(f"queries needed for the share that {name} sees", needed, 1.0)
        yield equal(f"queries needed at tau = delta = 1, from {name}", all_of_it, 1 / (best**2).mean(), 1e-9)
    less = [spectrum.average_queries(k, N, *sizes) for sizes in ((0.5, 1.0), (1.0, 0.5))]
    yield equal("queries needed at half of tau, and of delta", less, [all_of_it / 4, all_of_it / 2])


@LEDGER.exact(
    "appB-center",
    statement="Appendix B, on the normalization",
    says=(
        r"centring a query subtracts $\frac{1}{N^2}\sum_{x,y}E_\sigma g(\sigma, x, y)$ from its answers, whatever "
        r"$\pi$ is"
    ),
    of=(queries.centre,),
    seeds=3,
    cases=(Gram(Task(2, 3)), Gram(Task(1, 4)), Gram(Task(4, 2))),
)
def centring_a_query_hides_nothing(config: Gram, seed: int):
    table, N = answer_table(config.task), config.task.alphabet
    g = draws_of(seed, "a query").standard_normal((table.shape[1], N, N))
    difference = answers_to(g, table) - answers_to(g - g.mean(axis=0), table)
    yield equal("what centring takes from every answer", difference, np.full(len(table), queries.centre(g)))


@LEDGER.exact(
    "appB-gd",
    statement="Appendix B, connection to gradient descent",
    says=(
        r"the gradient of the cross-entropy is minus the query $g = \nabla_\theta F_y$ plus a term without $\pi$ "
        r"(signs corrected)"
    ),
    of=(queries.gradient_parts,),
    seeds=3,
    cases=(Gram(Task(2, 3)), Gram(Task(1, 4))),
)
def a_gradient_is_a_query(config: Gram, seed: int):
    """F_theta = theta_0 A + tanh(theta_1 B) with random tables A, B: two parameters, so two queries."""
    table, N = answer_table(config.task), config.task.alphabet
    rng = draws_of(seed, "tables of a model")
    A, B = rng.standard_normal((2, table.shape[1], N, N))
    theta = rng.standard_normal(2)

    def logits(theta):
        return theta[0] * A + jnp.tanh(theta[1] * B)

    def loss(theta, answers):
        log_p = jax.nn.log_softmax(logits(theta), axis=2)
        return -jnp.mean(jnp.take_along_axis(log_p, answers[:, :, None], axis=2))

    found = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0)))(jnp.asarray(theta), jnp.asarray(table))
    slopes = np.stack([A, B / np.cosh(theta[1] * B) ** 2])
    query, rest = queries.gradient_parts(slopes, theta[0] * A + np.tanh(theta[1] * B))
    parts = np.stack([answers_to(g, table) for g in query], axis=1)
    yield equal("gradient for every pi", found, rest - parts)


# --- Theorem 5 --------------------------------------------------------------------------------------------------------


@LEDGER.exact(
    "thm5-queries",
    statement="ours",
    says=(
        r"a query $\sum_f w_f(1(y = f) - 1/N)$ has the answers $Gw/\sqrt{w^\top Gw}$, $G$ the functions' inner "
        r"products"
    ),
    of=(queries.answers,),
    seeds=3,
    cases=(Gram(Task(2, 3)), Gram(Task(1, 4)), Gram(Task(4, 2))),
)
def answers_are_inner_products(config: Gram, seed: int):
    table, N = answer_table(config.task), config.task.alphabet
    rng = draws_of(seed, "functions and weights")
    some = rng.permutation(len(table))[:20]
    weights = rng.standard_normal(len(some))
    g = np.tensordot(weights, np.eye(N)[table[some]] - 1 / N, 1)
    by_table = answers_to(g / np.sqrt((g**2).sum(axis=2).mean()), table[some])
    tuples = inner.every_tuple(config.task.blocks, N)[some]
    products = np.array([[float(inner.inner_product(one, two)) for two in tuples] for one in tuples])
    yield equal("answers", by_table, queries.answers(products, weights), 1e-11)


@dataclass(frozen=True)
class SqGame(Config):
    """A learner that asks statistical queries, and an adversary that answers 0 whenever it may."""

    blocks: int = option(6, "blocks k", low=1, high=64)
    alphabet: int = option(64, "letters N", low=3, high=256)
    r: int = option(4, "agreements r of the packing", low=1, high=7)
    tolerance: float = option(0.15, "tolerance tau", above=0.0, below=1.0)
    queries: int = option(100, "random queries that are tried besides", low=1, high=10_000)

    def check(self) -> None:
        require(self.r <= self.alphabet, f"r={self.r} must be at most alphabet={self.alphabet}")
        require(
            packing.log_packing_size(self.blocks, self.r) <= math.log(2000),
            f"r={self.r} with blocks={self.blocks} asks for more than 2000 functions",
        )

    @property
    def overlap(self) -> float:
        return packing.overlap_bound(self.blocks, self.alphabet, self.r)


def sums_of(alive: np.ndarray, members: int, count: int) -> np.ndarray:
    """Weights of the query that adds up the first functions that are left."""
    weights = np.zeros(count)
    weights[np.flatnonzero(alive)[:members]] = 1.0
    return weights


def rule_out(gram: np.ndarray, tolerance: float, asked: float) -> tuple[int, np.ndarray]:
    """A greedy learner against the adversary: (queries, functions that no answer has ruled out).

    Each query adds up as many functions as still have answers above the tolerance; it stops when one function is left,
    or after `asked` queries.
    """
    alive, count, members = np.ones(len(gram), dtype=bool), 0, max(1, int(1 / tolerance**2))
    while alive.sum() > 1 and count + 1 <= asked and members:
        found = queries.answers(gram, sums_of(alive, members, len(gram)))
        ruled = alive & (np.abs(found) > tolerance)
        if ruled.sum() < min(members, alive.sum()):
            members -= 1
            continue
        alive, count = alive & ~ruled, count + 1
    return count, alive


@LEDGER.bound(
    "thm5",
    statement="Theorem 5",
    says=(
        r"on the packing of Lemma 12 a query of tolerance $\tau$ rules out $2/(\tau^2-(2r/N)^{k/2})$ functions at "
        r"most, so learning takes $\frac{1}{2}|\mathcal{F}_r|(\tau^2-(2r/N)^{k/2})$ queries, and fewer leave two "
        r"functions and a loss of $\frac{1}{2}(1-\frac{1}{N}-\langle f, f'\rangle)$"
    ),
    of=(queries.most_ruled_out, queries.fewest_queries, queries.least_loss, queries.sq_bound),
    hypotheses={
        "tau^2 > (2r/N)^{k/2}": lambda config: (
            config.tolerance**2 > (2 * config.r / config.alphabet) ** (config.blocks / 2)
        ),
        "2r < N": lambda config: 2 * config.r < config.alphabet,
        "tau^2 <= 1 - 1/N: a query can tell a function": lambda config: config.tolerance**2 <= 1 - 1 / config.alphabet,
    },
    seeds=3,
    cases=(SqGame(), SqGame(4, 16, 4, tolerance=0.71), SqGame(2, 60, 6, tolerance=0.5)),
)
def queries_rule_out_few_functions(config: SqGame, seed: int):
    k, N, tau = config.blocks, config.alphabet, config.tolerance
    rng = draws_of(seed, "packing")
    size = math.ceil(math.exp(packing.log_packing_size(k, config.r)) - 1e-9)
    functions = packing.nearly_orthogonal(k, N, config.r, size, rng)
    gram = packing.gram(functions)
    yield vacuous_if(size < 2, "the packing of Lemma 12 is a single function")
    if size < 2:
        return
    yield at_least("functions of the packing", len(functions), size)
    yield at_most("largest overlap", np.abs(gram - np.diag(np.diag(gram))).max(), config.overlap)
    most, fewest = (
        queries.most_ruled_out(tau, config.overlap),
        queries.fewest_queries(len(functions), tau, config.overlap),
    )

    yield equal("most times fewest over the functions, one half", most * fewest / len(functions), 0.5)
    swapped = functions[0].copy()
    swapped[0, :2] = swapped[0, 1::-1]  # the two functions differ on two letters out of N
    near = queries.least_loss(N, float(inner.inner_product(functions[0], swapped)))
    yield equal("loss of the best predictor of two functions that differ on two letters", near, 1 / N)
    everyone = np.ones(len(gram), dtype=bool)
    best, signed = 0, 0
    for members in range(1, min(len(gram), 2 * int(1 / tau**2) + 2) + 1):
        found = queries.answers(gram, sums_of(everyone, members, len(gram)))
        best = max(best, int((found >= tau).sum()))
        weights = sums_of(everyone, members, len(gram)) * (-1.0) ** np.arange(len(gram))
        signed = max(signed, int((np.abs(queries.answers(gram, weights)) >= tau).sum()))
    random = [queries.answers(gram, rng.standard_normal(len(gram))) for _ in range(config.queries)]
    yield at_most("functions that one query rules out on one side", best, most)
    yield at_most("functions that one query rules out on both sides", signed, 2 * most)
    yield at_most("functions that a random query rules out on one side", max((a >= tau).sum() for a in random), most)

    asked, left = rule_out(gram, tau, math.inf)
    yield true("the learner rules out all functions but one", left.sum() <= 1)
    yield at_least("queries of the learner", asked, fewest)
    bound = queries.sq_bound(k, N, config.r)
    # the two sides of the theorem: tau^2 is twice the overlaps, and the queries are half of the packing times them
    sides = 2 * config.overlap, math.exp(packing.log_packing_size(k, config.r)) * config.overlap / 2
    found = 10 ** (2 * bound.log10_tolerance), 10**bound.log10_queries
    yield equal("tau^2 and queries of the theorem", found, sides, 1e-9)
    grows = math.factorial(config.r) * config.r > 2 * N
    speaks = 2 * config.r < N and grows and sides[0] < 1 < sides[1]
    yield equal("whether the theorem says something", not bound.vacuous, speaks)
    if tau**2 >= 10 ** (2 * bound.log10_tolerance):
        yield at_least("queries of the learner, against the theorem", asked, 10**bound.log10_queries)
    _, left = rule_out(gram, tau, fewest)
    yield at_least("functions that fewer queries leave", left.sum(), 2)
    if left.sum() < 2:
        return
    one, two = (functions[index] for index in np.flatnonzero(left)[:2])
    inputs = rng.permuted(np.broadcast_to(np.arange(N), (4000, k, N)), axis=2)
    f, other = inner.fold(one, inputs), inner.fold(two, inputs)
    coin = rng.random(f.shape) < 0.5
    mixed = np.where(
        coin, f, other
    )  # no predictor has a smaller larger loss than one that takes either half of the time
    loss = (np.mean(mixed != f) + np.mean(mixed != other)) / 2
    formula = queries.least_loss(N, float(inner.inner_product(one, two)))
    yield at_most(
        "loss of the best predictor off its formula", abs(loss - formula), 4 / math.sqrt(f.size) + 0.01 * formula
    )


@dataclass(frozen=True)
class SqLearner(Config):
    """Sizes of Theorem 5's calculator."""

    blocks: int = option(16, "blocks k", low=2, high=10**6)
    alphabet: int = option(1000, "letters N", low=2, high=10**9)

    def check(self) -> None:
        require(self.blocks % 2 == 0, f"blocks={self.blocks} must be even")


@LEDGER.refuted(
    "thm5-printed",
    statement="Theorem 5, proof",
    says=(
        r"as printed: with $r = \log N$ the queries are $\frac{1}{2}((\log N)!\log N/(2N))^{k/2} \gtrsim "
        r"N^{\frac{k}{2}\log N}$"
    ),
    of=(queries.log10_queries_printed, queries.log10_queries_at_log),
    certificate="certificates/thm5.py",
    corrected="thm5",
    cases=tuple(SqLearner(16, N) for N in (100, 1000, 10_000)),
)
def the_printed_choice_gives_fewer_queries(config: SqLearner, seed: int):
    k, N = config.blocks, config.alphabet
    proven, printed = queries.log10_queries_at_log(k, N), queries.log10_queries_printed(k, N)
    yield at_least("log10 of the queries", proven, printed)
    better = queries.sq_bound(k, N, queries.useful_r(N))
    yield row({"r with r! r >= 2 N^2": better.r, "log10 of its queries": better.log10_queries})
    yield note(
        "the expression is N^{(k/2)(log log N - 2 + o(1))}, so N^{Omega(k)} stands for large N; r! r >= 2N^2 gives it"
        " for all N"
    )


@LEDGER.misprint(
    "thm5-tolerance-printed",
    statement="Theorem 5, proof",
    says=r"as printed: $\tau^2 \le 2(2\log N/N)^{-k/2}$",
    of=(queries.log10_tolerance_squared_printed,),
    means=r"the exponent is $+k/2$, as the next expression of the same line has it",
    corrected="thm5",
    cases=tuple(SqLearner(16, N) for N in (100, 1000, 10_000)),
)
def the_printed_tolerance_exceeds_one(config: SqLearner, seed: int):
    yield at_most(
        "log10 of the tolerance squared", queries.log10_tolerance_squared_printed(config.blocks, config.alphabet), 0.0
    )


@LEDGER.exact(
    "thm5-small",
    statement="ours",
    says=r"beyond the paper: with 6 letters or fewer Theorem 5 says nothing for any $r$; with 7 it does for some $k$",
    of=(queries.sq_bound, queries.vacuous_for_every_r),
    cases=(SqLearner(16, 3), SqLearner(16, 5), SqLearner(16, 6), SqLearner(16, 7), SqLearner(40, 12)),
)
def few_letters_are_vacuous(config: SqLearner, seed: int):
    require(config.alphabet <= 10_000, f"alphabet={config.alphabet} must be at most 10000 to try every r")
    k, N = config.blocks, config.alphabet
    says_something, exact = [], []
    for r in range(1, N + 1):
        overlap, gain = Fraction(2 * r, N) ** (k // 2), Fraction(math.factorial(r) * r, 2 * N)
        says_something.append(2 * r < N and gain > 1 and 2 * overlap < 1 and gain ** (k // 2) > 2)
        exact.append((_log10(2 * overlap) / 2, _log10(gain ** (k // 2) / 2)))
    yield equal("vacuous for every r", queries.vacuous_for_every_r(k, N), not any(says_something))
    found = [queries.sq_bound(k, N, r) for r in range(1, N + 1)]
    yield true(
        "the calculator says something at the same r as exact arithmetic",
        [not bound.vacuous for bound in found] == says_something,
    )
    yield equal(
        "log10 of tolerance and queries, for every r", [(b.log10_tolerance, b.log10_queries) for b in found], exact
    )
    yield true("6 letters or fewer are vacuous", N > 6 or not any(says_something))
    yield row({"log10 of average-case queries / (delta tau^2)": spectrum.log10_average_queries(k, N)})


def _log10(value: Fraction) -> float:
    """Of whole numbers of any length."""
    return math.log10(value.numerator) - math.log10(value.denominator)
