"""One run of the three steps with everything kept: weights before and after each step, batches and gradients."""

from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int8, Integer

from stairwise.lab.config import structure
from stairwise.papers.parity_cot import certificate, simplified, steps
from stairwise.papers.parity_cot.config.theorem3 import ThreeSteps
from stairwise.papers.parity_cot.simplified import Coefficients, Tables
from stairwise.papers.parity_cot.steps import STEPS, Setting
from stairwise.train.keys import at
from stairwise.train.loop import RunningTrial


class Kept(NamedTuple):
    """Tables, their gradients, or the coefficients of W[:, :d], W[:, d:] and A, in NumPy."""

    own: Float[np.ndarray, "neurons atoms"]
    seen: Float[np.ndarray, "neurons atoms"]
    scores: Float[np.ndarray, "atoms atoms"]

    @property
    def tables(self) -> Tables:
        return Tables(jnp.asarray(self.own), jnp.asarray(self.seen), jnp.asarray(self.scores))


class Trajectory(NamedTuple):
    """The run of a seed; `weights` and `tables` have one entry more than there are steps."""

    setting: Setting
    weights: tuple[Kept, ...]
    tables: tuple[Kept, ...]
    batches: tuple[Int8[np.ndarray, "samples tokens"], ...]
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
    """The share of activations on the batch of step `step` (counted from 0) that are as the start's signs say."""
    return float(_outputs(run.tables[step].tables, run.setting.positive, run.batches[step])[1])


def largest_output(run: Trajectory, step: int) -> float:
    """The largest |T(b)[i]| on the batch of a step."""
    return float(jnp.max(jnp.abs(_outputs(run.tables[step].tables, run.setting.positive, run.batches[step])[0])))


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


@lru_cache(maxsize=4)
def trajectory(config: ThreeSteps, seed: int) -> Trajectory:
    """Claims that look at the same run share it."""
    begin, draw, move = _compiled(structure(config))
    trial = RunningTrial(jax.tree.map(jnp.asarray, config), jnp.uint32(seed))
    setting, weights, rates = begin(trial)
    states, batches, gradients = [weights], [], []
    for step in range(STEPS):
        tokens = draw(trial, setting, step)
        weights, gradient = move(setting, weights, tokens, rates[step])
        states.append(weights)
        batches.append(np.asarray(tokens))
        gradients.append(_kept(*gradient))
    return Trajectory(
        setting,
        weights=tuple(_kept(one.first, one.second, one.attention) for one in states),
        tables=tuple(_kept(*one.tables(setting.gram)) for one in states),
        batches=tuple(batches),
        gradients=tuple(gradients),
        rates=np.asarray(rates),
    )


def _kept(own, seen, scores) -> Kept:
    return Kept(np.asarray(own), np.asarray(seen), np.asarray(scores))


@lru_cache(maxsize=4)
def _compiled(config: ThreeSteps):
    @jax.jit
    def begin(trial: RunningTrial[ThreeSteps]):
        setting = steps.setting_of(trial)
        return (
            setting,
            simplified.start(setting.positive, config.positions, trial.config.scale),
            steps.rates(trial),
        )

    @jax.jit
    def draw(trial: RunningTrial[ThreeSteps], setting: Setting, step):
        key = at(trial.key("claims"), step)
        return steps.draw_tokens(config, setting.problem, trial.config.task.noise, config.batch, key)

    @jax.jit
    def move(setting: Setting, weights: Coefficients, tokens, rate):
        tables = weights.tables(setting.gram)
        blocks = tokens.reshape(config.blocks, config.block, -1)
        each = jax.lax.map(lambda block: steps.gradient(config.loss, setting.positive, tables, block), blocks)
        gradient = jax.tree.map(lambda x: jnp.mean(x, axis=0), each)
        return steps.moved(weights, gradient, rate), gradient

    return begin, draw, move
