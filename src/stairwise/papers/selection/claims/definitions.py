"""The task and its two kinds of encodings, as the paper defines them."""

import math
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_most, equal, row, true
from stairwise.nn import encodings as nn
from stairwise.papers.selection import task as tasks
from stairwise.papers.selection.claims.laws import Exact, Law, sets_of
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.claims.sizes import Codes, Sizes, enumerable, room
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.model import SelectionAttention
from stairwise.papers.selection.theory import encodings, population
from stairwise.train import keys
from stairwise.train.draws import draws_of

LARGEST_TUPLES = 1_000_000


def sampled(task: Task, seed: int):
    """The task, random tokens for it, and T random subsets."""
    tokens = draws_of(seed, "tokens").standard_normal((task.length, task.width))
    queries = encodings.draw_subsets(seed, task.length, task.length, task.sparsity)
    return tasks.SparseSelection(task.length, task.sparsity, task.width), tokens, queries


def mean_by_loop(tokens: np.ndarray, subset: np.ndarray) -> np.ndarray:
    """(1/q) sum_{i in y} x_i, one addition after another."""
    total = np.zeros(tokens.shape[1])
    for position in subset:
        total = total + tokens[position]
    return total / len(subset)


@LEDGER.exact(
    "def-sts",
    statement="Definition 2.1",
    says=r"$\mathrm{STS}_q(X, y)$ is the mean of the $q$ tokens that $y$ names",
    of=(tasks.SparseSelection.answer,),
    cases=(Sizes(), Sizes(Task(7, 3, 1)), Sizes(Task(5, 5, 3))),
    seeds=3,
)
def the_answer_is_the_mean_of_the_named_tokens(config: Sizes, seed: int):
    selection, tokens, queries = sampled(config.task, seed)
    answer = jax.jit(selection.answer)(tasks.Selection(jnp.asarray(tokens), jnp.asarray(queries[0])))
    yield equal("answer", answer, mean_by_loop(tokens, queries[0]))


@LEDGER.exact(
    "def-qsa",
    statement=("Definition A.4", "qSA"),
    says=r"qSA answers $T$ queries on one sequence, each as $\mathrm{STS}_q$ does",
    of=(tasks.SparseSelection.answers,),
    cases=(Sizes(), Sizes(Task(7, 3, 1))),
    seeds=3,
)
def every_query_of_a_sequence_is_answered_alone(config: Sizes, seed: int):
    selection, tokens, queries = sampled(config.task, seed)
    answers = jax.jit(selection.answers)(jnp.asarray(tokens), jnp.asarray(queries))
    yield equal("answers", answers, [mean_by_loop(tokens, query) for query in queries])


@dataclass(frozen=True)
class Joint(Config):
    """Sizes at which all tuples of T queries can be listed."""

    task: Task = option(Task(5, 2, 1), "sizes of the task")

    def check(self) -> None:
        room(self.task)
        enumerable(self.task)
        tuples = math.comb(self.task.length, self.task.sparsity) ** self.task.length
        require(
            tuples <= LARGEST_TUPLES,
            f"task.length={self.task.length} has {tuples:.3g} tuples of queries,"
            f" which must be at most {LARGEST_TUPLES} to be enumerated",
        )


@LEDGER.exact(
    "appA2",
    statement="Appendix A.2",
    says=r"for i.i.d. uniform queries the population loss of qSA is $T$ times that of $\mathrm{STS}_q$",
    of=(population.output_averaged,),
    cases=(Joint(), Joint(Task(4, 2, 2))),
    seeds=3,
)
def t_queries_cost_t_times_one(config: Joint, seed: int):
    task = config.task
    rng = draws_of(seed, "weights")
    block, V = rng.standard_normal((task.length,) * 2), rng.standard_normal((task.width, task.width + task.length))
    model = population.position_model(block, V)
    exact = Exact(task, population.one_hot_law(task.length), 0.0)
    # the expected square by its bias and variance, from attention in NumPy: it does not know the model
    members, S = population.attentions(task, population.one_hot_law(task.length), block)
    per_query = [_expected_loss(Y / task.sparsity, A, V, task.width) for Y, A in zip(members, S[0], strict=True)]
    tuples = np.indices([len(per_query)] * task.length).reshape(task.length, -1)
    joint = np.array(per_query)[tuples].sum(axis=0).mean()
    yield equal("loss of qSA", task.length * exact.loss(model), joint)


