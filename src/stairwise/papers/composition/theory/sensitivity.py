"""How far a small change of one layer's key-query matrix reaches, and how far small weights move attention off uniform.

The steps inside the proofs of Lemmas 29, 32 and 35. eps/2 is the largest mass that attention leaves off the right keys.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer

from stairwise.papers.composition.model import AttentionOnly
from stairwise.papers.composition.theory import exact


def jacobian_bound(epsilon: float) -> float:
    """||diag(S) - S S^T||_2 <= eps (1 - eps/2): its largest row sum is 2 s (1 - s), s = eps/2 on any wrong key.

    Lemma 29 says "<~ eps". Attained where all that leaks goes to one key.
    """
    return epsilon * (1 - epsilon / 2)


def reach_bound(blocks: int, alphabet: int, layers: int, epsilon: float, later: int) -> float:
    """Lemma 29, induction: (kNL)^{3/2} eps (1 + 1/k)^{t-l'} for a change of norm 1 of layer l', seen in X^(t)."""
    return (blocks * alphabet * layers) ** 1.5 * epsilon * (1 + 1 / blocks) ** later


def reach_sharp(tokens: int, layer: int, epsilon: float) -> float:
    """Ours, to first order in eps, where all wrong keys get the same: (l'+1) (eps/2) sqrt(kN/(kN-1)), at every t >= l'.

    The entry of the right key moves by s (1 - s) (u - mean of the others' u), u = X^T dW X_q. A column of X^(l'-1) has
    l'+1 ones, and in each block it is sqrt(kN/(kN-1)) away from the mean of the others. Later layers copy it.
    """
    return (layer + 1) * epsilon / 2 * math.sqrt(tokens / (tokens - 1))


def reach(model: AttentionOnly, sequence: Integer[Array, "blocks alphabet"], layer: int, upto: int) -> float:
    """sup over dW of ||d X^(t)(dW)||_inf / ||dW||_F, t = `upto`: the largest gradient of an entry in layer l' (from 1).

    Blocks that stand before layer l' has written do not change.
    """
    return float(_largest_slope(model, sequence, layer, upto))


@eqx.filter_jit  # one program for all seeds, sequences and sharpnesses
def _largest_slope(model: AttentionOnly, sequence: Integer[Array, "blocks alphabet"], layer: int, upto: int) -> Array:
    W = model.key_query[layer - 1]

    def written(W: Array) -> Array:
        matrices = (*model.key_query[: layer - 1], W, *model.key_query[layer:])
        return jnp.stack(exact.with_key_query(model, matrices).stream(sequence, upto).blocks[layer + 1 :])

    slopes = jax.jacrev(written)(W)
    return jnp.max(jnp.sqrt(jnp.sum(slopes**2, axis=(-1, -2, -3, -4))))


# --- attention that is nearly uniform ---------------------------------------------------------------------------------


def score_spread(tokens: int, layer: int, norm: float) -> float:
    """|u - mean u| <= (l+1) sqrt(1 - 1/(kN)) ||W||_2 for the scores u = X^T W X_q of layer l.

    A column of X^(l-1) has l+1 blocks of norm 1 at most, each at most sqrt(1 - 1/(kN)) away from the mean column.
    """
    return (layer + 1) * math.sqrt(1 - 1 / tokens) * norm


def off_uniform_bound(tokens: int, layer: int, norm: float) -> float:
    """|S - 1/(kN)| of layer l, with r = `score_spread`: e^r - 1 above and 1 - e^{-2r} below, over kN."""
    r = score_spread(tokens, layer, norm)
    return max(math.expm1(r), -math.expm1(-2 * r)) / tokens


def off_uniform_printed(tokens: int, layers: int, norm: float) -> float:
    """Lemmas 32 and 35: C L^2 ||W||_2/(kN), with C = 1."""
    return layers**2 * norm / tokens


def norm_after(blocks: int, alphabet: int, layers: int, layer: int, before: float, rate: float, distance: float):
    """Lemma 35, ||W_KQ^(l)(t)||_2 from Lemmas 33 and 37: ||W(t-1)||_2 + eta d_l (D + 6 (L-1) kNL D), beta0 = 1.

    d_l = kN (l+1) rows and columns of layer l are not zero, and no entry moves by more than eta times the sum of the
    bounds on the gradients of the L losses.
    """
    tokens = blocks * alphabet
    entry = distance * (1 + 6 * (layers - 1) * tokens * layers)
    return before + rate * tokens * (layer + 1) * entry


def spectral_norm(key_query: Float[np.ndarray, "a b T T"]) -> float:
    """||W_KQ||_2 of a layer from its blocks."""
    seen, _, T, _ = key_query.shape
    return float(np.linalg.norm(np.asarray(key_query).transpose(0, 2, 1, 3).reshape(seen * T, seen * T), 2))
