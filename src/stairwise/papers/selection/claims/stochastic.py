"""Averages over encodings: the gradients of Lemmas E.2 to E.7, and the symmetries of Lemmas E.10 to E.15."""

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.contract.checks import TOLERANCE, at_least, at_most, equal, hypothesis, note, row
from stairwise.papers.selection.claims.encodings import Adversary, adversary
from stairwise.papers.selection.claims.laws import Exact, Law, gradient_scales, sets_of
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.claims.sizes import Codes
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import encodings, population, stochastic
from stairwise.train.draws import draws_of

DRAWN = Law(Task(6, 2, 2), encoding_width=10, encodings=4)  # for statements about any law of encodings
EXAMPLES = 2
ROUNDING = 1e-13  # two orders of summation
# Definition 2.5: all sign matrices that have (2, 0.9)-RIP, 22,272 of the 26,880 whose subset encodings exist
RESTRICTED = Law(encoding_width=4, isometry=0.9, steps=4)
# the symmetries belong to the whole law, not to a few draws from it
WHOLE_LAW = {"the whole law of encodings": lambda config: config.encodings == 0}
LISTED = "every set of encodings is listed, so that nothing is drawn"


# --- gradients --------------------------------------------------------------------------------------------------------


def random_point(config: Law, law: np.ndarray, seed: int):
    """Random weights and examples: tokens (n, T, d), indicators (n, T), queries z_query (n, encodings, d + d_e)."""
    task, rng = config.task, draws_of(seed, "weights and examples")
    joint = task.width + config.width
    W, V = rng.standard_normal((joint, joint)), rng.standard_normal((task.width, joint))
    tokens = rng.standard_normal((EXAMPLES, task.length, task.width))
    subsets = encodings.draw_subsets(seed, EXAMPLES, task.length, task.sparsity)
    members = np.zeros((EXAMPLES, task.length))
    np.put_along_axis(members, subsets, 1.0, axis=1)
    encoded = encodings.subset_encodings(law, subsets).swapaxes(0, 1)
    token = np.full((*encoded.shape[:2], task.width), config.query_token)
    return W, V, tokens, members, np.concatenate([token, encoded], axis=2)


@LEDGER.exact(
    "lemE2",
    statement="Lemma E.2, corrected",
    says=r"the gradients of the averaged loss, with the average over $E$ taken of $V Z S$ (the form that is defined)",
    of=(stochastic.mean_gradients,),
    cases=(Law(), DRAWN),
    seeds=3,
)
def the_averaged_gradient_formulas_equal_autodiff(config: Law, seed: int):
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
    yield equal("grad W", autodiff.W, grad_W)
    yield equal("grad V", autodiff.V, grad_V)


@LEDGER.misprint(
    "lemE2-printed",
    statement="Lemma E.2",
    says=r"as printed: the averaged output is $V Z\, \mathbb{E}_E[S]$, for any $V$",
    means=r"$\mathbb{E}_E[V Z S]$: $Z$ holds $E$, so it belongs inside the average; both agree where $V = [\alpha "
    r"I\ 0]$",
    of=(stochastic.printed_outputs,),
    corrected="lemE2",
    cases=Law(),
    seeds=3,
)
def the_printed_average_depends_on_the_encodings(config: Law, seed: int):
    law = sets_of(config, seed)
    W, V, tokens, _, queries = random_point(config, law, seed)
    true = stochastic.mean_output(W, V, tokens[0].T, law, queries[0])
    printed = stochastic.printed_outputs(W, V, tokens[0].T, law, queries[0])
    yield equal("averaged output", printed, np.broadcast_to(true, printed.shape))
    yield row({"E_E[V Z S]": true[0], "least V Z E_E[S]": printed[:, 0].min(), "largest": printed[:, 0].max()})


def rounding(law: np.ndarray) -> float:
    """The tolerance of an average over many encodings: its rounding grows with their number."""
    return TOLERANCE * max(1.0, len(law) / 10_000)


