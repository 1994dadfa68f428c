"""The gradients of the key-query matrices on ideal inputs, and the margins they leave (Lemmas 15, 19, 24)."""

import math
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, note, row
from stairwise.papers.composition import constructions
from stairwise.papers.composition import task as tasks
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.running import Literal
from stairwise.papers.composition.claims.sizes import (
    Start,
    doubling,
    few_tokens,
    random_sequences,
    with_fixed_points,
)
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import descent, exact, literal, noise, population, streams
from stairwise.train.draws import draws_of

SATURATED = 800.0  # e^-800 is 0 in double precision: attention is exactly one-hot
SIZES = ((2, 3), (4, 2))  # at two letters the least margin is the one that the lemmas assume
SMALL_START = {"beta0 <= 1": lambda config: config.beta0 <= 1}


def ideal_model(hidden: np.ndarray, beta0: float, trained: int):
    """The network whose first `trained` layers are exactly those of Theorem 4, all else as at the start."""
    return leaky_model(hidden, beta0, SATURATED, trained)


def leaky_model(hidden: np.ndarray, beta0: float, beta: float, trained: int):
    """The same with layers of sharpness beta, which leave about (kN-1) e^-beta off the right keys."""
    built = constructions.any_blocks(jnp.asarray(hidden, dtype=jnp.int32), beta, dtype="float64")
    return exact.with_readout(exact.only_layers(built, trained), descent.start(hidden, beta0).readout)


@lru_cache(maxsize=24)
def every_example(hidden: tuple[tuple[int, ...], ...]):
    pi = np.array(hidden)
    return exact.everything(pi, Task(len(hidden), len(hidden[0]), any_blocks=True).layers)


def enumerated(hidden: np.ndarray, beta0: float, trained: int, *heads: int):
    """The population gradient of some heads' losses at `ideal_model`, over every sequence and query."""
    examples = exact.of_heads(every_example(tuple(map(tuple, hidden.tolist()))), *heads)
    return exact.mean_gradient(ideal_model(hidden, beta0, trained), examples)


# --- single samples ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Samples(Start):
    """Single samples, at random weights or on ideal inputs."""

    samples: int = option(8, "random samples", low=1, high=1000)


@jax.jit
def sample_gradients(network, examples: exact.Examples):
    """(loss, gradient) of the chosen heads at every example, by autodiff of the model."""
    return jax.vmap(jax.value_and_grad(exact.loss), in_axes=(None, 0))(network, examples)


@LEDGER.exact(
    "appC2",
    statement="Appendix C.2",
    says=(
        r"the gradients of loss$^{(\ell)}$ in $W_{KQ}^{(\ell)}$ and $\Psi_\ell$ at one sample, and $P = 1/N$ for an "
        r"untrained head on ideal inputs"
    ),
    of=(literal.own_gradient, literal.own_readout_gradient),
    seeds=3,
    cases=(Samples(Task(2, 3)), Samples(Task(4, 2), beta0=0.7)),
)
def the_gradients_are_as_written(config: Samples, seed: int):
    """At random key-query matrices of all layers, by autodiff of the structured model."""
    task, hidden = config.task, with_fixed_points(config.task, seed)
    require(not doubling(task), f"task.blocks={task.blocks} must be a power of two")
    rng, start = draws_of(seed, "key-query matrices"), descent.start(hidden, config.beta0)
    network = exact.with_key_query(start, tuple(jnp.asarray(rng.standard_normal(W.shape)) for W in start.key_query))
    examples = exact.drawn(hidden, task.layers, config.samples, rng)
    batch = Literal(task, hidden, examples)
    weights, readouts = batch.weights(network)
    outputs = literal.transformer(batch.X, weights, batch.values)
    starts = [literal.first_readout(task.blocks, task.alphabet, task.layers, 1 + h, 1.0) for h in range(task.layers)]
    for a, psi in enumerate(starts):  # a readout reads what its own layer writes, and no other
        for b, value in enumerate(batch.values):
            yield equal(
                f"size of Psi{a + 1}^T W_OV{b + 1}", np.abs(psi.T @ value).sum(), task.tokens * (a == b), scale=1.0
            )
    for head in range(1, task.layers + 1):
        _, found = sample_gradients(network, exact.of_heads(examples, head))
        dense = [literal.dense_key_query(np.asarray(W), task.layers) for W in found.key_query[head - 1]]
        yield equal(f"W_KQ of layer {head}", np.stack(dense), batch.own_gradients(network, head))
        each = zip(outputs, batch.queries, batch.labels[head - 1], strict=True)
        formula = [literal.own_readout_gradient(X[:, q], readouts[head - 1], int(y)) for X, q, y in each]
        psi = np.asarray(found.readout[:, head - 1]).reshape(len(formula), batch.width, -1)
        yield equal(f"Psi of head {head}", psi, np.stack(formula))
        untrained = ideal_model(hidden, config.beta0, head - 1)
        losses, _ = sample_gradients(untrained, exact.of_heads(examples, head))
        yield equal(f"loss of untrained head {head}", losses, np.full(len(formula), math.log(task.alphabet)))


