"""How many compositions there are that hardly agree, and what information alone asks for."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.lab.checks import empty_if, exactly, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.sizes import distinct, enumerable, hidden_of
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.plan import embedding_width, layers
from stairwise.papers.composition.theory import counting, inner, packing

LARGEST_PACKING = 2000


def log_size(blocks: int, r: int) -> float:
    """log of (r!/4)^{k/2}."""
    return blocks / 2 * (math.lgamma(r + 1) - math.log(4))


@dataclass(frozen=True)
class Packing(Config):
    """Lemma 12 at one size: the set is built and looked at."""

    blocks: int = option(4, "blocks k", low=1, high=64)
    alphabet: int = option(9, "letters N", low=2, high=256)
    r: int = option(4, "agreements r that permutations of the packing may have", low=1, high=256)

    def check(self) -> None:
        require(self.r <= self.alphabet, f"r={self.r} must be at most alphabet={self.alphabet}")
        require(
            log_size(self.blocks, self.r) <= math.log(LARGEST_PACKING) and self.r <= 7,
            f"r={self.r} with blocks={self.blocks} asks for more than {LARGEST_PACKING} functions or 5040 letters",
        )

    @property
    def target(self) -> int:
        return max(1, math.ceil(math.exp(log_size(self.blocks, self.r)) - 1e-9))


@LEDGER.theory(
    "lem12",
    kind="bound",
    says="for every r there are (r!/4)^{k/2} compositions with pairwise |<f, f'>| <= (2r/N)^{k/2}",
    cases=(Packing(), Packing(2, 9, 4), Packing(8, 9, 4), Packing(4, 12, 5), Packing(4, 16, 4), Packing(4, 6, 2)),
)
def many_compositions_hardly_agree(config: Packing, seed: int) -> Verdict:
    k, N, r = config.blocks, config.alphabet, config.r
    built = packing.nearly_orthogonal(k, N, r, config.target, np.random.default_rng([seed, 20]))
    overlap, bound = packing.largest_overlap(built), packing.overlap_bound(k, N, r)
    row = {
        "size": len(built),
        "size asked for": config.target,
        "largest |<f, f'>|": overlap,
        "sharper bound": packing.overlap_bound_sharp(k, N, r),
        "least volume ratio N!/r! over V": _volume_margin(min(N, 12)),
    }
    facts = {
        "the set is as large as asked for": len(built) >= config.target,
        "it keeps the sharper bound": overlap <= packing.overlap_bound_sharp(k, N, r) * (1 + 1e-12),
        **_volume_facts(min(N, 12)),
    }
    verdict = Verdict.worst({"overlap": Verdict.at_most(overlap, bound, details=(row,)), "facts": exactly(facts)})
    says_nothing = config.target <= 1 or bound >= 1
    return empty_if(
        says_nothing, verdict, "one function, or an overlap bound of 1 or more: 2r < N and r >= 4 are needed"
    )


def _volume_facts(alphabet: int) -> dict[str, bool]:
    """V(n, r) <= n!/(r+1)! <= n!/r! for every n up to N and every r."""
    return {
        f"n={n} r={r}": packing.volume(n, r) <= packing.volume_bound_sharper(n, r) <= packing.volume_bound(n, r)
        for n in range(2, alphabet + 1)
        for r in range(1, n + 1)
    }


def _volume_margin(alphabet: int) -> float:
    ratios = [
        float(packing.volume_bound(n, r) / packing.volume(n, r)) for n in range(2, alphabet + 1) for r in range(1, n)
    ]
    return min(ratios)


@dataclass(frozen=True)
class Volumes(Config):
    """All (n, r) with 1 <= r < n <= N."""

    alphabet: int = option(12, "largest number of letters N", low=2, high=40)


@LEDGER.theory(
    "lem12-printed",
    kind="bound",
    says="as printed: sum_{i>r} (r!/i! + e r!/(i!(N-i)!)) <= sum_{i>r} 1/(i-r)!; |<f, f'>| <= ((r-1)/(N-1))^{k/2}",
    cases=Volumes(),
)
def two_steps_of_the_proof_are_false(config: Volumes, seed: int) -> Verdict:
    pairs = [(n, r) for n in range(2, config.alphabet + 1) for r in range(1, n)]
    steps = {pair: packing.volume_step_printed(*pair) for pair in pairs}
    wrong = [{"N": n, "r": r, "left": a, "right": b} for (n, r), (a, b) in steps.items() if a > b]
    N = max(3, config.alphabet)
    one, two = np.tile(np.arange(N), (2, 1)), np.tile(np.roll(np.arange(N), 1), (2, 1))
    apart = {
        "N": N,
        "r": 1,
        "<f, f'> where nothing agrees": float(inner.inner_product(one, two)),
        "bound": packing.overlap_bound_printed(2, N, 1),
    }
    note = "the first step fails at " + ", ".join(f"({row['N']},{row['r']})" for row in wrong)
    return Verdict.at_most(
        len(wrong) + 1, 0, otherwise="refuted", note=note + "; r = 1 makes the second bound 0", details=(*wrong, apart)
    )


@dataclass(frozen=True)
class Corollary(Config):
    """Corollary 13 at one size."""

    blocks: int = option(4, "blocks k", low=1, high=64)
    alphabet: int = option(32, "letters N", low=8, high=63)

    def check(self) -> None:
        require(
            log_size(self.blocks, self.r) <= math.log(LARGEST_PACKING),
            f"blocks={self.blocks} asks for more than {LARGEST_PACKING} functions of alphabet={self.alphabet} letters",
        )

    @property
    def r(self) -> int:
        return self.alphabet // 8


@LEDGER.theory(
    "cor13",
    kind="bound",
    says="(r!/4)^{k/2} functions, r = N/8, lie pairwise at squared distance 1/2 or more (N >= 24, or it says nothing)",
    cases=(Corollary(), Corollary(4, 24), Corollary(2, 40), Corollary(2, 48), Corollary(4, 16)),
)
def many_compositions_lie_far_apart(config: Corollary, seed: int) -> Verdict:
    k, N, r = config.blocks, config.alphabet, config.r
    target = max(min(2, math.factorial(r)), math.ceil(math.exp(log_size(k, r)) - 1e-9))
    built = packing.nearly_orthogonal(k, N, r, target, np.random.default_rng([seed, 21]))
    distance = packing.squared_distance(N, packing.largest_overlap(built))
    row = {
        "size": len(built),
        "log size": log_size(k, r),
        "log size / (kN log N)": log_size(k, r) / (k * N * math.log(N)),
        "log |F| / (kN log N)": counting.log_functions(k, N) / (k * N * math.log(N)),
    }
    facts = exactly({"the set is as large as asked for": len(built) >= target})
    verdict = Verdict.worst({"squared distance": Verdict.at_least(distance, 0.5, details=(row,)), "size": facts})
    verdict = empty_if(N < 24, verdict, f"(r!/4)^(k/2) exceeds 1 only for r = N/8 >= 3, that is N >= 24, and r={r}")
    return under(() if k >= 2 else (f"blocks={k} must be at least 2 for (1/4)^(k/2) <= 1/4",), verdict)


# --- information ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Erm(Config):
    """Brute-force search over all hidden tuples."""

    task: Task = option(Task(2, 3), "the composition")
    repeats: int = option(200, "data sets to draw", low=10, high=10_000)
    failure: float = option(0.1, "share of data sets that may leave more than one candidate", above=0.0, below=0.5)

    def check(self) -> None:
        enumerable(self.task)
        require(not distinct(self.task), "".join(distinct(self.task)))


@LEDGER.theory(
    "rem6",
    kind="bound",
    says="Theta(Nk) samples suffice information-theoretically: brute force over all pi ends between two counts",
    cases=(Erm(), Erm(Task(3, 3, any_blocks=True)), Erm(Task(2, 4), repeats=100)),
)
def few_samples_name_the_hidden_permutations(config: Erm, seed: int) -> Verdict:
    k, N = config.task.blocks, config.task.alphabet
    rng = np.random.default_rng([seed, 22])
    candidates = inner.every_tuple(k, N)
    counts = [
        counting.samples_until_unique(hidden_of(config.task, seed + 1 + repeat), candidates, rng)
        for repeat in range(config.repeats)
    ]
    enough, fewest = counting.enough_samples(k, N, config.failure), counting.fewest_samples(k, N)
    row = {
        "median": float(np.median(counts)),
        "median / (kN)": float(np.median(counts)) / (k * N),
        "enough / (kN)": enough / (k * N),
        "enough / (kN) at k=8, N=5": counting.enough_samples(8, 5, config.failure) / 40,
    }
    slack = 3 * math.sqrt(config.failure * (1 - config.failure) / config.repeats)
    late = float(np.mean(np.array(counts) > enough))
    return Verdict.worst(
        {
            "share of data sets that needed more": Verdict.at_most(late, config.failure + slack, details=(row,)),
            "median above log(|F|/2)/log N": Verdict.at_least(float(np.median(counts)), fewest),
        }
    )


@dataclass(frozen=True)
class Width(Config):
    """A transformer of the paper's size, its numbers kept in p bits."""

    blocks: int = option(16, "blocks k", low=1, high=4096)
    alphabet: int = option(5, "letters N", low=3, high=4096)
    precision: int = option(1, "bits p of a weight", low=1, high=64)


@LEDGER.theory(
    "sec7-size",
    kind="bound",
    says="Section 7: with a fixed embedding L d^2 p bits must name every function, L d^2 p >= k log2 N!",
    cases=(Width(), Width(4, 5), Width(256, 100), Width(2, 3)),
)
def the_network_has_room_for_every_function(config: Width, seed: int) -> Verdict:
    k, N, p = config.blocks, config.alphabet, config.precision
    depth, width = len(layers(k)), embedding_width(k, N)
    bits, needed = counting.representation_bits(depth, width, p), counting.log_functions(k, N) / math.log(2)
    row = {"d": width, "smallest d": counting.smallest_width(k, N, depth, p), "L": depth, "log2 |F|": needed}
    note = "a count of bits: it forces d >= sqrt(k log2 N!/(Lp)), the square root of what the construction uses or less"
    return Verdict.at_least(bits, needed, details=(row,), note=note)