def on_family(config: Law, law: np.ndarray, repeats: int = 1):
    """The exact losses, and the model W = C diag(0, I), V = alpha [I 0]."""
    model = population.stochastic_model(config.task, config.width, config.value_scale, config.attention_scale)
    return Exact(config.task, law, config.query_token, repeats), model


@LEDGER.exact(
    "lemE4",
    statement="Lemma E.4",
    says=r"on the family, $\nabla_V = (\alpha\, \mathbb{E}_y\|\mathbb{E}_E S\|^2 - \mathbb{E}_y \sum_{i \in y} "
    r"\mathbb{E}_E S(i)/q) [I\ 0]$",
    of=(stochastic.value_gradient,),
    cases=(Law(), DRAWN),
    seeds=3,
)
def the_value_gradient_is_along_the_identity(config: Law, seed: int):
    law = sets_of(config, seed)
    exact, model = on_family(config, law)
    members, S = population.attentions(config.task, law, config.attention_scale * np.eye(config.width))
    coefficient = stochastic.value_gradient(config.task, config.value_scale, S, members)
    direction = np.eye(config.task.width, config.task.width + config.width)
    yield equal("grad V", exact.gradient(model)[1], coefficient * direction, rounding(law))


@LEDGER.exact(
    "lemE5",
    statement="Lemma E.5",
    says=r"on the family, $\nabla_W$ on positions is $-d\alpha\, \mathbb{E}[E (\mathrm{diag} S - S S^\top)(Y/q - "
    r"\alpha\, \mathbb{E}_E S) e_y^\top]$",
    of=(stochastic.position_gradient,),
    cases=(Law(), DRAWN),
    seeds=3,
)
def the_position_gradient_is_as_stated(config: Law, seed: int):
    law = sets_of(config, seed)
    exact, model = on_family(config, law)
    members, S = population.attentions(config.task, law, config.attention_scale * np.eye(config.width))
    queries = np.asarray(population.queries(config.task, law).encoded).swapaxes(0, 1)
    block = stochastic.position_gradient(config.task, config.value_scale, S, members, law, queries)
    d = config.task.width
    scales = gradient_scales(config.task, config.value_scale, float(np.linalg.norm(queries, axis=-1).max()))
    found = exact.gradient(model)[0][d:, d:]
    yield equal("position block of grad W", found, block, rounding(law), scale=scales[0])


def pairs_of(config: Law, law: np.ndarray) -> np.ndarray:
    """The overlaps of every pair (E, y)."""
    subsets = np.asarray(population.subsets(config.task.length, config.task.sparsity), dtype=np.int64)
    return encodings.overlaps(law, subsets).reshape(-1, config.task.length - config.task.sparsity)


@LEDGER.exact(
    "lemE7",
    statement=("Lemma E.7", "Lemma 3.4"),
    says=r"descent stays on $W = C\, \mathrm{diag}(0, I)$, $V = \alpha [I\ 0]$, with these increments (the sign of "
    r"the last corrected)",
    of=(stochastic.output_averaged_slopes, stochastic.loss_averaged_slopes, stochastic.descend),
    hypotheses=WHOLE_LAW,
    cases=(Law(), RESTRICTED),
    aliases=("lem3.4",),
    one_seed=LISTED,
)
def descent_stays_on_the_stochastic_family(config: Law, seed: int):
    task, width, eta = config.task, config.width, config.learning_rate
    law = sets_of(config, seed)
    overlaps = pairs_of(config, law)
    exact, at = on_family(config, law, repeats=config.steps)
    direction = population.stochastic_model(task, width, 1.0, 1.0)
    W_star, V_star = np.asarray(direction.W), np.asarray(direction.V)
    encoded = np.linalg.norm(population.queries(task, law).encoded, axis=-1).max()
    query = float(np.hypot(encoded, config.query_token * np.sqrt(task.width)))
    scales = gradient_scales(task, config.value_scale, query)
    for name, loss, slopes in (
        ("outputs averaged", exact.output_averaged, stochastic.output_averaged_slopes),
        ("losses averaged", exact.loss_averaged, stochastic.loss_averaged_slopes),
    ):
        W, V = exact.gradient(at, loss)
        value, attention = slopes(task, width, overlaps, config.value_scale, config.attention_scale)
        yield equal(f"grad W, {name}", W, -attention * W_star, rounding(law), scale=scales[0])
        yield equal(f"grad V, {name}", V, -value * V_star, rounding(law), scale=scales[1])
    model = exact.descend(population.stochastic_model(task, width, 0.0, 0.0), eta, config.steps)
    path = stochastic.descend(task, width, overlaps, eta, config.steps)
    yield equal(f"W after {config.steps} steps", model.W, path.C[-1] * W_star, 1e-10)
    yield equal(f"V after {config.steps} steps", model.V, path.alpha[-1] * V_star, 1e-10)


