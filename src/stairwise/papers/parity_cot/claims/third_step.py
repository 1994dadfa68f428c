"""The third step of Theorem 3: the map to the output (Lemmas 23 to 27)."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from stairwise.config import option
from stairwise.lab.contract.checks import at_least, at_most, equal, row, true
from stairwise.papers.parity_cot import certificate, simplified
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.running import (
    PROOF,
    SMALL,
    THIRD,
    Ideal,
    Run,
    as_run,
    counts,
    ideal,
    needs,
    shaped,
)
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.theory import bounds, gradients, statistics, trajectory

MANY = Run(neurons=20_000, scale=250.0)  # the start's own output is below what step 3 adds
SIGN = np.array([[-1.0, 1.0], [1.0, -1.0]])  # (-1)^(y+1) by the query's bit and the secret bit, y being their XOR


def add_rates(config: Run) -> dict[str, bool]:
    return THIRD(config) | needs("rates")(config)


@LEDGER.exact(
    "lem23",
    statement="Lemma 23",
    says=r"in step 3 $dL/dW_{r,d+1:2d} = h_r\sum 1(\nu_{r,i,b_2} > 0)\frac{\alpha}{B} e_{S[i],b_1}$:"
    r" $\bar\alpha/B$ is $\frac14$, at $n+1$ $\frac12$",
    of=(gradients.third_gradient,),
    hypotheses=THIRD,
    cases=(PROOF, SMALL),
    seeds=3,
)
def gradient_of_the_last_step(config: Run, seed: int):
    run = trajectory.trajectory(config, seed)
    n, batch, found = config.task.bits, counts(run, 2), shaped(run.gradients[2].seen)
    yield equal(
        "with the batch's alpha",
        found,
        gradients.third_gradient(batch.alpha / batch.samples, run.positive, run.secret),
        1e-9,
    )
    mean = gradients.third_gradient(statistics.mean_alpha(n, run.secret), run.positive, run.secret)
    yield equal("with its mean", found, mean, 20 / math.sqrt(config.batch))
    own = np.abs(run.gradients[2].own @ run.gram).max()
    yield at_most(
        "largest inner product of W[:, :d]", own, bounds.own_gradient(n, config.neurons, config.batch, config.failure)
    )


@LEDGER.refuted(
    "lem23-printed",
    statement="Lemma 23",
    says=r"as printed: $dL/dW_{r,d+1:2d} = h_r\sum\frac{1}{i} 1(\nu_{r,i,b_2} > 0)(-1)^{b_1+b_2} e_{S[i],b_1}$"
    r" within $O(n^{-8})$",
    of=(gradients.third_gradient_printed,),
    certificate="certificates/lem23.py",
    corrected="lem23",
    cases=(Ideal(), Ideal(Task(5, 2))),
    seeds=3,
)
def attention_has_no_one_over_i(config: Ideal, seed: int):
    run = ideal(config, seed)
    printed = gradients.third_gradient_printed(run.positive, config.task.bits, run.secret)
    yield equal("gradient by autodiff", shaped(run.gradients[2].seen), printed, 0.1)


@LEDGER.bound(
    "lem24",
    statement="Lemma 24",
    says=r"step 3 hardly moves $A$: the attention output stays $e_{S[i],b[S[i]]}$ within $n^{-9}$, on all inputs",
    of=(certificate.log_worst_attention,),
    hypotheses=THIRD,
    cases=(PROOF, SMALL),
    seeds=3,
)
def attention_is_frozen(config: Run, seed: int):
    run, n = trajectory.trajectory(config, seed), config.task.bits
    after = trajectory.view(run, 3)
    yield at_most("2 (attention on other keys), ln", math.log(2) + after.log_error.max(), -9 * math.log(n))
    yield at_most("largest change of a score", np.abs(run.tables[3].scores - run.tables[2].scores).max(), n**-8.0)
    yield at_most(
        "change of ln(attention on other keys)", np.abs(after.log_error - trajectory.view(run, 2).log_error), n**-8.0
    )


def on_the_secret(run: trajectory.Trajectory, t: int) -> np.ndarray:
    """<W_t[r, d:], e_{S[i],b1}> by neuron, query and b1."""
    return shaped(run.tables[t].seen)[:, run.secret]


@LEDGER.bound(
    "lem25",
    statement="Lemma 25",
    says=r"after step 3 $\langle W_{r,d+1:2d}, e_{S[i],b_1}\rangle$ is"
    r" $-\frac14\eta_2h_r(-1)^{b_1}(1(\nu_0{>}0) - 1(\nu_1{>}0))$ within $\eta_2/(100m)$",
    of=(bounds.third_step_deviation, bounds.rates_for_lemma25),
    hypotheses=add_rates,
    cases=(PROOF, SMALL),
    seeds=3,
)
def neurons_move_by_a_quarter(config: Run, seed: int):
    run, n, m = trajectory.trajectory(config, seed), config.task.bits, config.neurons
    rate0, rate1, rate2 = map(float, run.rates)
    off = np.abs(on_the_secret(run, 3) - gradients.third_step(run.positive, rate2).by_neuron).max()
    yield at_most("largest deviation", off, bounds.third_step_deviation(m, rate2))
    two = gradients.two_steps(n, config.task.size, m, rate0, rate1)[0]
    yield equal("largest of what two steps leave", np.abs(on_the_secret(run, 2)).max(), two, 0.02)
    # where eta0 + eta1 is as large as is allowed, the two parts are the bound
    most = bounds.rates_for_lemma25(n, rate2)
    parts = gradients.two_steps(n, 1, m, most, 0.0)[0] + rate2 / (200 * m)
    yield equal("two steps at the largest rates, and eta2/(200m)", parts, bounds.third_step_deviation(m, rate2))
    yield row({"eta0 + eta1": rate0 + rate1, "largest allowed": most, "5 n eta2": 5 * n * rate2})


@LEDGER.exact(
    "lem25-mean",
    statement=("Lemma 25", "Lemma 26"),
    says=r"in the mean step 3 adds what `lem25` says to every neuron, and to the output $\eta_2/(32m)$, at $i = n+1$"
    r" $\eta_2/(8m)$",
    of=(gradients.third_step,),
    cases=(Ideal(), Ideal(Task(5, 2), shift=3.0)),
    seeds=3,
)
def step_three_in_the_mean(config: Ideal, seed: int):
    run = ideal(config, seed)
    shift = gradients.third_step(run.positive, float(run.rates[2]))
    yield equal("by neuron", on_the_secret(run, 3) - on_the_secret(run, 2), shift.by_neuron, 1e-9)
    added = increments(run)
    yield equal("output at i = n+1", added[0, 0], np.full(2, shift.output[0]), 1e-9)
    if config.task.size > 1:
        yield equal("output at i > n+1", added[1:], np.tile(shift.output[1:, None, None], (1, 2, 2)), 1e-9)


def increments(run: trajectory.Trajectory) -> np.ndarray:
    """What step 3 adds to the right answer's side, by query, its bit, and the secret bit."""
    return (trajectory.view(run, 3).ideal - trajectory.view(run, 2).ideal) * SIGN


