"""Theorem 3 as a law: the samples per step that attention needs to find the secret, against n."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_most, equal, row, slope
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.theory import gradients, statistics
from stairwise.train.draws import draws_of

FINER = 2**0.25  # from one batch that is tried to the next
SMALL, KEYS = 128, 2000  # samples of a batch whose noise is looked at, and keys in all such batches


@dataclass(frozen=True)
class GrowingBatches(Config):
    """Parities of a share of n bits, and batches that grow until the secret is found."""

    bits: tuple[int, ...] = option((16, 32, 64, 128), "inputs n", low=8, high=256)
    share: float = option(0.25, "k / n", above=0.0, high=0.5)
    neurons: int = option(256, "pairs m of neurons", low=1, high=4096)
    repeats: int = option(8, "secrets and batches per size", low=1, high=100)

    def check(self) -> None:
        require(len(set(self.bits)) >= 3, f"bits={self.bits} must be at least three of them")


def samples_needed(n: int, k: int, m: int, rng: np.random.Generator, most: int = 2**18) -> int:
    """The batch at which the first two steps make attention point at the secret, for every query and bit."""
    secret, positive = rng.permutation(n)[:k], rng.integers(0, 2, (2 * m, k, 2)) == 1
    size = float(n)
    while size <= most:
        first, second = (_sequences(n, secret, round(size), rng) for _ in range(2))
        kappa = gradients.kappa(statistics.batch_counts(first, k), positive, 1.0)
        if all(_points_at(secret[:shown], second, kappa) for shown in (max(1, k // 4), k)):  # most fail early
            return round(size)
        size *= FINER
    raise ValueError(f"no batch up to {most} is enough for n={n}, k={k} (samples_needed)")


def _sequences(n: int, secret: np.ndarray, samples: int, rng: np.random.Generator) -> np.ndarray:
    """Input bits, a 0, and the running parities of the secret bits."""
    bits = rng.integers(0, 2, (samples, n), dtype=np.int8)
    chain = np.cumsum(bits[:, secret], axis=1, dtype=np.int64) % 2
    return np.concatenate([bits, np.zeros((samples, 1), np.int8), chain.astype(np.int8)], axis=1)


def _points_at(secret: np.ndarray, tokens: np.ndarray, kappa: np.ndarray) -> bool:
    """Whether the secret position beats every other at the first queries, whatever bits the two keys show."""
    inputs, queries = tokens.shape[1] - len(kappa) - 1, len(secret)
    seen_keys = inputs + queries
    scores = -gradients.attention_gradient(tokens[:, : seen_keys + 1], kappa[:queries, :, :seen_keys])
    for q, target in enumerate(secret):
        for bit in (0, 1) if q else (0,):  # the first query shows a 0
            seen = scores[: inputs + q + 1, :, q, bit]
            if seen[target].min() <= np.delete(seen, target, axis=0).max():
                return False
    return True


def by_loops(tokens: np.ndarray, kappa: np.ndarray) -> np.ndarray:
    """The gradient in A at uniform attention, one key of one query of one sequence after another (Lemma 20)."""
    (samples, length), queries = tokens.shape, len(kappa)
    found = np.zeros((length - 1, 2, queries, 2))
    for b in tokens:
        for q in range(queries):
            i = length - 1 - queries + q
            w = [kappa[q, b[i], j, b[j]] for j in range(i + 1)]
            for j in range(i + 1):
                found[j, b[j], q, b[i]] -= (1 - 2 * int(b[i + 1])) * (w[j] - sum(w) / len(w)) / len(w) / samples
    return found


def noise_of_one_sample(n: int, k: int, m: int, rng: np.random.Generator) -> np.ndarray:
    """Measured on many small batches: the variance of kappa at other keys times the batch, over its squared mean, for
    every query but the first.

    Of the difference of the two bits, halved: what all keys share moves no key ahead of another.
    """
    ratios = []
    for _ in range(math.ceil(KEYS / (n - k))):
        secret, positive = rng.permutation(n)[:k], rng.integers(0, 2, (2 * m, k, 2)) == 1
        kappa = gradients.kappa(statistics.batch_counts(_sequences(n, secret, SMALL, rng), k), positive, 1.0)
        between = kappa[1:, :, np.setdiff1d(np.arange(n), secret)] @ np.array([1.0, -1.0])
        signal = gradients.kappa_leading(n, secret, m, 1.0)[np.arange(1, k), 0, secret[1:], 0]
        ratios.append(SMALL * (between**2).mean(axis=(1, 2)) / 2 / signal**2)
    return np.mean(ratios, axis=0)


@LEDGER.rate(
    "thm3-batch",
    statement="Theorem 3",
    says=r"$\tilde O(n)$ samples per step are enough: the batch $B^*$ at which attention points at the secret is of"
    r" order $k\ln n$ (here $k = n/4$); a sample's noise is $8k + 12$ squared signals, $B^* \le 2\ln(4nk)$ of it",
    of=(gradients.kappa, gradients.attention_gradient, gradients.noise_to_signal),
    cases=GrowingBatches(),
    seeds=3,
)
def the_batch_grows_no_faster_than_the_inputs(config: GrowingBatches, seed: int):
    rng, bits = draws_of(seed, "batches"), sorted(set(config.bits))
    few = draws_of(seed, "few sequences")
    tokens, kappa = _sequences(4, few.permutation(4)[:3], 5, few), few.standard_normal((3, 2, 7, 2))
    yield equal("gradient in A of five sequences", gradients.attention_gradient(tokens, kappa), by_loops(tokens, kappa))
    noise, needed, noises, unions = draws_of(seed, "noise of one sample"), [], [], []
    for n in bits:
        k = max(2, round(config.share * n))
        needed.append([samples_needed(n, k, config.neurons, rng) for _ in range(config.repeats)])
        seen, by_query = noise_of_one_sample(n, k, config.neurons, noise), gradients.noise_to_signal(n, k)
        noises.append(float(seen.mean()))
        formula = float(by_query.mean())
        if n == bits[-1]:  # later queries have more noise over their signal
            places = n + 2.0 + np.arange(k - 1)
            yield slope(
                f"noise of a query over the formula, by its place, n={n}", places, seen / by_query, 0.0, within=0.3
            )
        # the mean of squares of some 2,000 keys: a relative error of 0.03, once more that much from keys that share
        yield equal(f"noise of one sample over the squared signal, n={n}", noises[-1], formula, 0.15)
        unions.append(2 * formula * math.log(4 * n * k))  # keys by queries, and both bits of each
        yield at_most(f"B* over the union bound, n={n}", np.mean(needed[-1]) / unions[-1], 1.0)
        yield row({"n": n, "k": k, "B*": float(np.mean(needed[-1])), "B*/n": float(np.mean(needed[-1])) / n})
    yield slope("noise of one sample over the squared signal", bits, noises, 1.0, side="at most", within=0.1)
    logs = np.array([math.log(4 * n * max(2, round(config.share * n))) for n in bits])
    yield slope("samples per step / ln(4nk)", bits, needed / logs[:, None], 1.0, side="at most", against="n")
    yield slope("samples per step over the union bound", bits, needed / np.array(unions)[:, None], 0.0, within=0.25)
