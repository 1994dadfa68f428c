"""The optimum: where it is, that gradient flow finds it, and what it is worth on other prompts."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from stairwise.lab.checks import TOLERANCE, empty_if, identical, relative_error, under
from stairwise.lab.config import option
from stairwise.lab.contract import Verdict

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


@LEDGER.theory(
    "optimum",
    kind="identity",
    says="P = G^-1 is stationary in all weights of the layer, the only minimum over P, and its loss is the printed one",
    cases=SMALL,
)
def the_optimum_is_where_it_is_said_to_be(config: Exact, seed: int) -> Verdict:
    layer, sizes = optimal_layer(config), (config.eigenvalues, config.length, config.noise)
    value, gradient = average(lambda prompt: jax.value_and_grad(model.loss)(layer, prompt), config)
    steepest = max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(gradient))
    away = np.random.default_rng(seed).standard_normal((config.width, config.width))
    l, g = config.eigenvalues, theory.gamma(*sizes)
    return Verdict.worst(
        {
            "stationary": Verdict.at_most(steepest, TOLERANCE),
            "values": identical(
                {
                    "least loss": (value, theory.minimum(*sizes)),
                    "loss above it": (
                        theory.loss(best_step(config) + away, *sizes) - theory.minimum(*sizes),
                        (l[:, None] * away**2 * (l * g)).sum() / 2,  # positive: no other minimum
                    ),
                }
            ),
        }
    )


@dataclass(frozen=True)
class Flow(Sizes):
    """Gradient flow from the paper's start."""

    width: int = option(4, "dimension d of an input", low=1, high=32)
    length: int = option(12, "labelled inputs N", low=1, high=10**6)
    decay: float = option(1.0, "power at which the eigenvalues fall", low=0.0, high=2.0)
    start: float = option(0.3, "scale sigma of the start", low=1e-6, high=10.0)


@LEDGER.theory(
    "flow",
    kind="convergence",
    says="gradient flow from a small balanced start reaches U = tr(G^-2)^(-1/4) G^-1 and u = tr(G^-2)^(1/4)",
    cases=(Flow(), Flow(2, 3, 2.0, 0.5), Flow(6, 40, 0.0)),
)
def gradient_flow_reaches_the_optimum(config: Flow, seed: int) -> Verdict:
    l, factor = config.eigenvalues, np.random.default_rng(seed).standard_normal((config.width, config.width))
    start = factor @ factor.T / np.linalg.norm(factor @ factor.T)
    U, u = theory.flow(config.start * start, config.start, l, config.length, config.noise)
    limit_U, limit_u = theory.limit_weights(l, config.length, config.noise)
    largest = theory.largest_start(l, config.length, start, config.noise)
    violated = () if config.start < largest else (f"start={config.start:g} must be below {largest:.3g}",)
    distance = max(relative_error(U, limit_U), relative_error(u, limit_u))
    balance = {"quantity": "|U|_F^2 - u^2, which the flow conserves", "value": np.vdot(U, U) - u**2}
    return under(violated, Verdict.at_most(distance, 1e-6, details=(balance,)))


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


@LEDGER.theory(
    "shift",
    kind="identity",
    says="under another covariance the optimum has the loss of the closed form, above the least one: it does not adapt",
    cases=(Other(), Other(1, 3, noise=0.5, test_length=3), Other(2, 2, 2.0, scale=0.25, test_length=2)),
)
def the_optimum_does_not_adapt(config: Other, seed: int) -> Verdict:
    l = config.scale * config.test.eigenvalues
    layer = optimal_layer(config)
    exact = average(lambda prompt: model.loss(layer, prompt), config.test, l)
    formula = theory.loss(best_step(config), l, config.test_length, config.noise)
    ratio = formula / theory.minimum(l, config.test_length, config.noise)
    above = Verdict.at_least(ratio, 1 - TOLERANCE)  # it equals 1 where nothing has shifted
    same = empty_if(ratio < 1 + TOLERANCE, above, "the best preconditioner for these prompts is the trained one")
    return Verdict.worst({"loss": identical({"loss": (exact, formula)}), "loss over the least": same})


@LEDGER.theory(
    "length",
    kind="bound",
    says="on prompts of M inputs the loss is affine in 1/M and stops at a floor that training at N leaves, O(1/N^2)",
    cases=(Sizes(5, 20), Sizes(3, 100, 2.0, 1.0), Sizes(1, 1, 0.0)),
)
def longer_prompts_help_only_so_far(config: Sizes, seed: int) -> Verdict:
    P, l, noise = best_step(config), config.eigenvalues, config.noise
    at = [theory.loss(P, l, M, noise) for M in (1, 2, 4)]
    floor, bound = theory.longest(P, l), theory.longest_bound(l, config.length, noise)
    affine = identical({"at M = 4": (at[2], (3 * at[1] - at[0]) / 2), "at M = inf": (2 * at[1] - at[0], floor)}, 1e-9)
    return Verdict.worst({"affine in 1/M": affine, "floor": Verdict.at_most(floor, bound)})
