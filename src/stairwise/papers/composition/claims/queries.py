"""Theorem 5 as a game of statistical queries: how many a learner needs as k grows, and the tolerance as N grows."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, row, slope, vacuous_if
from stairwise.measure import queries as game
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.theory import packing, queries
from stairwise.train.draws import draws_of


@dataclass(frozen=True)
class GrowingPackings(Config):
    """Packings of Lemma 12 that grow with k, or whose overlaps fall with N."""

    blocks: tuple[int, ...] = option((4, 5, 6, 7), "blocks k", low=2, high=8)
    alphabet: int = option(64, "letters N of these", low=9, high=256)
    alphabets: tuple[int, ...] = option((12, 16, 32, 64, 128, 256), "letters N, at the smallest k", low=9, high=256)
    r: int = option(4, "agreements r of the packing", low=4, high=4)
    tolerance: float = option(0.4, "tolerance tau", above=0.0, below=1.0)

    def check(self) -> None:
        for name, values in (("blocks", self.blocks), ("alphabets", self.alphabets)):
            require(len(set(values)) >= 3, f"{name}={values} must be at least three of them")

    @property
    def least_bound(self) -> float:
        """Queries that the theorem asks for at the smallest k."""
        k = min(self.blocks)
        functions = math.exp(packing.log_packing_size(k, self.r))
        return functions * (self.tolerance**2 - (2 * self.r / self.alphabet) ** (k / 2)) / 2


def packed(k: int, N: int, r: int, rng: np.random.Generator) -> np.ndarray:
    """The inner products of a packing as large as Lemma 12 has it."""
    size = math.ceil(math.exp(packing.log_packing_size(k, r)) - 1e-9)
    return packing.gram(packing.nearly_orthogonal(k, N, r, size, rng))


def largest_overlap(gram: np.ndarray) -> float:
    return float(np.abs(gram - np.diag(np.diag(gram))).max())


@LEDGER.rate(
    "thm5-growth",
    statement="Theorem 5",
    says=(
        r"at a fixed tolerance the queries needed grow with $k$ as the packing, like $(r!/4)^{k/2}$, and lie above "
        r"$\frac{1}{2}|\mathcal{F}_r|(\tau^2-(2r/N)^{k/2})$; the overlaps, which bound the tolerance, fall with $N$ "
        r"like $N^{-k/2}$"
    ),
    of=(queries.fewest_queries, packing.log_packing_size, packing.overlap_bound),
    hypotheses={
        "tau^2 > (2r/N)^{k/2}": lambda config: (
            config.tolerance**2 > (2 * config.r / config.alphabet) ** (min(config.blocks) / 2)
        ),
        "2r < N": lambda config: 2 * config.r < min(config.alphabet, *config.alphabets),
        # the answers to v - v', over its norm, are sqrt(2 (1 - 1/N)) apart where <v, v'> = 0
        "tau^2 < (1 - 1/N)/2: a query tells two functions apart": lambda config: (
            config.tolerance**2 < (1 - 1 / config.alphabet) / 2
        ),
        "the bound asks for two queries or more at every k: whole numbers have a rate": lambda config: (
            config.least_bound >= 2
        ),
    },
    cases=GrowingPackings(),
    seeds=3,
)
def queries_grow_with_the_packing(config: GrowingPackings, seed: int):
    rng, tau, r, N = draws_of(seed, "packings"), config.tolerance, config.r, config.alphabet
    blocks, letters = sorted(set(config.blocks)), sorted(set(config.alphabets))
    asked, bounds = [], []
    for k in blocks:
        gram = packed(k, N, r, rng)
        overlap = packing.overlap_bound(k, N, r)
        played = game.sq(game.halving, game.of_gram(gram), tau)
        if played.alive.sum() > 1:
            yield vacuous_if(True, f"at tau={tau:g} no query of the learner rules a function out: it learns none")
            return
        bounds.append(queries.fewest_queries(len(gram), tau, overlap))
        asked.append(played.queries)
        yield at_least(f"functions at k = {k}", len(gram), math.exp(packing.log_packing_size(k, r)), rounding=1e-9)
        yield at_most(f"largest overlap at k = {k}", largest_overlap(gram), overlap)
        # signs of both sides in one sum: the factor 1/2 of the proof is not needed
        sharper = game.fewest_queries(len(gram), tau, overlap)
        yield at_least(f"queries at k = {k}, without the factor 1/2", played.queries, sharper)
        yield row({"k": k, "functions": len(gram), "queries": played.queries, "bound": bounds[-1], "sharper": sharper})
    yield at_least("queries", asked, bounds)
    yield equal("bound for 12 functions at tau = 1/2 and overlap 1/6", queries.fewest_queries(12, 0.5, 1 / 6), 0.5)
    rate = (packing.log_packing_size(2, r) - packing.log_packing_size(0, r)) / 2
    yield slope("queries", blocks, asked, rate, law="exponential", within=0.15, against="k", bound=bounds)
    overlaps = [[largest_overlap(packed(blocks[0], n, r, rng)) for _ in range(6)] for n in letters]
    allowed = [packing.overlap_bound(blocks[0], n, r) for n in letters]
    expected = -blocks[0] / 2
    yield equal(
        "(2r/N)^(k/2) at N = 2r, and at N = 8r",
        [packing.overlap_bound(blocks[0], f * r, r) for f in (2, 8)],
        [1, 0.5 ** blocks[0]],
    )
    name = f"largest overlap at k = {blocks[0]}"
    yield slope(name, letters, overlaps, expected, side="at most", within=0.5, against="N", bound=allowed)
    yield slope("(2r/N)^(k/2) against N", letters, allowed, expected, within=1e-9)
