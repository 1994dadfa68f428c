"""Averages over encodings: the gradients of Lemmas E.2 to E.7, and the symmetries of Lemmas E.10 to E.15."""

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import TOLERANCE, identical, under
from stairwise.lab.contract import Verdict
from stairwise.papers.selection.claims.laws import Exact, Law, floored, gradient_terms, sets_of
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.claims.sizes import Codes
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import encodings, population, stochastic

DRAWN = Law(Task(6, 2, 2), encoding_width=10, encodings=4)  # for statements about any law of encodings
EXAMPLES = 2
ROUNDING = 1e-13  # two orders of summation


# --- gradients --------------------------------------------------------------------------------------------------------


def random_point(config: Law, law: np.ndarray, seed: int):
    """Random weights and examples: tokens (n, T, d), indicators (n, T), queries z_query (n, encodings, d + d_e)."""
    task, rng = config.task, np.random.default_rng(seed)
    joint = task.width + config.width
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
    cases=(Law(), DRAWN),
)
def the_averaged_gradient_formulas_equal_autodiff(config: Law, seed: int) -> Verdict:
    law = sets_of(config, seed)
    W, V, tokens, members, queries = random_point(config, law, seed)
    d = config.task.width
    token = np.full(d, config.query_token)

    def mean(model, tokens, queries):
        at = lambda X, query: population.output_averaged(X[None], law, token)(model, query)  # noqa: E731
        return jnp.mean(jax.vmap(at)(tokens, queries))

    model = population.SelectionAttention(W=jnp.asarray(W), V=jnp.asarray(V))
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
    true = stochastic.mean_output(W, V, tokens[0].T, law, queries[0])[0]
    printed = stochastic.printed_outputs(W, V, tokens[0].T, law, queries[0])[:, 0]
    row = {"E_E[V Z S]": float(true), "least V Z E_E[S]": float(printed.min()), "largest": float(printed.max())}
    return Verdict.at_most(
        float(np.abs(printed - true).max() / np.abs(true)),
        TOLERANCE,
        otherwise="refuted",
        note="Z holds E, so V Z E_E[S] is another number for every E; both agree where V = [alpha I 0]",
        details=(row,),
    )


def rounding(law: np.ndarray) -> float:
    """The tolerance of an average over many encodings: its rounding grows with their number."""
    return TOLERANCE * max(1.0, len(law) / 10_000)


def on_family(config: Law, law: np.ndarray, repeats: int = 1):
    """The exact losses, and the model W = C diag(0, I), V = alpha [I 0]."""
    model = population.stochastic_model(config.task, config.width, config.value_scale, config.attention_scale)
    return Exact(config.task, law, config.query_token, repeats), model


@LEDGER.theory(
    "lemE4",
    kind="identity",
    says="on the family, grad_V = (alpha E_y||E_E S||^2 - E_y sum_{i in y} E_E S(i)/q) [I 0]",
    cases=(Law(), DRAWN),
)
def the_value_gradient_is_along_the_identity(config: Law, seed: int) -> Verdict:
    law = sets_of(config, seed)
    exact, model = on_family(config, law)
    members, S = population.attentions(config.task, law, config.attention_scale * np.eye(config.width))
    coefficient = stochastic.value_gradient(config.task, config.value_scale, S, members)
    direction = np.eye(config.task.width, config.task.width + config.width)
    return identical({"grad V": (exact.gradient(model)[1], coefficient * direction)}, rounding(law))


@LEDGER.theory(
    "lemE5",
    kind="identity",
    says="on the family, the position block of grad_W is -d alpha E[E (diag S - S S^T)(Y/q - alpha E_E S) e_y^T]",
    cases=(Law(), DRAWN),
)
def the_position_gradient_is_as_stated(config: Law, seed: int) -> Verdict:
    law = sets_of(config, seed)
    exact, model = on_family(config, law)
    members, S = population.attentions(config.task, law, config.attention_scale * np.eye(config.width))
    queries = np.asarray(population.queries(config.task, law).encoded).swapaxes(0, 1)
    block = stochastic.position_gradient(config.task, config.value_scale, S, members, law, queries)
    d = config.task.width
    terms = gradient_terms(config.task, config.value_scale, float(np.linalg.norm(queries, axis=-1).max()))
    pair = floored(exact.gradient(model)[0][d:, d:], block, terms[0])
    return identical({"position block of grad W": pair}, rounding(law))


def pairs_of(config: Law, law: np.ndarray) -> np.ndarray:
    """The overlaps of every pair (E, y)."""
    subsets = np.asarray(population.subsets(config.task.length, config.task.sparsity), dtype=np.int64)
    return encodings.overlaps(law, subsets).reshape(-1, config.task.length - config.task.sparsity)


def whole_law(config: Law) -> tuple[str, ...]:
    """The symmetries belong to the whole law, not to a few draws from it."""
    return (f"encodings={config.encodings} must be 0 (all of them)",) if config.encodings else ()


