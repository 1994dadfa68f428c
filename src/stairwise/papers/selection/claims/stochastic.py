"""Gradients averaged over encodings: Lemmas E.2 to E.7 and E.10 to E.15."""

from typing import TYPE_CHECKING

import numpy as np

from stairwise.lab.contract import Verdict
from stairwise.lazy import lazy
from stairwise.papers.selection.claims.laws import Exact, Law, sets_of
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.claims.sizes import TOLERANCE, Codes, attentions, identical, relative_error
from stairwise.papers.selection.config import Task

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp

    from stairwise.papers.selection.theory import encodings, population, stochastic
else:
    jax, jnp = lazy("jax"), lazy("jax.numpy")
    encodings = lazy("stairwise.papers.selection.theory.encodings")
    population = lazy("stairwise.papers.selection.theory.population")
    stochastic = lazy("stairwise.papers.selection.theory.stochastic")

ANOTHER_LAW = Law(Task(6, 2, 2), encoding_width=10, encodings=4)
EXAMPLES = 2


# --- gradients of the averaged loss -----------------------------------------------------------------------------------


def random_point(config: Law, law: np.ndarray, seed: int):
    """Random weights, and random examples: tokens (n, T, d), indicators (n, T), queries z_query (n, encodings, d + d_e)."""
    task, rng = config.task, np.random.default_rng(seed)
    joint = task.width + config.encoding_width
    W, V = rng.standard_normal((joint, joint)), rng.standard_normal((task.width, joint))
    tokens = rng.standard_normal((EXAMPLES, task.length, task.width))
    subsets = encodings.draw_subsets(seed, EXAMPLES, task.length, task.sparsity)
    members = np.zeros((EXAMPLES, task.length))
    np.put_along_axis(members, subsets, 1.0, axis=1)
    encoded = encodings.subset_encodings(law, subsets).swapaxes(0, 1)
    token = np.full((*encoded.shape[:2], task.width), config.query_token)
    return W, V, tokens, members, np.concatenate([token, encoded], axis=2)


@LEDGER.theory(
    "lemE2",
    kind="identity",
    says="the gradients of the averaged loss, with the average over E taken of V Z S (the form that is defined)",
    cases=(Law(), ANOTHER_LAW),
)
def the_averaged_gradient_formulas_equal_autodiff(config: Law, seed: int) -> Verdict:
    law = sets_of(config, seed)
    W, V, tokens, members, queries = random_point(config, law, seed)
    d = config.task.width
    loss = population.output_averaged(law, jnp.full(d, config.query_token, dtype=jnp.float64))
    model = population.SelectionAttention(W=jnp.asarray(W), V=jnp.asarray(V))
    mean = lambda model, X, query: jnp.mean(jax.vmap(lambda X, query: loss(model, (X, query)))(X, query))  # noqa: E731
    autodiff = jax.jit(jax.grad(mean))(model, tokens, population.Query(members, queries[:, :, d:]))
    formulas = [
        stochastic.mean_gradients(W, V, X.T, Y, law, query)
        for X, Y, query in zip(tokens, members, queries, strict=True)
    ]
    grad_W, grad_V = (np.mean(parts, axis=0) for parts in zip(*formulas, strict=True))
    return identical({"grad W": (autodiff.W, grad_W), "grad V": (autodiff.V, grad_V)})


@LEDGER.theory(
    "lemE2-printed",
    kind="identity",
    says="as printed: the averaged output is V Z E_E[S], for any V",
    cases=Law(),
)
def the_printed_average_depends_on_the_encodings(config: Law, seed: int) -> Verdict:
    law = sets_of(config, seed)
    W, V, tokens, _, queries = random_point(config, law, seed)
    printed = stochastic.printed_outputs(W, V, tokens[0].T, law, queries[0])[:, 0]
    outputs = [
        population.outputs(law[n : n + 1], jnp.full(config.task.width, config.query_token, dtype=jnp.float64))
        for n in range(0)
    ]
    del outputs
    true = stochastic.mean_output(W, V, tokens[0].T, law, queries[0])[0]
    return Verdict.at_most(
        float(np.abs(printed - true).max() / np.abs(true)),
        TOLERANCE,
        otherwise="refuted",
        note="Z holds E, so V Z E_E[S] is another number for every E; it is E_E[V Z S] where V = [alpha I 0]",
        details=(
            {"E_E[V Z S]": float(true), "least V Z E_E[S]": float(printed.min()), "largest": float(printed.max())},
        ),
    )