@LEDGER.refuted(
    "lem25-steps-printed",
    statement="Lemma 25",
    says=r"as printed in its proof: what two steps leave in $\langle W_{r,d+1:2d}, e_{S[i],b}\rangle$ is below"
    r" $(\eta_0+\eta_1)/(20mn)$",
    of=(bounds.two_steps_printed,),
    certificate="certificates/lem25_steps.py",
    corrected="lem15-mean",
    cases=(Ideal(), Ideal(Task(5, 2))),
    seeds=3,
)
def two_steps_leave_more(config: Ideal, seed: int):
    run = ideal(config, seed)
    bound = bounds.two_steps_printed(config.task.bits, config.neurons, *map(float, run.rates[:2]))
    yield at_most("largest of what two steps leave", np.abs(on_the_secret(run, 2)).max(axis=(0, 2)), bound)


@LEDGER.refuted(
    "lem25-printed",
    statement="Lemma 25",
    says=r"as printed: after step 3 $\langle W_{r,d+1:2d}, e_{S[i],b_1}\rangle$ is"
    r" $-\mathrm{sign}(\nu h_r)\frac{\eta_2}{2m}1(\nu_0\nu_1 < 0)$ ($2\epsilon/3$ at"
    r" $\eta_2 = 4\epsilon m/3$) within $\eta_2/(100m)$",
    of=(gradients.third_step_printed,),
    certificate="certificates/lem25.py",
    corrected="lem25",
    cases=(Ideal(shift=4 / 3), Ideal(Task(5, 2), shift=4 / 3)),
    seeds=3,
)
def neurons_do_not_move_that_far(config: Ideal, seed: int):
    run, rate = ideal(config, seed), float(ideal(config, seed).rates[2])
    printed, found = gradients.third_step_printed(run.positive, rate).by_neuron, on_the_secret(run, 3)
    yield at_most("largest deviation", np.abs(found - printed).max(), bounds.third_step_deviation(config.neurons, rate))
    moved = np.abs(found[np.abs(printed) > 0])
    yield row({"measured, median": float(np.median(moved)), "printed": rate / (2 * config.neurons)})


