"""Weights that are written down: Theorem 4, Theorem 9, and every number of blocks."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, note, row, true, vacuous_if
from stairwise.papers.composition import constructions
from stairwise.papers.composition import task as tasks
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.sizes import (
    Sizes,
    doubling,
    few_tokens,
    hidden_of,
    random_sequences,
)
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.plan import embedding_width
from stairwise.papers.composition.theory import exact, perturbation
from stairwise.train.draws import draws_of

ROUNDING = 1e-14


@dataclass(frozen=True)
class BuiltNetwork(Config):
    """Theorem 4 at several sharpnesses."""

    task: Task = option(Task(4, 5), "the composition")
    betas: tuple[float, ...] = option((10.0, 20.0, 30.0, 40.0), "sharpness beta of attention", above=0.0, high=700.0)
    sequences: int = option(10, "random sequences", low=1, high=10_000)

    def check(self) -> None:
        few_tokens(self.task)


def errors_of(task: Task, hidden: np.ndarray, betas: tuple[float, ...], sequences: np.ndarray):
    """|Psi^T X - one-hot hop| and wrong argmaxes for each beta, with the cyclic readout and with the theorem's own one.

    The latter knows the position of i = 1 only, so it is asked there only.
    """
    pi, sigma = (jnp.asarray(part, dtype=jnp.int32) for part in (hidden, sequences))
    unit, own_readout = _built(pi)
    found = _errors(unit, own_readout, pi, sigma, jnp.asarray(betas, dtype=jnp.float64))
    for cyclic, (error, wrong) in zip((True, False), found, strict=True):
        for index, beta in enumerate(betas):
            yield cyclic, beta, float(error[index].max()), int(wrong[index].sum())


@jax.jit
def _built(pi):
    """The network at beta = 1, and the theorem's own readout: as one program, not as many small ones."""
    own = constructions.any_blocks(pi, 1.0, cyclic=False, dtype="float64")
    return constructions.any_blocks(pi, 1.0, dtype="float64"), own.readout


@jax.jit
def _errors(unit, own_readout, pi, sequences, betas):
    composition, N = tasks.Composition(pi), pi.shape[1]

    def one(beta, sequence):
        network = exact.with_key_query(unit, tuple(beta * W for W in unit.key_query))
        blocks = network.stream(sequence).blocks
        own = exact.with_readout(network, own_readout).read(blocks)[:, :N]
        hops = jnp.stack([composition.hop(sequence, layer.hops).reshape(-1) for layer in unit.plan])
        target = jax.nn.one_hot(hops, N, dtype=jnp.float64)
        return tuple(
            (
                jnp.max(jnp.abs(output - target[:, : output.shape[1]])),
                jnp.sum(jnp.argmax(output, axis=2) != hops[:, : output.shape[1]]),
            )
            for output in (network.read(blocks), own)
        )

    return jax.vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(0, None))(betas, sequences)


def error_bound(task: Task, beta: float, cyclic: bool) -> float:
    return perturbation.construction_error(task.blocks, task.alphabet, task.layers, beta, cyclic)


POWER = {"k is a power of two": lambda config: not doubling(config.task)}


def every_hop(config: BuiltNetwork, seed: int):
    """Errors of all heads at every sharpness against their bound, which is reached to first order."""
    task = config.task
    sequences = random_sequences(task, config.sequences, seed)
    for cyclic, beta, error, wrong in errors_of(task, hidden_of(task, seed), config.betas, sequences):
        bound = error_bound(task, beta, cyclic)
        name = f"{'cyclic readout' if cyclic else 'readout of the last block'} at beta={beta:g}"
        yield at_most(f"error, {name}", error, bound + ROUNDING)
        if not doubling(task) and 1e-7 < error < 0.05:
            yield at_least(f"error, {name}, from below", error, 0.9 * bound)
        if beta >= 15:
            yield at_most(f"wrong answers, {name}", wrong, 0)
    yield equal("width", embedding_width(task.blocks, task.alphabet), task.tokens * (task.layers + 2))


