"""The population gradients of the key-query matrices, and the margins they leave (Lemmas 15, 19, 24)."""

import math
from dataclasses import dataclass
from functools import lru_cache

import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import identical, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.composition import constructions
from stairwise.papers.composition import task as tasks
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.sizes import (
    Start,
    doubling,
    few_tokens,
    random_sequences,
    several_blocks,
    small_start,
    with_fixed_points,
)
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import descent, exact, noise, population, streams

SATURATED = 800.0  # e^-800 is 0 in double precision: attention is exactly one-hot
SIZES = ((2, 3), (4, 3))  # (4, 2) and (2, 4) are among the tests: each size costs a compile


def ideal_model(hidden: np.ndarray, beta0: float, trained: int):
    """The network whose first `trained` layers are exactly those of Theorem 4, all else as at the start."""
    start = descent.start(hidden, beta0)
    built = constructions.any_blocks(jnp.asarray(hidden, dtype=jnp.int32), SATURATED, dtype="float64")
    return exact.with_readout(exact.only_layers(built, trained), start.readout)


@lru_cache(maxsize=8)
def every_example(hidden: tuple[tuple[int, ...], ...]):
    pi = np.array(hidden)
    return exact.everything(pi, Task(len(hidden), len(hidden[0]), any_blocks=True).layers)


def enumerated(hidden: np.ndarray, beta0: float, trained: int, *heads: int):
    """The population gradient of some heads' losses at `ideal_model`, over every sequence and query."""
    examples = exact.of_heads(every_example(tuple(map(tuple, hidden.tolist()))), *heads)
    return exact.mean_gradient(ideal_model(hidden, beta0, trained), examples)


@dataclass(frozen=True)
class OneStep(Start):
    """One population step from ideal inputs."""

    epsilon: float = option(1e-3, "attention that may stay off the right keys, twice", above=0.0, below=1.0)


def one_step(config: OneStep, seed: int, layer: int) -> Verdict:
    """The gradient against its closed form, and what a step of the lemma's size does to attention."""
    task = config.task
    require(not doubling(task), f"task.blocks={task.blocks} must be a power of two")
    require(task.layers >= layer, f"task.blocks={task.blocks} must be at least {2 ** (layer - 1)} for layer {layer}")
    hidden = with_fixed_points(task, seed)
    gradient = enumerated(hidden, config.beta0, layer - 1, layer).key_query
    formula = population.key_query_gradient(hidden, layer, config.beta0)
    pairs = {f"layer {layer}": (gradient[layer - 1], formula)}
    for other in range(layer + 1, task.layers + 1):
        pairs[f"layer {other} has none"] = (gradient[other - 1], np.zeros(gradient[other - 1].shape))
    rate = noise.learning_rate_theorem(task.blocks, task.alphabet, config.beta0, config.epsilon / 2)
    matrices = list(ideal_model(hidden, config.beta0, layer - 1).key_query)
    matrices[layer - 1] = -rate * jnp.asarray(formula)
    stepped = exact.with_key_query(ideal_model(hidden, config.beta0, layer - 1), tuple(matrices))
    leak = float(streams.deviation(stepped, hidden, random_sequences(task, 50, seed)).leak[layer - 1])
    verdict = Verdict.worst(
        {
            "gradient": identical(pairs),
            "leak after a step of k^2 N^3 log(2kN/eps)/beta0": Verdict.at_most(leak, config.epsilon / 2),
        }
    )
    return under(small_start(config.beta0), verdict)


@LEDGER.theory(
    "lem15",
    kind="identity",
    says="the gradient of W_KQ^(1): (P_i - U)/(kN) in block (1,1), c_i (I - U)/(kN) in (2,2); one step finds pi",
    cases=tuple(OneStep(Task(k, N)) for k, N in SIZES),
)
def the_first_gradient_is_the_hidden_permutations(config: OneStep, seed: int) -> Verdict:
    return one_step(config, seed, 1)


@LEDGER.theory(
    "lem19",
    kind="identity",
    says="the gradient of W_KQ^(2): (I - U)/(kN) in block (1,3), c_i times that in (1,2), from i to i+1",
    cases=tuple(OneStep(Task(k, N)) for k, N in SIZES),
)
def the_second_gradient_is_the_shift(config: OneStep, seed: int) -> Verdict:
    return one_step(config, seed, 2)


