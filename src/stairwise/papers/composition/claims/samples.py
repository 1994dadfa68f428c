"""Theorem 7 as a law: the samples that the last layer's attention needs, against k and N."""

from dataclasses import dataclass

import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import equal, row, slope
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.plan import is_power_of_two
from stairwise.papers.composition.theory import noise
from stairwise.train.draws import draws_of

FINER = 2**0.5  # from one number of samples that is tried to the next


@dataclass(frozen=True)
class GrowingSizes(Config):
    """Compositions of growing size."""

    blocks: tuple[int, ...] = option((2, 4, 8), "blocks k, at the smallest alphabet", low=2, high=16)
    alphabets: tuple[int, ...] = option((6, 8, 12, 16), "letters N, at the smallest k", low=5, high=32)
    repeats: int = option(2, "hidden permutations per size", low=1, high=100)
    test_examples: int = option(16, "sequences on which attention must be right", low=1, high=1000)

    def check(self) -> None:
        for name, values in (("blocks", self.blocks), ("alphabets", self.alphabets)):
            require(len(set(values)) >= 3, f"{name}={values} must be at least three of them")
        odd = [k for k in self.blocks if not is_power_of_two(k)]
        require(not odd, f"blocks={odd} must be powers of two")


def places(hidden: np.ndarray, sequences: np.ndarray) -> np.ndarray:
    """The ideal stream by its definition: which token index each block shows, (samples, L+2, kN).

    Block 0 shows the token's place (i, j), block 1 its value (i, sigma_i(j)), and block l+1 the hop over 2^(l-1)
    blocks, (i + 2^(l-1) - 1, hop_i(j)).
    """
    (k, N), count = hidden.shape, len(sequences)
    shown = [np.broadcast_to(np.arange(k * N), (count, k * N))]
    shown.append((sequences + N * np.arange(k)[:, None]).reshape(count, -1))
    hop = sequences[:, np.arange(k)[:, None], hidden]  # sigma_i pi_i, (samples, k, N)
    span = 1
    while True:
        last = (np.arange(k) + span - 1) % k
        shown.append((hop + N * last[:, None]).reshape(count, -1))
        if span == k:
            return np.stack(shown, axis=1)
        hop = np.take_along_axis(np.roll(hop, -span, axis=1), hop, axis=2)
        span *= 2


def last_layer(hidden: np.ndarray, samples: int, rng: np.random.Generator) -> np.ndarray:
    """g-hat of the last layer on ideal inputs, up to a factor: (L+1, L+1, keys, queries).

    A sample with query q and label y adds 1 where a key shows y in block L (one in each block of letters), less 1/N.
    """
    k, N = hidden.shape
    shown = places(hidden, rng.permuted(np.broadcast_to(np.arange(N), (samples, k, N)), axis=2))
    seen, tokens, each = shown.shape[1] - 1, k * N, np.arange(samples)
    query = rng.integers(0, tokens, samples)
    label = shown[each, -1, query] % N
    keys = np.argsort(shown[:, seen - 1], axis=1)[each[:, None], N * np.arange(k) + label[:, None]]
    rows = np.take_along_axis(shown[:, :seen], keys[:, None], axis=2) + tokens * np.arange(seen)[:, None]
    columns = shown[each, :seen, query] + tokens * np.arange(seen)
    flat = rows[:, :, :, None] * (seen * tokens) + columns[:, None, None]
    pairs = np.bincount(flat.reshape(-1), minlength=(seen * tokens) ** 2).reshape(seen, tokens, seen, tokens)
    queries = np.bincount(columns.reshape(-1), minlength=seen * tokens).reshape(seen, tokens)
    return (pairs - queries / N).transpose(0, 2, 1, 3)


def is_right(hidden: np.ndarray, sequences: np.ndarray, g: np.ndarray) -> bool:
    """Whether the right key has the largest score at every query: the token after the hop of half the blocks."""
    (k, N), seen = hidden.shape, len(g)
    for shown in places(hidden, sequences):
        parts = [g[a, b][shown[a]][:, shown[b]] for a in range(seen) for b in range(seen)]
        scores = np.sum(parts, axis=0)
        right = (shown[seen - 1] + N) % (k * N)  # the same letter, one block on
        if (scores.argmax(axis=0) != right).any() or (scores == scores.max(axis=0)).sum() > k * N:
            return False
    return True


def samples_needed(k: int, N: int, tests: int, rng: np.random.Generator) -> int:
    """How many fresh samples the last layer needs for its attention to be right everywhere."""
    hidden = rng.permuted(np.broadcast_to(np.arange(N), (k, N)), axis=1)
    sequences = rng.permuted(np.broadcast_to(np.arange(N), (tests, k, N)), axis=2)
    samples = noise.sample_rule(k, N, factor=4)
    while not is_right(hidden, sequences, last_layer(hidden, round(samples), rng)):
        samples *= FINER
        if samples > noise.samples_theorem(k, N):
            raise ValueError(f"the theorem's samples are not enough for k={k}, N={N} (samples_needed)")
    return round(samples)


@LEDGER.rate(
    "thm7-samples",
    statement=("Theorem 7", "Theorem 14"),
    says=r"$M = \tilde\Omega(k^4N^6)$ samples are enough; what the last layer's attention needs on ideal inputs grows"
    r" with smaller powers, about $k^2$ at these sizes and hardly with $N$",
    of=(noise.samples_theorem,),
    cases=GrowingSizes(),
    seeds=3,
)
def fewer_samples_than_the_theorem_asks_for(config: GrowingSizes, seed: int):
    rng = draws_of(seed, "samples")
    blocks, letters = sorted(set(config.blocks)), sorted(set(config.alphabets))
    for name, printed, sizes in (
        ("k", 4.0, [(k, letters[0]) for k in blocks]),
        ("N", 6.0, [(blocks[0], N) for N in letters]),
    ):
        found = [[samples_needed(*size, config.test_examples, rng) for _ in range(config.repeats)] for size in sizes]
        bounds = [noise.samples_theorem(*size) for size in sizes]
        against = [size[name == "N"] for size in sizes]
        yield slope(f"samples against {name}", against, found, printed, side="at most", against=name, bound=bounds)
        yield slope(f"k^4 N^6 against {name}", against, bounds, printed, within=1e-9)
        for (k, N), needed in zip(sizes, found, strict=True):
            mean = float(np.mean(needed))
            yield row({"k": k, "N": N, "samples": mean, "over 32 kN(L+1)^2": mean / noise.sample_rule(k, N)})
    yield equal("k^4 N^6 at k = 2, N = 3", noise.samples_theorem(2, 3), 2**4 * 3**6)