@LEDGER.bound(
    "thm4",
    statement="Theorem 4",
    says=(
        r"$1+\log_2 k$ layers of width $kN(3+\log_2 k)$ express every hop; at finite $\beta$ the error is about "
        r"$Lk(N-1)e^{-\beta}$"
    ),
    of=(constructions.any_blocks, perturbation.construction_error),
    hypotheses=POWER,
    seeds=3,
    cases=tuple(BuiltNetwork(Task(k, 5)) for k in (1, 2, 4, 8, 16)),
)
def every_hop_is_expressed(config: BuiltNetwork, seed: int):
    yield from every_hop(config, seed)
    if not doubling(config.task):
        yield equal("layers", config.task.layers, 1 + math.log2(config.task.blocks))


@LEDGER.misprint(
    "thm4-printed",
    statement="Theorem 4, proof",
    says=(
        r"as printed: block $\ell+3$ of token $(i,j)$ is $E(i+2^{\ell-1}, "
        r"\mathrm{hop}_i^{2^\ell}(j))$"
    ),
    means=r"its position is $i+2^\ell-1$, as in the line before it",
    corrected="thm4",
    hypotheses=POWER | {"k >= 4": lambda config: config.task.blocks >= 4},
    cases=Sizes(Task(8, 3)),
    seeds=3,
)
def the_printed_position_is_wrong(config: Sizes, seed: int):
    task, hidden = config.task, hidden_of(config.task, seed)
    pi, sequence = jnp.asarray(hidden, dtype=jnp.int32), random_sequences(task, 1, seed)[0]
    stream = np.asarray(tasks.ideal_stream(task.plan, pi, jnp.asarray(sequence, dtype=jnp.int32)))
    start = np.repeat(np.arange(task.blocks), task.alphabet)
    for layer in range(1, task.layers):
        position = stream[layer + 2] // task.alphabet
        yield true(f"position in block {layer + 3}", position == (start + 2 ** (layer - 1)) % task.blocks)
        yield row({"l": layer, "off i+2^l-1": int((position != (start + 2**layer - 1) % task.blocks).sum())})


@LEDGER.bound(
    "any-k",
    statement="ours",
    says=(
        r"beyond the paper: $\lfloor\log_2 k\rfloor$ + popcount$(k)$ layers express $\mathrm{hop}^k$ for every $k$, "
        r"with Theorem 4's error"
    ),
    of=(constructions.any_blocks, perturbation.construction_error),
    seeds=3,
    cases=tuple(
        BuiltNetwork(Task(k, 4, any_blocks=True), betas=(14.0, 40.0), sequences=4) for k in (3, 5, 6, 7, 12, 13)
    ),
    tier="minutes",
)
def every_number_of_blocks_is_expressed(config: BuiltNetwork, seed: int):
    yield from every_hop(config, seed)
    k = config.task.blocks
    yield equal("layers", config.task.layers, math.floor(math.log2(k)) + bin(k).count("1"))


# --- Theorem 9 --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sparse(Config):
    """Theorem 9: at most m hidden permutations move."""

    task: Task = option(Task(8, 5, moved=2), "the composition; its `moved` is m")
    margin: float = option(40.0, "least logit gap of the right key", above=0.0, high=200.0)
    sequences: int = option(6, "random sequences", low=1, high=10_000)

    def check(self) -> None:
        few_tokens(self.task)
        require(self.task.moved >= 0, f"task.moved={self.task.moved} must be at least 0 (the m of Theorem 9)")
        require(not doubling(self.task), f"task.blocks={self.task.blocks} must be a power of two")

    @property
    def beta(self) -> float:
        """Neighbours on the circle differ by 1 - cos(2 pi/k); keys with another letter by 1."""
        k = self.task.blocks
        return self.margin / (1 if k <= 2 else min(1.0, 1 - math.cos(2 * math.pi / k)))

    def hidden(self, seed: int, last: bool, draw: int = 0) -> np.ndarray:
        """m moved blocks, the last block among them or not."""
        k, N, m = self.task.blocks, self.task.alphabet, self.task.moved
        rng = draws_of(seed, "moved permutations", draw, k, N, m)
        hidden = np.tile(np.arange(N), (k, 1))
        support = np.roll(rng.permutation(k - 1), 1)[: m - last] if m else []
        for block in (*support, *([k - 1] if last and m else [])):
            while (hidden[block] == np.arange(N)).all():
                hidden[block] = rng.permutation(N)
        return hidden


