"""One run of the three steps with everything kept: weights before and after each step, batches and gradients.

A batch of B sequences over n bits is B draws from 2^n of them. Where these are few it is held as how often each was
drawn, so that B costs nothing and the conditions of Lemma 5 on it can be met.
"""

from collections.abc import Iterable
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int8, Integer

from stairwise.config import structure
from stairwise.papers.parity_cot import certificate, simplified, steps
from stairwise.papers.parity_cot.config.theorem3 import ThreeSteps
from stairwise.papers.parity_cot.simplified import Coefficients, Tables
from stairwise.papers.parity_cot.steps import STEPS, Setting
from stairwise.papers.parity_cot.task import Problem
from stairwise.train.draws import draws_of
from stairwise.train.keys import at
from stairwise.train.loop import RunningTrial

FEW = 14  # inputs whose 2^n sequences are all written down
PART = 4096  # sequences that are taken at once


class Kept(NamedTuple):
    """Tables, their gradients, or the coefficients of W[:, :d], W[:, d:] and A, in NumPy."""

    own: Float[np.ndarray, "neurons atoms"]
    seen: Float[np.ndarray, "neurons atoms"]
    scores: Float[np.ndarray, "atoms atoms"]

    @property
    def tables(self) -> Tables:
        return Tables(jnp.asarray(self.own), jnp.asarray(self.seen), jnp.asarray(self.scores))


class Drawn(NamedTuple):
    """A batch: different sequences, labels included, and how often each was drawn."""

    tokens: Int8[np.ndarray, "sequences tokens"]
    times: Float[np.ndarray, " sequences"]


class Trajectory(NamedTuple):
    """The run of a seed; `weights` and `tables` have one entry more than there are steps."""

    setting: Setting
    weights: tuple[Kept, ...]
    tables: tuple[Kept, ...]
    batches: tuple[Drawn, ...]
    gradients: tuple[Kept, ...]
    rates: Float[np.ndarray, " steps"]

    @property
    def secret(self) -> Integer[np.ndarray, " queries"]:
        return np.asarray(self.setting.secret)

    @property
    def positive(self) -> np.ndarray:
        return np.asarray(self.setting.positive)

    @property
    def gram(self) -> np.ndarray:
        return np.asarray(self.setting.gram)


class View(NamedTuple):
    """What the tables say of all inputs at once, by query and its bit (and the secret bit)."""

    log_error: Float[np.ndarray, "queries 2"]
    target: Float[np.ndarray, "queries 2"]
    other: Float[np.ndarray, "queries 2"]
    largest_other: Float[np.ndarray, "queries 2"]
    ideal: Float[np.ndarray, "queries 2 2"]
    margin: Float[np.ndarray, "queries 2 2"]

    @property
    def error(self) -> float:
        """The largest attention that any query can pay to keys other than its own."""
        return float(np.exp(np.max(self.log_error)))


def view(run: Trajectory, step: int) -> View:
    """After `step` steps."""
    return View(*map(np.asarray, _view(run.tables[step].tables, run.secret)))


def agreement(run: Trajectory, step: int) -> float:
    """The share of activations on the sequences of step `step` (counted from 0) that are as the start's signs say."""
    return min(float(_outputs(run.tables[step].tables, run.setting.positive, part)[1]) for part in _parts(run, step))


def outputs(run: Trajectory, t: int, step: int) -> Float[np.ndarray, "sequences queries"]:
    """T(b)[i] after t steps on the sequences of a step (counted from 0)."""
    found = [_outputs(run.tables[t].tables, run.setting.positive, part)[0] for part in _parts(run, step)]
    return np.concatenate(list(map(np.asarray, found)))


def largest_output(run: Trajectory, step: int) -> float:
    """The largest |T(b)[i]| on the batch of a step."""
    return float(np.max(np.abs(outputs(run, step, step))))


def _parts(run: Trajectory, step: int) -> list[np.ndarray]:
    tokens = run.batches[step].tokens
    return [tokens[start : start + PART] for start in range(0, len(tokens), PART)]


def attention_on_atoms(
    run: Trajectory, step: int, tokens: Int8[np.ndarray, "samples positions"]
) -> Float[np.ndarray, "samples queries atoms"]:
    """The attention outputs at all queries, as combinations of atoms."""
    return np.asarray(_on_atoms(run.tables[step].scores, tokens, tokens.shape[1] - len(run.secret)))


@partial(jax.jit, static_argnums=2)
def _on_atoms(scores, tokens, first: int):
    def one(row):
        return simplified.on_atoms(simplified.attention(scores, row, first), row)

    return jax.vmap(one)(tokens)


_outputs = jax.jit(steps.batch_outputs)


