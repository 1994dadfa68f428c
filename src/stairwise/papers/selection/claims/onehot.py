"""One-hot encodings: the gradients of Lemma D.1, the loss of Lemma D.2, and the family of Lemma D.5."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option
from stairwise.lab.contract.checks import equal, note, row
from stairwise.papers.selection.claims.laws import Exact, gradient_scales
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.claims.sizes import Family, fits
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import encodings, onehot, population
from stairwise.train.draws import draws_of


@dataclass(frozen=True)
class RandomBatch(Config):
    """A random batch, with random weights and a random query token."""

    task: Task = option(Task(8, 2, 2), "sizes of the task")
    encoding_width: int = option(0, "encoding dimension d_e; 0 = one-hot", low=0, high=2**12)
    examples: int = option(3, "examples in the batch", low=1, high=4096)

    def check(self) -> None:
        if self.encoding_width:
            fits(self.task, self.encoding_width)


@LEDGER.exact(
    "lemD1",
    statement="Lemma D.1",
    says="the gradients of the loss in $W$ and $V$ are the printed ones",
    of=(onehot.example_gradients,),
    cases=(RandomBatch(), RandomBatch(Task(7, 3, 3), encoding_width=12)),
    seeds=3,
)
def the_gradient_formulas_equal_autodiff(config: RandomBatch, seed: int):
    task, rng = config.task, draws_of(seed, "weights and examples")
    T, d = task.length, task.width
    law = encodings.draw(seed, 1, T, config.encoding_width, 0.9) if config.encoding_width else population.one_hot_law(T)
    joint = d + law.shape[2]
    W, V = rng.standard_normal((joint, joint)), rng.standard_normal((d, joint))
    tokens = rng.standard_normal((config.examples, T, d))
    token = rng.standard_normal(d)
    subsets = encodings.draw_subsets(seed, config.examples, T, task.sparsity)
    encoded = encodings.subset_encodings(law, subsets)[0]
    members = np.zeros((config.examples, T))
    np.put_along_axis(members, subsets, 1.0, axis=1)

    queries = population.Query(members, encoded[:, None])
    model = population.SelectionAttention(W=jnp.asarray(W), V=jnp.asarray(V))

    def mean(model, tokens, queries):
        at = lambda X, query: population.output_averaged(X[None], law, token)(model, query)  # noqa: E731
        return jnp.mean(jax.vmap(at)(tokens, queries))

    autodiff = jax.jit(jax.grad(mean))(model, tokens, queries)
    formulas = [
        onehot.example_gradients(W, V, np.vstack([X.T, law[0].T]), Y, np.concatenate([token, e_y]))
        for X, Y, e_y in zip(tokens, members, encoded, strict=True)
    ]
    by_formula = [np.mean(parts, axis=0) for parts in zip(*formulas, strict=True)]
    yield equal("grad W", autodiff.W, by_formula[0])
    yield equal("grad V", autodiff.V, by_formula[1])


@LEDGER.exact(
    "lemD2",
    statement=("Lemma D.2", "Lemma E.3"),
    says=r"for $V = \alpha [I\ 0]$ and attention by position the loss is $(d/2)\, \mathbb{E}_y \|Y/q - \alpha "
    r"\mathbb{E}_E S_y\|^2$",
    of=(onehot.loss, population.distance),
    cases=(Family(Task(6, 2, 1)), Family(Task(4, 2, 2))),
    aliases=("lemE3",),
    seeds=3,
)
def the_loss_is_a_distance_between_attentions(config: Family, seed: int):
    task, alpha, C = config.task, config.value_scale, config.attention_scale
    T, d = task.length, task.width
    exact = Exact(task, population.one_hot_law(T), config.query_token)
    block = draws_of(seed, "attention block").standard_normal((T, T))
    any_block = population.position_model(block, alpha * np.eye(d, d + T))
    width = max(2 * T, task.sparsity)
    law = encodings.draw(seed, 3, T, width, 0.9)
    averaged = Exact(task, law, config.query_token)
    on_family = exact.loss(population.one_hot_model(task, alpha, C))
    yield equal("loss on the family", on_family, onehot.loss(task, alpha, C))
    by_distance = population.distance(task, alpha, population.one_hot_law(T), block)
    yield equal("loss at any position block", exact.loss(any_block), by_distance)
    with_encodings = averaged.loss(population.stochastic_model(task, width, alpha, C))
    by_distance = population.distance(task, alpha, law, C * np.eye(width))
    yield equal("loss averaged over encodings (E.3)", with_encodings, by_distance)


@dataclass(frozen=True)
class TokenScores(Config):
    """Two positions, one token dimension, and scores that read the tokens."""

    value_scale: float = option(0.7, "alpha, where V = alpha [I 0]", low=-100.0, high=100.0)
    token_scale: float = option(1.0, "the score of position i is token_scale x_i", low=-5.0, high=5.0)


@LEDGER.misprint(
    "lemD2-printed",
    statement="Lemma D.2",
    says=r"as printed: for $V = \alpha [I\ 0]$ the loss is $(d/2)\, \mathbb{E}_y \|Y/q - \alpha \mathbb{E}_E S_y\|^2$,"
    r" whatever $W$",
    means="attention that does not depend on the tokens (zero token rows of $W$), which is all that the paper uses "
    "it for",
    corrected="lemD2",
    cases=TokenScores(),
)
def the_distance_form_needs_attention_by_position(config: TokenScores, seed: int):
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    x = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    measure = np.outer(weights, weights).reshape(-1) / weights.sum() ** 2
    S = np.exp(config.token_scale * (x - x.max(axis=1, keepdims=True)))
    residual = np.array([1.0, 0.0]) - config.value_scale * S / S.sum(axis=1, keepdims=True)
    loss = float(measure @ (residual * x).sum(axis=1) ** 2 / 2)
    form = float(measure @ (residual**2).sum(axis=1) / 2)
    yield equal("loss at T=2, q=1, d=1", loss, form, 1e-8)
    yield row({"loss": loss, "printed form, averaged over X": form})
    yield note("E[X^T X] = d I may be taken alone only where S does not depend on X")


@LEDGER.exact(
    "lemD5",
    statement=("Lemma D.5", "Lemma 3.2"),
    says=r"gradient descent from zero stays on $W = C (I - 11^\top/T)$, $V = \alpha [I\ 0]$, and moves by the "
    r"closed forms",
    of=(onehot.slopes, onehot.descend),
    hypotheses={
        "x_query = 0": lambda config: config.query_token == 0,
        "eta <= 1/(20 d^2)": lambda config: config.learning_rate <= 1 / (20 * config.task.width**2),
    },
    cases=tuple(Family(Task(T, q, d)) for T, d, q in ((6, 1, 2), (7, 1, 3), (4, 2, 2), (9, 1, 2))),
    aliases=("lem3.2",),
)
def descent_stays_on_the_one_hot_family(config: Family, seed: int):
    task, eta = config.task, config.learning_rate
    exact = Exact(task, population.one_hot_law(task.length), config.query_token, repeats=config.steps)
    direction = population.one_hot_model(task, 1.0, 1.0)
    W_star, V_star = np.asarray(direction.W), np.asarray(direction.V)

    W, V = exact.gradient(population.one_hot_model(task, config.value_scale, config.attention_scale))
    value, attention = onehot.slopes(task, config.value_scale, config.attention_scale)
    query = math.hypot(math.sqrt(task.sparsity), config.query_token * math.sqrt(task.width))
    scales = gradient_scales(task, config.value_scale, query)
    yield equal("grad W", W, -attention * W_star, scale=scales[0])
    yield equal("grad V", V, -value * V_star, scale=scales[1])

    model = exact.descend(population.one_hot_model(task, 0.0, 0.0), eta, config.steps)
    end = onehot.descend(task, eta, config.steps)
    tolerance = 1e-10  # hundreds of steps add up their rounding
    yield equal(f"W after {config.steps} steps", model.W, end.C[-1] * W_star, tolerance)
    yield equal(f"V after {config.steps} steps", model.V, end.alpha[-1] * V_star, tolerance)