@LEDGER.refuted(
    "lemE7-printed",
    statement="Lemma E.7",
    says=r"as printed: $\alpha$ moves by $\eta s (1 - q\alpha s + \alpha (1-qs)^2/((T-q) s))$",
    of=(stochastic.value_slope_printed,),
    certificate="certificates/lemE7.py",
    corrected="lemE7",
    hypotheses=WHOLE_LAW,
    cases=Law(),
    one_seed=LISTED,
)
def the_printed_value_increment_has_a_wrong_sign(config: Law, seed: int):
    law = sets_of(config, seed)
    exact, model = on_family(config, law)
    S = stochastic.attention(config.task, pairs_of(config, law), config.attention_scale)
    sizes = config.task, config.value_scale, float(S.named.mean()), float(S.leak.mean())
    true = -float(exact.gradient(model)[1][0, 0])
    yield equal("increment of alpha over eta", true, stochastic.value_slope_printed(*sizes))
    yield row({"-grad V": true, "printed": stochastic.value_slope_printed(*sizes)})
    yield row({"with a minus": stochastic.value_slope(*sizes)})
    yield note("the last term needs a minus; the form with alpha* that the proof goes on with is right")


# --- symmetries -------------------------------------------------------------------------------------------------------

CODES = Codes(Task(8, 2, 1), encoding_width=16, threshold=0.8, encodings=8)


def by_pseudo_inverse(law: np.ndarray, subsets: np.ndarray) -> np.ndarray:
    """<e_i, e_y> at every position, e_y as the least-norm vector whose product with each member's encoding is 1."""
    return np.einsum("ntw,nsw->nst", law, np.linalg.pinv(law[:, subsets]).sum(axis=-1))


def overlaps_by_definition(law: np.ndarray, subsets: np.ndarray):
    products = by_pseudo_inverse(law, subsets)
    outside = (np.arange(law.shape[1]) != subsets[:, :, None]).all(axis=1)
    found = encodings.overlaps(law, subsets)
    yield equal("<e_i, e_y> off y", found, products[:, outside].reshape(found.shape), scale=1.0)


