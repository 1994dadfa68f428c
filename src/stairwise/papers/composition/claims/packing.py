"""How many compositions there are that hardly agree, and what information alone asks for."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, row, slope, true, vacuous_if
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.sizes import DISTINCT, enumerable, hidden_of
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.plan import layers
from stairwise.papers.composition.theory import counting, inner, packing
from stairwise.train.draws import draws_of

LARGEST_PACKING = 2000


@dataclass(frozen=True)
class Packing(Config):
    """Lemma 12 at one size: the set is built and looked at."""

    blocks: int = option(4, "blocks k", low=1, high=64)
    alphabet: int = option(9, "letters N", low=2, high=256)
    r: int = option(4, "agreements r that permutations of the packing may have", low=1, high=256)

    def check(self) -> None:
        require(self.r <= self.alphabet, f"r={self.r} must be at most alphabet={self.alphabet}")
        require(
            packing.log_packing_size(self.blocks, self.r) <= math.log(LARGEST_PACKING) and self.r <= 7,
            f"r={self.r} with blocks={self.blocks} asks for more than {LARGEST_PACKING} functions or 5040 letters",
        )

    @property
    def target(self) -> float:
        return math.exp(packing.log_packing_size(self.blocks, self.r))


@LEDGER.bound(
    "lem12",
    statement="Lemma 12",
    says=(
        r"for every $r$ there are $(r!/4)^{k/2}$ compositions with pairwise $|\langle f, f'\rangle| \le "
        r"(2r/N)^{k/2}$; permutations that agree with one in more than $r$ places are $N!/(r+1)!$ at most"
    ),
    of=(
        packing.log_packing_size,
        packing.overlap_bound,
        packing.overlap_bound_sharp,
        packing.volume,
        packing.volume_bound,
        packing.volume_bound_sharper,
    ),
    seeds=3,
    cases=(Packing(), Packing(2, 9, 4), Packing(8, 9, 4), Packing(4, 12, 5), Packing(4, 16, 4), Packing(4, 6, 2)),
)
def many_compositions_hardly_agree(config: Packing, seed: int):
    k, N, r = config.blocks, config.alphabet, config.r
    bound, sharp = packing.overlap_bound(k, N, r), packing.overlap_bound_sharp(k, N, r)
    asked = math.ceil(config.target - 1e-9)
    built = packing.nearly_orthogonal(k, N, r, max(asked, 1), draws_of(seed, "packing"))
    overlap = packing.largest_overlap(built)
    yield at_least("functions", len(built), (math.factorial(r) / 4) ** (k / 2))
    yield at_least("functions asked for", asked, (math.factorial(r) / 4) ** (k / 2), rounding=1e-12)
    yield at_most("largest overlap", overlap, bound)
    yield at_most("largest overlap, sharper", overlap, sharp, rounding=1e-12)
    yield equal(
        "the overlap bound for N = 2r letters, and for N = 8r",
        [packing.overlap_bound(k, f * r, r) for f in (2, 8)],
        [1, 0.5**k],
    )
    if k % 2 == 0 and 2 <= r <= N - 2:  # r places agree in half of the blocks, all in the others
        one = np.tile(np.arange(N), (k, 1))
        two = one.copy()
        two[: k // 2, r:] = np.roll(np.arange(r, N), 1)
        extremal = abs(float(inner.inner_product(one, two)))
        yield equal("overlap of an extremal pair", extremal, sharp)
        yield at_most("overlap of an extremal pair, against the lemma", extremal, bound)
    for n in range(2, min(N, 8) + 1):
        agree = (inner.every_permutation(n) == np.arange(n)).sum(axis=1)
        counted, how_many = [int((agree > s).sum()) for s in range(1, n + 1)], np.bincount(agree)
        yield equal(
            f"permutations of {n} with more than r agreements", counted, [packing.volume(n, s) for s in range(1, n + 1)]
        )
        for name, formula, more in (("sharper", packing.volume_bound_sharper, 1), ("printed", packing.volume_bound, 0)):
            bounds = [float(formula(n, s)) for s in range(1, n + 1)]
            yield at_most(f"volume for {n} letters, {name}", counted, bounds)
            # the bound counts a permutation once for every set of places in which it agrees
            sets = [sum(math.comb(a, s + more) * int(many) for a, many in enumerate(how_many)) for s in range(1, n)]
            yield equal(f"sets of places that agree for {n} letters, {name}", sets, bounds[:-1])
    yield vacuous_if(
        config.target <= 1 or bound >= 1, "one function, or an overlap bound of 1 or more: 2r < N and r >= 4 are needed"
    )


@dataclass(frozen=True)
class Corollary(Config):
    """Corollary 13 at one size."""

    blocks: int = option(4, "blocks k", low=1, high=64)
    alphabet: int = option(32, "letters N", low=8, high=63)

    def check(self) -> None:
        require(
            packing.log_packing_size(self.blocks, self.r) <= math.log(LARGEST_PACKING),
            f"blocks={self.blocks} asks for more than {LARGEST_PACKING} functions of alphabet={self.alphabet} letters",
        )

    @property
    def r(self) -> int:
        return self.alphabet // 8


@LEDGER.bound(
    "cor13",
    statement="Corollary 13",
    says=(
        r"$(r!/4)^{k/2}$ functions, $r = N/8$, lie pairwise at squared distance $\frac{1}{2}$ or more, and $\log$ of "
        r"their number grows like $kN\log N$ or faster"
    ),
    of=(packing.squared_distance, packing.log_packing_size),
    hypotheses={"k >= 2": lambda config: config.blocks >= 2},
    seeds=3,
    cases=(Corollary(), Corollary(4, 24), Corollary(2, 40), Corollary(2, 48), Corollary(4, 16)),
)
def many_compositions_lie_far_apart(config: Corollary, seed: int):
    k, N, r = config.blocks, config.alphabet, config.r
    rng = draws_of(seed, "packing")
    target = max(min(2, math.factorial(r)), math.ceil((math.factorial(r) / 4) ** (k / 2) - 1e-9))
    built = packing.nearly_orthogonal(k, N, r, target, rng)
    yield at_least("functions", len(built), target)
    distance = packing.squared_distance(N, packing.largest_overlap(built))
    yield at_least("squared distance", distance, 0.5)
    if len(built) > 1:
        # E sum_y (1(y = f) - 1(y = f'))^2 of the closest pair, by running both
        one = built[0]
        two = min(built[1:], key=lambda other: -abs(float(inner.inner_product(one, other))))
        inputs = rng.permuted(np.broadcast_to(np.arange(N), (4000, k, N)), axis=2)
        apart = 2 * np.mean(inner.fold(one, inputs) != inner.fold(two, inputs), axis=1)
        formula = packing.squared_distance(N, float(inner.inner_product(one, two)))
        error = max(float(apart.std()) / math.sqrt(len(apart)), 1e-3)
        yield at_most(
            "squared distance of a pair off its formula, in deviations", abs(apart.mean() - formula) / error, 4.5
        )
    yield equal("r!, from the log of the size", 4 * math.exp(2 / k * packing.log_packing_size(k, r)), math.factorial(r))
    letters = np.array([2**power for power in range(8, 20, 2)])
    sizes = [packing.log_packing_size(k, int(n) // 8) for n in letters]
    yield slope("exponent of log size in kN log N", k * letters * np.log(letters), sizes, 1.0)  # it is no faster
    yield row({"log size / (kN log N)": packing.log_packing_size(k, r) / (k * N * math.log(N))})
    yield vacuous_if(N < 24, f"(r!/4)^(k/2) exceeds 1 only for r = N/8 >= 3, that is N >= 24, and r={r}")


# --- information ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Erm(Config):
    """Brute-force search over all hidden tuples."""

    task: Task = option(Task(2, 3), "the composition")
    repeats: int = option(200, "data sets to draw", low=10, high=10_000)
    failure: float = option(0.1, "share of data sets that may leave more than one candidate", above=0.0, below=0.5)

    def check(self) -> None:
        enumerable(self.task)
        require(
            self.task.alphabet > 2, f"task.alphabet={self.task.alphabet} must be at least 3 (2 letters are degenerate)"
        )


@LEDGER.bound(
    "rem6",
    statement="Remark 6",
    says=(
        r"$\Theta(Nk)$ samples suffice information-theoretically: brute force over all $\pi$ ends between two counts "
        r"that grow like $k$ and like $N$"
    ),
    of=(counting.enough_samples, counting.expected_impostors, counting.fewest_samples),
    seeds=3,
    cases=(Erm(), Erm(Task(3, 3, any_blocks=True)), Erm(Task(2, 4), repeats=100)),
)
def few_samples_name_the_hidden_permutations(config: Erm, seed: int):
    k, N = config.task.blocks, config.task.alphabet
    rng = draws_of(seed, "samples")
    candidates = inner.every_tuple(k, N)
    counts = np.array(
        [
            counting.samples_until_unique(hidden_of(config.task, seed, repeat), candidates, rng)
            for repeat in range(config.repeats)
        ]
    )
    enough, fewest = counting.enough_samples(k, N, config.failure), counting.fewest_samples(k, N)
    slack = 3 * math.sqrt(config.failure * (1 - config.failure) / config.repeats)
    yield at_most("share of data sets that needed more", np.mean(counts > enough), config.failure + slack)
    yield at_least("median", np.median(counts), fewest)
    # E[impostors] after n samples, over all other pi: their chance to fit one sample is 1/N + <f, f'>
    chances = [1 / N + float(inner.inner_product(candidates[0], other)) for other in candidates[1:]]
    for n in (1, enough - 1, enough):
        yield equal(
            f"mean impostors after {n}", float(counting.expected_impostors(k, N, n)), sum(p**n for p in chances), 1e-9
        )
    yield at_most("mean impostors after enough samples", sum(p**enough for p in chances), config.failure)
    yield at_least("mean impostors after one less", sum(p ** (enough - 1) for p in chances), config.failure)
    if N == 3 and k == 2:
        blocks, letters = (4, 8, 16, 32), (4, 6, 8, 12)
        yield slope("exponent of k", blocks, [counting.enough_samples(b, 5, 0.1) for b in blocks], 1.0, within=0.2)
        yield slope("exponent of N", letters, [counting.enough_samples(8, n, 0.1) for n in letters], 1.0, within=0.25)
        yield slope("exponent of k in the fewest", blocks, [counting.fewest_samples(b, 5) for b in blocks], 1.0)
    yield row({"median / (kN)": float(np.median(counts)) / (k * N), "enough / (kN)": enough / (k * N)})


@dataclass(frozen=True)
class Width(Config):
    """A transformer whose key-query matrices have d x d numbers of p bits, for functions that can all be listed."""

    task: Task = option(Task(2, 3), "the composition")
    precision: int = option(1, "bits p of a weight", low=1, high=64)

    def check(self) -> None:
        enumerable(self.task, 1500)


@LEDGER.exact(
    "sec7-size",
    statement="Section 7",
    says=(
        r"a fixed embedding of width $d$ names $2^{Ld^2p}$ functions at most, and there are $(N!)^k$: so $d \ge "
        r"\sqrt{k\log_2 N!/(Lp)}$"
    ),
    of=(counting.log_functions, counting.smallest_width),
    hypotheses=DISTINCT,
    cases=(Width(), Width(Task(1, 5)), Width(Task(3, 3, any_blocks=True)), Width(Task(2, 3), precision=2)),
)
def a_narrow_network_has_no_room_for_every_function(config: Width, seed: int):
    k, N, p, L = config.task.blocks, config.task.alphabet, config.precision, len(layers(config.task.blocks))
    tuples = inner.every_tuple(k, N)
    functions = len({inner.fold(hidden, tuples).tobytes() for hidden in tuples})
    yield equal("functions that differ", math.log(functions), counting.log_functions(k, N))
    least = counting.smallest_width(k, N, L, p)
    room = next(d for d in range(1, 1000) if 2 ** (L * d * d * p) >= functions)
    yield true("the smallest width with room for them is the next whole number", room == math.ceil(least - 1e-12))
    yield equal("bits at the smallest width", 2 ** (L * least**2 * p), functions, 1e-9)
    yield row({"smallest d": least, "d of Theorem 4": k * N * (L + 2)})