@LEDGER.theory(
    "lem24",
    kind="identity",
    says="the gradient of W_KQ^(l), l >= 3: (I - U)/(kN) in block (1,l+1), from position a to a+1, and nothing else",
    cases=OneStep(Task(4, 3)),
)
def later_gradients_are_the_shift_alone(config: OneStep, seed: int) -> Verdict:
    layers = range(3, max(3, config.task.layers) + 1)
    return Verdict.worst({f"layer {layer}": one_step(config, seed, layer) for layer in layers})


# --- margins ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Margins(Config):
    """Hidden permutations with every number of fixed points."""

    blocks: int = option(4, "blocks k, a power of two", low=2, high=32)
    alphabet: int = option(5, "letters N", low=2, high=16)

    def check(self) -> None:
        few_tokens(self.task)

    @property
    def task(self) -> Task:
        return Task(self.blocks, self.alphabet)


def with_fixed(blocks: int, alphabet: int, fixed: int) -> np.ndarray:
    """Every block is one cycle of the letters from `fixed` on."""
    row = np.concatenate([np.arange(fixed), np.roll(np.arange(fixed, alphabet), -1)])
    return np.tile(row, (blocks, 1))


def possible(alphabet: int) -> list[int]:
    """A permutation has any number of fixed points but N-1."""
    return [f for f in range(alphabet + 1) if f != alphabet - 1]


