"""Fully connected nets and the attention construction: Theorems 3.5, C.2 and C.3."""

import math
from dataclasses import dataclass

import jax
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import TOLERANCE, at_least, at_most, equal, hypothesis, row, vacuous_if
from stairwise.measure import population as measure
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.claims.sizes import enumerable, fits, room
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import construction, encodings, fcn, population
from stairwise.train.draws import draws_of

LARGEST_INPUT = 1200  # T d, whose square is decomposed


@dataclass(frozen=True)
class Net(Config):
    """A first layer of some width, and random ones to try."""

    task: Task = option(Task(6, 2, 1), "sizes of the task")
    first_width: int = option(0, "width m of the first layer; 0 = the widest that the statement speaks of", low=0)
    layers: int = option(20, "random first layers to try", low=1, high=1000)

    def check(self) -> None:
        inputs = self.task.length * self.task.width
        require(
            inputs <= LARGEST_INPUT,
            f"task.width={self.task.width} times task.length={self.task.length} must be at most {LARGEST_INPUT}",
        )


def moment_of(task: Task) -> np.ndarray:
    """E_y[Y Y^T]/q^2, by enumeration."""
    enumerable(task)
    return fcn.second_moment(task, np.asarray(measure.subsets(task.length, task.sparsity), dtype=np.int64))


SIZES = (Task(6, 2, 1), Task(6, 3, 1), Task(6, 1, 2), Task(8, 2, 2))


def narrow(config: Net) -> bool:
    return (config.first_width or 1) < config.task.length * config.task.width


@LEDGER.bound(
    "thm3.5",
    statement=("Theorem 3.5", "Theorem C.1"),
    says=r"no net with a first layer narrower than $Td$ gets below $(T-q)/(Tq(T-1))$",
    of=(fcn.lower_bound,),
    hypotheses={"first layer narrower than T d": narrow},
    cases=tuple(Net(task) for task in SIZES),
    aliases=("thmC1",),
    seeds=3,
)
def narrow_nets_stay_above_the_bound(config: Net, seed: int):
    task, rng = config.task, draws_of(seed, "first layers")
    inputs = task.length * task.width
    m = config.first_width or inputs - 1
    moment, bound = moment_of(task), fcn.lower_bound(task)
    if task.sparsity == task.length:
        yield vacuous_if(True, "with q = T the bound is zero")
        return
    random = min(fcn.best_head_risk(rng.standard_normal((m, inputs)), moment, task.width) for _ in range(config.layers))
    coordinates = fcn.best_head_risk(np.eye(inputs)[:m], moment, task.width)
    # the best first layer of all leaves the smallest eigenvalues of the second moment
    eigenvalues = np.repeat(np.linalg.eigvalsh(moment), task.width)
    best = float(eigenvalues[: max(inputs - m, 0)].sum())
    yield at_least("risk of the best first layer", best, bound, rounding=TOLERANCE)
    if m == inputs - 1:
        yield equal("risk of the best first layer of width Td - 1", best, bound)
    yield at_least("risk of random first layers", random, bound, rounding=TOLERANCE)
    yield at_least("risk where tokens are dropped", coordinates, bound, rounding=TOLERANCE)
    yield row(width=m)