@LEDGER.exact(
    "eq6",
    statement=("Equation (6)", "Equation (8)"),
    says=(
        r"on ideal inputs one sample gives $\hat g_{\ell,m} = X(I - \frac{1}{kN}11^\top)X^\top(e_{\ell+1} \otimes 1_k "
        r"\otimes e_y)X_q^\top$, whose entries are at most $1 - 1/N$"
    ),
    of=(literal.sample_signal,),
    seeds=3,
    cases=(Samples(Task(2, 3)), Samples(Task(4, 2), beta0=0.7)),
)
def a_sample_is_worth_what_is_written(config: Samples, seed: int):
    """Minus kN/beta0 times the gradient, by autodiff of the structured model."""
    task, hidden = config.task, with_fixed_points(config.task, seed)
    require(not doubling(task), f"task.blocks={task.blocks} must be a power of two")
    examples = exact.drawn(hidden, task.layers, config.samples, draws_of(seed, "examples"))
    batch = Literal(task, hidden, examples)
    for layer in range(1, task.layers + 1):
        network = ideal_model(hidden, config.beta0, layer - 1)
        found = sample_gradients(network, exact.of_heads(examples, layer))[1].key_query[layer - 1]
        dense = np.stack([literal.dense_key_query(np.asarray(W), task.layers) for W in found])
        signals = -task.tokens / config.beta0 * dense
        below = literal.transformer(batch.X, batch.weights(network)[0][: layer - 1], batch.values[: layer - 1])
        each = zip(below, batch.queries, batch.labels[layer - 1], strict=True)
        formula = np.stack([literal.sample_signal(X, task.blocks, layer, int(q), int(y)) for X, q, y in each])
        yield equal(f"signal of layer {layer}", signals, formula)
        yield at_most(f"largest entry at layer {layer}", np.abs(signals).max(), 1 - 1 / task.alphabet, rounding=1e-12)


# --- one step ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OneStep(Start):
    """One step from ideal inputs, or from inputs that are off by eps."""

    epsilon: float = option(1e-3, "attention that may stay off the right keys, twice", above=0.0, below=1.0)


def one_step(config: OneStep, seed: int, first: int, last: int):
    """The gradient against its closed form, and what a step does to attention.

    Of the population, with the rate that the margin 1/(kN^2) asks for; and of M = k^2 N^4 d^2 samples whose lower
    layers leak eps/2, with twice that rate, and with 2 log k times that (the "furthermore" with C = 1).
    """
    task, eps = config.task, config.epsilon
    k, N, L = task.blocks, task.alphabet, task.layers
    require(not doubling(task), f"task.blocks={task.blocks} must be a power of two")
    require(first <= L, f"task.blocks={task.blocks} must be at least {2 ** (first - 1)} for layer {first}")
    hidden, sequences = with_fixed_points(task, seed), random_sequences(task, 50, seed)
    rate = noise.learning_rate_theorem(k, N, config.beta0, eps / 2)
    scores = np.zeros((task.tokens, 1))  # of a query whose wrong keys all trail by the least margin 1/(kN^2)
    scores[0] = rate * config.beta0 / task.tokens / (k * N**2)
    wrong = (1 - 1 / task.tokens) * eps / 2  # beside 1 for the right key
    yield equal("leak at the least margin", 1 - literal.softmax(scores)[0], wrong / (1 + wrong), 1e-9)
    for layer in range(first, min(last, L) + 1):
        ideal = ideal_model(hidden, config.beta0, layer - 1)
        gradient = enumerated(hidden, config.beta0, layer - 1, layer).key_query
        formula = population.key_query_gradient(hidden, layer, config.beta0)
        yield equal(f"gradient of layer {layer}", gradient[layer - 1], formula)
        for other in range(layer + 1, L + 1):
            yield equal(f"gradient of layer {other} under loss {layer}", gradient[other - 1], 0.0, 1e-15)

        def leak_after(network, step, layer=layer):
            matrices = list(network.key_query)
            matrices[layer - 1] = -jnp.asarray(step)
            stepped = exact.with_key_query(network, tuple(matrices))
            return float(streams.deviation(stepped, hidden, sequences).leak[layer - 1])

        yield at_most(
            f"leak of layer {layer} after a step of the population", leak_after(ideal, rate * formula), eps / 2
        )
        leaky = leaky_model(hidden, config.beta0, math.log(2 * k * N / eps), layer - 1)
        batch = exact.batch(hidden, L, noise.samples_lemmas(k, N), draws_of(seed, "batch", layer))
        sampled = exact.mean_gradient(leaky, exact.of_heads(batch, layer)).key_query[layer - 1]
        yield at_most(f"leak of layer {layer} after a step of samples", leak_after(leaky, 2 * rate * sampled), eps / 2)
        further = max(1.0, 2 * math.log(k)) * 2 * rate * sampled
        yield at_most(
            f"leak of layer {layer} after a larger step", leak_after(leaky, further), eps / 2 / (k * N * L) ** L
        )