def lemma26(config: Run) -> dict[str, bool]:
    step, bias = config.last_rate / (32 * config.neurons * config.scale), math.sqrt(1 / 8 / config.neurons)
    return add_rates(config) | {
        "eta2 = 4k eps/3 with m = 2k, that is 2 m eps/3": math.isclose(
            config.last_rate, 2 * config.neurons * config.scale / 3
        ),
        "m so large that eta2/(32m) is above 5 deviations of the start's output": step > 5 * bias,
    }


@LEDGER.bound(
    "lem26",
    argument=r"the proof finds the output $\epsilon/3$; it is $\epsilon/48$, and $\epsilon/12$ at $i = n+1$, with"
    " Assumption 2's rates",
    statement="Lemma 26",
    says=r"after step 3 $|T(b)[i] - \frac{\epsilon}{3}(-1)^{b[i+1]+1}| < \frac{\epsilon}{3}$, on all inputs",
    of=(certificate.certified_margin, certificate.ideal_outputs),
    hypotheses=lemma26,
    cases=MANY,
    seeds=3,
    optimise=True,
)
def the_sign_is_right(config: Run, seed: int):
    run, eps = trajectory.trajectory(config, seed), config.scale
    after = trajectory.view(run, 3)
    outputs = by_query(after.ideal * SIGN)
    yield at_most("|T - eps/3 (-1)^(b[i+1]+1)| / eps where attention is one-hot", np.abs(outputs / eps - 1 / 3), 1 / 3)
    yield at_least("certified margin over all inputs / eps", after.margin.min() / eps, 1e-3)
    direct, labels = trajectory.outputs(run, 3, 2), run.batches[2].tokens[:, config.task.bits + 1 :]
    signed = np.where(labels == 1, direct, -direct)
    yield at_most("|T - eps/3 (-1)^(b[i+1]+1)| / eps, input by input", np.abs(signed / eps - 1 / 3), 1 / 3)
    yield equal("smallest margin, certified and input by input", signed.min(), after.margin.min(), 1e-6)
    predicted = gradients.third_step(run.positive, float(run.rates[2])).output
    yield equal("increments", by_query(increments(run) / predicted[:, None, None]), 1.0, 0.1)
    yield from certified_where_attention_is_spread(run, config.task.bits)


def certified_where_attention_is_spread(run: trajectory.Trajectory, inputs: int):
    """The certificate at scores so small that keys other than the secret one are seen."""
    weak = run.tables[3]._replace(scores=run.tables[3].scores / 50)
    spread = trajectory.view(run._replace(tables=(weak,)), 0)
    h, seen = np.abs(gradients.output_weights(run.positive)), shaped(weak.seen)
    moved = np.array(
        [[h @ np.abs(seen - seen[:, j, b, None, None]).max(axis=(1, 2)) for b in (0, 1)] for j in run.secret]
    )
    expected = spread.ideal * SIGN - np.exp(spread.log_error)[..., None] * moved[:, None, :]
    yield equal("certified margins at small scores", by_query(spread.margin), by_query(expected), 1e-9)
    direct = trajectory.outputs(run._replace(tables=(weak,)), 0, 2)
    signed = np.where(run.batches[2].tokens[:, inputs + 1 :] == 1, direct, -direct)
    yield at_least("smallest margin at small scores, less what is certified", signed.min(), spread.margin.min())


def by_query(values: np.ndarray) -> np.ndarray:
    """All entries that an input can show: the first query's bit is always 0."""
    return np.concatenate([values[0, 0], values[1:].ravel()])


