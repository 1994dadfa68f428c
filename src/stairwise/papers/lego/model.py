"""The theory's transformer: one layer, no positions, FFN of attention and nothing else (Definition 3.5).

    Lambda_{ijr} = sum_k Attn_k <W_{ijr}, Z_k> + b,   F_{ij} = min(sum_r sReLU(Lambda_{ijr}), B),   p_i = softmax F_i

A clause is five one-hot vectors, so <W, Z_k> is a gather of three rows for a predicate and of two for an answer; the
paper's 5d-wide products are in `tests/reference/lego.py`. Clauses are token ids; a context is L predicates followed by
answers, the last of which asks. Weights are stored with the input first: `weights[p, v, i, j, r]` is the paper's
W_{i,j,r,p} at token v, so that a gathered row is contiguous.
"""

import math
from typing import Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, PRNGKeyArray

from stairwise.nn.taps import tap
from stairwise.papers.lego.activation import Number, smooth_relu
from stairwise.papers.lego.task import SLOTS, Chain, Lego
from stairwise.train.keys import role

PREDICATE_SLOTS, ANSWER_SLOTS = (0, 1, 2), (3, 4)  # those that are not blank
VALUE = 4  # the output position that holds the value, the paper's fifth token

Clauses = Integer[Array, "clauses 5"]


# --- attention --------------------------------------------------------------------------------------------------------


class Scores(Protocol):
    """Z_query^T Q Z_k for the last clause as query."""

    def __call__(self, clauses: Clauses, predicates: int) -> Float[Array, " clauses"]: ...


class SparseScores(eqx.Module):
    """Assumption 3.5: Q is zero but for its blocks (4,3) and (4,4): which predicate asks for me, which answer is mine.

    Eq. (21): the score is Q43[x, third token] of a predicate and Q44[x, fourth token] of an answer.
    """

    predicate: Float[Array, "tokens tokens"]
    answer: Float[Array, "tokens tokens"]

    @staticmethod
    def zero(tokens: int, dtype=jnp.float32) -> "SparseScores":
        return SparseScores(jnp.zeros((tokens, tokens), dtype=dtype), jnp.zeros((tokens, tokens), dtype=dtype))

    def __call__(self, clauses: Clauses, predicates: int) -> Float[Array, " clauses"]:
        query = clauses[-1, 3]
        to_predicates = self.predicate[query, clauses[:predicates, 2]]
        return jnp.concatenate([to_predicates, self.answer[query, clauses[predicates:, 3]]])


class FullScores(eqx.Module):
    """All 25 blocks of Q, `blocks[p, u, q, v]`; an answer asks, so only rows p = 4, 5 are ever read."""

    blocks: Float[Array, "5 tokens 5 tokens"]

    @staticmethod
    def zero(tokens: int, dtype=jnp.float32) -> "FullScores":
        return FullScores(jnp.zeros((SLOTS, tokens, SLOTS, tokens), dtype=dtype))

    @staticmethod
    def of(sparse: SparseScores) -> "FullScores":
        """The same Q, written out."""
        blocks = FullScores.zero(sparse.predicate.shape[0], sparse.predicate.dtype).blocks
        return FullScores(blocks.at[3, :, 2].set(sparse.predicate).at[3, :, 3].set(sparse.answer))

    def __call__(self, clauses: Clauses, predicates: int) -> Float[Array, " clauses"]:
        rows = sum(self.blocks[p, clauses[-1, p]] for p in ANSWER_SLOTS)
        assert isinstance(rows, jax.Array)
        to_predicates = sum(rows[q, clauses[:predicates, q]] for q in PREDICATE_SLOTS)
        return jnp.concatenate([to_predicates, sum(rows[q, clauses[predicates:, q]] for q in ANSWER_SLOTS)])


# --- the network ------------------------------------------------------------------------------------------------------