OF_ONE_STEP = (population.key_query_signal, population.key_query_gradient, noise.learning_rate_theorem)

LEDGER.family(
    one_step,
    {
        "lem15": {
            "statement": "Lemma 15",
            "says": (
                r"$\nabla_{W_{KQ}^{(1)}} = -\frac{\beta_0}{kN}g_1$ with $(P_i-U)/(kN)$ in block (1,1) and "
                r"$c_i(I-U)/(kN)$ in (2,2); one step finds $\pi$: $\mathcal{S} \ge 1-\epsilon/2$"
            ),
            "of": (population.first_signal, *OF_ONE_STEP),
            "cases": tuple(OneStep(Task(k, N)) for k, N in SIZES),
            "given": {"first": 1, "last": 1},
        },
        "lem19": {
            "statement": "Lemma 19",
            "says": (
                r"$g_2$ has $(I-U)/(kN)$ in block (1,3) and $c_i$ times that in (1,2), from $i$ to $i+1$; one step "
                r"finds the shift"
            ),
            "of": (population.second_signal, *OF_ONE_STEP),
            "cases": tuple(OneStep(Task(k, N)) for k, N in SIZES),
            "given": {"first": 2, "last": 2},
        },
        "lem24": {
            "statement": "Lemma 24",
            "says": (
                r"$g_\ell$, $\ell \ge 3$, has $(I-U)/(kN)$ in block $(1,\ell+1)$, from $i$ to $i+1$, and nothing "
                r"else; one step finds the shift"
            ),
            "of": (population.later_signal, *OF_ONE_STEP),
            "cases": (OneStep(Task(4, 2)), OneStep(Task(4, 3))),
            "given": {"first": 3, "last": 20},
        },
    },
    form="exact",
    hypotheses=SMALL_START,
    seeds=3,
)


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
    cycle = np.concatenate([np.arange(fixed), np.roll(np.arange(fixed, alphabet), -1)])
    return np.tile(cycle, (blocks, 1))


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


@LEDGER.exact(
    "margin-pop",
    statement="ours",
    says=(
        r"beyond the paper: least margins times $kN^2$ are $N-1$ or $N-f-c$ ($\ell=1$), $\min(N-1-c, N(1-c))$ or "
        r"$2N-2$ ($\ell=2$), $N-1$ ($\ell\ge3$); all are 1 or more"
    ),
    of=(population.population_margin,),
    cases=tuple(Margins(4, N) for N in (5, 3, 4, 6)),
    seeds=3,
)
def margins_have_closed_forms(config: Margins, seed: int):
    sequence = random_sequences(config.task, 1, seed)[0]
    for fixed in possible(config.alphabet):
        hidden = with_fixed(config.blocks, config.alphabet, fixed)
        for layer in range(1, min(config.task.layers, 3) + 1):
            signal = population.key_query_signal(hidden, layer)
            found = float(margins_of(hidden, layer, sequence, signal).min())
            formula = population.population_margin(config.alphabet, fixed, layer)
            yield equal(f"margin at f={fixed}, layer {layer}", found, formula, 1e-10)
            yield at_least(f"margin at f={fixed}, layer {layer}, against the lemmas", found, 1.0, rounding=1e-10)


def score_table(config: Margins, seed: int, table):
    """The scores of one moved query, by kind of key, against a table."""
    k, N = config.blocks, config.alphabet
    sequence = random_sequences(config.task, 1, seed)[0]
    for fixed in [f for f in possible(N) if f < N]:
        hidden, wanted = with_fixed(k, N, fixed), table(N, fixed)
        scores, _ = scores_of(hidden, 1, sequence, population.key_query_signal(hidden, 1))
        for name, value in found_scores(scores, hidden, sequence, i=0, j=N - 1).items():
            yield equal(f"{name} at f={fixed}", value, wanted[name], 1e-10, scale=1.0)


