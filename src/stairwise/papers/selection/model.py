"""One-layer softmax attention, f(X, y; E) = V Z softmax(Z^T W z_query) with Z = [X; E], z_query = [x_query; e_y].

W is (d+d_e) x (d+d_e) and V is d x (d+d_e); both train, without bias, scale, mask or residual. Encodings are kept one
per row (T x d_e), so Z^T has the rows [x_i, e_i].
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from stairwise.nn.taps import tap

PATTERN = "blocks.0.attn.pattern"  # over context positions; the query comes last where it is attended to


class SelectionAttention(eqx.Module):
    """The paper's model, eq. (2), evaluated without ever forming Z.

    The scores split into a token and a position part, and V acts after the average over positions:
    logits = X u_x + E u_e with u = W z_query, and f = V_x (X^T S) + V_e (E^T S).
    """

    W: Float[Array, "joint joint"]
    V: Float[Array, "width joint"]

    def __call__(
        self,
        tokens: Float[Array, "length width"],
        encodings: Float[Array, "length encoding"],
        query: Float[Array, " joint"],
        allowed: Bool[Array, " length"] | None = None,
        beta: float | Float[Array, ""] = 1.0,
        attend_query: bool = False,
    ) -> Float[Array, " width"]:
        """f(X, y; E) for z_query = `query`.

        `allowed` masks padded positions, `beta` is an inverse temperature, and `attend_query` lets the softmax run over
        [Z, z_query] instead of Z (the caption of Figure 1 against eq. (2)).
        """
        width = self.V.shape[0]
        logits = self.logits(tokens, encodings, query, allowed, beta)
        if attend_query:
            attention = tap(PATTERN, jax.nn.softmax(jnp.append(logits, beta * query @ self.W @ query)))
            own, attention = attention[-1], attention[:-1]
        else:
            own, attention = 0.0, tap(PATTERN, jax.nn.softmax(logits))
        seen = self.V[:, :width] @ (tokens.T @ attention) + self.V[:, width:] @ (encodings.T @ attention)
        return tap("blocks.0.attn_out", seen + own * (self.V @ query) if attend_query else seen)

    def logits(
        self,
        tokens: Float[Array, "length width"],
        encodings: Float[Array, "length encoding"],
        query: Float[Array, " joint"],
        allowed: Bool[Array, " length"] | None = None,
        beta: float | Float[Array, ""] = 1.0,
    ) -> Float[Array, " length"]:
        """beta Z^T W z_query over the T context positions."""
        width = self.V.shape[0]
        u = self.W @ query
        logits = tap("blocks.0.attn.scores", beta * (tokens @ u[:width] + encodings @ u[width:]))
        return logits if allowed is None else jnp.where(allowed, logits, -jnp.inf)

    def attention(
        self,
        tokens: Float[Array, "length width"],
        encodings: Float[Array, "length encoding"],
        query: Float[Array, " joint"],
    ) -> Float[Array, " length"]:
        """softmax(Z^T W z_query)."""
        return jax.nn.softmax(self.logits(tokens, encodings, query))


def ideal(width: int, encoding_width: int) -> SelectionAttention:
    """The directions that training should find: W* = diag(0, I_{d_e}) and V* = [I_d 0]."""
    joint = width + encoding_width
    W = jnp.diag((jnp.arange(joint) >= width).astype(jnp.float32))
    return SelectionAttention(W=W, V=jnp.eye(width, joint, dtype=jnp.float32))