class ClauseTransformer(eqx.Module):
    """F = FFN o Attention; `positions` is 5, or 1 for a network that predicts a single token of the clause.

    bias   b, the same for every neuron, not trained       clip  B of F <- min(F, B)
    rho, q the knot and the power of the smoothed ReLU
    """

    weights: Float[Array, "5 tokens positions tokens neurons"]
    scores: SparseScores | FullScores
    bias: Number
    clip: Number
    rho: Number
    q: int = eqx.field(static=True)

    def __check_init__(self):
        if self.q < 3:
            raise ValueError(f"q={self.q} must be at least 3 (Transformer)")

    @property
    def tokens(self) -> int:
        """d."""
        return self.weights.shape[1]

    @property
    def neurons(self) -> int:
        """m."""
        return self.weights.shape[-1]

    def only(self, position: int) -> "ClauseTransformer":
        """The same network, predicting one token of the clause: the positions share nothing but attention."""
        return eqx.tree_at(lambda model: model.weights, self, self.weights[:, :, position : position + 1])

    def read(self, clauses: Clauses, predicates: int) -> Float[Array, "clauses positions tokens neurons"]:
        """<W_{ijr}, Z_k> for each clause k: three gathers a predicate, two an answer."""
        early, late = clauses[:predicates], clauses[predicates:]
        gathered = [self.gathered(early, PREDICATE_SLOTS), self.gathered(late, ANSWER_SLOTS)]
        return tap("blocks.0.attn.v", jnp.concatenate(gathered))

    def gathered(self, clauses: Clauses, slots: tuple[int, ...]) -> Float[Array, "clauses positions tokens neurons"]:
        """The rows of the given slots' tokens, added up."""
        first, *others = (self.weights[slot, clauses[:, slot]] for slot in slots)
        return sum(others, start=first)

    def attention(self, clauses: Clauses, predicates: int) -> Float[Array, " clauses"]:
        """Attn of the last clause to every clause, itself included."""
        scores = tap("blocks.0.attn.scores", self.scores(clauses, predicates))
        return tap("blocks.0.attn.pattern", jax.nn.softmax(scores))

    def pre_activations(self, clauses: Clauses, predicates: int) -> Float[Array, "positions tokens neurons"]:
        """Lambda: what was read, mixed by attention."""
        mixed = jnp.tensordot(self.attention(clauses, predicates), self.read(clauses, predicates), axes=1)
        return tap("blocks.0.mlp.pre", mixed + self.bias)

    def output(self, pre_activations: Float[Array, "*shape neurons"]) -> Float[Array, "*shape"]:
        """F; its derivative is zero exactly where it is clipped (`minimum` would halve it at equality)."""
        raw = jnp.sum(tap("blocks.0.mlp.post", smooth_relu(pre_activations, self.rho, self.q)), axis=-1)
        return jnp.where(raw < self.clip, raw, self.clip)

    def logits(self, clauses: Clauses, predicates: int) -> Float[Array, "positions tokens"]:
        """F_i for each position i of the next clause."""
        return self.output(self.pre_activations(clauses, predicates))

    def first_step_logits(self, clauses: Integer[Array, "2 5"]) -> Float[Array, "positions tokens"]:
        """The same on T^1 with untrained attention: half the sum of five gathers."""
        rows = self.gathered(clauses[:1], PREDICATE_SLOTS) + self.gathered(clauses[1:], ANSWER_SLOTS)
        return self.output(rows[0] / 2 + self.bias)

    def greedy(self, clauses: Clauses, predicates: int) -> Integer[Array, " positions"]:
        """The likeliest next clause."""
        return jnp.argmax(self.logits(clauses, predicates), axis=-1).astype(jnp.int32)


def surprise(logits: Float[Array, "*shape tokens"], target: Integer[Array, "*shape"]) -> Float[Array, "*shape"]:
    """-log softmax(F)[target] as log1p of the others' share: no digit is lost where the target is nearly certain."""
    hit = target[..., None] == jnp.arange(logits.shape[-1], dtype=target.dtype)
    own = jnp.sum(jnp.where(hit, logits, 0), axis=-1)
    return jax.nn.softplus(jax.nn.logsumexp(jnp.where(hit, -jnp.inf, logits), axis=-1) - own)


# --- losses and accuracy ----------------------------------------------------------------------------------------------


def token_losses(model: ClauseTransformer, task: Lego, chain: Chain, step: int) -> Float[Array, " positions"]:
    """-log p_i(answer `step` | Z^{L,step-1}) of each token i that the model predicts; the value alone if only one."""
    clauses = task.clauses(chain)
    context = clauses[: task.length + step]
    target = clauses[task.length + step]
    target = target if model.weights.shape[2] == SLOTS else target[VALUE:]
    return surprise(model.logits(context, task.length), target)


def loss(model: ClauseTransformer, task: Lego, chain: Chain, steps: tuple[int, ...]) -> Float[Array, ""]:
    """Eq. (6): the sum over the steps l of Loss^{L,l}, each the sum of its tokens' losses; one chain's part of it."""
    return sum((jnp.sum(token_losses(model, task, chain, step)) for step in steps), start=jnp.zeros((), jnp.float32))