def _expected_loss(target: np.ndarray, S: np.ndarray, V: np.ndarray, width: int) -> float:
    """(1/2) E||X^T target - V [X; I]^T S||^2 over Gaussian tokens X, whose entries are independent."""
    tokens = np.kron(target, np.eye(width)) - np.kron(S, V[:, :width])
    return float((tokens**2).sum() + ((V[:, width:] @ S) ** 2).sum()) / 2


@LEDGER.exact(
    "def-onehot",
    statement="Definition 2.2",
    says=r"one-hot encodings: $E = I_T$, and $e_y = E_y (E_y^\top E_y)^{-1} 1$ is the sum of the named basis vectors",
    of=(nn.one_hot, nn.subset_encoding),
    cases=(Sizes(), Sizes(Task(12, 5, 1))),
    seeds=3,
)
def a_one_hot_subset_is_the_sum_of_its_members(config: Sizes, seed: int):
    task = config.task
    E = np.asarray(nn.one_hot(task.length), dtype=np.float64)
    subsets = encodings.draw_subsets(seed, 32, task.length, task.sparsity)
    encode = jax.jit(jax.vmap(nn.subset_encoding, in_axes=(None, 0, None)))
    members = np.zeros((len(subsets), task.length))
    np.put_along_axis(members, subsets, 1.0, axis=1)
    yield equal("E", E, np.eye(task.length), 1e-14)
    yield equal("e_y", encode(jnp.asarray(E), jnp.asarray(subsets), None), members, 1e-14)
    padded, used = np.append(subsets, subsets[:, :1], axis=1), np.arange(task.sparsity + 1) < task.sparsity
    yield equal("e_y with padding", encode(jnp.asarray(E), jnp.asarray(padded), jnp.asarray(used)), members, 1e-14)


@LEDGER.bound(
    "def-nearorth",
    statement="Definition 2.3",
    says=r"near-orthogonal encodings: entries $\pm 1/\sqrt{d_e}$, pairwise inner products at most the threshold",
    of=(nn.near_orthogonal,),
    cases=(Codes(Task(200, 3, 5), 170, 0.35, encodings=1), Codes(Task(40, 3, 5), 170, 0.2, encodings=1)),
    seeds=3,
)
def drawn_encodings_are_nearly_orthogonal(config: Codes, seed: int):
    task, width = config.task, config.encoding_width
    for scheme in ("offenders", "vector"):
        draw = partial(
            jax.jit(nn.near_orthogonal, static_argnums=(1, 2, 4)),
            keys.role_key(seed, "encodings"),
            *(task.length, width, config.threshold, scheme),
        )
        drawn, rounds, above = draw(nn.MOST_ROUNDS)
        require(
            not above,
            f"threshold={config.threshold:g} leaves too few of the random encodings to be drawn"
            f" (task.length={task.length}, encoding_width={width}); it must be larger",
        )
        E = np.asarray(drawn, dtype=np.float64)
        yield at_most(f"largest |<e_i, e_j>|, {scheme}", encodings.coherence(E), config.threshold + 1e-6)
        yield equal(f"|entry| sqrt(d_e), {scheme}", np.abs(E) * np.sqrt(width), np.ones_like(E), 1e-6)
        enough, too_few = draw(rounds), draw(rounds - 1)
        yield true(f"all of its rounds are needed, {scheme}", not enough.above and (too_few.above or rounds == 1))
        yield row(scheme=scheme, rounds=int(rounds))
    chance = encodings.acceptance(task.length, width, config.threshold)
    yield row(
        {"matrix accepted": chance.matrix, "last row accepted": chance.last_row, "draws per row": chance.draws_per_row}
    )


