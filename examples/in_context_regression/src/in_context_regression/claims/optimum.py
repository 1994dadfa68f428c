"""The optimum: where it is, that gradient flow finds it, and what it is worth on other prompts."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from stairwise.paper import TOLERANCE, at_least, at_most, draws_of, equal, option, row, vacuous_if

from in_context_regression import model, theory
from in_context_regression.claims.exact import SMALL
from in_context_regression.claims.ledger import LEDGER
from in_context_regression.claims.sizes import Exact, Sizes, average


def optimal_layer(sizes: Sizes):
    """The layer that gradient flow ends at."""
    U, u = theory.limit_weights(sizes.eigenvalues, sizes.length, sizes.noise)
    return model.corner_blocks(jnp.asarray(U, dtype=jnp.float64), jnp.asarray(u, dtype=jnp.float64))


def best_step(sizes: Sizes) -> np.ndarray:
    return np.diag(1 / theory.gamma(sizes.eigenvalues, sizes.length, sizes.noise))


@LEDGER.exact(
    "optimum",
    statement="Theorem of Ahn et al., the optimum",
    says="P = G^-1 is stationary in all weights of the layer, the only minimum over P, and its loss is the printed one",
    of=(
        theory.minimum,
        theory.limit_weights,
    ),
    cases=SMALL,
)
def the_optimum_is_where_it_is_said_to_be(config: Exact, seed: int):
    layer, sizes = optimal_layer(config), (config.eigenvalues, config.length, config.noise)
    value, gradient = average(lambda prompt: jax.value_and_grad(model.loss)(layer, prompt), config)
    steepest = max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(gradient))
    away = draws_of(seed, "another matrix").standard_normal((config.width, config.width))
    l, g = config.eigenvalues, theory.gamma(*sizes)
    yield at_most("steepest slope of the loss", steepest, TOLERANCE)
    yield equal("least loss", value, theory.minimum(*sizes))
    above = theory.loss(best_step(config) + away, *sizes) - theory.minimum(*sizes)
    yield equal("loss above it", above, (l[:, None] * away**2 * (l * g)).sum() / 2)  # positive: no other minimum


@dataclass(frozen=True)
class Flow(Sizes):
    """Gradient flow from the paper's start."""

    width: int = option(4, "dimension d of an input", low=1, high=32)
    length: int = option(12, "labelled inputs N", low=1, high=10**6)
    decay: float = option(1.0, "power at which the eigenvalues fall", low=0.0, high=2.0)
    start: float = option(0.3, "scale sigma of the start", low=1e-6, high=10.0)


def start_of(config: Flow, seed: int) -> np.ndarray:
    factor = draws_of(seed, "start").standard_normal((config.width, config.width))
    return factor @ factor.T / np.linalg.norm(factor @ factor.T)


def small_start(config: Flow) -> bool:
    """Whatever the direction of the start, whose largest singular value is at most its norm 1."""
    steepest = np.diag([1.0] + [0.0] * (config.width - 1))
    return config.start < theory.largest_start(config.eigenvalues, config.length, steepest, config.noise)


@LEDGER.bound(
    "flow",
    statement="Theorem 4.1 of Zhang, Frei, Bartlett",
    says="gradient flow from a small balanced start reaches U = tr(G^-2)^(-1/4) G^-1 and u = tr(G^-2)^(1/4)",
    of=(
        theory.limit_weights,
        theory.flow,
    ),
    hypotheses={"the start is small": small_start},
    cases=(Flow(), Flow(2, 3, 2.0, 0.5), Flow(6, 40, 0.0)),
)
def gradient_flow_reaches_the_optimum(config: Flow, seed: int):
    l, start = config.eigenvalues, start_of(config, seed)
    U, u = theory.flow(config.start * start, config.start, l, config.length, config.noise)
    limit_U, limit_u = theory.limit_weights(l, config.length, config.noise)
    yield equal("U at the end", U, limit_U, 1e-6)
    yield equal("u at the end", u, limit_u, 1e-6)
    yield row({"quantity": "|U|_F^2 - u^2, which the flow conserves", "value": np.vdot(U, U) - u**2})


@dataclass(frozen=True)
class Other(Exact):
    """Test prompts of another covariance and another length, at sizes at which everything is integrated exactly."""

    test_length: int = option(1, "labelled inputs M of a test prompt", low=1, high=1024)
    test_decay: float = option(0.0, "power at which the eigenvalues fall at test time", low=0.0, high=4.0)
    scale: float = option(3.0, "test covariance over training covariance, besides its shape", above=0.0, high=100.0)

    def check(self) -> None:
        super().check()
        _ = self.test  # has the same limit

    @property
    def test(self) -> Exact:
        return Exact(self.width, self.test_length, self.test_decay, self.noise)


@LEDGER.exact(
    "shift",
    statement="ours: the optimum under a shift",
    says="under another covariance the optimum has the loss of the closed form, above the least one: it does not adapt",
    of=(theory.loss,),
    cases=(Other(), Other(1, 3, noise=0.5, test_length=3), Other(2, 2, 2.0, scale=0.25, test_length=2)),
)
def the_optimum_does_not_adapt(config: Other, seed: int):
    l = config.scale * config.test.eigenvalues
    layer = optimal_layer(config)
    exact = average(lambda prompt: model.loss(layer, prompt), config.test, l)
    formula = theory.loss(best_step(config), l, config.test_length, config.noise)
    ratio = formula / theory.minimum(l, config.test_length, config.noise)
    yield equal("loss", exact, formula)
    yield at_least("loss over the least", ratio, 1.0, rounding=TOLERANCE)
    same = ratio < 1 + TOLERANCE
    yield vacuous_if(same, "the best preconditioner for these prompts is the trained one")


@LEDGER.bound(
    "length",
    statement="ours: longer prompts",
    says="on prompts of M inputs the loss is affine in 1/M and stops at a floor that training at N leaves, O(1/N^2)",
    of=(
        theory.longest,
        theory.longest_bound,
    ),
    cases=(Sizes(5, 20), Sizes(3, 100, 2.0, 1.0), Sizes(1, 1, 0.0)),
)
def longer_prompts_help_only_so_far(config: Sizes, seed: int):
    P, l, noise = best_step(config), config.eigenvalues, config.noise
    at = [theory.loss(P, l, M, noise) for M in (1, 2, 4)]
    floor, bound = theory.longest(P, l), theory.longest_bound(l, config.length, noise)
    yield equal("loss at M = 4, affine in 1/M", at[2], (3 * at[1] - at[0]) / 2, 1e-9)
    yield equal("loss at M = inf, affine in 1/M", 2 * at[1] - at[0], floor, 1e-9)
    yield at_most("floor", floor, bound)