@LEDGER.exact(
    "fcn-exact",
    statement="ours: the infimum behind Theorem 3.5",
    says=r"the infimum over first layers of width $m$ and heads is $(Td-m)(T-q)/(Tq(T-1))$ for $m \ge d$ (and a "
    r"form below)",
    of=(fcn.optimal_risk, fcn.optimal_first_layer),
    free={"optimal_first_layer": "any rows that span the same space are optimal"},
    cases=tuple(Net(task, layers=4) for task in SIZES),
    seeds=3,
)
def the_infimum_has_a_closed_form(config: Net, seed: int):
    task, rng = config.task, draws_of(seed, "first layers")
    inputs = task.length * task.width
    widths = [config.first_width] if config.first_width else range(inputs + 1)
    moment = moment_of(task)
    eigenvalues = np.repeat(np.linalg.eigvalsh(moment), task.width)
    rows = []
    for m in widths:
        formula = fcn.optimal_risk(task.length, task.sparsity, task.width, m)
        attained = fcn.best_head_risk(fcn.optimal_first_layer(task, m), moment, task.width)
        spectrum = float(eigenvalues[: max(inputs - m, 0)].sum())
        random = min(
            fcn.best_head_risk(rng.standard_normal((m, inputs)), moment, task.width) for _ in range(config.layers)
        )
        rows.append((formula, attained, spectrum, random))
        yield row({"width": m, "formula": formula, "optimal layer": attained, "random layer": random})
    formula, attained, spectrum, random = np.array(rows).T
    yield equal("risk of the optimal layer, every width", attained, formula)
    yield equal("sum of the smallest eigenvalues, every width", spectrum, formula)
    yield at_least("risk of random layers above the formula", random - formula, -TOLERANCE)
    shifts = [fcn.shifted_risk(shift) for shift in (1.0, 3.0, 6.0, 10.0)]
    yield at_most("risk at T=2, q=1, d=1, width 2, where y only shifts, far", shifts[-1], 1e-4)


def pair_of(config: Net, seed: int):
    """A random first layer that also reads y, and the two inputs that it takes for one."""
    task = config.task
    m = config.first_width or fcn.widest_fooled(task)
    require(
        m >= 1,
        f"task.width={task.width} at task.sparsity={task.sparsity}=task.length leaves only layers of width 0;"
        " it must be at least 2",
    )
    layer = draws_of(seed, "first layer").standard_normal((m, task.length * task.width + task.sparsity))
    pair = fcn.indistinguishable_pair(layer, task)
    inputs = [np.concatenate([tokens.reshape(-1), pair.subset + 1]) for tokens in (pair.tokens, pair.other)]
    difference = np.abs(layer @ (inputs[0] - inputs[1])) / (np.abs(layer) @ np.abs(inputs[0]))
    return pair, float(difference.max())


WORST_CASES = (Net(Task(8, 2, 2)), Net(Task(6, 2, 1)), Net(Task(12, 4, 3)))


@LEDGER.bound(
    "thmC2",
    statement="Theorem C.2, as its proof gives it",
    says=r"width at most $(T-q+1)d-1$: two inputs look the same, their targets are $1/q$ apart, one is missed by "
    r"$1/(2q)$",
    of=(fcn.indistinguishable_pair, fcn.widest_fooled),
    hypotheses={
        "first layer at most (T-q+1)d - 1 wide": lambda config: config.first_width <= fcn.widest_fooled(config.task)
    },
    cases=WORST_CASES,
    seeds=3,
)
def two_inputs_cannot_be_told_apart(config: Net, seed: int):
    pair, difference = pair_of(config, seed)
    yield at_least("error of one of them", pair.gap / 2, 1 / (2 * config.task.sparsity), rounding=TOLERANCE)
    yield at_most("difference in the first layer", difference, TOLERANCE)
    yield at_most("largest token", np.linalg.norm(pair.tokens, axis=1), 0.5, rounding=TOLERANCE)
    # inputs are unbounded in the theorem: scaled by sqrt(2q), the pair gives the printed squared error 1/(2q)
    scale = np.sqrt(2 * config.task.sparsity)
    squared = (scale * pair.gap / 2) ** 2
    yield at_least("squared error, scaled", squared, 1 / (2 * config.task.sparsity), rounding=TOLERANCE)
    # a random layer that is wider by one row takes no two such inputs for one
    last = (config.task.length - config.task.sparsity + 1) * config.task.width
    wider = draws_of(seed, "wider layer").standard_normal((fcn.widest_fooled(config.task) + 1, last))
    yield equal("inputs of the last T-q+1 tokens that a wider layer sees", np.linalg.matrix_rank(wider), last)