@LEDGER.refuted(
    "lem26-printed",
    statement="Lemma 26",
    says=r"as printed in its proof: $W_{r,d+1:2d}$ gives the output $\epsilon/3$ at $\eta_2 = 4\epsilon m/3$,"
    r" within $\epsilon/150$",
    of=(gradients.third_step_printed,),
    certificate="certificates/lem26.py",
    corrected="lem25-mean",
    cases=(Ideal(shift=4 / 3), Ideal(Task(5, 2), shift=4 / 3)),
    seeds=3,
)
def the_output_is_smaller(config: Ideal, seed: int):
    run, eps = ideal(config, seed), config.scale
    # with every sign pattern once, W[:, :d] gives nothing: what the network puts out is the part of W[:, d:]
    found = by_query(trajectory.view(run, 3).ideal * SIGN)
    printed = gradients.third_step_printed(run.positive, float(run.rates[2])).output[0]
    yield at_most("|output - printed|", np.abs(found - printed), eps / 150)
    yield row({"eps/3": eps / 3, "printed": printed, "smallest": found.min(), "largest": found.max()})


@LEDGER.refuted(
    "lem25-rate-printed",
    statement=("Lemma 25", "Lemma 5.8"),
    says=r"as printed: by 5.8, $\eta_0+\eta_1 < 5n\eta_2$, $\frac{\eta_0+\eta_1}{20mn} + \frac{\eta_2}{200m} <"
    r" \frac{\eta_2}{100m}$",
    of=(bounds.two_steps_printed, bounds.third_step_deviation),
    hypotheses=needs("5.2", "5.3a", "5.3b", "5.3c", "5.4", "5.6", "5.8"),
    certificate="certificates/lem25_rate.py",
    corrected="lem25",
    cases=Run(logit=16_000.0, scale=20_000.0, shift=0.05),
)
def the_rates_need_more(config: Run, seed: int):
    n, m, rate2 = config.task.bits, config.neurons, config.last_rate
    left = bounds.two_steps_printed(n, m, config.rate, config.rate) + rate2 / (200 * m)
    yield at_most("(eta0+eta1)/(20mn) + eta2/(200m)", left, bounds.third_step_deviation(m, rate2))
    yield row({"eta0 + eta1": 2 * config.rate, "n eta2/10": n * rate2 / 10, "5 n eta2": 5 * n * rate2})


@dataclass(frozen=True)
class Both(Run):
    """Small enough outputs: the hinge loss is linear."""

    scale: float = option(2.0, "eps: size of the coefficients nu at the start", above=0.0, numeric=True)
    logit: float = option(10.0, "attention logit Lambda that the last step should get", above=0.0, numeric=True)


@LEDGER.exact(
    "lem27",
    statement="Lemma 27",
    says=r"while $|\mathrm{output}| < 1$ on the batches, three steps with hinge and linear loss are the same,"
    " bit for bit",
    of=(simplified.loss_of,),
    cases=Both(),
    seeds=3,
    optimise=True,
)
def hinge_is_linear_while_outputs_are_small(config: Both, seed: int):
    hinge, linear = (trajectory.trajectory(as_run(config, loss=loss), seed) for loss in ("hinge", "linear"))
    yield at_most("largest |output|", [trajectory.largest_output(hinge, step) for step in range(3)], 1.0)
    for name, one, two in zip(("W[:, :d]", "W[:, d:]", "A"), hinge.tables[3], linear.tables[3], strict=True):
        yield true(f"{name} is the same", one == two)
    yield at_least("largest change of W[:, d:]", np.abs(linear.weights[3].seen).max(), 1e-3)
    f, y = np.meshgrid(np.linspace(-2, 2, 9), [0, 1])
    signed = (-1.0) ** y * f
    yield equal("hinge loss", simplified.loss_of("hinge", jnp.asarray(f), jnp.asarray(y)), np.maximum(signed + 1, 0))
    yield equal("linear loss", simplified.loss_of("linear", jnp.asarray(f), jnp.asarray(y)), signed)
    twice = as_run(config, loss="hinge", scale=200 * config.scale, logit=1e5)
    yield true("with outputs above 1 they differ", _differ(twice, seed))


def _differ(config: Run, seed: int) -> bool:
    hinge, linear = (trajectory.trajectory(as_run(config, loss=loss), seed).weights[3] for loss in ("hinge", "linear"))
    return bool(np.any(hinge.seen != linear.seen))
