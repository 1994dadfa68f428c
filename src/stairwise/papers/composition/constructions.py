"""Weights that compute every hop but for e^{-beta}: Theorem 4, every k, Theorem 9 corrected and as stated."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer

from stairwise.papers.composition import plan as plans
from stairwise.papers.composition.model import AttentionOnly, readouts
from stairwise.papers.composition.task import shift

Hidden = Integer[Array, "blocks alphabet"]


def theorem4(hidden: Hidden, beta: float, *, cyclic: bool = True, dtype: str = "float32") -> AttentionOnly:
    """Layer 1 looks from (i, j) to (i, pi_i(j)), every later one from what it has reached to the block after it.

    Head l outputs hop_i^{2^l}(j) at (i, j). The cyclic readout sums over positions, 1_k (x) I; the theorem's own one
    (not cyclic) reads position i + 2^l - 1 for i = 0 only, which for the last head is e_{k,k} (x) I.
    """
    blocks = hidden.shape[0]
    if not plans.is_power_of_two(blocks):
        raise ValueError(f"blocks={blocks} must be a power of two (theorem4); any_blocks takes every k")
    return any_blocks(hidden, beta, cyclic=cyclic, dtype=dtype)


def any_blocks(hidden: Hidden, beta: float, *, cyclic: bool = True, dtype: str = "float32") -> AttentionOnly:
    """Theorem 4 for every k: doubling, then one layer for each further set bit of k adds it to an accumulator."""
    blocks, alphabet = hidden.shape
    plan, tokens = plans.layers(blocks), hidden.size
    start = alphabet * jnp.arange(blocks, dtype=jnp.int32)[:, None]
    here = jnp.arange(tokens, dtype=jnp.int32)
    key_query = []
    for number, layer in enumerate(plan):
        key = (start + hidden).reshape(-1) if layer.query == 0 else shift(blocks, alphabet)
        empty = jnp.zeros((number + 2, number + 2, tokens, tokens), dtype=dtype)
        key_query.append(empty.at[0, layer.query, key, here].set(beta))
    letters = jnp.eye(alphabet, dtype=dtype)
    readout = readouts(len(plan), jnp.tile(letters, (blocks, 1)))
    if not cyclic:
        last = jnp.eye(blocks, dtype=dtype)[jnp.array([layer.hops - 1 for layer in plan], dtype=jnp.int32)]
        readout = readout * jnp.repeat(last, alphabet, axis=1)[:, None, :, None]
    return AttentionOnly(tuple(key_query), readout, plan=plan)


class SparseConstruction(eqx.Module):
    """Theorem 9: at most m hidden permutations move, and blocks are coded by m+2 numbers instead of k.

    p_i = (e_s if i is the s-th block of the support, else 0; cos 2 pi i/k, sin 2 pi i/k [; 1]), i = 1..k.

    A linear readout of (cos, sin) can be right for one position only, so the plain construction answers queries of the
    first block; one more, constant coordinate answers all of them. The code depends on the support of pi, not on what
    pi does there.
    """

    model: AttentionOnly
    cyclic: bool = eqx.field(static=True)

    def __call__(
        self, sequence: Integer[Array, "blocks alphabet"], block: int, letter: int
    ) -> Float[Array, " alphabet"]:
        """The last head at token (block, letter): e_{hop_block^k(letter)}."""
        blocks, alphabet = sequence.shape
        if not 0 <= block < (blocks if self.cyclic else 1):
            allowed = f"lie in 0..{blocks - 1}" if self.cyclic else "be 0: the plain readout knows one position only"
            raise ValueError(f"block={block} must {allowed} (SparseConstruction)")
        if not 0 <= letter < alphabet:
            raise ValueError(f"letter={letter} must lie in 0..{alphabet - 1} (SparseConstruction)")
        return self.model.heads(sequence)[-1, block * alphabet + letter]


def theorem9(
    hidden: Hidden,
    moved: int,
    beta: float,
    *,
    support_beta: float | None = None,
    cyclic: bool = False,
    dtype: str = "float32",
) -> SparseConstruction:
    """The compact weights: beta on the circle, and support_beta >> beta (3 beta, unless given) on the support.

    Corrected: the readout leaves the support's coordinates out (as printed it counts the last block twice when that is
    in the support). Neighbours on the circle differ by 1 - cos(2 pi/k) only, so beta must be about k^2/(2 pi^2) times
    that of Theorem 4.
    """
    blocks, alphabet = hidden.shape
    if not plans.is_power_of_two(blocks):
        raise ValueError(f"blocks={blocks} must be a power of two (theorem9)")
    if not 0 <= moved <= blocks:
        raise ValueError(f"moved={moved} must lie in 0..blocks={blocks} (theorem9)")
    permutations = np.asarray(hidden)
    support = (permutations != np.arange(alphabet)).any(axis=1)
    if support.sum() > moved:
        raise ValueError(f"moved={moved} must be at least {support.sum()}, as many hidden permutations move (theorem9)")
    plan, letters = plans.layers(blocks), np.eye(alphabet)
    codes = np.asarray(compact_codes(jnp.asarray(support), moved, constant=cyclic, dtype=dtype))
    code, circle = codes.shape[1], slice(moved, moved + 2)
    same, turn = np.zeros((code, code)), np.zeros((code, code))
    cosine, sine = np.cos(2 * np.pi / blocks), np.sin(2 * np.pi / blocks)
    same[circle, circle], turn[circle, circle] = np.eye(2), [[cosine, -sine], [sine, cosine]]
    first = beta * np.kron(same, letters)
    for block in np.flatnonzero(support):
        named = np.zeros((code, code))
        named[:moved, :moved] = np.diag(codes[block, :moved])
        stronger = 3 * beta if support_beta is None else support_beta
        first += stronger * np.kron(named, letters[:, permutations[block]])  # P[pi(j), j] = 1
    key_query = []
    for number, layer in enumerate(plan):
        matrix = np.zeros((number + 2, number + 2, *first.shape))
        matrix[0, layer.query] = first if number == 0 else beta * np.kron(turn, letters)
        key_query.append(jnp.asarray(matrix, dtype=dtype))
    readout = np.zeros((len(plan), len(plan) + 2, code * alphabet, alphabet))
    for head, layer in enumerate(plan):
        reads = np.zeros(code)
        if cyclic:
            reads[-1] = 1
        else:
            reads[circle] = codes[layer.hops - 1, circle]
        readout[head, head + 2] = np.kron(reads[:, None], letters)
    model = AttentionOnly(
        tuple(key_query), jnp.asarray(readout, dtype=dtype), None, jnp.asarray(codes, dtype=dtype), plan=plan
    )
    return SparseConstruction(model, cyclic)


# --- Theorem 9 as stated: an embedding that is chosen before pi -------------------------------------------------------


def harmonics(angles: np.ndarray, moved: int) -> np.ndarray:
    """1, cos, sin, ..., cos D angle, sin D angle with D = ceil(m/2), at most m+2 numbers: codes that know no support.

    >>> harmonics(np.zeros(1), 2).tolist()
    [[1.0, 1.0, 0.0]]
    """
    waves = [wave(n * angles) for n in range(1, (moved + 1) // 2 + 1) for wave in (np.cos, np.sin)]
    return np.stack([np.ones_like(angles), *waves], axis=1)


def nodal(angles: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """w, which is 0 at every node and nowhere else, and lambda_y, which is 1 at node y and 0 at every other.

    w = prod_z sin((t - t_z)/2) and lambda_y = cos((t - t_y)/2) prod_{z != y} sin((t - t_z)/2) / sin((t_y - t_z)/2).
    For an even number m of nodes they are trigonometric polynomials of degree m/2: combinations of the harmonics.
    """
    sines = np.sin((angles[:, None] - nodes) / 2)
    columns = [np.prod(sines, axis=1)]
    for y, node in enumerate(nodes):
        others = np.delete(nodes, y)
        ratios = np.delete(sines, y, axis=1) / np.sin((node - others) / 2)
        columns.append(np.cos((angles - node) / 2) * np.prod(ratios, axis=1))
    return np.stack(columns, axis=1)


def theorem9_uniform(hidden: Hidden, moved: int, margin: float, *, dtype: str = "float64") -> AttentionOnly:
    """Theorem 9 with codes that do not depend on pi, and right for every query of the cyclic task.

    The first W_KQ does what the printed codes do: it changes the basis of the harmonics to w and lambda_y of the
    support, which are one-hot there. The score of key (i', j') for query (i, j) is margin times

        b cos(t_i' - t_i) + c w(t_i') w(t_i) 1{j' = j} + sum_y lambda_y(t_i') lambda_y(t_i) 1{j' = pi_y(j)},

    with c so large that off the support j' = j leads by 1, and b so large that no other block comes within 1.
    """
    blocks, alphabet = hidden.shape
    permutations = np.asarray(hidden)
    moving = np.flatnonzero((permutations != np.arange(alphabet)).any(axis=1))
    if not plans.is_power_of_two(blocks) or blocks < 2:
        raise ValueError(f"blocks={blocks} must be a power of two, 2 or more (theorem9_uniform)")
    if not max(1, len(moving)) <= moved <= blocks:
        raise ValueError(f"moved={moved} must lie in {max(1, len(moving))}..blocks={blocks} (theorem9_uniform)")
    spare = np.setdiff1d(np.arange(blocks), moving)
    support = np.concatenate([moving, spare])[: moved + moved % 2]  # as many as the degree allows; an even number
    angles = 2 * np.pi * np.arange(blocks) / blocks
    codes = harmonics(angles, moved)
    grid = 2 * np.pi * np.arange(codes.shape[1]) / codes.shape[1]
    basis = np.linalg.solve(harmonics(grid, moved), nodal(grid, angles[support]))
    functions = nodal(angles, angles[support])
    zero, ones = functions[:, 0], functions[:, 1:]
    off = np.setdiff1d(np.arange(blocks), support)
    stay = float(np.max((1 + np.sum(ones[off] ** 2, axis=1)) / zero[off] ** 2, initial=0.0))
    across = stay * np.abs(np.outer(zero, zero)) + np.abs(ones) @ np.abs(ones).T
    step = 1 - np.cos(2 * np.pi / blocks)
    letters, code = np.eye(alphabet), codes.shape[1]
    circle, turn = np.zeros((code, code)), np.zeros((code, code))
    circle[1:3, 1:3] = np.eye(2)
    turn[1:3, 1:3] = [[1 - step, -np.sin(2 * np.pi / blocks)], [np.sin(2 * np.pi / blocks), 1 - step]]
    first = (1 + 2 * across.max()) / step * np.kron(circle, np.ones((alphabet, alphabet)))
    first += stay * np.kron(np.outer(basis[:, 0], basis[:, 0]), letters)
    for y, block in enumerate(support):
        first += np.kron(np.outer(basis[:, 1 + y], basis[:, 1 + y]), letters[:, permutations[block]])
    plan, key_query = plans.layers(blocks), []
    for number, layer in enumerate(plan):
        matrix = np.zeros((number + 2, number + 2, *first.shape))
        matrix[0, layer.query] = margin * (first if number == 0 else np.kron(turn, letters) / min(1.0, step))
        key_query.append(jnp.asarray(matrix, dtype=dtype))
    readout = readouts(len(plan), jnp.kron(jnp.eye(code, 1, dtype=dtype), jnp.eye(alphabet, dtype=dtype)))
    return AttentionOnly(tuple(key_query), readout, None, jnp.asarray(codes, dtype=dtype), plan=plan)


def moves(hidden: Hidden):
    """Which hidden permutations are not the identity."""
    return jnp.any(hidden != jnp.arange(hidden.shape[1], dtype=hidden.dtype), axis=1)


@partial(jax.jit, static_argnames=("moved", "constant", "dtype"))
def compact_codes(support, moved: int, *, constant: bool, dtype: str = "float32") -> Float[Array, "blocks code"]:
    """The codes p_i of Theorem 9, with a constant last coordinate or without."""
    blocks = len(support)
    rank = jnp.cumsum(support, dtype=jnp.int32) - 1
    one_hot = (rank[:, None] == jnp.arange(moved, dtype=jnp.int32)) & support[:, None]
    angle = 2 * jnp.pi * jnp.arange(1, blocks + 1, dtype=dtype) / blocks
    columns = [one_hot.astype(dtype), jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]]
    return jnp.concatenate([*columns, jnp.ones((blocks, 1), dtype=dtype)] if constant else columns, axis=1)