@dataclass(frozen=True)
class SelectingAttention(Config):
    """Encodings for the attention that selects."""

    task: Task = option(Task(200, 3, 5), "sizes of the task")
    encoding_width: int = option(400, "encoding dimension d_e", low=1, high=2**14)
    threshold: float = option(0.25, "largest |<e_i, e_j>| of an admissible set of encodings", above=0.0, high=1.0)
    epsilon: float = option(0.5, "the error allowed", above=0.0, high=2.0)
    subsets: int = option(200, "subsets to try", low=1, high=2**16)

    def check(self) -> None:
        room(self.task)
        fits(self.task, self.encoding_width)


@LEDGER.bound(
    "thmC3",
    argument=r"its proof takes overlaps of at most $\frac{1}{2}$ from Lemma A.3, which is false as printed; they are"
    r" where $\sqrt{q}\,\delta/(1-\delta) \le \frac{1}{2}$, so $d_e$ needs a constant that grows with $q$",
    statement="Theorem C.3",
    says=r"attention with $W = a\,\mathrm{diag}(0, I)$, $V = [I\ 0]$, $a = \lceil 2\log(2T)/\varepsilon\rceil$, is "
    r"within $\varepsilon$ on the unit ball",
    of=(construction.scale_printed, construction.scale_sufficient, construction.attend),
    hypotheses={"epsilon <= 1": lambda config: config.epsilon <= 1},
    cases=(SelectingAttention(), SelectingAttention(epsilon=0.1), SelectingAttention(Task(20, 2, 3), 128, 0.5)),
    seeds=3,
)
def attention_selects_by_construction(config: SelectingAttention, seed: int):
    task, T, q = config.task, config.task.length, config.task.sparsity
    law = encodings.draw(seed, 1, T, config.encoding_width, config.threshold)
    subsets = encodings.draw_subsets(seed, config.subsets, T, q)
    overlaps = encodings.overlaps(law, subsets)[0]
    gamma = float(overlaps.max())
    yield hypothesis("<e_i, e_y> <= 1/2 off y", gamma <= 0.5)
    printed, sufficient = (
        construction.scale_printed(T, config.epsilon),
        construction.scale_sufficient(T, config.epsilon),
    )
    yield at_most("error at the printed scale", construction.worst_error(overlaps, q, printed), config.epsilon)
    yield at_most("error at 2 log(2T/epsilon)", construction.worst_error(overlaps, q, sufficient), config.epsilon)
    # were every overlap 1/2, the sufficient scale leaves about epsilon (T-q)/(Tq)
    half = np.full((1, T - q), 0.5)
    yield at_most("error at overlaps 1/2", construction.worst_error(half, q, sufficient), config.epsilon)
    leak = (T - q) * config.epsilon / (2 * T)  # (T-q) e^{-scale/2}
    yield equal("error at overlaps 1/2", construction.worst_error(half, q, sufficient), 2 * leak / (q + leak))
    # at epsilon = 1 the printed scale is no larger than it has to be
    one = construction.scale_printed(T, 1.0)
    yield at_most("error at overlaps 1/2 and the printed scale of 1", construction.worst_error(half, q, one), 1.0)
    least = (T - q) / (2 * T) * math.exp(-1 / 2)  # the printed scale is rounded up to a whole number
    rounded = construction.worst_error(half, q, one)
    yield at_least("error at overlaps 1/2 and the printed scale of 1", rounded, 2 * least / (q + least), rounding=1e-9)
    yield at_most("epsilon times the printed scale, off that of 1 by", abs(config.epsilon * printed - one), 1.0)
    output, by_model = _against_model(task, law[0], subsets[0], seed)
    yield equal("output of the construction", output, by_model)
    yield row({"gamma": gamma, "scale printed": printed, "scale that is enough": sufficient})


