"""What is exact: the gradient step, the moments, the loss and its gradient."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from stairwise.lab.checks import identical
from stairwise.lab.config import option
from stairwise.lab.contract import Verdict

from in_context_regression import model, task, theory
from in_context_regression.claims.ledger import LEDGER
from in_context_regression.claims.sizes import Exact, Sizes, average

SMALL = (Exact(), Exact(1, 3, 0.0, 0.5), Exact(2, 2, 2.0, 1.0))


@dataclass(frozen=True)
class Drawn(Sizes):
    """Random prompts, with a random preconditioner and start."""

    width: int = option(4, "dimension d of an input", low=1, high=64)
    length: int = option(7, "labelled inputs N", low=1, high=1024)
    examples: int = option(16, "prompts", low=1, high=4096)


@LEDGER.theory(
    "one-step",
    kind="construction",
    says="with corner blocks (A, 1) the layer predicts what one gradient step from 0, preconditioned by A^T, predicts",
    cases=(Drawn(), Drawn(10, 3, 0.0, 2.0)),
)
def the_layer_takes_a_gradient_step(config: Drawn, seed: int) -> Verdict:
    P = jnp.asarray(np.random.default_rng(seed).standard_normal((config.width, config.width)), dtype=jnp.float64)
    problem = task.LinearRegression(jnp.asarray(config.eigenvalues, dtype=jnp.float64), config.noise, config.length)

    def both(key):
        prompt = problem.sample(key)

        def least_squares(weights):
            return jnp.mean((prompt.inputs @ weights - prompt.labels) ** 2) / 2

        step = -P @ jax.grad(least_squares)(jnp.zeros(config.width, dtype=jnp.float64))
        return model.gradient_step(P)(prompt), step @ prompt.query

    layer, descent = jax.jit(jax.vmap(both))(jax.random.split(jax.random.key(seed), config.examples))
    return identical({"prediction": (layer, descent)})


@LEDGER.theory(
    "moments",
    kind="identity",
    says="E[b b^T] = L G with G = (1+1/N) L + ((tr L + sigma^2)/N) I, where b = X^T y / N",
    cases=SMALL,
)
def the_second_moment_is_isserlis(config: Exact, seed: int) -> Verdict:
    def moments(prompt):
        b = prompt.labels @ prompt.inputs / config.length
        return jnp.outer(b, b), jnp.outer(b, prompt.query) * prompt.target

    second, cross = average(moments, config)
    l = config.eigenvalues
    return identical(
        {
            "E[b b^T]": (second, np.diag(l * theory.gamma(l, config.length, config.noise))),
            "E[b target x^T]": (cross, np.diag(l**2)),
        }
    )


@LEDGER.theory(
    "loss",
    kind="identity",
    says="the loss of a gradient step is (tr L P L G P^T - 2 tr L P L + tr L) / 2, for every preconditioner P",
    cases=SMALL,
)
def the_loss_is_a_quadratic(config: Exact, seed: int) -> Verdict:
    P = np.random.default_rng(seed).standard_normal((config.width, config.width))
    layer = model.gradient_step(jnp.asarray(P, dtype=jnp.float64))
    exact = average(lambda prompt: model.loss(layer, prompt), config)
    return identical({"loss": (exact, theory.loss(P, config.eigenvalues, config.length, config.noise))})


@LEDGER.theory(
    "gradient",
    kind="identity",
    says="where only the corner blocks U and u are not zero, so is the gradient: gradient flow never leaves them",
    cases=SMALL,
)
def the_gradient_stays_in_the_corner_blocks(config: Exact, seed: int) -> Verdict:
    rng = np.random.default_rng(seed)
    U, u = rng.standard_normal((config.width, config.width)), rng.standard_normal()
    layer = model.corner_blocks(jnp.asarray(U, dtype=jnp.float64), jnp.asarray(u, dtype=jnp.float64))
    exact = average(lambda prompt: jax.grad(model.loss)(layer, prompt), config)
    D = theory.loss_gradient(u * U.T, config.eigenvalues, config.length, config.noise)
    formula = model.corner_blocks(jnp.asarray(u * D.T), jnp.asarray(np.vdot(D, U.T)))
    return identical({"W_PV": (exact.value, formula.value), "W_KQ": (exact.key_query, formula.key_query)})