@jax.jit
def _heads(built, hidden, sequences):
    """The outputs of all heads, and the hops that they should show."""
    composition, hops = tasks.Composition(hidden), [layer.hops for layer in built.plan]
    return jax.vmap(lambda s: (built.heads(s), jnp.stack([composition.hop(s, r).reshape(-1) for r in hops])))(sequences)


def sparse_error(config: Sparse, hidden: np.ndarray, seed: int, cyclic: bool, printed: bool = False):
    """The largest error of a head, where it is asked, and the width of the stream."""
    task, m = config.task, config.task.moved
    built = constructions.theorem9(
        jnp.asarray(hidden, dtype=jnp.int32), m, config.beta, cyclic=cyclic, dtype="float64"
    ).model
    codes = built.codes
    assert codes is not None
    if printed:
        letter = jnp.kron(codes[-1][:, None], jnp.eye(task.alphabet, dtype=jnp.float64))
        built = exact.with_readout(built, built.readout.at[-1, -1].set(letter))
    sequences = jnp.asarray(random_sequences(task, config.sequences, seed), dtype=jnp.int32)
    output, labels = map(np.asarray, _heads(built, jnp.asarray(hidden, dtype=jnp.int32), sequences))
    kept = slice(None) if cyclic else slice(0, task.alphabet)
    error = np.abs(output - np.eye(task.alphabet)[labels])[:, :, kept].max()
    wrong = (output.argmax(axis=-1) != labels)[:, :, kept].sum()
    width = codes.shape[1] * task.alphabet * (task.layers + 2)
    return float(error), int(wrong), width


@LEDGER.bound(
    "thm9",
    statement="Theorem 9",
    says=(
        r"if $m$ permutations move, width $(m+2)N(3+\log_2 k)$ expresses the composition, with an embedding that "
        r"knows which ones move and the corrected readout"
    ),
    of=(constructions.theorem9, perturbation.sparse_construction_error),
    hypotheses={
        "the margin is large: L kN e^-margin is small": lambda config: (
            config.task.layers * config.task.tokens * math.exp(-config.margin) * config.beta <= 0.5
        )
    },
    seeds=3,
    cases=(Sparse(), Sparse(Task(4, 3, moved=1), margin=16.0), Sparse(Task(2, 4, moved=2), margin=12.0)),
)
def few_moved_permutations_need_little_width(config: Sparse, seed: int):
    task, m = config.task, config.task.moved
    bound = perturbation.sparse_construction_error(task.tokens, task.layers, config.beta, config.margin)
    for last in (False, True):
        for cyclic in (False, True):
            error, wrong, width = sparse_error(config, config.hidden(seed, last), seed, cyclic)
            name = f"last block {'in' if last else 'off'} the support, {'cyclic' if cyclic else 'i = 1'}"
            yield at_most(f"error, {name}", error, bound + ROUNDING)
            if bound < 0.5:
                yield at_most(f"wrong answers, {name}", wrong, 0)
            yield equal(f"width, {name}", width, (m + 2 + cyclic) * task.alphabet * (3 + math.log2(task.blocks)))
    # with one layer and with two, written out
    T, lead = task.tokens, 4 + math.log(task.tokens)
    first = (T - 1) * math.exp(-lead)
    second = (T - 1) * math.exp(-(lead * (1 - first) - 2 * 3.0 * first))
    found = [perturbation.sparse_construction_error(T, layers, 3.0, lead) for layers in (1, 2)]
    yield equal("bound with one layer, and with two", found, [2 * first, 2 * min(1.0, first + second)])
    yield at_most(
        "bound with 50 layers, where it says nothing", perturbation.sparse_construction_error(T, 50, 9.0, 1.0), 2
    )


