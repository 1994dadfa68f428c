"""Training with one-hot encodings: Lemmas D.1, D.2, D.5, the ODE, Theorem 3.1 and the inside of its proof."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stairwise.lab.config import Config, option
from stairwise.lab.contract import Verdict
from stairwise.lazy import lazy
from stairwise.papers.selection.claims.laws import Exact
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.claims.sizes import (
    TOLERANCE,
    Family,
    Training,
    accuracy_hypothesis,
    fits,
    identical,
    relative_error,
    room,
    theorem_hypotheses,
    under,
)
from stairwise.papers.selection.config import Task

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp

    from stairwise.papers.selection.theory import encodings, onehot, population
else:
    jax, jnp = lazy("jax"), lazy("jax.numpy")
    encodings = lazy("stairwise.papers.selection.theory.encodings")
    onehot = lazy("stairwise.papers.selection.theory.onehot")
    population = lazy("stairwise.papers.selection.theory.population")

MOST_STEPS = 2_000_000  # beyond, the flow stands for the steps: eta is tiny then
SPEC_SIZES = tuple(Task(T, q, d) for T, q, d in ((20, 2, 5), (10, 2, 1), (20, 4, 5), (50, 3, 5), (200, 3, 5)))


# --- gradients and the invariant family -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch(Config):
    """A random batch, with random weights and a random query token."""

    task: Task = option(Task(8, 2, 2), "sizes of the task")
    encoding_width: int = option(0, "encoding dimension d_e; 0 = one-hot", low=0, high=2**12)
    examples: int = option(3, "examples in the batch", low=1, high=4096)

    def check(self) -> None:
        if self.encoding_width:
            fits(self.task, self.encoding_width)


@LEDGER.theory(
    "lemD1",
    kind="identity",
    says="the gradients of the loss in W and V are the printed ones",
    cases=(Batch(), Batch(Task(7, 3, 3), encoding_width=12)),
)
def the_gradient_formulas_equal_autodiff(config: Batch, seed: int) -> Verdict:
    task, rng = config.task, np.random.default_rng(seed)
    T, d = task.length, task.width
    law = encodings.draw(seed, 1, T, config.encoding_width) if config.encoding_width else population.one_hot_law(T)
    joint = d + law.shape[2]
    W, V = rng.standard_normal((joint, joint)), rng.standard_normal((d, joint))
    tokens = rng.standard_normal((config.examples, T, d))
    token = rng.standard_normal(d)
    subsets = encodings.draw_subsets(seed, config.examples, T, task.sparsity)
    encoded = encodings.subset_encodings(law, subsets)[0]
    members = np.zeros((config.examples, T))
    np.put_along_axis(members, subsets, 1.0, axis=1)

    loss = population.output_averaged(law, jnp.asarray(token))
    queries = population.Query(jnp.asarray(members), jnp.asarray(encoded[:, None]))
    model = population.SelectionAttention(W=jnp.asarray(W), V=jnp.asarray(V))
    mean = lambda model: jnp.mean(jax.vmap(lambda X, query: loss(model, (X, query)))(jnp.asarray(tokens), queries))  # noqa: E731
    autodiff = jax.jit(jax.grad(mean))(model)
    formulas = [
        onehot.example_gradients(W, V, np.vstack([X.T, law[0].T]), Y, np.concatenate([token, e_y]))
        for X, Y, e_y in zip(tokens, members, encoded, strict=True)
    ]
    by_formula = [np.mean(parts, axis=0) for parts in zip(*formulas, strict=True)]
    return identical({"grad W": (autodiff.W, by_formula[0]), "grad V": (autodiff.V, by_formula[1])})


@LEDGER.theory(
    "lemD2",
    kind="identity",
    says="for V = alpha [I 0] and attention by position the loss is (d/2) E_y ||Y/q - alpha E_E S_y||^2",
    cases=(Family(Task(6, 2, 1)), Family(Task(4, 2, 2))),
    aliases=("lemE3",),
)
def the_loss_is_a_distance_between_attentions(config: Family, seed: int) -> Verdict:
    task, alpha, C = config.task, config.value_scale, config.attention_scale
    T, d = task.length, task.width
    exact = Exact(task, population.one_hot_law(T), config.query_token)
    block = np.random.default_rng(seed).standard_normal((T, T))
    any_block = population.position_model(block, alpha * np.eye(d, d + T))
    width = max(2 * T, task.sparsity)
    law = encodings.draw(seed, 3, T, width)
    averaged = Exact(task, law, config.query_token)
    pairs = {
        "on the family": (exact.loss(population.one_hot_model(task, alpha, C)), onehot.loss(task, alpha, C)),
        "any position block": (
            exact.loss(any_block),
            population.distance(task, alpha, population.one_hot_law(T), block),
        ),
        "averaged over encodings (E.3)": (
            averaged.loss(population.stochastic_model(task, width, alpha, C)),
            population.distance(task, alpha, law, C * np.eye(width)),
        ),
    }
    return identical(pairs)


@dataclass(frozen=True)
class TokenScores(Config):
    """Two positions, one token dimension, and scores that read the tokens."""

    value_scale: float = option(0.7, "alpha, where V = alpha [I 0]", low=-100.0, high=100.0)
    token_scale: float = option(1.0, "the score of position i is token_scale x_i", low=-5.0, high=5.0)


@LEDGER.theory(
    "lemD2-printed",
    kind="identity",
    says="as printed: V = alpha [I 0] alone gives that form of the loss, whatever W",
    cases=TokenScores(),
)
def the_distance_form_needs_attention_by_position(config: TokenScores, seed: int) -> Verdict:
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    x = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    measure = np.outer(weights, weights).reshape(-1) / weights.sum() ** 2
    S = np.exp(config.token_scale * (x - x.max(axis=1, keepdims=True)))
    residual = np.array([1.0, 0.0]) - config.value_scale * S / S.sum(axis=1, keepdims=True)
    loss = float(measure @ (residual * x).sum(axis=1) ** 2 / 2)
    form = float(measure @ (residual**2).sum(axis=1) / 2)
    return Verdict.at_most(
        relative_error(form, loss),
        1e-8,
        otherwise="refuted",
        note="E[X^T X] = d I may be taken alone only where S does not depend on X (zero token rows of W);"
        " the counterexample has T=2, q=1, d=1 and scores token_scale x_i",
        details=({"loss": loss, "printed form, averaged over X": form},),
    )


@LEDGER.theory(
    "lemD5",
    kind="identity",
    says="gradient descent from zero stays on W = C (I - 11^T/T), V = alpha [I 0], and moves by the closed forms",
    cases=tuple(Family(Task(T, q, d)) for T, d, q in ((6, 1, 2), (7, 1, 3), (4, 2, 2), (9, 1, 2))),
    aliases=("lem3.2",),
)
def descent_stays_on_the_one_hot_family(config: Family, seed: int) -> Verdict:
    task, eta = config.task, config.learning_rate
    exact = Exact(task, population.one_hot_law(task.length), config.query_token)
    at = population.one_hot_model(task, config.value_scale, config.attention_scale)
    W, V = exact.gradient(at)
    value, attention = onehot.slopes(task, config.value_scale, config.attention_scale)
    direction = population.one_hot_model(task, 1.0, 1.0)

    model = population.one_hot_model(task, 0.0, 0.0)
    for _ in range(config.steps):
        grad_W, grad_V = exact.gradient(model)
        model = type(model)(W=model.W - eta * grad_W, V=model.V - eta * grad_V)
    end = onehot.descend(task, eta, config.steps)
    pairs = {
        "grad W": (W, -attention * np.asarray(direction.W)),
        "grad V": (V, -value * np.asarray(direction.V)),
        f"W after {config.steps} steps": (model.W, end.C[-1] * np.asarray(direction.W)),
        f"V after {config.steps} steps": (model.V, end.alpha[-1] * np.asarray(direction.V)),
    }
    zero = config.query_token == 0
    violated = () if zero else (f"query_token={config.query_token:g} must be 0 (the lemma assumes it)",)
    return under(violated, identical(pairs))


# --- the flow ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limit(Config):
    """Gradient descent at three learning rates, to the same eta t."""

    task: Task = option(Task(20, 2, 5), "sizes of the task")
    learning_rate: float = option(0.002, "the largest of the three learning rates, each half the one before", above=0.0)
    horizon: float = option(20.0, "eta t at which they are compared", above=0.0, high=1e6)

    def check(self) -> None:
        room(self.task)


@LEDGER.theory(
    "eq6",
    kind="convergence",
    says="gradient descent tends to the ODE (6): at equal eta t the distance halves with eta",
    cases=Limit(),
)
def descent_tends_to_the_flow(config: Limit, seed: int) -> Verdict:
    task = config.task
    rates = [config.learning_rate / 2**k for k in range(3)]
    steps = [max(1, round(config.horizon / rate)) for rate in rates]
    rows = []
    for rate, count in zip(rates, steps, strict=True):
        limit = onehot.flow(task, np.array([rate * count]))
        end = onehot.descend(task, rate, count)
        rows.append(
            {
                "learning rate": rate,
                "error of alpha": abs(end.alpha[-1] - limit.alpha[-1]),
                "error of C": abs(end.C[-1] - limit.C[-1]),
            }
        )
    orders = [
        math.log2(coarse[name] / fine[name])
        for name in ("error of alpha", "error of C")
        for coarse, fine in zip(rows, rows[1:], strict=False)
    ]
    return Verdict.at_most(
        max(abs(order - 1) for order in orders), 0.1, details=tuple(rows), note="measured: |order - 1|"
    )


@LEDGER.theory(
    "thm3.1",
    kind="convergence",
    says="gradient descent from zero has loss at most epsilon after T^2 d/(eta epsilon) steps, for eta <= 1/(20 d^2)",
    cases=tuple(Training(task) for task in SPEC_SIZES),
    aliases=("thmD4",),
)
def descent_is_faster_than_the_bound(config: Training, seed: int) -> Verdict:
    task = config.task
    epsilon, eta = config.accuracy * onehot.largest_epsilon(task), onehot.largest_learning_rate(task)
    bound = onehot.convergence_time(task, epsilon)
    time = onehot.time_to_loss(task, epsilon)
    by_steps = 1.1 * time / eta <= MOST_STEPS
    if by_steps:
        time = eta * onehot.steps_to_loss(task, eta, epsilon, MOST_STEPS)
    late = onehot.flow(task, np.array([bound]))
    row = {
        "task": f"{task.length},{task.sparsity},{task.width}",
        "epsilon": epsilon,
        "eta t": time,
        "of": "steps" if by_steps else "the flow",
        "bound": bound,
        "over (T-1)/(4 epsilon)": time / onehot.sharp_time(task, epsilon),
    }
    verdicts = {
        "time over its bound": Verdict.at_most(time / bound, 1.0, details=(row,)),
        "loss at the bound": Verdict.at_most(float(onehot.loss(task, late.alpha[-1], late.C[-1])), epsilon),
    }
    return under(theorem_hypotheses(task) + accuracy_hypothesis(config.accuracy), Verdict.worst(verdicts))


@dataclass(frozen=True)
class Late(Config):
    """The flow at a late time."""

    task: Task = option(SPEC_SIZES[0], "sizes of the task")
    horizon: float = option(1e6, "eta t", above=0.0, high=1e16)

    def check(self) -> None:
        room(self.task)


@LEDGER.theory(
    "sharp-rate",
    kind="convergence",
    says="one-hot: L(t) ~ (T-1)/(4 eta t), so 1/L has slope 4 eta/(T-1) whatever d and q",
    cases=tuple(Late(task) for task in SPEC_SIZES),
)
def the_inverse_loss_has_a_known_slope(config: Late, seed: int) -> Verdict:
    task = config.task
    path = onehot.flow(task, config.horizon * np.array([0.5, 1.0]))
    inverse = 1 / onehot.loss(task, path.alpha, path.C)
    slope = (inverse[1] - inverse[0]) / (config.horizon / 2) * (task.length - 1) / 4
    return Verdict.at_most(abs(slope - 1), 1e-3, details=({"slope (T-1)/(4 eta)": float(slope)},))


@LEDGER.theory(
    "alpha-star",
    kind="identity",
    says="alpha* >= 1 on [1/T, 1/q], its maximum is (sqrt T + sqrt q)/(2 sqrt q) at s = 1/sqrt(Tq); alpha stays below",
    cases=(Training(Task(200, 3, 5)), Training(Task(20, 2, 5))),
)
def alpha_star_peaks_where_the_proof_says(config: Training, seed: int) -> Verdict:
    task = config.task
    T, q = task.length, task.sparsity
    grid = np.geomspace(1 / T, 1 / q, 20_001)
    values = onehot.alpha_star(task, grid)
    top, peak = onehot.alpha_star_maximum(task), 1 / math.sqrt(T * q)
    horizon = onehot.convergence_time(task, config.accuracy * onehot.largest_epsilon(task))
    overshoot = float(onehot.flow(task, np.geomspace(1e-2, horizon, 4000)).alpha.max())
    return Verdict.worst(
        {
            "error of the maximum": Verdict.at_most(abs(onehot.alpha_star(task, peak) / top - 1), TOLERANCE),
            "grid above the maximum by": Verdict.at_most(float(values.max()) / top - 1, TOLERANCE),
            "alpha* below 1 by": Verdict.at_most(1 - float(values.min()), TOLERANCE),
            "largest alpha along training": Verdict.at_most(overshoot, top),
        }
    )


# --- inside the proof of Theorem 3.1 ----------------------------------------------------------------------------------


@LEDGER.theory(
    "ih1",
    kind="bound",
    says="C never falls; alpha rises to 1 - x/10 (Phase I), then stays between it and (IH1)'s ceiling (Phase II)",
    cases=tuple(Training(Task(T, q, d)) for T, q, d in ((9, 2, 1), (20, 2, 5), (20, 4, 2), (50, 3, 3))),
)
def the_induction_hypothesis_holds_at_every_step(config: Training, seed: int) -> Verdict:
    task = config.task
    epsilon, eta = config.accuracy * onehot.largest_epsilon(task), onehot.largest_learning_rate(task)
    steps = min(MOST_STEPS // 2, math.ceil(1.5 * onehot.time_to_loss(task, epsilon) / eta))
    path = onehot.descend(task, eta, steps)
    verdict = induction(task, path, onehot.named_attention(task, path.C), onehot.share_one_hot(task), epsilon)
    return under(theorem_hypotheses(task) + accuracy_hypothesis(config.accuracy), verdict)


def induction(task: Task, path, named: np.ndarray, share: float, epsilon: float) -> Verdict:
    """(IH1) or (IH2), by its share, along a path with attention `named` on the named positions.

    Above alpha*, alpha is measured by how much of the room up to its ceiling it takes.
    """
    floor = onehot.phase_one_end(task, epsilon)
    reached = path.alpha >= floor
    if not reached.any():
        note = f"alpha did not reach {floor:.4g} in {len(path.alpha) - 1} steps, so Phase II did not begin"
        return Verdict("vacuous", float(path.alpha.max()), floor, note=note)
    start = int(np.argmax(reached))
    first, second = path.alpha[: start + 1], path.alpha[start:]
    star, limit = onehot.alpha_star(task, named[start:]), onehot.ceiling(task, named[start:], share)
    row = {
        "points": len(path.alpha),
        "Phase I ends at": float(path.times[start]),
        "largest alpha/ceiling": float(np.max(second / limit)),
        "last alpha": float(second[-1]),
        "last C": float(path.C[-1]),
    }
    return Verdict.worst(
        {
            "(alpha - alpha*)/(ceiling - alpha*)": Verdict.at_most(
                float(np.max((second - star) / (limit - star))), 1.0, details=(row,)
            ),
            "least alpha minus its floor": Verdict.at_least(float(second.min() - floor), 0.0),
            "smallest step of C": Verdict.at_least(float(np.diff(path.C).min()), 0.0),
            "smallest step of alpha in Phase I": Verdict.at_least(float(np.diff(first).min(initial=1.0)), 0.0),
        }
    )


@LEDGER.theory(
    "thm3.1-stages",
    kind="convergence",
    says="s reaches 1/(2q) within O(T^2 log T/eta) steps, then (1-x)/q within O(T^2 d log/(eta epsilon)), as 1/t",
    cases=tuple(Training(task) for task in SPEC_SIZES),
)
def training_has_two_stages(config: Training, seed: int) -> Verdict:
    task = config.task
    T, q = task.length, task.sparsity
    epsilon = config.accuracy * onehot.largest_epsilon(task)
    half = onehot.time_to_attention(task, math.log((T - q) / q))
    end = onehot.time_to_attention(task, onehot.attention_threshold(task, epsilon))
    bounds = onehot.first_stage_time(task, epsilon), onehot.second_stage_time(task, epsilon)
    late = onehot.flow(task, 1e3 * end * np.array([1.0, 2.0]))
    losses = onehot.loss(task, late.alpha, late.C)
    exponent = float(np.log2(losses[1] / losses[0]))
    row = {"eta t at s=1/(2q)": half, "eta t at s=(1-x)/q": end, "over T^2 log T": half / (T**2 * math.log(T))}
    verdicts = {
        "first stage over its bound": Verdict.at_most(half / bounds[0], 1.0, details=(row,)),
        "second stage over its bound": Verdict.at_most((end - half) / bounds[1], 1.0),
        "|exponent + 1| of the late loss": Verdict.at_most(abs(exponent + 1), 0.02),
    }
    return under(theorem_hypotheses(task) + accuracy_hypothesis(config.accuracy), Verdict.worst(verdicts))


@LEDGER.theory(
    "thm3.1-threshold",
    kind="bound",
    says="C = log(((T-q)/q)/x) is enough for q s >= 1-x (second stage of the proof, corrected)",
    cases=tuple(Training(task) for task in SPEC_SIZES),
)
def the_corrected_threshold_is_enough(config: Training, seed: int) -> Verdict:
    epsilon = config.accuracy * onehot.largest_epsilon(config.task)
    missing = onehot.leak(config.task, onehot.attention_threshold(config.task, epsilon))
    violated = theorem_hypotheses(config.task) + accuracy_hypothesis(config.accuracy)
    return under(violated, Verdict.at_most(float(missing), onehot.slack(config.task, epsilon)))


@LEDGER.theory(
    "thm3.1-threshold-printed",
    kind="bound",
    says="as printed: C = log((1/q)/x) is enough for q s >= 1-x",
    cases=Training(Task(20, 2, 5)),
)
def the_printed_threshold_is_too_low(config: Training, seed: int) -> Verdict:
    epsilon = config.accuracy * onehot.largest_epsilon(config.task)
    C = onehot.attention_threshold_printed(config.task, epsilon)
    verdict = Verdict.at_most(
        float(onehot.leak(config.task, C)),
        onehot.slack(config.task, epsilon),
        otherwise="refuted",
        note="the proof of Theorem D.4 drops a factor T-q inside the logarithm; Corollary E.8 has it",
        details=({"C printed": C, "C needed": onehot.attention_threshold(config.task, epsilon)},),
    )
    return under(theorem_hypotheses(config.task) + accuracy_hypothesis(config.accuracy), verdict)
