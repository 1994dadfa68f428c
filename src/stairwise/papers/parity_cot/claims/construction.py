"""Theorem 1: parity can be represented without a chain of thought: on every input, at which width, in how many bits."""

import math
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import exactly, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_cot import construction, simplified
from stairwise.papers.parity_cot.claims.embeddings import Represented, Secrets, dependent, draw, outside, with_secret
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.sizes import cube, products
from stairwise.papers.parity_cot.theory import precision

ENOUGH = 10.0  # the width of Theorem 1 in units of k ln(n/delta), at most: thm1-d measures it
FAILURE = 0.1  # its delta


def wide_enough(inputs: int, size: int, width: int) -> tuple[str, ...]:
    """Theorem 1's hypothesis d = Theta(k ln(n/delta))."""
    needed = math.ceil(ENOUGH * size * math.log(inputs / FAILURE))
    return () if width >= needed else (f"width={width} must be at least about 10 k ln(n/0.1)={needed}",)


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
    bits = cube(config.inputs)
    tokens = np.concatenate([bits, np.zeros((len(bits), 1), dtype=np.int8)], axis=1)
    weights = construction.theorem1(gram, secret)
    found = _outputs()(weights, jnp.asarray(gram), construction.theorem1_readout(config.size), tokens)
    return np.asarray(found), np.bitwise_xor.reduce(bits[:, secret], axis=1)


@LEDGER.theory(
    "thm1",
    kind="construction",
    says="one block with 2m = 2(k+1) neurons represents the parity without a chain, on every input",
    cases=(Represented(), Represented(100, 20, 1600), Represented(7, 7, 400)),
)
def one_block_represents_parity(config: Represented, seed: int) -> Verdict:
    columns, secret = with_secret(config, seed)
    if none := dependent(columns, secret, config.width):
        return none
    certified = construction.certificate(construction.dual(columns, secret), secret)
    sizes = sorted({config.size, 1, 2, 3, 4, 7, 10, 51})
    zigzags = {f"k={k}": all(construction.zigzag(k, s) == (-1) ** (s + 1) for s in range(k + 1)) for k in sizes}
    verdicts = {
        "readout f(2s) = (-1)^(s+1), wrong k": exactly(zigzags),
        "certified error over all inputs": Verdict.at_most(certified.error, 1.0, details=(certified._asdict(),)),
    }
    if config.inputs <= config.exhaustive:
        outputs, parity = all_outputs(config, seed)
        wrong = float(np.sum((outputs > 0) != (parity == 1)))
        error = float(np.max(np.abs(outputs - (2.0 * parity - 1))))
        verdicts[f"wrong among all 2^{config.inputs} inputs"] = Verdict.at_most(wrong, 0)
        verdicts["error within the certificate"] = Verdict.at_most(error, max(certified.error, 1e-10))
    return under(wide_enough(config.inputs, config.size, config.width), Verdict.worst(verdicts))


@LEDGER.theory(
    "thm1-sign-printed",
    kind="construction",
    says="as printed in its proof: sgn T = (-1)^b[n+2], the sum runs over k neurons, with -b_r <U, A(E(b))>",
    cases=(Represented(), Represented(8, 2, 200)),
)
def the_proof_has_the_wrong_sign(config: Represented, seed: int) -> Verdict:
    k = config.size
    a, h = construction.offsets(k), construction.output_signs(k)
    rows = []
    for s in range(k + 1):
        printed = int(np.sum(h[:k] * np.maximum(a[:k] - 2 * s, 0)))
        right = construction.zigzag(k, s)
        rows.append({"ones": s, "printed sum": printed, "sum over 2m neurons, +b_r": right, "(-1)^b[n+2]": (-1) ** s})
    wrong = sum(row["sum over 2m neurons, +b_r"] != row["(-1)^b[n+2]"] for row in rows)
    return Verdict.at_most(
        wrong,
        0,
        otherwise="refuted",
        note="the sum has 2m terms, +b_r, and gives (-1)^(b[n+2]+1), as the theorem says; a_r and h_r are right",
        details=tuple(rows),
    )


@LEDGER.theory(
    "thm1-overlap-printed",
    kind="identity",
    says="as printed: <U, e_{j,b}> = 1(j in S, b = 1) for all j",
    cases=Secrets(width=400),
)
def overlaps_do_not_vanish(config: Secrets, seed: int) -> Verdict:
    columns, secret = with_secret(config, seed)
    if none := dependent(columns, secret, config.width):
        return none
    off = np.abs(outside(construction.dual(columns, secret).U_on, secret))
    return Verdict.at_most(
        float(off.max()),
        1e-10,
        otherwise="refuted",
        note="it holds on the secret only; elsewhere the attention must be small, which the certificate counts",
    )


# --- which width ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Widths(Config):
    """Repeated draws of the embeddings, over a grid of widths."""

    inputs: int = option(30, "input bits n", low=2, high=2000)
    size: int = option(3, "secret bits k", low=1, high=500)
    ratios: tuple[float, ...] = option(
        (2.5, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0), "widths d/k", above=2.0, high=1024.0
    )
    draws: int = option(40, "draws at each width", low=1, high=10_000)
    share: float = option(0.9, "share of draws that must do", above=0.0, high=1.0)
    failure: float = option(0.1, "delta of the rule k ln(n/delta)", above=0.0, below=1.0)

    def check(self) -> None:
        require(self.size <= self.inputs, f"size={self.size} must be at most inputs={self.inputs}")
        require(len(self.ratios) > 0, f"ratios={self.ratios} must not be empty")
        signs = int(2 * (self.inputs + 1) * self.size * sum(self.ratios)) * self.draws
        require(signs <= 2**33, f"draws={self.draws} need {signs} signs, which must be at most {2**33}")


