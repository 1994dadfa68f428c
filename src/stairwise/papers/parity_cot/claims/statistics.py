"""Table 1 and Lemmas 6 and 7: what a batch of chains adds up to."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_most, equal, row, true
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.sizes import (
    Cube,
    all_sequences,
    batch_fits,
    paper_layout,
    random_positive,
    random_sequences,
    secret_of,
    with_chain,
)
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.theory import statistics


@dataclass(frozen=True)
class CubeOfChains(Cube):
    """All inputs of a parity with its chain."""

    def check(self) -> None:
        super().check()
        with_chain(self.task)


LARGEST_SIZE = 9  # k whose 4^k sign patterns are written down


@dataclass(frozen=True)
class Batches(Config):
    """Batches and starts, drawn again and again."""

    task: Task = option(Task(12, 3), "the parity")
    neurons: int = option(50, "m: half the number of hidden neurons", low=1, high=10_000)
    samples: int = option(2000, "samples B of a batch", low=1, high=10**6)
    draws: int = option(20, "batches", low=1, high=1000)
    failure: float = option(0.1, "delta; Lemma 7 may fail with chance delta/10", above=0.0, below=1.0)

    def check(self) -> None:
        paper_layout(self.task)
        with_chain(self.task)
        batch_fits(self.task, self.samples)


@LEDGER.exact(
    "lem6",
    statement="Lemma 6",
    says=r"$(-1)^{b[i+1]}$ has mean 0 given all tokens up to $i$ but $b[S[i]]$: by enumeration, in whole numbers",
    of=(statistics.mean_alpha, statistics.without_targets),
    cases=(CubeOfChains(), CubeOfChains(Task(5, 5, order="random"))),
    seeds=3,
)
def labels_are_hidden_from_other_tokens(config: CubeOfChains, seed: int):
    tokens, secret = all_sequences(config.task, seed), secret_of(config.task, seed)
    n = config.task.bits
    for q, j in enumerate(secret):
        i = n + q
        given = np.delete(tokens[:, : i + 1], j, axis=1)
        codes = given.astype(np.int64) @ (1 << np.arange(given.shape[1]))
        sign = 1 - 2 * tokens[:, i + 1].astype(np.int64)
        _, group = np.unique(codes, return_inverse=True)
        yield true(f"mean 0 given the others, step {q + 1}", np.bincount(group, weights=sign) == 0)
        mean = statistics.mean_alpha(n, secret)[q]
        yield true(
            f"alpha-bar is 0 but at S[i], step {q + 1}",
            np.any(mean != 0, axis=(1, 2)) == (np.arange(n + len(secret)) == j),
        )
        shown = [[np.mean(sign * (tokens[:, j] == b1) * (tokens[:, i] == b2)) for b2 in (0, 1)] for b1 in (0, 1)]
        yield equal(f"alpha-bar / B at S[i], step {q + 1}", mean[j], shown)
    yield true(
        "what is left without the targets has mean 0",
        statistics.without_targets(statistics.mean_alpha(n, secret), secret) == 0,
    )


@LEDGER.exact(
    "table1",
    statement="Table 1",
    says=r"mean $\alpha$: $\frac{B}{4}(-1)^{b_1+b_2}$ at $j = S[i]$ ($\frac{B}{2}(-1)^{b_1}1(b_2{=}0)$ at $n+1$), else"
    " 0; all statistics, by loops",
    of=(
        statistics.batch_counts,
        statistics.mean_alpha,
        statistics.beta,
        statistics.psi,
        statistics.gamma,
        statistics.zeta,
    ),
    cases=(CubeOfChains(), CubeOfChains(Task(4, 2, order="random"))),
    seeds=3,
)
def means_by_enumeration(config: CubeOfChains, seed: int):
    tokens, secret = all_sequences(config.task, seed), secret_of(config.task, seed)
    n, k = config.task.bits, config.task.size
    counts = statistics.batch_counts(tokens, k)
    yield true("mean alpha", counts.alpha == len(tokens) * statistics.mean_alpha(n, secret))
    yield true("mean delta is 0", counts.delta == 0)
    few = random_sequences(config.task, 9, seed)
    positive = random_positive(3, k, seed)
    batch, slow = statistics.batch_counts(few, k), by_loops(few, positive, secret, n)
    found = {
        "delta": batch.delta,
        "alpha": batch.alpha,
        "beta": statistics.beta(batch, secret),
        "psi": statistics.psi(batch, positive, secret),
        "gamma": statistics.gamma(positive, n),
        "zeta": statistics.zeta(statistics.psi(batch, positive, secret), positive),
    }
    for name, value in found.items():
        yield equal(f"{name} of a small batch, against its definition", value, slow[name])


def by_loops(tokens: np.ndarray, positive: np.ndarray, secret: np.ndarray, n: int) -> dict[str, np.ndarray]:
    """Table 1's definitions, term by term; the paper's i is n+1+q."""
    k, neurons = len(secret), len(positive)
    T, m = n + k, neurons // 2
    found = {
        "delta": np.zeros((k, 2)),
        "alpha": np.zeros((k, T, 2, 2)),
        "beta": np.zeros((T, 2)),
        "psi": np.zeros((neurons, T, 2)),
        "gamma": np.zeros((k, 2, k, 2)),
        "zeta": np.zeros((k, 2, T, 2)),
    }
    for b in tokens:
        for q in range(k):
            i = n + q
            sign = -1 if b[i + 1] else 1
            found["delta"][q, b[i]] += sign
            for j in range(i + 1):
                found["alpha"][q, j, b[j], b[i]] += sign
                if j != secret[q]:
                    found["beta"][j, b[j]] += sign / (i + 1)
                    for r in range(neurons):
                        if positive[r, q, b[i]]:
                            found["psi"][r, j, b[j]] += sign / (i + 1)
    for q, b, p, c in np.ndindex(k, 2, k, 2):
        common = sum(1 for r in range(neurons) if positive[r, q, b] and positive[r, p, c])
        found["gamma"][q, b, p, c] = (common - (1 + ((q, b) == (p, c))) / 2 * m) / (n + 1 + p)
    for q, b, r in np.ndindex(k, 2, neurons):
        if positive[r, q, b]:
            found["zeta"][q, b] += found["psi"][r]
    return found


@LEDGER.bound(
    "lem7",
    argument=r"the proof uses a factor $\sqrt2$ that the bound on $\delta$ lacks; it is not needed, since each count"
    " has half the variance that the proof allows for",
    statement="Lemma 7",
    says=r"$|\delta|, |\alpha - \bar\alpha|, |\beta|, |\psi|, |\gamma|, |\zeta|$ are below their bounds with chance"
    r" $1-\delta/10$ ($\alpha$'s at every key)",
    of=(statistics.lemma7,),
    cases=(
        Batches(neurons=10, samples=12, draws=200, failure=0.9),
        Batches(Task(20, 6), samples=20_000, draws=5),
        Batches(Task(40, 1), neurons=5, samples=40, draws=100, failure=0.9),
    ),
    seeds=3,
)
def statistics_concentrate(config: Batches, seed: int):
    bounds, found = deviations(config, seed)
    allowed = int(config.draws * config.failure / 10)  # draws that may be above
    for name, bound in bounds.items():
        yield at_most(
            f"largest |{name}|, draw {allowed + 1} of {config.draws}", np.sort(found[name])[-1 - allowed], bound
        )
    above = np.any([np.array(found[name]) > bound for name, bound in bounds.items()], axis=0)
    yield at_most("share of draws with any above", np.mean(above), config.failure / 10)
    # sums of B or 2m signs: the chance that Hoeffding's inequality leaves at each bound, times the terms of the union
    n, k, m, B = config.task.bits, config.task.size, config.neurons, config.samples
    spread = {"delta": B, "alpha": 2 * B, "beta": 2 * B * k / n**2, "psi": 4 * B * k / n**2, "gamma": 2 * m / n**2}
    terms = {"delta": 300 * n * B, "alpha": 300 * n * B, "beta": 300 * n * B, "psi": 300 * m * n * B, "gamma": 200 * n}
    for name, size in spread.items():
        chance = terms[name] * math.exp(-(bounds[name] ** 2) / size)
        yield equal(f"chance that is left at the bound on {name}", chance, config.failure, 1e-9)
    # zeta's bound is that of psi, added up over 2m neurons; psi's has the union over neurons
    yield equal("bound on zeta / (2m times that on psi)", bounds["zeta"], 2 * config.neurons * bounds["psi"])


def deviations(config: Batches, seed: int) -> tuple[dict[str, float], dict[str, list[float]]]:
    """The right-hand sides of Lemma 7, and the left-hand sides of every draw."""
    task, secret = config.task, secret_of(config.task, seed)
    bounds = statistics.lemma7(task.bits, task.size, config.neurons, config.samples, config.failure)
    found: dict[str, list[float]] = {name: [] for name in (*bounds, "alpha off target")}
    for draw in range(config.draws):
        tokens = random_sequences(task, config.samples, seed, draw)
        positive = random_positive(config.neurons, task.size, seed, draw)
        sups = statistics.deviations(statistics.batch_counts(tokens, task.size), positive, secret)
        for name, value in sups.items():
            found[name].append(value)
    return bounds, found


@LEDGER.misprint(
    "lem7-alpha-printed",
    statement="Lemma 7",
    says=r"as printed: $|\alpha - \bar\alpha| \le \sqrt{2B\ln(300nB/\delta)}\,1(j = S[i])$, so no noise at other keys",
    means=r"the bound without its last factor, which belongs to $\bar\alpha$; the proof treats all $j$ alike",
    of=(statistics.deviations,),
    corrected="lem7",
    cases=Batches(draws=5),
    seeds=3,
)
def noise_is_everywhere(config: Batches, seed: int):
    _, found = deviations(config, seed)
    yield at_most("largest |alpha| at other keys, least of the draws", min(found["alpha off target"]), 0)
    yield row({"sqrt(B)": float(np.sqrt(config.samples))})


@dataclass(frozen=True)
class Patterns(Batches):
    """The same, with all 4^k sign patterns of a neuron written down."""

    def check(self) -> None:
        super().check()
        k = self.task.size
        require(
            k <= LARGEST_SIZE, f"task.size={k} must be at most {LARGEST_SIZE}: all 4^size patterns are written down"
        )


@LEDGER.misprint(
    "lem7-mean-printed",
    statement="Lemma 7",
    says=r"as printed in its proof: $1(\nu > 0)1(\nu' > 0)$ has mean $\frac12(1 + 1(\mathrm{same}))$",
    means=r"$\frac14(1 + 1(\mathrm{same}))$, which gives the $m/2$ of Table 1 over $2m$ neurons",
    of=(statistics.both_positive,),
    corrected="table1",
    cases=Patterns(),
)
def common_activation_is_rarer(config: Patterns, seed: int):
    k = config.task.size
    signs = (np.arange(2 ** (2 * k))[:, None] >> np.arange(2 * k) & 1 == 1).reshape(-1, k, 2)  # every sign pattern once
    mean = statistics.both_positive(signs).reshape(2 * k, 2 * k) / len(signs)
    yield equal("mean over all patterns", mean, (1 + np.eye(2 * k)) / 2)
