"""Why one-shot parity is hard: gradients hardly depend on the target (Propositions and Lemmas behind Theorem 2)."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from stairwise.lab.checks import TOLERANCE, empty_if, exactly, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import bits_of, class_fits, proportional
from stairwise.papers.parity_onestep.config import Task
from stairwise.papers.parity_onestep.theory import bounds, exponents, hiding, mean_parity, spectrum
from stairwise.tasks import parity

LARGEST_EXTREMAL = 2**22  # inputs times parities for which the extremal model is written out


@dataclass(frozen=True)
class Class(Config):
    """All parities of k out of d bits, and a tanh net whose gradient they ask for."""

    task: Task = option(Task(10, 5), "the class of parities (a given subset does not matter)")
    width: int = option(8, "hidden width of the net", low=1, high=256)
    scale: float = option(1.0, "factor on its random parameters", above=0.0, high=100.0)
    samples: int = option(0, "samples n; 0 = the whole cube", low=0, high=2**22)

    def check(self) -> None:
        class_fits(self.task)

    def parities(self, seed: int):
        bits = self.task.bits
        x = parity.cube(bits).astype(np.float64)
        density = (
            spectrum.histogram(bits_of(self.task, self.samples, seed))
            if self.samples
            else spectrum.uniform_density(bits)
        )
        return hiding.parity_class(x, self.task.size, density)

    def net(self, seed: int):
        net = hiding.TanhNet(self.task.bits, self.width)
        return net, self.scale * net.start(seed)


# --- the variance over targets ----------------------------------------------------------------------------------------


@LEDGER.theory(
    "prop3",
    kind="bound",
    says="for (1/2) E(h-f)^2 the variance over |H| orthonormal targets of the gradient is at most E||grad f||^2/|H|",
    cases=(*(Class(Task(d, d // 2)) for d in (8, 10, 12)), Class(Task(10, 3), scale=3.0)),
)
def gradients_hardly_depend_on_the_target(config: Class, seed: int) -> Verdict:
    cls, (net, theta) = config.parities(seed), config.net(seed)
    _, J = net.outputs_and_jacobian(theta, cls.x)
    C = spectrum.coefficients(J, cls.density, cls.codes)
    bound = spectrum.squared_norm(J, cls.density) / len(cls.codes)
    verdicts = {"tanh net": Verdict.at_most(spectrum.variance(C), bound)}
    if len(cls.x) * len(cls.codes) <= LARGEST_EXTREMAL:
        verdicts["extremal model"] = Verdict.at_most(extremal_variance(cls), 1.0)
    violated = () if not config.samples else (f"samples={config.samples} must be 0 (orthogonality needs the cube)",)
    return under(violated, Verdict.worst(verdicts))


def extremal_variance(cls) -> float:
    """Var of f = sum_p theta_p p, whose gradient is the list of all parities: 1 - 1/|P|, against a bound of 1."""
    J = hiding.values(cls, cls.codes).T
    return spectrum.variance(spectrum.coefficients(J, cls.density, cls.codes))


@LEDGER.theory(
    "prop3-printed",
    kind="bound",
    says="as printed, for the loss E(h-f)^2 without 1/2: the variance is at most E||grad f||^2/|H|",
    cases=Class(Task(8, 4)),
)
def without_the_half_the_bound_is_four_times_larger(config: Class, seed: int) -> Verdict:
    cls = config.parities(seed)
    require(
        len(cls.x) * len(cls.codes) <= LARGEST_EXTREMAL,
        f"task.bits={config.task.bits} makes the extremal model larger than {LARGEST_EXTREMAL} numbers",
    )
    half = extremal_variance(cls)
    verdict = Verdict.at_most(
        4 * half,
        1.0,
        otherwise="refuted",
        note="the model f = sum_p theta_p p; the gradient is twice that of (1/2)(h-f)^2, so the bound is 4 F^2/|H|",
        details=(
            {"variance with 1/2": half, "variance without": 4 * half, "F^2/|H|": 1.0, "parities": len(cls.codes)},
        ),
    )
    few = () if len(cls.codes) > 1 else ("task.size=task.bits leaves a single parity",)
    return under(few, verdict)


@LEDGER.theory(
    "thm2-var",
    kind="bound",
    says="on n samples the variance of the gradient over P is at most 2 max(1/|P|, sqrt(4d/n)) sup ||grad f||^2",
    cases=tuple(Class(Task(d, d // 2), samples=n) for d in (10, 12) for n in (100, 1000, 10_000)),
)
def sampled_gradients_hardly_depend_on_the_target(config: Class, seed: int) -> Verdict:
    task, cls, (net, theta) = config.task, config.parities(seed), config.net(seed)
    n = config.samples or len(cls.x)
    _, J = net.outputs_and_jacobian(theta, cls.x)
    C = spectrum.coefficients(J, cls.density, cls.codes)
    largest, mean = float(np.max(np.sum(J**2, axis=1))), spectrum.squared_norm(J, cls.density)
    variance, parities = spectrum.variance(C), len(cls.codes)
    row = {"n": n, "variance": variance, "variance n / E||grad f||^2": variance * n / mean, "sup ||grad f||^2": largest}
    verdict = Verdict.at_most(variance, bounds.gradient_variance(task.bits, n, parities, largest), details=(row,))
    return empty_if(bounds.overlap(task.bits, n) >= 1, verdict, "n <= 4d: sqrt(4d/n) is above 1")


@LEDGER.theory(
    "thm2-gram",
    kind="bound",
    says="no two parities overlap by more than sqrt(4d/n) on n samples; lambda_max(G_P) <= 2 max(1, |P| sqrt(4d/n))",
    cases=tuple(Class(Task(d, d // 2), samples=n) for d in (10, 12) for n in (100, 1000, 10_000)),
)
def sampled_parities_are_nearly_orthogonal(config: Class, seed: int) -> Verdict:
    task, cls = config.task, config.parities(seed)
    n, parities = config.samples or len(cls.x), len(cls.codes)
    overlap, delta = spectrum.largest_overlap(cls.density, cls.codes), bounds.overlap(task.bits, n)
    eigenvalue = spectrum.largest_eigenvalue(cls.density, cls.codes)
    row = {
        "n": n,
        "lambda_max/|P|": eigenvalue / parities,
        "Marchenko-Pastur edge": spectrum.marchenko_pastur_edge(n, parities),
        "chance that the overlap bound fails": bounds.overlap_failure(task.bits, task.size),
    }
    gershgorin = 1 + (parities - 1) * overlap
    verdict = Verdict.worst(
        {
            "largest overlap": Verdict.at_most(overlap, delta, details=(row,)),
            "lambda_max": Verdict.at_most(eigenvalue, bounds.gram_eigenvalue(task.bits, n, parities)),
            "lambda_max against Gershgorin": Verdict.at_most(eigenvalue, gershgorin * (1 + TOLERANCE)),
        }
    )
    return empty_if(delta >= 1, verdict, "n <= 4d: sqrt(4d/n) is above 1")


# --- Theorem 1: one predictor against all parities --------------------------------------------------------------------


@dataclass(frozen=True)
class MeanParity(Config):
    """The class P, through its mean at each input; exact integers."""

    task: Task = option(Task(12, 6), "the class of parities (a given subset does not matter)")

    def check(self) -> None:
        require(self.task.bits <= 512, f"task.bits={self.task.bits} must be at most 512")


@LEDGER.theory(
    "thm1-printed",
    kind="bound",
    says="as printed: for all but O(e^(-d/3)) of the parities a p-free predictor errs with chance 1/2 - O(e^-d)",
    cases=tuple(MeanParity(Task(d, d // 2)) for d in (12, 20, 40, 80)),
)
def one_predictor_can_beat_chance_on_every_parity(config: MeanParity, seed: int) -> Verdict:
    task = config.task
    gain = mean_parity.mean_magnitude(task.bits, task.size) / 2
    parities = math.comb(task.bits, task.size)
    row = {
        "error of sign(E_p p(x)), for every p": float(Fraction(1, 2) - gain),
        "gain": float(gain),
        "gain over e^-d": float(gain) * math.exp(task.bits),
        "largest average gain possible, 1/(2 sqrt|P|)": 0.5 / math.sqrt(parities),
    }
    if task.bits <= 12:
        row["share of P above the printed error, on the cube"] = share_beaten(task)
    return Verdict.at_most(
        float(gain),
        math.exp(-task.bits),
        otherwise="refuted",
        note="an algorithm that asks nothing and answers sign(E_p p(x)) errs by less than 1/2 - e^-d for every p;"
        " its gain is of order |P|^(-1/2), which exceeds any multiple of e^-d as d grows",
        details=(row,),
    )


def share_beaten(task: Task) -> float:
    """The share of parities for which sign(E_p p(x)) errs with chance 1/2 - e^-d or less, counted on the cube."""
    cls = hiding.parity_class(parity.cube(task.bits).astype(np.float64), task.size, spectrum.uniform_density(task.bits))
    errors = 0.5 - hiding.correlations(cls, np.sign(cls.mean)) / 2
    return float(np.mean(errors <= 0.5 - math.exp(-task.bits)))


# --- Lemma 8 ----------------------------------------------------------------------------------------------------------


@LEDGER.theory(
    "lem8",
    kind="identity",
    says="E_p p(x) in closed form; E_x(E_p p)^2 = 1/|P|; |E_p p| <= (d/2)(d/k)^(-k/4) when m is near d/2 (k <= d/2)",
    cases=tuple(MeanParity(Task(d, k)) for d, k in ((12, 6), (12, 5), (16, 12), (64, 32), (64, 16), (256, 128))),
)
def the_mean_parity_is_small(config: MeanParity, seed: int) -> Verdict:
    d, k = config.task.bits, config.task.size
    few = min(k, d - k)
    counts = [mean_parity.even_count(d, k, m) for m in range(d + 1)]
    facts = {
        "E_x(E_p p)^2 = 1/|P|": mean_parity.second_moment(d, k) == Fraction(1, math.comb(d, k)),
        "|P_+| with m' and s, for every m": counts == [mean_parity.even_count_printed(d, k, m) for m in range(d + 1)],
        "2|P_+| - |P| is the Krawtchouk sum": all(
            2 * count - math.comb(d, k) == parity.krawtchouk(d, k, m) for m, count in enumerate(counts)
        ),
        "|E_p p| is that of the complements": few == 0
        or all(abs(parity.krawtchouk(d, k, m)) == abs(parity.krawtchouk(d, d - k, m)) for m in range(d + 1)),
    }
    if d <= 14:
        x = parity.cube(d).astype(np.float64)
        cls = hiding.parity_class(x, k, spectrum.uniform_density(d))
        mean = spectrum.walsh_hadamard(_indicator(cls)) / len(cls.codes)
        facts["the closed form on the whole cube"] = bool(np.abs(mean - cls.mean).max() < 1e-13)
    verdicts = {"identities": exactly(facts)}
    if few >= 1:
        tail, chain = mean_parity.on_the_event(d, few), mean_parity.chain_of_bounds(d, few)
        row = {"chance of the event": tail.chance, "Chernoff's bound": tail.chance_bound}
        row |= {f"proof, {line}": value for line, value in chain._asdict().items() if math.isfinite(value)}
        largest = 2 * mean_parity.power_bound(d, few)
        if largest < 1:  # otherwise it says nothing, and the row shows it
            verdicts["|E_p p| on the event"] = Verdict.at_most(tail.largest, largest, details=(row,))
        verdicts["chance of the event"] = Verdict.at_least(tail.chance, tail.chance_bound, details=(row,))
    return under(proportional(config.task), Verdict.worst(verdicts))


def _indicator(cls) -> np.ndarray:
    """1 at the codes of the class: its transform is the sum of all parities at every input."""
    marks = np.zeros(len(cls.x))
    marks[cls.codes] = 1.0
    return marks


@LEDGER.theory(
    "lem8-printed",
    kind="bound",
    says="as printed: k = Theta(d) alone makes |E_p p(x)| exponentially small with high probability",
    cases=MeanParity(Task(16, 16)),
)
def all_bits_together_have_no_small_mean(config: MeanParity, seed: int) -> Verdict:
    d, k = config.task.bits, config.task.size
    magnitudes = [float(mean_parity.mean_magnitude(factor * d, factor * k)) for factor in (1, 2, 4)]
    rows = (
        {"bits": factor * d, "size": factor * k, "E_x|E_p p|": magnitude}
        for factor, magnitude in zip((1, 2, 4), magnitudes, strict=True)
    )
    return Verdict.at_most(
        magnitudes[2] / magnitudes[0],
        0.5,
        otherwise="refuted",
        note="measured: the factor by which E_x|E_p p| falls from d to 4d at the same k/d; at k = d there is one parity"
        " and |E_p p| = 1 everywhere, so d-k = Theta(d) is needed too",
        details=tuple(rows),
    )


# --- the exponents of Theorem 2(2) ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exponents(Config):
    """The eps of Theorems 5 and 7, and the powers of d that Theorem 2 speaks of."""

    epsilon: float = option(
        1.0, "eps, where n = d^(11+eps) and the oracle has accuracy d^(-2-eps/8)", above=0.0, high=100.0
    )
    gradient: float = option(0.5, "nu1, where ||grad f|| = d^nu1", low=0.0, high=100.0)


def exact(value: float) -> Fraction:
    return Fraction(str(value))


@LEDGER.theory(
    "thm2-exponents",
    kind="asymptotic",
    says="nu = 4nu1+4nu2+2nu3+2nu4+1: n = d^(11+eps) leaves nu3+nu4 = eps/4 with Lemma 4, and g = 3/2 needs d^(15+eps)",
    cases=(Exponents(), Exponents(0.25), Exponents(1.0, 1.5)),
)
def the_exponents_add_up(config: Exponents, seed: int) -> Verdict:
    eps, gradient = exact(config.epsilon), exact(config.gradient)
    accuracy = 2 + eps / 8
    nu = exponents.separation(eps, gradient)
    queries = exponents.queries_and_loss(nu, gradient, accuracy)
    powers = exponents.variance_powers(nu, gradient, accuracy, queries)
    facts = {
        "nu3 + nu4 = eps/4": queries == eps / 4,
        "nu = 9 + 4 nu1 + eps": nu == 9 + 4 * gradient + eps,
        "T Var/eps^2 is of order d^-nu4, here 1": powers.chance_revealed == 0,
        "Var is of order d^(-2nu2-nu3-nu4)": powers.variance == -2 * accuracy - queries,
    }
    row = {"nu": float(nu), "nu3+nu4": float(queries), "power of Var": float(powers.variance)}
    row |= {"power of T Var (printed as that of Var)": float(powers.times_queries)}
    return exactly(facts, details=(row,))


@LEDGER.theory(
    "thm7-separation-printed",
    kind="asymptotic",
    says="as printed: Theorem 7 gives the same order of separation from Theorem 2(2), n = d^(11+eps), as Theorem 5",
    cases=Exponents(),
)
def without_teacher_forcing_more_samples_are_needed(config: Exponents, seed: int) -> Verdict:
    eps = exact(config.epsilon)
    forced = exponents.separation(eps, exponents.gradient_power_teacher_forcing())
    free = exponents.separation(eps, Fraction(3, 2))
    return Verdict.at_most(
        float(free),
        float(forced),
        otherwise="refuted",
        note="Lemma 6 gives ||grad f|| = O(d^g), g above 3/2, where Lemma 4 gives 1/2: nu is larger by 4(g - 1/2) > 4",
        details=({"nu with Lemma 4": float(forced), "nu with g = 3/2": float(free)},),
    )