@cache
def _outputs():
    def outputs(own: bool, model: SelectionAttention, *inputs: Any):
        return model(*inputs, attend_query=own)

    return jax.jit(outputs, static_argnums=0)


@LEDGER.exact(
    "def2.4",
    statement=("Definition 2.4", "Equation (1)", "Equation (2)"),
    says=r"$V Z\, \mathrm{softmax}(Z^\top W z_{query})$ is one head of attention on $[Z, z_{query}]$ with $W ="
    r" K^\top Q$, read at $z_{query}$, where keys and values are those of $Z$ only",
    of=(SelectionAttention.__call__, SelectionAttention.logits),
    cases=(Sizes(), Sizes(Task(7, 3, 1)), Sizes(Task(5, 5, 3))),
    seeds=3,
)
def the_model_is_one_masked_head(config: Sizes, seed: int):
    (T, q, d), width = (config.task.length, config.task.sparsity, config.task.width), config.task.length + 3
    rng = draws_of(seed, "masked head")
    tokens, E = rng.standard_normal((T, d)), rng.standard_normal((T, width))
    Q, K = rng.standard_normal((2, q + 1, d + width))
    V, query = rng.standard_normal((d, d + width)), rng.standard_normal(d + width)
    model = SelectionAttention(W=jnp.asarray(K.T @ Q), V=jnp.asarray(V))
    columns = np.column_stack([np.vstack([tokens.T, E.T]), query])  # equation (1)
    scores = ((K @ columns).T @ (Q @ columns))[:, -1]
    places = np.arange(T + 1)
    for name, shown, beta, own in (
        ("output", places < T, 1.0, False),
        ("output with padding", places < T - 1, 0.7, False),
        ("output where the query sees itself", places <= T, 0.7, True),
    ):
        found = _outputs()(own, model, tokens, E, query, shown[:T], beta)
        weights = np.exp(beta * (scores - scores[shown].max())) * shown
        yield equal(name, found, V @ columns @ (weights / weights.sum()))


def _restricted(config: Law) -> bool:
    certified = encodings.rip_certificate(config.threshold, config.task.sparsity) < 0.5
    return certified or config.isometry > 0


@LEDGER.exact(
    "def2.5",
    statement=("Definition 2.5", "Definition E.1"),
    says=r"the model averages outputs over $E$ with RIP: averaging losses instead adds half the variance of the output",
    of=(population.output_averaged, population.loss_averaged),
    hypotheses={"E has (q, delta)-RIP": _restricted},
    cases=(
        Law(Task(6, 2, 2), encoding_width=512, threshold=0.17, encodings=6),
        Law(Task(5, 2, 1), encoding_width=256, threshold=0.17, encodings=12),
        Law(),
        Law(Task(6, 2, 2), encoding_width=128, threshold=1.0, isometry=0.3, encodings=12),
    ),
    seeds=3,
)
def averaging_losses_adds_the_variance(config: Law, seed: int):
    task, law = config.task, sets_of(config, seed)
    exact = Exact(task, law, config.query_token)
    model = population.stochastic_model(task, config.width, config.value_scale, config.attention_scale)
    inside, outside = exact.loss(model), exact.loss(model, exact.loss_averaged)
    _, S = population.attentions(task, law, config.attention_scale * np.eye(config.width))
    # of X^T S alpha over Gaussian X: d alpha^2 times the variance of S over the law
    variance = task.width * config.value_scale**2 * S.var(axis=0).sum(axis=1).mean()
    yield equal("L_out - L_in", outside - inside, variance / 2, scale=outside)
    members = population.attentions(task, law, config.attention_scale * np.eye(config.width))[0]
    away = ((members / task.sparsity - config.value_scale * S.mean(axis=0)) ** 2).sum(axis=1).mean()
    yield equal("L_in over Gaussian tokens", inside, task.width / 2 * away)
    yield row({"L_in": inside, "L_out": outside, "sets of encodings": len(law)})