def scores_of(hidden: np.ndarray, layer: int, sequence: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """X^T g X times k N^2 on ideal inputs, keys by queries, and the right keys.

    One sequence shows everything: in each other block exactly one key has the query's value.
    """
    k, N = hidden.shape
    pi, plan = jnp.asarray(hidden, dtype=jnp.int32), Task(k, N).plan
    stream = tasks.ideal_stream(plan, pi, jnp.asarray(sequence, dtype=jnp.int32))
    keys = np.asarray(tasks.ideal_attention(plan, pi, stream))[layer - 1]
    index = np.asarray(stream)[: layer + 1]
    scores = sum(g[a, b][index[a]][:, index[b]] for a in range(layer + 1) for b in range(layer + 1))
    return scores * k * N**2, keys


def margins_of(hidden: np.ndarray, layer: int, sequence: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Right key less best wrong key, for each query."""
    scores, keys = scores_of(hidden, layer, sequence, g)
    queries = np.arange(len(keys))
    right = scores[keys, queries]
    scores[keys, queries] = -math.inf
    return right - scores.max(axis=0)


@LEDGER.theory(
    "margin-pop",
    kind="identity",
    says="beyond the paper: least margins times kN^2: N-1 or N-f-c (l=1), min(N-1-c, N(1-c)) or 2N-2 (l=2), N-1 (l>=3)",
    cases=tuple(Margins(4, N) for N in (5, 3, 4, 6)),
)
def margins_have_closed_forms(config: Margins, seed: int) -> Verdict:
    sequence = random_sequences(config.task, 1, seed)[0]
    pairs, rows = {}, []
    for fixed in possible(config.alphabet):
        hidden = with_fixed(config.blocks, config.alphabet, fixed)
        for layer in range(1, min(config.task.layers, 3) + 1):
            signal = population.key_query_signal(hidden, layer)
            found = float(margins_of(hidden, layer, sequence, signal).min())
            formula = population.population_margin(config.alphabet, fixed, layer)
            pairs[f"f={fixed} l={layer}"] = (found, formula)
            rows.append({"f": fixed, "l": layer, "margin": found, "formula": formula})
    verdict = identical(pairs, tolerance=1e-10)
    least = min(row["margin"] for row in rows)
    return Verdict.worst({"closed forms": verdict, "at least 1": Verdict.at_least(least, 1.0, details=tuple(rows))})


@LEDGER.theory(
    "lem15-scores",
    kind="identity",
    says="Lemma 15's scores, corrected: the right key has -c more, other blocks' other values -c, the own key f-2",
    cases=tuple(Margins(4, N) for N in (5, 4, 7)),
)
def the_corrected_scores_are_those_found(config: Margins, seed: int) -> Verdict:
    return _score_table(config, seed, printed=False)


@LEDGER.theory(
    "lem15-printed",
    kind="identity",
    says="as printed: the scores of Lemma 15's table for a permutation that is not the identity",
    cases=Margins(4, 5),
)
def the_printed_scores_are_not(config: Margins, seed: int) -> Verdict:
    return _score_table(config, seed, printed=True)


def _score_table(config: Margins, seed: int, printed: bool) -> Verdict:
    k, N = config.blocks, config.alphabet
    sequence, pairs = random_sequences(config.task, 1, seed)[0], {}
    for fixed in [f for f in possible(N) if f < N]:
        hidden = with_fixed(k, N, fixed)
        table = population.first_scores_printed(N, fixed) if printed else population.first_scores(N, fixed)
        scores, _ = scores_of(hidden, 1, sequence, population.key_query_signal(hidden, 1))
        found = found_scores(scores, hidden, sequence, i=0, j=N - 1)
        pairs |= {f"f={fixed} {name}": (found[name], table[name]) for name in found}
    if not printed:
        return identical(pairs)
    wrong = {name: pair for name, pair in pairs.items() if abs(pair[0] - pair[1]) > 1e-9}
    rows = tuple({"key": name, "score": a, "printed": b} for name, (a, b) in wrong.items())
    return Verdict.at_most(
        len(wrong), 0, otherwise="refuted", details=rows, note="the conclusion, a margin of at least 1/(kN^2), stands"
    )


def found_scores(scores: np.ndarray, hidden: np.ndarray, sequence: np.ndarray, i: int, j: int) -> dict[str, float]:
    """The scores of one query (i, j) that pi_i moves, by kind of key; `other keys` only where there are any."""
    k, N = hidden.shape
    column = scores[:, i * N + j].reshape(k, N)
    same = sequence == sequence[i, j]
    elsewhere = np.arange(k)[:, None] != i
    others = np.delete(column[i], [j, hidden[i, j]])
    found = {
        "right key": column[i, hidden[i, j]],
        "own key": column[i, j],
        "other block, same value": column[same & elsewhere].mean(),
        "other block, other value": column[~same & elsewhere].mean(),
    }
    if len(others):
        found["own block, other keys"] = others.mean()
    return {name: float(value) for name, value in found.items()}


# --- the mixture ------------------------------------------------------------------------------------------------------


@LEDGER.theory(
    "mix-zero",
    kind="identity",
    says="with layers >= t at zero and ideal ones below, layers > t have no gradient under any loss, sample by sample",
    cases=Start(Task(4, 3)),
)
def layers_above_the_first_untrained_one_stay(config: Start, seed: int) -> Verdict:
    task, hidden = config.task, with_fixed_points(config.task, seed)
    violated = several_blocks(task)
    heads, pairs, rows = range(1, task.layers + 1), {}, []
    few = exact.drawn(hidden, task.layers, 64, np.random.default_rng([seed, 30]))
    for step in heads:
        each = np.asarray(exact.largest_gradients(ideal_model(hidden, config.beta0, step - 1), few)).max(axis=0)
        above = [float(each[layer - 1]) for layer in heads if layer > step]
        pairs[f"step {step}, layers above"] = max(above, default=0.0)
        pairs[f"step {step}, layers below"] = max(
            (float(each[layer - 1]) for layer in heads if layer < step), default=0.0
        )
        later = tuple(range(step + 1, task.layers + 1))
        if later:
            mean = enumerated(hidden, config.beta0, step - 1, *later).key_query[step - 1]
            pairs[f"step {step}, layer {step} under later losses, population"] = float(jnp.max(jnp.abs(mean)))
        rows.append({"step": step, "largest gradient of the layer itself": float(each[step - 1])})
    verdict = Verdict.at_most(max(pairs.values()), 1e-15, details=(*rows, pairs))
    return under(violated, verdict)


@LEDGER.theory(
    "sec5.4-mtp",
    kind="identity",
    says="Section 5.4: at population level the mixture of hops is predicting all hops of each sample at once",
    cases=Start(Task(2, 3)),
)
def mixing_hops_is_predicting_all_of_them(config: Start, seed: int) -> Verdict:
    task, hidden = config.task, with_fixed_points(config.task, seed)
    rng = np.random.default_rng([seed, 31])
    start = descent.start(hidden, config.beta0)
    matrices = tuple(jnp.asarray(rng.standard_normal(W.shape)) for W in start.key_query)
    network, heads = exact.with_key_query(start, matrices), range(1, task.layers + 1)
    examples = every_example(tuple(map(tuple, hidden.tolist())))
    together = exact.mean_gradient(network, examples)
    alone = [exact.mean_gradient(network, exact.of_heads(examples, head)) for head in heads]
    pairs = {
        f"layer {layer}": (together.key_query[layer - 1], sum(part.key_query[layer - 1] for part in alone))
        for layer in heads
    }
    pairs["readouts"] = (together.readout, sum(part.readout for part in alone))
    losses = [exact.mean_loss(network, exact.of_heads(examples, head)) for head in heads]
    apart = identical({"loss": (exact.mean_loss(network, examples), sum(losses))})
    return under(doubling(task), Verdict.worst({"gradients": identical(pairs), "losses": apart}))