def first_lead(built, hidden: np.ndarray) -> float:
    """By how much the score of (i, pi_i(j)) leads those of all other keys in the first layer, at the worst query."""
    blocks, N = hidden.shape
    tokens = np.kron(np.asarray(built.codes), np.eye(N))
    scores = tokens @ np.asarray(built.key_query[0][0, 0]) @ tokens.T
    right, query = (N * np.arange(blocks)[:, None] + hidden).reshape(-1), np.arange(blocks * N)
    own = scores[right, query]
    scores[right, query] = -np.inf
    return float((own - scores.max(axis=0)).min())


@LEDGER.bound(
    "thm9-uniform",
    statement="Theorem 9",
    says=(
        r"as stated, and for the cyclic task as well: one embedding of width $(m+2)N(3+\log_2 k)$ or less, chosen "
        r"before $\pi$, serves every $\pi$ that moves at most $m$ blocks (ours: blocks are coded by harmonics)"
    ),
    of=(constructions.theorem9_uniform, constructions.harmonics, constructions.nodal),
    hypotheses={"m >= 1": lambda config: config.task.moved >= 1, "k >= 2": lambda config: config.task.blocks >= 2},
    seeds=3,
    cases=(
        Sparse(),
        Sparse(Task(8, 3, moved=3), margin=16.0),
        Sparse(Task(4, 3, moved=1), margin=16.0),
        Sparse(Task(2, 4, moved=2), margin=12.0),
    ),
)
def one_embedding_serves_every_support(config: Sparse, seed: int):
    task, m = config.task, config.task.moved
    bound = perturbation.sparse_construction_error(task.tokens, task.layers, config.beta, config.margin)
    sequences = jnp.asarray(random_sequences(task, config.sequences, seed), dtype=jnp.int32)
    codes, supports, limit = [], set(), bound + ROUNDING
    places = 2 * np.pi * np.arange(task.blocks) / task.blocks
    nodes = places[: m + m % 2]
    basis = constructions.nodal(places, nodes)
    w = [math.prod(math.sin((place - node) / 2) for node in nodes) for place in places]
    yield equal("w, node by node", basis[:, 0], w, 1e-12)
    yield equal("lambda_y at the nodes", basis[: len(nodes), 1:], np.eye(len(nodes)), 1e-12)
    for draw in range(3):
        for last in (False, True):
            hidden = config.hidden(seed, last, draw)
            built = constructions.theorem9_uniform(jnp.asarray(hidden, dtype=jnp.int32), m, config.margin)
            codes.append(np.asarray(built.codes))
            supports.add(tuple(np.flatnonzero((hidden != np.arange(task.alphabet)).any(axis=1))))
            output, labels = map(np.asarray, _heads(built, jnp.asarray(hidden, dtype=jnp.int32), sequences))
            yield at_most("error of any head at any token", np.abs(output - np.eye(task.alphabet)[labels]), limit)
            yield equal("least lead of layer 1 over the margin", first_lead(built, hidden) / config.margin, 1.0, 1e-9)
    yield true("the codes are the same for every pi", [np.array_equal(code, codes[0]) for code in codes])
    width = codes[0].shape[1] * task.alphabet * (task.layers + 2)
    yield at_most("width", width, (m + 2) * task.alphabet * (3 + math.log2(task.blocks)))
    yield row({"supports": len(supports), "width": width, "bound on errors": bound})
    yield vacuous_if(bound >= 1, f"margin={config.margin:g} must be larger: it keeps errors below {bound:.2g} only")


@LEDGER.refuted(
    "thm9-printed",
    statement="Theorem 9, proof",
    says=r"as printed: the readout $p_k \otimes I$ returns $e_f$, also when block $k$ is in the support",
    certificate="certificates/thm9.py",
    corrected="thm9",
    hypotheses={"m >= 1": lambda config: config.task.moved >= 1},
    cases=Sparse(),
    seeds=3,
)
def the_printed_readout_counts_twice(config: Sparse, seed: int):
    error, wrong, _ = sparse_error(config, config.hidden(seed, True), seed, False, printed=True)
    corrected, _, _ = sparse_error(config, config.hidden(seed, True), seed, False)
    yield at_most("error", error, 1e-12)
    yield row({"wrong argmax": wrong, "error with the corrected readout": corrected})
    yield note(
        "p_k . p_k = 2 when block k moves: the output is 2 e_f (its argmax is right); read (0_m, phat_k) instead"
    )