def successes(config: Widths, seed: int) -> dict[str, dict[int, float]]:
    """The share of draws at each width that pass the certificate, Lemma 4's event and Lemma 1's."""
    found: dict[str, dict[int, float]] = {"certificate": {}, "lemma 4": {}, "lemma 1": {}}
    for ratio in sorted(config.ratios):
        sizes = Represented(config.inputs, config.size, math.ceil(ratio * config.size))
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


@LEDGER.theory(
    "thm1-d",
    kind="bound",
    says="d = Theta(k ln(n/delta)): the width at which the certificate passes is a small multiple of k ln(n/delta)",
    cases=(Widths(), Widths(100, 5, draws=12)),
)
def which_width_is_enough(config: Widths, seed: int) -> Verdict:
    found = successes(config, seed)
    rule = config.size * math.log(config.inputs / config.failure)
    needed = {name: enough(shares, config.share) for name, shares in found.items()}
    rows = [{"d": width} | {name: shares[width] for name, shares in found.items()} for width in found["certificate"]]
    summary = {f"d for {name}": width for name, width in needed.items()} | {"k ln(n/delta)": rule}
    return Verdict.at_most(
        needed["certificate"] / rule,
        ENOUGH,
        otherwise="not-reproduced",
        note=f"lemma 4, the proof's own event, needs {needed['lemma 4'] / rule:.3g} times k ln(n/delta)",
        details=(summary, *rows),
    )


# --- few bits ---------------------------------------------------------------------------------------------------------


BITS = 5.0  # c


@dataclass(frozen=True)
class FewBits(Config):
    """Theorem 1's weights in p bits each, tried on all inputs."""

    sizes: tuple[int, ...] = option((6, 8, 10), "input bits n, one run each", low=3, high=14)
    size: int = option(3, "secret bits k", low=1, high=14)
    ratio: int = option(64, "width d = ratio k", low=3, high=1024)
    factor: float = option(BITS, "c: what c log2 n bits must be enough", above=0.0, high=20.0)
    most: int = option(24, "most bits that are tried", low=3, high=40)

    def check(self) -> None:
        for n in self.sizes:
            require(self.size <= n, f"size={self.size} must be at most every one of sizes={self.sizes}")


@LEDGER.theory(
    "thm1-precision",
    kind="bound",
    says="Theta(log n) bits of weights and activations are enough for Theorem 1's weights: c log2 n with c <= 5",
    cases=FewBits(),
)
def few_bits_represent_parity(config: FewBits, seed: int) -> Verdict:
    rows, violated = [], []
    for n in config.sizes:
        sizes = Represented(n, config.size, config.ratio * config.size)
        violated += wide_enough(n, config.size, sizes.width)
        built = dense_construction(sizes, seed)
        if built is None:
            rows.append({"n": n, "bits": None, "c": math.inf})
            violated.append(f"width={sizes.width} must be larger: the secret embeddings are dependent at n={n}")
            continue
        model, tokens, parity = built
        works = {}
        for bits in range(2, config.most + 1):
            outputs = precision.rounded_outputs(precision.few_bits(model, bits), tokens, n, bits)[:, 0]
            works[bits] = bool(np.all((outputs > 0) == (parity == 1)))
        fewest = precision.fewest_bits(works)
        rows.append({"n": n, "bits": fewest, "c": math.inf if fewest is None else fewest / math.log2(n)})
        needed = precision.bits_of(config.factor, n)
        if fewest is None and config.most < needed:
            violated.append(f"most={config.most} must be at least factor*log2(n)={needed}, the bits to be tried")
    verdict = Verdict.at_most(max(row["c"] for row in rows), config.factor, details=tuple(rows))
    if verdict.status == "fails" and config.factor < BITS:
        violated.append(f"factor={config.factor:g} must be at least {BITS:g}, the c of the statement")
    return under(tuple(dict.fromkeys(violated)), verdict)


def dense_construction(config: Represented, seed: int):
    """Theorem 1's weights as dense matrices, all inputs and their parities; None where embeddings are dependent."""
    random = np.random.default_rng([seed, config.inputs, config.size])
    secret = np.sort(random.permutation(config.inputs)[: config.size])
    E = random.choice([-1.0, 1.0], (config.atoms, config.width)) / math.sqrt(config.width)
    gram = E @ E.T
    if not construction.independent(gram[:, construction.secret_atoms(secret)], secret):
        return None
    weights = construction.theorem1(gram, secret)
    first, second, attention = (np.asarray(part) for part in (weights.first, weights.second, weights.attention))
    readout = construction.output_signs(config.size).astype(np.float64)
    bits = cube(config.inputs)
    tokens = np.concatenate([bits, np.zeros((len(bits), 1), dtype=np.int8)], axis=1)
    model = precision.Dense(E, E.T @ attention @ E, first @ E, second @ E, readout)
    return model, tokens, np.bitwise_xor.reduce(bits[:, secret], axis=1)
