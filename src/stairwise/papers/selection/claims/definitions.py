"""The task and its two kinds of encodings, as the paper defines them."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import identical
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.nn import encodings as nn
from stairwise.papers.selection import task as tasks
from stairwise.papers.selection.claims.laws import Exact, Law, sets_of
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.claims.sizes import Codes, Sizes, enumerable, room
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import encodings, population
from stairwise.train import keys

LARGEST_TUPLES = 1_000_000


def sampled(task: Task, seed: int):
    """The task, random tokens for it, and T random subsets."""
    tokens = np.random.default_rng(seed).standard_normal((task.length, task.width))
    queries = encodings.draw_subsets(seed, task.length, task.length, task.sparsity)
    return tasks.SparseSelection(task.length, task.sparsity, task.width), tokens, queries


def mean_by_loop(tokens: np.ndarray, subset: np.ndarray) -> np.ndarray:
    """(1/q) sum_{i in y} x_i, one addition after another."""
    total = np.zeros(tokens.shape[1])
    for position in subset:
        total = total + tokens[position]
    return total / len(subset)


@LEDGER.theory(
    "def-sts",
    kind="definition",
    says="STS_q(X, y) is the mean of the q tokens that y names (Definition 2.1)",
    cases=(Sizes(), Sizes(Task(7, 3, 1)), Sizes(Task(5, 5, 3))),
)
def the_answer_is_the_mean_of_the_named_tokens(config: Sizes, seed: int) -> Verdict:
    selection, tokens, queries = sampled(config.task, seed)
    answer = jax.jit(selection.answer)(tasks.Selection(jnp.asarray(tokens), jnp.asarray(queries[0])))
    return identical({"answer": (answer, mean_by_loop(tokens, queries[0]))})


@LEDGER.theory(
    "def-qsa",
    kind="definition",
    says="qSA answers T queries on one sequence, each as STS_q does",
    cases=(Sizes(), Sizes(Task(7, 3, 1))),
)
def every_query_of_a_sequence_is_answered_alone(config: Sizes, seed: int) -> Verdict:
    selection, tokens, queries = sampled(config.task, seed)
    answers = jax.jit(selection.answers)(jnp.asarray(tokens), jnp.asarray(queries))
    return identical({"answers": (answers, [mean_by_loop(tokens, query) for query in queries])})


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


@LEDGER.theory(
    "appA2",
    kind="identity",
    says="for i.i.d. uniform queries the population loss of qSA is T times that of STS_q (Appendix A.2)",
    cases=(Joint(), Joint(Task(4, 2, 2))),
)
def t_queries_cost_t_times_one(config: Joint, seed: int) -> Verdict:
    task = config.task
    rng = np.random.default_rng(seed)
    block, V = rng.standard_normal((task.length,) * 2), rng.standard_normal((task.width, task.width + task.length))
    model = population.position_model(block, V)
    law = population.one_hot_law(task.length)
    exact = Exact(task, law, 0.0)
    per_query = np.asarray(jax.jit(jax.vmap(lambda query: exact.output_averaged(model, query)))(exact.space.examples))
    tuples = np.indices([len(per_query)] * task.length).reshape(task.length, -1)
    joint = per_query[tuples].sum(axis=0).mean()
    return identical({"loss of qSA": (joint, task.length * exact.loss(model))})


@LEDGER.theory(
    "def-onehot",
    kind="definition",
    says="one-hot encodings: E = I_T, and e_y = E_y (E_y^T E_y)^{-1} 1 is the sum of the named basis vectors",
    cases=(Sizes(), Sizes(Task(12, 5, 1))),
)
def a_one_hot_subset_is_the_sum_of_its_members(config: Sizes, seed: int) -> Verdict:
    task = config.task
    E = np.asarray(nn.one_hot(task.length), dtype=np.float64)
    subsets = encodings.draw_subsets(seed, 32, task.length, task.sparsity)
    encode = jax.jit(jax.vmap(nn.subset_encoding, in_axes=(None, 0)))
    encoded = encode(jnp.asarray(E), jnp.asarray(subsets))
    sums = [E[subset].sum(axis=0) for subset in subsets]
    return identical({"E": (E, np.eye(task.length)), "e_y": (encoded, sums)}, tolerance=1e-14)


@LEDGER.theory(
    "def-nearorth",
    kind="construction",
    says="near-orthogonal encodings: entries +-1/sqrt(d_e), pairwise inner products at most the threshold",
    cases=Codes(Task(200, 3, 5), 170, 0.35, encodings=1),
)
def drawn_encodings_are_nearly_orthogonal(config: Codes, seed: int) -> Verdict:
    task, width = config.task, config.encoding_width
    rows = []
    for scheme in ("offenders", "vector"):
        draw = jax.jit(nn.near_orthogonal, static_argnums=(1, 2, 4))
        drawn, rounds, above = draw(keys.role_key(seed, "encodings"), task.length, width, config.threshold, scheme)
        require(
            not above,
            f"threshold={config.threshold:g} leaves too few of the random encodings to be drawn"
            f" (task.length={task.length}, encoding_width={width}); it must be larger",
        )
        E = np.asarray(drawn, dtype=np.float64)
        off_by = float(np.abs(np.abs(E) * np.sqrt(width) - 1).max())
        rows.append({"scheme": scheme, "inner product": encodings.coherence(E), "entry": off_by, "rounds": int(rounds)})
    chance = encodings.acceptance(task.length, width, config.threshold)
    rows.append(
        {"matrix accepted": chance.matrix, "last row accepted": chance.last_row, "draws a row": chance.draws_per_row}
    )
    inner, off_by = (max(row[name] for row in rows[:2]) for name in ("inner product", "entry"))
    return Verdict.worst(
        {
            "largest |<e_i, e_j>|": Verdict.at_most(inner, config.threshold + 1e-6, details=tuple(rows)),
            "|entry| sqrt(d_e) off 1 by": Verdict.at_most(off_by, 1e-6),
        }
    )


@LEDGER.theory(
    "def2.5",
    kind="definition",
    says="averaging outputs over E before the square costs no more than averaging losses: L_in <= L_out",
    cases=(Law(), Law(Task(10, 3, 2), encoding_width=24, encodings=16)),
)
def averaging_outputs_costs_less(config: Law, seed: int) -> Verdict:
    law = sets_of(config, seed)
    exact = Exact(config.task, law, config.query_token)
    model = population.stochastic_model(config.task, config.width, config.value_scale, config.attention_scale)
    inside, outside = exact.loss(model), exact.loss(model, exact.loss_averaged)
    row = {"L_in": inside, "L_out": outside, "sets of encodings": len(law)}
    return Verdict.at_most(inside, outside * (1 + 1e-14), details=(row,))
