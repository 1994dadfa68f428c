"""Theorem 2 as a game of statistical queries: how many a learner of parities needs, and gradient descent as one."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, row, slope, true, vacuous_if
from stairwise.measure import queries
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import class_fits
from stairwise.papers.parity_onestep.config import Task
from stairwise.papers.parity_onestep.theory import hiding, spectrum
from stairwise.tasks import parity
from stairwise.train.draws import draws_of

FEWEST = 5
# the learner rules out one function per query where tau >= 1/2, which is 1/tau^2 <= 4 times too few; below, the
# adversary can side with one sign of a sum, which costs 2, and the last few functions cost more than their share
MOST = 4.0


@dataclass(frozen=True)
class QueryGame(Config):
    """Learners of parities of half of the bits, and of a fixed number of bits."""

    bits: tuple[int, ...] = option((7, 8, 9, 10, 11), "bits d, for parities of half of them", low=4, high=12)
    size: int = option(3, "size k of the other parities", low=2, high=4)
    more_bits: tuple[int, ...] = option((8, 10, 12, 14, 16), "bits d for these", low=5, high=24)
    tolerance: float = option(0.4, "tolerance tau", above=0.0, high=0.7)

    def check(self) -> None:
        for name, values in (("bits", self.bits), ("more_bits", self.more_bits)):
            require(len(set(values)) >= 3, f"{name}={values} must be at least three of them")
        largest = math.comb(max(self.more_bits), self.size)
        require(largest <= 2500, f"size={self.size} has {largest} parities, which must be at most 2500")
        counts = math.comb(min(self.bits), min(self.bits) // 2), math.comb(min(self.more_bits), self.size)
        fewest = min(queries.fewest_queries(count, self.tolerance) for count in counts)
        require(
            fewest >= FEWEST,
            f"tolerance={self.tolerance} leaves a bound of {fewest:.3g} queries at the smallest size, which must be at"
            f" least {FEWEST}: queries are counted one by one, and fewer have no exponent",
        )


@LEDGER.rate(
    "thm2-queries",
    statement=("Theorem 2, statistical queries", "Theorem 2"),
    says=r"against the best adversary a learner of parities needs $(|P|-1)\tau^2$ queries of tolerance $\tau$: of order"
    r" $e^{\Omega(d)}$ at $k = d/2$, $d^k$ at a fixed $k$; one learner needs $(|P|-1)/r$ to a ninth more,"
    r" $r = \lfloor(\lceil\tau^{-2}\rceil - 1)/2\rfloor$",
    of=(queries.fewest_queries, queries.halving, queries.keeping_most),
    free={"halving": "a learner may choose its queries as it likes: what counts is how many it needs"},
    cases=QueryGame(),
    seeds=3,
)
def queries_grow_with_the_number_of_parities(config: QueryGame, seed: int):
    tau, halves, others = config.tolerance, sorted(set(config.bits)), sorted(set(config.more_bits))
    small = queries.parities(halves[0], halves[0] // 2)
    yield equal("inner products of parities", small @ small.T, np.eye(len(small)))

    yield equal("(|P| - 1) tau^2 of 13 parities at tau = 1/2", queries.fewest_queries(13, 0.5), 3.0)
    yield equal("the same with an overlap of 1/8", queries.fewest_queries(13, 0.5, 0.125), 1.5)

    random = draws_of(seed, "answers").uniform(-1, 1, (20, 12))
    kept = [int(queries.fits(each, queries.keeping_most(each, tau), tau).sum()) for each in random]
    ends = np.sort(np.concatenate([random - tau, random + tau], axis=1))  # what an answer keeps changes only there
    between = (ends[:, 1:] + ends[:, :-1]) / 2
    most = [max(int((abs(each - at) <= tau).sum()) for at in row_) for each, row_ in zip(random, between, strict=True)]
    yield equal("functions that the oracle keeps, against the best of all answers", kept, most)

    def played(parities: int) -> tuple[int, float]:
        return queries.sq(queries.halving, np.eye(parities), tau).queries, queries.fewest_queries(parities, tau)

    yield true(
        "a class of orthonormal vectors takes as many queries as the parities written out",
        queries.sq(queries.halving, small, tau).queries == played(len(small))[0],
    )
    for name, sizes, counts, expected, more in (
        ("k = d/2", halves, [math.comb(d, d // 2) for d in halves], math.log(2), {"law": "exponential"}),
        (f"k = {config.size}", others, [math.comb(d, config.size) for d in others], config.size, {"side": "at least"}),
    ):
        found, bounds = (list(each) for each in zip(*map(played, counts), strict=True))
        yield at_least(f"queries, {name}", found, bounds)
        yield at_least(f"queries over the bound, {name}", np.divide(found, bounds), 1.0)
        yield at_most(f"queries over the bound, {name}", np.divide(found, bounds), MOST)
        # the oracle sides with one sign of a signed sum; the learner tries nine tenths of the largest one, and the last
        # few parities cost a query each
        least = (np.array(counts) - 1) / max(1, (math.ceil(1 / tau**2) - 1) // 2)
        yield at_least(f"queries over (|P| - 1)/r, {name}", found / least, 1.0)
        yield at_most(f"queries less 4, over (|P| - 1)/r, {name}", (np.array(found) - 4) / least, 1 / 0.9)
        yield slope(f"queries, {name}", sizes, found, expected, within=0.2, against="d", **{**more, "bound": bounds})
        for d, count, asked in zip(sizes, counts, found, strict=True):
            yield row({"d": d, "parities": count, "queries": asked, "bound": queries.fewest_queries(count, tau)})


@dataclass(frozen=True)
class QueriedDescent(Config):
    """Gradient descent of a small tanh net, every derivative of which is asked for."""

    task: Task = option(Task(10, 5), "the class of parities (a named secret does not matter)")
    width: int = option(2, "hidden width of the net", low=1, high=16)
    steps: int = option(2, "steps", low=1, high=20)
    learning_rate: float = option(0.3, "learning rate", above=0.0, high=100.0)
    tolerance: float = option(0.49, "tolerance tau of a query", above=0.0, below=1.0)

    def check(self) -> None:
        class_fits(self.task)


@LEDGER.exact(
    "thm2-descent",
    statement=("Theorem 2, gradient descent", "Theorem 2"),
    says=r"a step of gradient descent on $\frac{1}{2}E(f_\theta - p)^2$ is one statistical query per parameter: with"
    r" exact answers it is the same path, and an adversary of tolerance $\tau$ keeps all but $1/\tau^2$ parities per"
    r" query",
    of=(queries.descent, queries.most_ruled_out),
    cases=(QueriedDescent(), QueriedDescent(Task(8, 4), width=1, steps=1)),
    seeds=3,
)
def a_step_is_one_query_per_parameter(config: QueriedDescent, seed: int):
    d, k = config.task.bits, config.task.size
    net, x = hiding.TanhNet(d, config.width), parity.cube(d).astype(np.float64)
    cls = hiding.parity_class(x, k, spectrum.uniform_density(d))
    targets = hiding.values(cls, cls.codes)
    functions, start = targets / math.sqrt(len(x)), net.start(seed)
    hidden = int(draws_of(seed, "hidden function").integers(len(functions)))
    path: list[np.ndarray] = []

    def model(theta: np.ndarray):
        return net.outputs_and_jacobian(theta, x)

    learner = queries.descent(model, start, config.learning_rate, config.steps, path)
    game = queries.sq(learner, functions, config.tolerance, hidden=hidden)
    true_path = hiding.run_with(
        cls, net, start, config.learning_rate, config.steps, targets[hidden], lambda gradient, mean: gradient
    )
    yield equal("path of the learner", np.stack(path), true_path[1:], 1e-10)
    yield equal("queries per step over parameters", game.queries / config.steps / net.parameters, 1.0)
    against = queries.sq(learner, functions, config.tolerance)
    ruled = -np.diff([len(functions), *against.left])
    most = queries.most_ruled_out(config.tolerance)
    yield at_most("parities that one derivative rules out", ruled, most)
    yield equal("1/(tau^2 - overlap) at tau = 1/2 and overlap 1/8", queries.most_ruled_out(0.5, 0.125), 8.0)
    single = queries.signed_sum(functions[: int(most)])  # attains it, but for rounding down
    yield at_least("answers above tau of a signed sum", (np.abs(functions @ single) > config.tolerance).sum(), most - 1)
    yield at_least("parities that are left", against.left[-1], len(functions) - against.queries * most)
    yield vacuous_if(against.queries * most >= len(functions), "as many queries may rule out every parity")
    yield row({"parities": len(functions), "queries": against.queries, "left": against.left[-1]})