@LEDGER.exact(
    "lem15-scores",
    statement="Lemma 15, score table, corrected",
    says=r"times $kN^2$: the right key has $N-1-c$, the own key $f-2$, other blocks' other values $-c$",
    of=(population.first_scores,),
    cases=tuple(Margins(4, N) for N in (5, 4, 7)),
    seeds=3,
)
def the_corrected_scores_are_those_found(config: Margins, seed: int):
    yield from score_table(config, seed, population.first_scores)


@LEDGER.refuted(
    "lem15-printed",
    statement="Lemma 15, score table",
    says=r"as printed: the scores of the table for a permutation that is not the identity",
    of=(population.first_scores_printed,),
    certificate="certificates/lem15.py",
    corrected="lem15-scores",
    cases=Margins(4, 5),
    seeds=3,
)
def the_printed_scores_are_not(config: Margins, seed: int):
    yield from score_table(config, seed, population.first_scores_printed)
    yield note("the conclusion, a margin of at least 1/(kN^2), stands")


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


@LEDGER.exact(
    "mix-zero",
    statement=("Section 5.4", "Appendix D.1"),
    says=(
        r"with layers from $t$ on at zero and ideal ones below, layers above $t$ have no gradient under any loss, "
        r"sample by sample, and layer $t$ none on average under later losses"
    ),
    of=(exact.loss,),
    free={"loss": "a loss and its negative have the same zeros, and the same largest gradient"},
    hypotheses={"k >= 2": lambda config: config.task.blocks >= 2},
    seeds=3,
    cases=Start(Task(4, 3)),
    optimise=True,
)
def layers_above_the_first_untrained_one_stay(config: Start, seed: int):
    task, hidden = config.task, with_fixed_points(config.task, seed)
    require(not doubling(task), f"task.blocks={task.blocks} must be a power of two")
    heads = range(1, task.layers + 1)
    few = exact.drawn(hidden, task.layers, 64, draws_of(seed, "examples"))
    signal = config.beta0 * (1 - 1 / task.alphabet) / task.tokens
    for step in heads:
        each = np.asarray(exact.largest_gradients(ideal_model(hidden, config.beta0, step - 1), few)).max(axis=0)
        yield equal(f"layers above {step}", each[step:], 0.0, 1e-15)
        yield equal(f"layers below {step}", each[: step - 1], 0.0, 1e-15)
        yield at_least(f"layer {step} itself", each[step - 1], signal, rounding=1e-12)
        later = tuple(range(step + 1, task.layers + 1))
        if later:
            mean = enumerated(hidden, config.beta0, step - 1, *later).key_query[step - 1]
            yield equal(f"layer {step} under later losses, mean", mean, 0.0, 1e-15)
    yield row({"signal of one sample": signal})


@LEDGER.exact(
    "sec5.4-mtp",
    statement="Section 5.4, multi-token prediction",
    says=(
        r"at population level the mixture objective (3), all hops of each sample at once, is $L$ times the loss of "
        r"samples that each ask for one random hop"
    ),
    of=(exact.loss,),
    seeds=3,
    cases=(Start(Task(2, 3)), Start(Task(4, 2))),
)
def mixing_hops_is_predicting_all_of_them(config: Start, seed: int):
    """Each (sequence, query, hop) once, one label each, in the loss as it is written, by a complex step."""
    task, hidden = config.task, with_fixed_points(config.task, seed)
    require(not doubling(task), f"task.blocks={task.blocks} must be a power of two")
    rng, L = draws_of(seed, "key-query matrices"), task.layers
    start = descent.start(hidden, config.beta0)
    network = exact.with_key_query(start, tuple(jnp.asarray(rng.standard_normal(W.shape)) for W in start.key_query))
    examples = every_example(tuple(map(tuple, hidden.tolist())))
    together, batch = exact.mean_gradient(network, examples), Literal(task, hidden, examples)
    weights, readouts = batch.weights(network)
    losses = [np.real(batch(weights, readouts, (head,))) for head in range(1, L + 1)]
    yield equal("loss", exact.mean_loss(network, examples), L * np.mean(losses))
    for layer in range(1, L + 1):
        D = rng.standard_normal(weights[layer - 1].shape)
        slopes = [batch.slope(weights, readouts, (head,), layer, D) for head in range(1, L + 1)]
        found = literal.dense_key_query(np.asarray(together.key_query[layer - 1]), L)
        yield equal(f"slope in W_KQ of layer {layer}", (found * D).sum(), L * np.mean(slopes), 1e-11)