def accuracy(model: ClauseTransformer, task: Lego, chain: Chain) -> Float[Array, ""]:
    """Eq. (5): the probability of the true next clause, averaged over all L steps under teacher forcing."""
    steps = range(1, task.length + 1)
    clause = [jnp.exp(-jnp.sum(token_losses(model, task, chain, step))) for step in steps]
    return jnp.mean(jnp.stack(clause))


# --- starts and constructions -----------------------------------------------------------------------------------------


def initial(
    key: PRNGKeyArray,
    tokens: int,
    neurons: int,
    *,
    sigma0: Number,
    bias: Number,
    clip: Number,
    rho: Number,
    q: int,
    positions: int = SLOTS,
    dtype=jnp.float32,
) -> ClauseTransformer:
    """Assumption 3.3: Q = 0, W iid N(0, sigma0^2). The paper sets sigma0 = d^{-1/2} and b = sigma0 log d."""
    shape = (SLOTS, tokens, positions, tokens, neurons)
    weights = sigma0 * jax.random.normal(role(key, "weights"), shape, dtype=dtype)
    return ClauseTransformer(weights, SparseScores.zero(tokens, dtype), bias, clip, rho, q)


def feature_ratio(actions: int, values: int) -> float:
    """C = (1 + |G|(|Y|-1)/|Y|) / (|Y| - 1 + |G|/|Y|), the V(g)/V(y) that gradient descent reaches (Theorem C.1).

    >>> feature_ratio(24, 4) == 19 / 9, feature_ratio(7, 7)
    (True, 1.0)
    """
    return (1 + actions * (values - 1) / values) / (values - 1 + actions / values)


def feature_scale(clip: Number, rho: Number, q: int, bias: Number = 0.0, resting: Number = 0.0) -> Number:
    """B' = B + rho (1 - 1/q) - b: the pre-activation (less b) at which sReLU is B.

    `resting` is what the other neurons of the class add there: k rho/q where k of them are on the flat branch of
    Definition 3.4, so that B' = B + rho (1 - (k+1)/q) - b; 0 in our networks, whose flat branch is 0.
    """
    return clip + rho * (1 - 1 / q) - bias - resting


def ideal(
    task: Lego, *, clip: float, rho: float, q: int, scores: SparseScores | None = None, dtype=jnp.float32
) -> ClauseTransformer:
    """The FFN that gradient descent approaches, for the value token: one neuron y for each value, b = 0.

    With alpha = 2B'C/(1+C) and beta = 2B'/(1+C), V_{j,y}(g) = alpha if g(y) = j, else -beta, and V_{j,y}(y') = beta if
    y' = y, else -alpha. On T^1 the true value gets F = B and every other one 0.
    """
    ratio = feature_ratio(task.actions, task.values)
    scale = feature_scale(clip, rho, q)
    alpha, beta = 2 * scale * ratio / (1 + ratio), 2 * scale / (1 + ratio)
    values = np.arange(task.values)
    _, action, value = task.starts
    weights = np.zeros((SLOTS, task.vocabulary, 1, task.vocabulary, task.values))
    weights[1, action:value, 0, value:] = np.where(np.asarray(task.table)[:, None] == values[:, None], alpha, -beta)
    weights[4, value:, 0, value:] = np.where(values[:, None, None] == values, beta, -alpha)
    scores = SparseScores.zero(task.vocabulary, dtype) if scores is None else scores
    return ClauseTransformer(jnp.asarray(weights, dtype=dtype), scores, 0.0, clip, rho, q)


def symmetric_scores(task: Lego, a: Number, b: Number, c: Number, e: Number, dtype=jnp.float32) -> SparseScores:
    """Q43 = a I + b (J - I) and Q44 = c I + e (J - I) on the variables, zero elsewhere."""
    variable = (np.arange(task.vocabulary) >= 1) & (np.arange(task.vocabulary) <= task.variables)
    own = np.diag(variable).astype(np.float64)
    other = np.outer(variable, variable) - own
    return SparseScores(jnp.asarray(a * own + b * other, dtype=dtype), jnp.asarray(c * own + e * other, dtype=dtype))


def logit_clip(tokens: int, factor: float) -> float:
    """B = C_B log d."""
    return factor * math.log(tokens)