@dataclass(frozen=True)
class Softmax(Config):
    """Attention at overlaps of 1/2 off y, the largest that the proof allows."""

    task: Task = option(Task(200, 3, 5), "sizes of the task")
    epsilon: float = option(1.0, "the error allowed", above=0.0, high=2.0)

    def check(self) -> None:
        room(self.task)

    @property
    def scale(self) -> int:
        return construction.scale_printed(self.task.length, self.epsilon)

    def named(self, overlap: float = 0.5) -> float:
        """The attention on a named position, by the softmax itself."""
        T, q, scores = self.task.length, self.task.sparsity, self.scale * np.r_[1.0, overlap]
        weights = np.exp(scores - scores[0])
        return float(weights[0] / (q * weights[0] + (T - q) * weights[1]))


@LEDGER.bound(
    "thmC3-softmax",
    statement="Theorem C.3, proof, softmax, corrected",
    says=r"on $y$ the softmax lies in $[\frac{1}{q} - \frac{T}{q^2}e^{-\alpha/2}, \frac{1}{q}]$, and so in"
    r" $[\frac{1}{q} - \frac{\epsilon}{2q}, \frac{1}{q}]$",
    of=(construction.named_least,),
    cases=(Softmax(), Softmax(epsilon=0.5), Softmax(Task(40, 2, 1), 0.7)),
    search={"epsilon": (0.3, 1.0, "log")},
)
def the_softmax_is_below_one_over_q(config: Softmax, seed: int):
    T, q = config.task.length, config.task.sparsity
    least = construction.named_least(T, q, config.scale)
    yield at_most("softmax on y", config.named(), 1 / q)
    yield at_least("softmax on y, from below", config.named(), least, rounding=TOLERANCE)
    yield at_least("its least", least, 1 / q - config.epsilon / (2 * q))
    # 1/(q + a) >= 1/q - a/q^2 at a = (T-q) e^{-alpha/2}; the bound has T for T-q
    a = (T - q) * np.exp(-config.scale / 2)
    yield equal("softmax on y", config.named(), 1 / (q + a))
    yield equal("what the bound takes from 1/q", q**2 * (1 / q - least) * (T - q) / T, a, 1e-9)


@LEDGER.misprint(
    "thmC3-side-printed",
    statement="Theorem C.3, proof, softmax",
    says=r"as printed: on $y$ the softmax lies in $[\frac{1}{q}, \frac{1}{q} + \frac{\epsilon}{2q}]$",
    means=r"$[\frac{1}{q} - \frac{\epsilon}{2q}, \frac{1}{q}]$, by the two bounds just before it",
    corrected="thmC3-softmax",
    cases=Softmax(),
)
def the_printed_interval_is_on_the_wrong_side(config: Softmax, seed: int):
    yield at_least("softmax on y", config.named(), 1 / config.task.sparsity)


@LEDGER.misprint(
    "thmC3-exponent-printed",
    statement="Theorem C.3, proof, softmax",
    says=r"as printed: on $y$ the softmax is at least $\frac{1}{q} - \frac{T}{q^2}e^{-\alpha}$",
    means=r"$e^{-\alpha/2}$: scores off $y$ are up to $\alpha/2$, as the fraction before it has them; the last bound"
    r" $\frac{1}{q} - \frac{\epsilon}{2q}$ stands",
    of=(construction.named_least_printed,),
    corrected="thmC3-softmax",
    cases=Softmax(),
)
def the_printed_exponent_lacks_a_half(config: Softmax, seed: int):
    printed = construction.named_least_printed(config.task.length, config.task.sparsity, config.scale)
    yield at_least("softmax on y", config.named(), printed)


def _against_model(task: Task, E: np.ndarray, subset: np.ndarray, seed: int, scale: float = 3.0):
    """The construction of width d + 2 d_e, written out, against eq. (2) with W = scale diag(0, I) and V = [I 0]."""
    tokens = draws_of(seed, "tokens").standard_normal((task.length, task.width))
    tokens = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
    e_y = encodings.subset_encodings(E[None], subset[None])[0, 0]
    model = population.stochastic_model(task, E.shape[1], 1.0, scale)
    query = np.concatenate([np.zeros(task.width), e_y])
    output = jax.jit(lambda tokens, E, query: model(tokens, E, query))(tokens, E, query)
    return construction.attend(tokens, E, e_y, scale), output