@jax.jit
def _view(tables: Tables, secret):
    readout = simplified.readout(len(tables.own) // 2)
    log_error = certificate.log_worst_attention(tables.scores, secret)
    return (
        log_error,
        *certificate.target_and_other(tables.scores, secret),
        certificate.largest_other(tables.scores, secret),
        certificate.ideal_outputs(tables, readout, secret),
        certificate.certified_margin(tables, readout, secret, jnp.exp(log_error)),
    )


@lru_cache(maxsize=12)
def trajectory(config: ThreeSteps, seed: int) -> Trajectory:
    """Claims that look at the same run share it."""
    begin, draw = _compiled(structure(config))
    trial = RunningTrial(jax.tree.map(jnp.asarray, config), jnp.uint32(seed))
    sizes = config.embedding, 2 * config.positions, config.width
    setting, weights, rates = begin(trial, _embedded(seed, *sizes, jax.dtypes.canonicalize_dtype(float)))
    if config.task.bits > FEW:
        batches = [np.asarray(draw(trial, setting, step)) for step in range(STEPS)]
        drawn = [Drawn(tokens, np.ones(len(tokens))) for tokens in batches]
    else:
        tokens = all_sequences(setting)
        random = draws_of(seed, "batches", config.batch)
        share = np.full(len(tokens), 1 / len(tokens))
        drawn = [Drawn(tokens, random.multinomial(config.batch, share).astype(np.float64)) for _ in range(STEPS)]
    return descend(config.loss, setting, weights, np.asarray(rates), drawn)


def all_sequences(setting: Setting) -> Int8[np.ndarray, "sequences tokens"]:
    """Every sequence of a problem, labels included."""
    inputs = setting.problem.absorbs.shape[1]
    bits = (np.arange(2**inputs)[:, None] >> np.arange(inputs) & 1).astype(np.int8)
    return np.asarray(_tokens(setting.problem, bits))


@jax.jit
def _tokens(problem: Problem, bits):
    return jax.vmap(problem.tokens)(bits)


def descend(
    loss: str, setting: Setting, start: Coefficients, rates: Float[np.ndarray, " steps"], batches: Iterable[Drawn]
) -> Trajectory:
    """Equation (2): three steps of gradient descent on these batches."""
    states, gradients, drawn = [start], [], tuple(batches)
    for batch, rate in zip(drawn, rates, strict=True):
        gradients.append(gradient(loss, setting, _kept(*states[-1].tables(setting.gram)), batch))
        states.append(steps.moved(states[-1], gradients[-1].tables, rate))
    return Trajectory(
        setting,
        weights=tuple(_kept(one.first, one.second, one.attention) for one in states),
        tables=tuple(_kept(*one.tables(setting.gram)) for one in states),
        batches=drawn,
        gradients=tuple(gradients),
        rates=rates,
    )


def gradient(loss: str, setting: Setting, tables: Kept, batch: Drawn) -> Kept:
    """Of the mean loss of a batch with respect to the tables, by autodiff."""
    shares = batch.times / batch.times.sum()
    parts = range(0, len(shares), PART)
    found = [
        _gradient(loss, setting.positive, tables.tables, batch.tokens[at : at + PART], shares[at : at + PART])
        for at in parts
    ]
    return _kept(*jax.tree.map(lambda *each: sum(each), *found))


@partial(jax.jit, static_argnums=0)
def _gradient(loss: str, positive, tables: Tables, tokens, shares) -> Tables:
    def mean_loss(tables: Tables):
        out, _ = steps.batch_outputs(tables, positive, tokens)
        return shares @ jnp.sum(simplified.loss_of(loss, out, tokens[:, -out.shape[1] :]), axis=1)

    return jax.grad(mean_loss)(tables)


def _kept(own, seen, scores) -> Kept:
    return Kept(np.asarray(own), np.asarray(seen), np.asarray(scores))


@lru_cache(maxsize=64)
def _embedded(seed: int, embedding: str, atoms: int, width: int, dtype: np.dtype) -> np.ndarray:
    """Inner products of the embeddings, in the type that JAX computes with, once for all runs of a seed."""
    return np.asarray(_gram(jnp.uint32(seed), embedding, atoms, width))


# it looks at millions of signs: slow without optimisations, which a claim may have switched off for its other programs
_gram = jax.jit(
    steps.embedded,
    static_argnums=(1, 2, 3),
    compiler_options={"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False},
)


@lru_cache(maxsize=8)
def _compiled(config: ThreeSteps):
    @jax.jit
    def begin(trial: RunningTrial[ThreeSteps], gram):
        setting = steps.setting_of(trial, gram)
        return (
            setting,
            simplified.start(setting.positive, config.positions, trial.config.scale),
            steps.rates(trial),
        )

    @jax.jit
    def draw(trial: RunningTrial[ThreeSteps], setting: Setting, step):
        key = at(trial.key("claims"), step)
        return steps.draw_tokens(config, setting.problem, trial.config.task.noise, config.batch, key)

    return begin, draw
