"""In-context linear regression: a prompt is a regression problem of its own.

w ~ N(0, I_d), x_1..x_N, x_query ~ N(0, L), y_i = <w, x_i> + sigma e_i, and the answer is <w, x_query>. Since w has no
preferred direction, L = diag(l_1..l_d) is no loss of generality.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray
from stairwise.paper import role


class Prompt(NamedTuple):
    """One example: labelled inputs, the query, and what it should be answered with."""

    inputs: Float[Array, "length width"]
    labels: Float[Array, " length"]
    query: Float[Array, " width"]
    target: Float[Array, ""]


class LinearRegression(eqx.Module):
    """The distribution of prompts, and the best that can be done with one."""

    eigenvalues: Float[Array, " width"]
    noise: float | Float[Array, ""]
    length: int = eqx.field(static=True)

    def sample(self, key: PRNGKeyArray) -> Prompt:
        """One prompt as a function of its key."""
        width, dtype = self.eigenvalues.shape[0], self.eigenvalues.dtype
        weights = jax.random.normal(role(key, "weights"), (width,), dtype=dtype)
        tokens = jax.random.normal(role(key, "inputs"), (self.length + 1, width), dtype=dtype)
        noise = jax.random.normal(role(key, "noise"), (self.length,), dtype=dtype)
        return self.assemble(weights, tokens, noise)

    def assemble(
        self, weights: Float[Array, " width"], tokens: Float[Array, "tokens width"], noise: Float[Array, " length"]
    ) -> Prompt:
        """The prompt that standard normal numbers mean; the last token is the query."""
        inputs = jnp.sqrt(self.eigenvalues) * tokens
        labels = inputs[:-1] @ weights + self.noise * noise
        return Prompt(inputs[:-1], labels, inputs[-1], inputs[-1] @ weights)

    def answer(self, prompt: Prompt) -> Float[Array, ""]:
        """The oracle: the posterior mean of the target, which is ridge regression with penalty sigma^2.

        The penalty enters as d further inputs with label 0, so that sigma = 0 gives the least-squares solution.
        """
        width = prompt.query.shape[0]
        rows = jnp.concatenate([prompt.inputs, self.noise * jnp.eye(width, dtype=prompt.inputs.dtype)])
        labels = jnp.concatenate([prompt.labels, jnp.zeros(width, dtype=prompt.labels.dtype)])
        return prompt.query @ jnp.linalg.lstsq(rows, labels)[0]
