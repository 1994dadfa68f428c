"""What the theory claims share: their sizes, and the exact average over all prompts."""

from dataclasses import dataclass

import jax.numpy as jnp
from stairwise.paper import Config, option, population, require

from in_context_regression import task, theory

LARGEST = 11  # Gaussian numbers of a prompt that are integrated over, three nodes each


@dataclass(frozen=True)
class Sizes(Config):
    """Sizes of prompts."""

    width: int = option(2, "dimension d of an input", low=1, high=64)
    length: int = option(2, "labelled inputs N", low=1, high=1024)
    decay: float = option(1.0, "power at which the eigenvalues fall", low=0.0, high=4.0)
    noise: float = option(0.0, "standard deviation sigma of the labels' noise", low=0.0, high=10.0)

    @property
    def eigenvalues(self):
        return theory.spectrum(self.width, self.decay)


@dataclass(frozen=True)
class Exact(Sizes):
    """Sizes at which every moment is integrated exactly."""

    def check(self) -> None:
        count = numbers(self)
        where = f"width={self.width} length={self.length} noise={self.noise}"
        require(count <= LARGEST, f"{where} must keep (N+2)d (+N with noise) at {LARGEST} or less, not {count}")


def numbers(sizes: Sizes) -> int:
    """How many Gaussian numbers make a prompt."""
    return (sizes.length + 2) * sizes.width + (sizes.length if sizes.noise else 0)


def all_prompts(sizes: Sizes, eigenvalues=None):
    """Prompts at the nodes of a Gauss-Hermite rule: averages are exact up to degree 5 in each Gaussian number.

    The loss and its gradient in all weights have degree 4 or less in each.
    """
    d, N = sizes.width, sizes.length
    chosen = jnp.asarray(sizes.eigenvalues if eigenvalues is None else eigenvalues, dtype=jnp.float64)
    problem = task.LinearRegression(chosen, sizes.noise, N)
    grid = population.gauss_hermite(numbers(sizes))

    def prompt(normals):
        noise = normals[(N + 2) * d :] if sizes.noise else jnp.zeros(N, dtype=jnp.float64)
        return problem.assemble(normals[:d], normals[d : (N + 2) * d].reshape(N + 1, d), noise)

    return prompt, grid


def average(function, sizes: Sizes, eigenvalues=None):
    """E[function(prompt)], exactly."""
    prompt, grid = all_prompts(sizes, eigenvalues)
    return population.expectation(lambda normals: function(prompt(normals)), grid)
