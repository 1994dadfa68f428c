"""Theorem 1: parity can be represented without a chain of thought: on every input, at which width, in how many bits."""

import math
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, hypothesis, row, slope, true
from stairwise.papers.parity_cot import construction, simplified
from stairwise.papers.parity_cot.claims.embeddings import Represented, Secrets, draw, independence, outside, with_secret
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.sizes import cube, products
from stairwise.papers.parity_cot.theory import memory, precision
from stairwise.train.draws import draws_of

ENOUGH = 10.0  # the width of Theorem 1 in units of k ln(n/delta), at most: thm1-d measures it
FAILURE = 0.1  # its delta


def theorem1_width(inputs: float, size: float) -> float:
    """10 k ln(n/0.1)."""
    return ENOUGH * size * math.log(inputs / FAILURE)


WIDE = {"d >= 10 k ln(n/0.1)": lambda config: config.width >= theorem1_width(config.bits, config.size)}


@cache
def _outputs():
    def run(weights, gram, readout, tokens):
        tables = weights.tables(gram)
        first = tokens.shape[1] - 1
        return jax.vmap(lambda one: simplified.outputs(tables, readout, one, first))(tokens)[:, 0]

    return jax.jit(run)


def all_outputs(config: Represented, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """T(b)[n+1] and the parity of every input."""
    words, secret = draw(config, seed)
    gram = products(words, words, config.width)
    bits = cube(config.bits)
    tokens = np.concatenate([bits, np.zeros((len(bits), 1), dtype=np.int8)], axis=1)
    weights = construction.theorem1(gram, secret)
    found = _outputs()(weights, jnp.asarray(gram), construction.theorem1_readout(config.size), tokens)
    return np.asarray(found), np.bitwise_xor.reduce(bits[:, secret], axis=1)


@LEDGER.exact(
    "thm1",
    statement="Theorem 1",
    says=r"one block with $2m = 2(k+1)$ neurons represents the parity without a chain: $\mathrm{sgn}\,T ="
    r" (-1)^{b[n+2]+1}$ on every input",
    of=(
        construction.theorem1,
        construction.dual,
        construction.offsets,
        construction.output_signs,
    ),
    hypotheses=WIDE,
    cases=(Represented(), Represented(100, 20, 1600), Represented(7, 7, 400)),
    seeds=3,
)
def one_block_represents_parity(config: Represented, seed: int):
    columns, secret = with_secret(config, seed)
    yield (dual_exists := independence(columns, secret))
    if not dual_exists.met:
        return
    certified = construction.certificate(construction.dual(columns, secret), secret)
    for k in sorted({config.size, 1, 2, 3, 4, 7, 10, 51}):
        yield true(f"f(2s) = (-1)^(s+1), k={k}", [construction.zigzag(k, s) == (-1) ** (s + 1) for s in range(k + 1)])
    yield at_most("certified error over all inputs", certified.error, 1.0)
    words, _ = draw(config, seed)
    gram, rows = products(words, words, config.width), construction.secret_atoms(secret)
    scores = gram @ np.asarray(construction.theorem1(gram, secret).attention)[:, 2 * config.bits]
    yield equal("scores of the secret keys", scores[rows], np.full(len(rows), 40 * math.log(config.bits)), 1e-9)
    if config.bits <= config.exhaustive:
        outputs, parity = all_outputs(config, seed)
        yield true(f"the sign is right on all 2^{config.bits} inputs", (outputs > 0) == (parity == 1))
        yield at_most("largest error", np.abs(outputs - (2.0 * parity - 1)).max(), max(certified.error, 1e-10))
    yield row(certified._asdict())


@LEDGER.exact(
    "thm1-certificate",
    statement="ours",
    says=r"the leak of Theorem 1's attention is certified for all inputs: it is the largest, input by input",
    of=(construction.certificate,),
    cases=(Represented(8, 2, 12), Represented(8, 3, 16), Represented(9, 2, 14)),
    seeds=3,
)
def the_certificate_is_near_the_largest_error(config: Represented, seed: int):
    """At widths where the attention leaks."""
    columns, secret = with_secret(config, seed)
    yield (dual_exists := independence(columns, secret))
    if not dual_exists.met:
        return
    dual = construction.dual(columns, secret)
    certified = construction.certificate(dual, secret)
    outputs, parity = all_outputs(config, seed)
    yield at_most("largest error over all inputs", np.abs(outputs - (2.0 * parity - 1)).max(), certified.error + 1e-11)
    # the attention itself, input by input
    n, scores = config.bits, 40 * math.log(config.bits) * dual.V_on
    atoms = 2 * np.arange(n + 1) + np.concatenate([cube(n), np.zeros((2**n, 1), dtype=np.int8)], axis=1)
    weights = np.exp(scores[atoms] - scores[atoms].max(axis=1, keepdims=True))
    leak = 1 - weights[:, secret].sum(axis=1) / weights.sum(axis=1)
    yield equal("largest leak, certified and input by input", certified.leak, leak.max(), 1e-8, scale=1e-6)
    shown = np.delete(dual.V_on[atoms], secret, axis=1)
    yield equal("largest <V, e> outside the secret, input by input", certified.overlap, shown.max())
    on = np.abs(outside(dual.U_on, secret)).max()
    yield equal("error = 2k leak (1 + max |<U, e>|)", certified.error, 2 * config.size * certified.leak * (1 + on))


@LEDGER.misprint(
    "thm1-sign-printed",
    statement="Theorem 1",
    says=r"as printed at the end of its proof: $T = \sum_{r=1}^{k} h_r\mathrm{ReLU}(a_r - b_r\langle U, A\rangle)$ and"
    r" $\mathrm{sgn}\,T = (-1)^{b[n+2]}$",
    means=r"the sum has $2m$ terms and $+b_r$, and $\mathrm{sgn}\,T = (-1)^{b[n+2]+1}$, as the theorem says",
    of=(construction.offsets, construction.output_signs),
    corrected="thm1",
    cases=(Represented(), Represented(8, 2, 200)),
)
def the_proof_has_the_wrong_sign(config: Represented, seed: int):
    k = config.size
    a, h = construction.offsets(k), construction.output_signs(k)
    printed = [int(np.sum(h[:k] * np.maximum(a[:k] - 2 * s, 0))) for s in range(k + 1)]
    yield true("sign of the printed sum", [np.sign(value) == (-1) ** s for s, value in enumerate(printed)])


@LEDGER.misprint(
    "thm1-overlap-printed",
    statement="Theorem 1",
    says=r"as printed in its proof: $\langle U, e_{j,b}\rangle = 1(j \in S, b = 1)$ for all $j$",
    means=r"for $j \in S$; elsewhere it is small, and so is the attention, which the certificate counts",
    of=(construction.dual,),
    hypotheses=WIDE,
    corrected="lem3",
    cases=Secrets(width=400),
    seeds=3,
)
def overlaps_do_not_vanish(config: Secrets, seed: int):
    columns, secret = with_secret(config, seed)
    yield (dual_exists := independence(columns, secret))
    if not dual_exists.met:
        return
    yield at_most(
        "largest |<U, e>| outside the secret", np.abs(outside(construction.dual(columns, secret).U_on, secret)), 1e-9
    )


@dataclass(frozen=True)
class GrowingConstruction(Config):
    """Theorem 1's sizes along a sweep of n."""

    power: float = option(4.0, "p of k = n / ln(n/delta)^p", low=4.0, high=5.0)
    factor: float = option(4.2, "C of d = C k ln(n/delta): what thm1-d measures", above=0.0)
    failure: float = option(0.1, "delta", above=0.0, below=1.0)


@LEDGER.rate(
    "thm1-memory",
    statement="Theorem 1",
    says=r"$d^2 + dm = o(nk/\ln n)$ at $d = Ck\ln(n/\delta)$, $m = k+1$: the ratio goes as $\ln^{3-p}(n/\delta)$ at"
    r" $k = n/\ln^p$",
    of=(memory.memory,),
    cases=(GrowingConstruction(), GrowingConstruction(5.0)),
    seeds=3,
)
def memory_is_small_for_large_inputs(config: GrowingConstruction, seed: int):
    logs, ratios = [], []
    for digits in (20, 40, 80, 140, 200, 290):
        n = 10.0**digits
        L = math.log(n / config.failure)
        k = n / L**config.power
        # in units of n, so that squares stay finite
        found = memory.memory(n, k / n, config.factor * k / n * L, k / n)
        logs.append(L)
        ratios.append(found.ratio * n)
        yield row(digits=digits, ratio=found.ratio * n)
    yield slope("(d^2 + dm) / (nk/ln n)", logs, ratios, 3 - config.power, against="ln(n/delta)")
    C = config.factor
    expected = (C**2 + C / logs[-1]) * logs[-1] ** (2 - config.power) * math.log(10.0**290)
    yield equal("the ratio at n = 10^290", ratios[-1], expected)
    built = dense_construction(Represented(), seed)
    yield hypothesis("the secret embeddings are linearly independent at n=10", built is not None)
    if built is not None:
        model, n, k = built[0], Represented().bits, Represented().size
        entries = model.A.size + model.own.size + model.seen.size
        yield equal("parameters of Theorem 1's block", memory.memory(n, k, len(model.A), k + 1).parameters, entries)


# --- which width ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Widths(Config):
    """Repeated draws of the embeddings, over a grid of widths."""

    bits: int = option(30, "input bits n", low=2, high=2000)
    size: int = option(3, "secret bits k", low=1, high=500)
    ratios: tuple[float, ...] = option(
        (2.5, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0), "widths d/k", above=2.0, high=1024.0
    )
    draws: int = option(40, "draws at each width", low=1, high=10_000)
    share: float = option(0.9, "share of draws that must do", above=0.0, high=1.0)
    failure: float = option(0.1, "delta of the rule k ln(n/delta)", above=0.0, below=1.0)

    def check(self) -> None:
        require(self.size <= self.bits, f"size={self.size} must be at most bits={self.bits}")
        require(len(self.ratios) > 0, f"ratios={self.ratios} must not be empty")
        signs = int(2 * (self.bits + 1) * self.size * sum(self.ratios)) * self.draws
        require(signs <= 2**33, f"draws={self.draws} need {signs} signs, which must be at most {2**33}")


def successes(config: Widths, seed: int) -> dict[str, dict[int, float]]:
    """The share of draws at each width that pass the certificate, Lemma 4's event and Lemma 1's."""
    found: dict[str, dict[int, float]] = {"certificate": {}, "lemma 4": {}, "lemma 1": {}}
    for ratio in sorted(config.ratios):
        sizes = Represented(config.bits, config.size, math.ceil(ratio * config.size))
        hits = dict.fromkeys(found, 0)
        for number in range(config.draws):
            columns, secret = with_secret(sizes, seed, number)
            smallest = np.linalg.eigvalsh(columns[construction.secret_atoms(secret)])[0]
            if smallest < construction.SINGULAR:  # dependent embeddings have no dual vectors: such a draw fails
                continue
            dual = construction.dual(columns, secret)
            hits["certificate"] += construction.certificate(dual, secret).error < 1
            hits["lemma 4"] += bool(np.max(np.abs(outside(dual.V_on, secret))) <= 0.5)
            hits["lemma 1"] += bool(smallest > 1 / 12)
        for name, count in hits.items():
            found[name][sizes.width] = count / config.draws
    return found


def enough(shares: dict[int, float], share: float) -> float:
    """The smallest width from which on every one tried is enough; inf where none is."""
    good = [width for width in shares if all(s >= share for w, s in shares.items() if w >= width)]
    return float(min(good, default=math.inf))


@LEDGER.bound(
    "thm1-d",
    statement="Theorem 1",
    says=r"$d = \Theta(k\ln(n/\delta))$: the width at which the certificate passes is between 1 and 10 times"
    r" $k\ln(n/\delta)$",
    of=(construction.certificate,),
    free={
        "certificate": "its value: here only whether it passes counts, and `thm1-certificate` asks for every part of it"
    },
    cases=(Widths(), Widths(100, 5, draws=12), Widths(100, 20, (8.0, 16.0, 24.0, 32.0, 48.0), draws=5)),
    seeds=3,
)
def which_width_is_enough(config: Widths, seed: int):
    found = successes(config, seed)
    rule = config.size * math.log(config.bits / config.failure)
    needed = {name: enough(shares, config.share) for name, shares in found.items()}
    yield at_most("width needed / (k ln(n/delta))", needed["certificate"] / rule, ENOUGH)
    yield at_least("width needed / (k ln(n/delta)), from below", needed["certificate"] / rule, 1.0)
    yield row({f"d for {name}": width for name, width in needed.items()} | {"k ln(n/delta)": rule})
    for width in found["certificate"]:
        yield row({"d": width} | {name: shares[width] for name, shares in found.items()})


# --- few bits ---------------------------------------------------------------------------------------------------------


BITS = 3.5  # c
FINE = 45  # bits that round nothing which a check sees


@dataclass(frozen=True)
class RoundedConstruction(Config):
    """Theorem 1's weights in p bits each, tried on all inputs."""

    sizes: tuple[int, ...] = option((6, 8, 10), "input bits n, one run each", low=3, high=14)
    size: int = option(3, "secret bits k", low=1, high=14)
    ratio: int = option(64, "width d = ratio k", low=3, high=1024)
    factor: float = option(BITS, "c: what c log2 n bits must be enough", above=0.0, high=20.0)
    most: int = option(24, "most bits that are tried", low=3, high=40)

    def check(self) -> None:
        for n in self.sizes:
            require(self.size <= n, f"size={self.size} must be at most every one of sizes={self.sizes}")


@LEDGER.bound(
    "thm1-precision",
    statement="Theorem 1",
    says=r"Theorem 1's weights and activations in $c\log_2 n$ bits, $c \le 3.5$, are right on every input"
    r" ($\Theta(\log n)$ in print)",
    of=(precision.rounded, precision.rounded_outputs, precision.few_bits),
    hypotheses={
        "d >= 10 k ln(n/0.1)": lambda c: c.ratio * c.size >= theorem1_width(max(c.sizes), c.size),
        "c >= 3.5": lambda c: c.factor >= BITS,
        "most >= c log2 n": lambda c: c.most >= precision.bits_of(c.factor, max(c.sizes)),
    },
    cases=RoundedConstruction(),
    seeds=3,
)
def few_bits_represent_parity(config: RoundedConstruction, seed: int):
    for n in config.sizes:
        built = dense_construction(Represented(n, config.size, config.ratio * config.size), seed)
        if built is None:
            yield hypothesis(f"the secret embeddings are linearly independent at n={n}", False)
            return
        model, tokens, parity = built
        fine = precision.rounded_outputs(precision.few_bits(model, FINE), tokens, n, FINE)[:, 0]
        yield equal(f"outputs in {FINE} bits, against none rounded, n={n}", fine, plain_outputs(model, tokens, n), 1e-9)
        for name, was, now in zip(model._fields[1:4], model[1:4], precision.few_bits(model, 4)[1:4], strict=True):
            steps = now / (np.abs(was).max() / 2**3)
            yield at_most(f"{name} in 4 bits off whole steps, n={n}", np.abs(steps - np.round(steps)).max(), 1e-9)
        works = {}
        for bits in range(2, config.most + 1):
            outputs = precision.rounded_outputs(precision.few_bits(model, bits), tokens, n, bits)[:, 0]
            works[bits] = bool(np.all((outputs > 0) == (parity == 1)))
        fewest = precision.fewest_bits(works)
        yield at_most(f"c = bits / log2 n, n={n}", math.inf if fewest is None else fewest / math.log2(n), config.factor)
    # a number of p bits: 2^p + 1 values at most, no number farther than half a spacing from one
    grid = np.linspace(-1.0, 1.0, 20_001)
    for bits in (2, 5, 9):
        found = precision.rounded(grid, bits)
        yield at_most(f"values of {bits} bits", len(np.unique(found)), 2**bits + 1)
        yield equal(f"largest error of {bits} bits", np.abs(found - grid).max(), 2.0**-bits, 0.01)


def plain_outputs(model: precision.Dense, tokens: np.ndarray, query: int) -> np.ndarray:
    """The output at one position, input by input, with nothing rounded."""
    found = []
    for bits in tokens.astype(np.int64):
        seen = model.E[2 * np.arange(query + 1) + bits[: query + 1]]
        weights = np.exp(seen @ model.A @ seen[-1])
        attended = weights / weights.sum() @ seen
        found.append(np.maximum(model.own @ seen[-1] + model.seen @ attended, 0) @ model.readout)
    return np.array(found)


def dense_construction(config: Represented, seed: int):
    """Theorem 1's weights as dense matrices, all inputs and their parities; None where embeddings are dependent."""
    random = draws_of(seed, "embeddings and secret", config.bits, config.size)
    secret = np.sort(random.permutation(config.bits)[: config.size])
    E = random.choice([-1.0, 1.0], (config.atoms, config.width)) / math.sqrt(config.width)
    gram = E @ E.T
    if not construction.independent(gram[:, construction.secret_atoms(secret)], secret):
        return None
    weights = construction.theorem1(gram, secret)
    first, second, attention = (np.asarray(part) for part in (weights.first, weights.second, weights.attention))
    readout = construction.output_signs(config.size).astype(np.float64)
    bits = cube(config.bits)
    tokens = np.concatenate([bits, np.zeros((len(bits), 1), dtype=np.int8)], axis=1)
    model = precision.Dense(E, E.T @ attention @ E, first @ E, second @ E, readout)
    return model, tokens, np.bitwise_xor.reduce(bits[:, secret], axis=1)