def attention_by_definition(config: Law, law: np.ndarray):
    """S_y = softmax(C E^T e_y) on some of the law."""
    some = law[:: max(1, len(law) // 64)]
    subsets = np.asarray(population.subsets(config.task.length, config.task.sparsity), dtype=np.int64)
    weights = np.exp(config.attention_scale * by_pseudo_inverse(some, subsets))
    _, S = population.attentions(config.task, some, config.attention_scale * np.eye(config.width))
    yield equal("S_y", S, weights / weights.sum(axis=2, keepdims=True))


def changed_by(config: Codes, seed: int, changes):
    """How much S_y and E_y^T E_y move when the coordinates of all encodings are changed."""
    law = encodings.draw(seed, config.encodings, config.task.length, config.encoding_width, config.threshold)
    subsets = encodings.draw_subsets(seed, config.subsets, config.task.length, config.task.sparsity)

    def attention(law):
        overlaps = encodings.overlaps(law, subsets).reshape(-1, config.task.length - config.task.sparsity)
        return np.column_stack(stochastic.attention(config.task, overlaps, config.attention_scale))

    def gram(law):
        rows = law[:, subsets]
        return rows @ rows.swapaxes(-1, -2)

    yield from overlaps_by_definition(law, subsets)
    before = attention(law), gram(law)
    moved = [(np.abs(attention(E) - before[0]).max(), np.abs(gram(E) - before[1]).max()) for E in changes(law)]
    of_S, of_gram = zip(*moved, strict=True)
    yield at_most("change of S", of_S, ROUNDING)
    yield at_most("change of the Gram matrix", of_gram, ROUNDING)


@LEDGER.exact(
    "lemE10",
    statement="Lemma E.10",
    says=r"flipping the sign of a coordinate of all encodings changes neither $S_y$ nor $E_y^\top E_y$",
    of=(encodings.overlaps,),
    cases=CODES,
    seeds=3,
)
def flips_change_nothing(config: Codes, seed: int):
    signs = 1 - 2 * np.eye(config.encoding_width)
    yield from changed_by(config, seed, lambda law: (law * flip for flip in signs))


@LEDGER.exact(
    "lemE11",
    statement="Lemma E.11",
    says=r"swapping two coordinates of all encodings changes neither $S_y$ nor $E_y^\top E_y$",
    of=(encodings.overlaps,),
    cases=CODES,
    seeds=3,
)
def swaps_change_nothing(config: Codes, seed: int):
    width = config.encoding_width
    swaps = [np.r_[:i, j, i + 1 : j, i, j + 1 : width] for i in range(min(width, 8)) for j in range(i + 1, width)]
    yield from changed_by(config, seed, lambda law: (law[:, :, swap] for swap in swaps or [np.arange(width)]))


def moments(config: Law, law: np.ndarray) -> np.ndarray:
    """E_E[f(S_y) e_i e_y^T] for several f, and for every y and i: (functions, subsets, T, d_e, d_e)."""
    members, S = population.attentions(config.task, law, config.attention_scale * np.eye(config.width))
    named = (S * members).sum(axis=2) / config.task.sparsity
    functions = np.stack([np.ones_like(named), named, (S**2).sum(axis=2), np.exp(3 * S[:, :, 0]) * S[:, :, -1]])
    queries = np.asarray(population.queries(config.task, law).encoded)
    return np.einsum("fns,ntw,snv->fstwv", functions, law, queries, optimize=True) / len(law)


@LEDGER.exact(
    "lemE12",
    statement="Lemma E.12",
    says=r"off the diagonal, $\mathbb{E}_E[f(S_y) e_i e_y^\top]$ is zero for every function $f$",
    of=(population.attentions,),
    hypotheses=WHOLE_LAW,
    cases=(Law(), RESTRICTED),
    one_seed=LISTED,
)
def off_diagonals_vanish(config: Law, seed: int):
    law = sets_of(config, seed)
    yield from attention_by_definition(config, law)
    M = moments(config, law)
    yield equal("moments", M, M * np.eye(config.width), rounding(law))


@LEDGER.exact(
    "lemE13",
    statement="Lemma E.13",
    says=r"on the diagonal, $\mathbb{E}_E[f(S_y) e_i e_y^\top]$ is constant for every function $f$",
    of=(population.attentions,),
    hypotheses=WHOLE_LAW,
    cases=(Law(), RESTRICTED),
    one_seed=LISTED,
)
def diagonals_are_constant(config: Law, seed: int):
    law = sets_of(config, seed)
    yield from attention_by_definition(config, law)
    diagonal = np.diagonal(moments(config, law), axis1=-2, axis2=-1)
    means = np.broadcast_to(diagonal.mean(axis=-1, keepdims=True), diagonal.shape)
    yield equal("diagonals", diagonal, means, rounding(law))


@LEDGER.exact(
    "lemE14",
    argument=r"for $i, j \notin y$ its proof exchanges two coordinates of all encodings ($R_{ij}E$, Lemma E.11), which"
    r" leaves $S_y$ as it is; it needs to exchange the encodings of positions $i$ and $j$",
    statement="Lemma E.14",
    says=r"$\mathbb{E}_E S_y(i)$ depends only on whether $y$ names $i$",
    of=(population.attentions,),
    hypotheses=WHOLE_LAW,
    cases=(Law(), RESTRICTED),
    one_seed=LISTED,
)
def mean_attention_takes_two_values(config: Law, seed: int):
    law = sets_of(config, seed)
    members, S = population.attentions(config.task, law, config.attention_scale * np.eye(config.width))
    yield from attention_by_definition(config, law)
    mean, T, q = S.mean(axis=0), config.task.length, config.task.sparsity
    named = (mean * members).sum() / members.sum()
    two_values = np.where(members > 0, named, (1 - q * named) / (T - q))
    yield equal("E_E S_y", mean, two_values, rounding(law))


@LEDGER.bound(
    "lemE15",
    statement="Lemma E.15, corrected",
    says=r"$1/(q + (T-q) e^{-(1-\gamma) C}) \le s \le 1/(q + (T-q) e^{-(1+\gamma) C})$ for every $E$, $\gamma = "
    r"\sqrt{q}\delta/(1-\delta)$",
    of=(stochastic.sandwich, stochastic.leak_bounds),
    cases=(
        Codes(Task(8, 2, 1), encoding_width=256),
        Codes(Task(9, 3, 1), encoding_width=2048, attention_scale=4.0),
        Codes(Task(8, 2, 1), encoding_width=256, attention_scale=12.0),
    ),
    seeds=3,
)
def attention_lies_between_its_bounds(config: Codes, seed: int):
    task, C = config.task, config.attention_scale
    law = encodings.draw(seed, config.encodings, task.length, config.encoding_width, config.threshold)
    subsets = encodings.draw_subsets(seed, config.subsets, task.length, task.sparsity)
    deltas = [encodings.rip_constants(E, task.sparsity).delta for E in law]
    yield hypothesis("delta < 1/2", max(deltas) < 0.5)
    for number, (E, delta) in enumerate(zip(law, deltas, strict=True)):
        found = stochastic.attention(task, encodings.overlaps(E[None], subsets)[0], C)
        gamma = encodings.overlap_bound(delta, task.sparsity)
        low, high = stochastic.sandwich(task, C, gamma)
        yield at_least(f"s, set {number}", found.named, low, rounding=TOLERANCE)
        yield at_most(f"s, set {number}", found.named, high, rounding=TOLERANCE)
        least, largest = stochastic.leak_bounds(task, C, gamma)
        ends = 1 - task.sparsity * high, 1 - task.sparsity * low
        yield equal(f"least and largest 1 - q s, set {number}", (least, largest), ends, 1e-9)
        yield at_most(f"1 - q s, set {number}", found.leak, largest, rounding=TOLERANCE)
        yield at_least(f"1 - q s, set {number}", found.leak, least, rounding=TOLERANCE)
    yield row({"largest delta": max(deltas)})


@LEDGER.refuted(
    "lemE15-printed",
    statement="Lemma E.15",
    says=r"as printed: $s \ge 1/(q + (T-q) e^{-C(1-3\delta)/(1-2\delta)})$ for every $E$ with RIP",
    of=(stochastic.largest_leak_printed,),
    certificate="certificates/lemE15.py",
    corrected="lemE15",
    cases=Adversary(),
)
def the_printed_lower_end_is_passed(config: Adversary, seed: int):
    task, C = config.task, config.attention_scale
    _, delta, overlaps = adversary(config)
    leak = float(stochastic.attention(task, overlaps, C).leak[0])
    yield hypothesis("delta < 1/10", delta < 0.1)
    yield at_most("1 - q s", leak, stochastic.largest_leak_printed(task, C, delta))
    yield row({"delta": delta, "C": C, "1 - q s": leak})
    yield note("Lemma A.3 in its printed form, which is false, is all that its proof uses")
