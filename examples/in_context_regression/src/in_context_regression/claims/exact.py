"""What is exact: the gradient step, the moments, the loss and its gradient."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from stairwise.paper import draws_of, equal, option, role_key

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


@LEDGER.exact(
    "one-step",
    statement="Proposition 1 of von Oswald et al.",
    says="with corner blocks (A, 1) the layer predicts what one gradient step from 0, preconditioned by A^T, predicts",
    of=(model.gradient_step,),
    cases=(Drawn(), Drawn(10, 3, 0.0, 2.0)),
    seeds=3,
)
def the_layer_takes_a_gradient_step(config: Drawn, seed: int):
    P = jnp.asarray(draws_of(seed, "preconditioner").standard_normal((config.width, config.width)), dtype=jnp.float64)
    problem = task.LinearRegression(jnp.asarray(config.eigenvalues, dtype=jnp.float64), config.noise, config.length)

    def both(key):
        prompt = problem.sample(key)

        def least_squares(weights):
            return jnp.mean((prompt.inputs @ weights - prompt.labels) ** 2) / 2

        step = -P @ jax.grad(least_squares)(jnp.zeros(config.width, dtype=jnp.float64))
        return model.gradient_step(P)(prompt), step @ prompt.query

    layer, descent = jax.jit(jax.vmap(both))(jax.random.split(role_key(seed, "prompts"), config.examples))
    yield equal("prediction", layer, descent)


@LEDGER.exact(
    "moments",
    statement="ours: the moments behind the loss",
    says="E[b b^T] = L G with G = (1+1/N) L + ((tr L + sigma^2)/N) I, where b = X^T y / N",
    of=(theory.gamma,),
    cases=SMALL,
)
def the_second_moment_is_isserlis(config: Exact, seed: int):
    def moments(prompt):
        b = prompt.labels @ prompt.inputs / config.length
        return jnp.outer(b, b), jnp.outer(b, prompt.query) * prompt.target

    second, cross = average(moments, config)
    l = config.eigenvalues
    yield equal("E[b b^T]", second, np.diag(l * theory.gamma(l, config.length, config.noise)))
    yield equal("E[b target x^T]", cross, np.diag(l**2))


@LEDGER.exact(
    "loss",
    statement="Lemma of Ahn et al., the loss",
    says="the loss of a gradient step is (tr L P L G P^T - 2 tr L P L + tr L) / 2, for every preconditioner P",
    of=(theory.loss,),
    cases=SMALL,
    seeds=3,
)
def the_loss_is_a_quadratic(config: Exact, seed: int):
    P = draws_of(seed, "preconditioner").standard_normal((config.width, config.width))
    layer = model.gradient_step(jnp.asarray(P, dtype=jnp.float64))
    exact = average(lambda prompt: model.loss(layer, prompt), config)
    yield equal("loss", exact, theory.loss(P, config.eigenvalues, config.length, config.noise))


@LEDGER.exact(
    "gradient",
    statement="Zhang, Frei, Bartlett: the corner blocks",
    says="where only the corner blocks U and u are not zero, so is the gradient: gradient flow never leaves them",
    of=(theory.loss_gradient,),
    cases=SMALL,
    seeds=3,
)
def the_gradient_stays_in_the_corner_blocks(config: Exact, seed: int):
    rng = draws_of(seed, "corner blocks")
    U, u = rng.standard_normal((config.width, config.width)), rng.standard_normal()
    layer = model.corner_blocks(jnp.asarray(U, dtype=jnp.float64), jnp.asarray(u, dtype=jnp.float64))
    exact = average(lambda prompt: jax.grad(model.loss)(layer, prompt), config)
    D = theory.loss_gradient(u * U.T, config.eigenvalues, config.length, config.noise)
    formula = model.corner_blocks(jnp.asarray(u * D.T), jnp.asarray(np.vdot(D, U.T)))
    yield equal("W_PV", exact.value, formula.value)
    yield equal("W_KQ", exact.key_query, formula.key_query)