@LEDGER.theory(
    "lemE7",
    kind="identity",
    says="descent stays on W = C diag(0, I), V = alpha [I 0]; exact increments; (1 -+ gamma) bounds on that of C",
    cases=Law(),
    aliases=("lem3.4",),
)
def descent_stays_on_the_stochastic_family(config: Law, seed: int) -> Verdict:
    task, width, eta = config.task, config.width, config.learning_rate
    law = sets_of(config, seed)
    overlaps = pairs_of(config, law)
    exact, at = on_family(config, law, repeats=config.steps)
    direction = population.stochastic_model(task, width, 1.0, 1.0)
    W_star, V_star = np.asarray(direction.W), np.asarray(direction.V)
    encoded = np.linalg.norm(population.queries(task, law).encoded, axis=-1).max()
    query = float(np.hypot(encoded, config.query_token * np.sqrt(task.width)))
    terms = gradient_terms(task, config.value_scale, query)
    gradients = {}
    for name, loss, slopes in (
        ("outputs averaged", exact.output_averaged, stochastic.output_averaged_slopes),
        ("losses averaged", exact.loss_averaged, stochastic.loss_averaged_slopes),
    ):
        W, V = exact.gradient(at, loss)
        value, attention = slopes(task, width, overlaps, config.value_scale, config.attention_scale)
        gradients[f"grad W, {name}"] = floored(W, -attention * W_star, terms[0])
        gradients[f"grad V, {name}"] = floored(V, -value * V_star, terms[1])
    start = population.stochastic_model(task, width, 0.0, 0.0)
    model = exact.descend(start, eta, config.steps)
    path = stochastic.descend(task, width, overlaps, eta, config.steps)
    descent = {
        f"W after {config.steps} steps": (model.W, path.C[-1] * W_star),
        f"V after {config.steps} steps": (model.V, path.alpha[-1] * V_star),
    }
    verdicts = {
        "invariance": identical(gradients | descent, rounding(law)),
        "increments of C outside their bounds by": bounds_on_increments(config, overlaps, path),
    }
    violated = whole_law(config)
    if verdicts["invariance"].status == "fails" and identical(gradients, rounding(law)).status == "holds":
        violated += exact.unstable(start, model, eta, config.steps)
    return under(violated, Verdict.worst(verdicts))


def bounds_on_increments(config: Law, overlaps: np.ndarray, path) -> Verdict:
    """Along the path, the slope of C against its two bounds with gamma = max |<e_i, e_y>|."""
    gamma = float(np.abs(overlaps).max())
    outside, rows = 0.0, []
    for alpha, C in zip(path.alpha, path.C, strict=True):
        sizes = config.task, config.width, overlaps, float(alpha), float(C)
        low, high = stochastic.attention_slope_bounds(*sizes, gamma)
        slope = stochastic.output_averaged_slopes(*sizes)[1]
        outside = max(outside, low - slope, slope - high)
        rows.append({"alpha": float(alpha), "C": float(C), "low": low, "slope": slope, "high": high, "gamma": gamma})
    return Verdict.at_most(outside, TOLERANCE, details=(rows[-1],))


@LEDGER.theory(
    "lemE7-printed",
    kind="identity",
    says="as printed: alpha moves by eta s (1 - q alpha s + alpha (1-q s)^2/((T-q) s))",
    cases=Law(),
)
def the_printed_value_increment_has_a_wrong_sign(config: Law, seed: int) -> Verdict:
    law = sets_of(config, seed)
    exact, model = on_family(config, law)
    S = stochastic.attention(config.task, pairs_of(config, law), config.attention_scale)
    sizes = config.task, config.value_scale, float(S.named.mean()), float(S.leak.mean())
    true = -float(exact.gradient(model)[1][0, 0])
    printed, corrected = stochastic.value_slope_printed(*sizes), stochastic.value_slope(*sizes)
    verdict = Verdict.at_most(
        abs(printed / true - 1),
        TOLERANCE,
        otherwise="refuted",
        note="the last term needs a minus; the form with alpha* that the proof goes on with is right",
        details=({"-grad V": true, "printed": printed, "with a minus": corrected},),
    )
    return under(whole_law(config), verdict)


# --- symmetries -------------------------------------------------------------------------------------------------------

CODES = Codes(Task(8, 2, 1), encoding_width=16, threshold=0.8, encodings=8)


def changed_by(config: Codes, seed: int, changes) -> Verdict:
    """How much S_y and E_y^T E_y move when the coordinates of all encodings are changed."""
    law = encodings.draw(seed, config.encodings, config.task.length, config.encoding_width, config.threshold)
    subsets = encodings.draw_subsets(seed, config.subsets, config.task.length, config.task.sparsity)

    def attention(law):
        overlaps = encodings.overlaps(law, subsets).reshape(-1, config.task.length - config.task.sparsity)
        return np.column_stack(stochastic.attention(config.task, overlaps, config.attention_scale))

    def gram(law):
        rows = law[:, subsets]
        return rows @ rows.swapaxes(-1, -2)

    before = attention(law), gram(law)
    moved = [(np.abs(attention(E) - before[0]).max(), np.abs(gram(E) - before[1]).max()) for E in changes(law)]
    of_S, of_gram = (float(max(column)) for column in zip(*moved, strict=True))
    return Verdict.at_most(
        max(of_S, of_gram), ROUNDING, details=({"change of S": of_S, "change of the Gram": of_gram},)
    )


@LEDGER.theory(
    "lemE10",
    kind="identity",
    says="flipping the sign of a coordinate of all encodings changes neither S_y nor E_y^T E_y",
    cases=CODES,
)
def flips_change_nothing(config: Codes, seed: int) -> Verdict:
    signs = 1 - 2 * np.eye(config.encoding_width)
    return changed_by(config, seed, lambda law: (law * flip for flip in signs))


@LEDGER.theory(
    "lemE11",
    kind="identity",
    says="swapping two coordinates of all encodings changes neither S_y nor E_y^T E_y",
    cases=CODES,
)
def swaps_change_nothing(config: Codes, seed: int) -> Verdict:
    width = config.encoding_width
    swaps = [np.r_[:i, j, i + 1 : j, i, j + 1 : width] for i in range(min(width, 8)) for j in range(i + 1, width)]
    return changed_by(config, seed, lambda law: (law[:, :, swap] for swap in swaps or [np.arange(width)]))


def moments(config: Law, law: np.ndarray) -> np.ndarray:
    """E_E[f(S_y) e_i e_y^T] for several f, and for every y and i: (functions, subsets, T, d_e, d_e)."""
    members, S = population.attentions(config.task, law, config.attention_scale * np.eye(config.width))
    named = (S * members).sum(axis=2) / config.task.sparsity
    functions = np.stack([np.ones_like(named), named, (S**2).sum(axis=2), np.exp(3 * S[:, :, 0]) * S[:, :, -1]])
    queries = np.asarray(population.queries(config.task, law).encoded)
    return np.einsum("fns,ntw,snv->fstwv", functions, law, queries, optimize=True) / len(law)


@LEDGER.theory(
    "lemE12",
    kind="identity",
    says="off the diagonal, E_E[f(S_y) e_i e_y^T] is zero for every function f",
    cases=Law(),
)
def off_diagonals_vanish(config: Law, seed: int) -> Verdict:
    law = sets_of(config, seed)
    M = moments(config, law)
    return under(whole_law(config), identical({"moments": (M, M * np.eye(config.width))}, rounding(law)))


@LEDGER.theory(
    "lemE13",
    kind="identity",
    says="on the diagonal, E_E[f(S_y) e_i e_y^T] is constant for every function f",
    cases=Law(),
)
def diagonals_are_constant(config: Law, seed: int) -> Verdict:
    law = sets_of(config, seed)
    diagonal = np.diagonal(moments(config, law), axis1=-2, axis2=-1)
    means = np.broadcast_to(diagonal.mean(axis=-1, keepdims=True), diagonal.shape)
    return under(whole_law(config), identical({"diagonals": (diagonal, means)}, rounding(law)))


@LEDGER.theory(
    "lemE14",
    kind="identity",
    says="E_E S_y(i) depends only on whether y names i",
    cases=Law(),
)
def mean_attention_takes_two_values(config: Law, seed: int) -> Verdict:
    law = sets_of(config, seed)
    members, S = population.attentions(config.task, law, config.attention_scale * np.eye(config.width))
    mean, T, q = S.mean(axis=0), config.task.length, config.task.sparsity
    named = (mean * members).sum() / members.sum()
    two_values = np.where(members > 0, named, (1 - q * named) / (T - q))
    return under(whole_law(config), identical({"E_E S_y": (mean, two_values)}, rounding(law)))


@LEDGER.theory(
    "lemE15",
    kind="bound",
    says="1/(q + (T-q) e^{-(1-gamma) C}) <= s <= 1/(q + (T-q) e^{-(1+gamma) C}) for every E, gamma = max |<e_i, e_y>|",
    cases=(CODES, Codes(Task(200, 3, 5), 170, 0.35, attention_scale=4.0)),
)
def attention_lies_between_its_bounds(config: Codes, seed: int) -> Verdict:
    task, C = config.task, config.attention_scale
    law = encodings.draw(seed, config.encodings, task.length, config.encoding_width, config.threshold)
    subsets = encodings.draw_subsets(seed, config.subsets, task.length, task.sparsity)
    overlaps = encodings.overlaps(law, subsets).reshape(-1, task.length - task.sparsity)
    s = stochastic.attention(task, overlaps, C).named
    gammas = np.abs(overlaps).max(axis=1)
    low, high = np.array([stochastic.sandwich(task, C, float(gamma)) for gamma in gammas]).T
    row = {"largest gamma": float(gammas.max()), "least s": float(s.min()), "largest s": float(s.max())}
    return Verdict.at_most(float(max((low / s).max(), (s / high).max())), 1 + TOLERANCE, details=(row,))
