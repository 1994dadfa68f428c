"""Why one-shot parity is hard: gradients hardly depend on the target (Propositions and Lemmas behind Theorem 2)."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, note, row, slope, true, vacuous_if
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import bits_of, class_fits, of_order_d
from stairwise.papers.parity_onestep.config import Task
from stairwise.papers.parity_onestep.theory import bounds, exponents, hiding, mean_parity, spectrum
from stairwise.tasks import parity

LARGEST_EXTREMAL = 2**22  # inputs times parities for which the extremal model is written out


@dataclass(frozen=True)
class HiddenParities(Config):
    """All parities of k out of d bits, and a tanh net whose gradient they ask for."""

    task: Task = option(Task(10, 5), "the class of parities (a named secret does not matter)")
    width: int = option(8, "hidden width of the net", low=1, high=256)
    scale: float = option(1.0, "factor on its random parameters", above=0.0, high=100.0)
    samples: int = option(0, "samples n; 0 = the whole cube", low=0, high=2**22)

    def check(self) -> None:
        class_fits(self.task)
        parities = math.comb(self.task.bits, self.task.size)
        require(
            2**self.task.bits * parities <= LARGEST_EXTREMAL,
            f"task.bits={self.task.bits} makes the extremal model larger than {LARGEST_EXTREMAL} numbers",
        )

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


ON_THE_CUBE = {"x is uniform on the cube (samples = 0)": lambda config: config.samples == 0}
SEVERAL = {"|P| > 1": lambda config: config.task.size < config.task.bits}


# --- the variance over targets ----------------------------------------------------------------------------------------


def variances(config: HiddenParities, seed: int):
    """(name, variance by the transform, variance target by target, E||grad f||^2, sup ||grad f||^2) of two models."""
    cls, (net, theta) = config.parities(seed), config.net(seed)
    targets = hiding.values(cls, cls.codes)
    for name, J in (
        ("tanh net", net.outputs_and_jacobian(theta, cls.x)[1]),
        ("the model sum_p theta_p p", targets.T),  # whose gradient is the list of all parities
    ):
        C = spectrum.coefficients(J, cls.density, cls.codes)
        gradients = -(targets * cls.density) @ J  # of (1/2) E(p-f)^2, up to a term without p
        one_by_one = np.mean(np.sum((gradients - gradients.mean(axis=0)) ** 2, axis=1))
        squared = np.sum(J**2, axis=1)
        yield name, spectrum.variance(C), float(one_by_one), float(cls.density @ squared), float(squared.max())


@LEDGER.bound(
    "prop3",
    statement=("Proposition 3", "Shalev-Shwartz et al., Theorem 1"),
    says=r"for $\frac{1}{2}\mathbb{E}(h-f)^2$ the variance of the gradient over $|H|$ orthonormal targets is at most"
    r" $\mathbb{E}\|\nabla f\|^2/|H|$; $\sum_p \theta_p p$ has $1 - 1/|P|$ of it",
    of=(bounds.orthogonal_variance, spectrum.variance, spectrum.coefficients),
    free={"coefficients": "all of them with the other sign: their variance is the same"},
    hypotheses=ON_THE_CUBE | SEVERAL,
    cases=(HiddenParities(Task(8, 4)), HiddenParities(Task(10, 5)), HiddenParities(Task(10, 3), scale=3.0)),
    search={"scale": (0.1, 10.0, "log")},
    seeds=3,
)
def gradients_hardly_depend_on_the_target(config: HiddenParities, seed: int):
    parities = math.comb(config.task.bits, config.task.size)
    variance = bound = math.nan
    for name, variance, one_by_one, mean, _ in variances(config, seed):
        bound = bounds.orthogonal_variance(mean, parities)
        yield equal(f"variance by transform and by enumeration, {name}", variance, one_by_one)
        yield at_most(f"variance, {name}", variance, bound)
    if not config.samples:
        yield equal("variance of the extremal model over its bound", variance / bound, 1 - 1 / parities)


@LEDGER.refuted(
    "prop3-printed",
    statement="Proposition 3",
    says=r"as printed, for the loss $\mathbb{E}(h-f)^2$ without $\frac{1}{2}$: the variance is at most"
    r" $\mathbb{E}\|\nabla f\|^2/|H|$",
    of=(bounds.orthogonal_variance,),
    hypotheses=ON_THE_CUBE | SEVERAL,
    certificate="certificates/prop3.py",
    corrected="prop3",
    cases=HiddenParities(Task(8, 4)),
    seeds=3,
)
def without_the_half_the_variance_is_four_times_larger(config: HiddenParities, seed: int):
    parities = math.comb(config.task.bits, config.task.size)
    for name, variance, _, mean, _ in variances(config, seed):
        # the gradient of (h-f)^2 is twice that of (1/2)(h-f)^2
        yield at_most(f"variance, {name}", 4 * variance, bounds.orthogonal_variance(mean, parities))
    yield note("the gradient is twice that of half the loss, so the bound is four times as large")


SAMPLED = {"n > 4d": lambda config: (config.samples or 2**config.task.bits) > 4 * config.task.bits}
# 4 d |P|^2 samples are where 1/|P| takes over from sqrt(4d/n)
DATA_SETS = (
    HiddenParities(Task(6, 3), samples=9600),
    HiddenParities(Task(8, 4), samples=156_800),
    HiddenParities(Task(10, 5), samples=1000),
    HiddenParities(Task(10, 4), samples=100),
)


@LEDGER.bound(
    "thm2-var",
    statement=("Theorem 2, gradient variance", "Appendix A"),
    says=r"on $n$ samples the variance of the gradient over $P$ is at most"
    r" $2\max(1/|P|, \sqrt{4d/n})\sup\|\nabla f\|^2$",
    of=(bounds.gradient_variance,),
    hypotheses=SAMPLED,
    cases=DATA_SETS,
    seeds=3,
)
def sampled_gradients_hardly_depend_on_the_target(config: HiddenParities, seed: int):
    task, parities = config.task, math.comb(config.task.bits, config.task.size)
    n = config.samples or 2**task.bits
    for name, variance, one_by_one, mean, largest in variances(config, seed):
        bound = bounds.gradient_variance(task.bits, n, parities, largest)
        yield at_most(f"variance, {name}", variance, bound)
        frame = bounds.gram_eigenvalue(task.bits, n, parities) / parities  # sum_p <v, p>_n^2 <= lambda_max ||v||_n^2
        yield equal(f"the bound against lambda_max sup||grad f||^2/|P|, {name}", bound, frame * largest)
        yield equal(f"variance by transform and by enumeration, {name}", variance, one_by_one)
        yield row({"model": name, "variance": variance, "variance n / E||grad f||^2": variance * n / mean})


@LEDGER.bound(
    "thm2-gram",
    statement=("Theorem 2, Gram matrix", "Appendix A"),
    says=r"no two parities overlap by more than $\delta = \sqrt{4d/n}$ on $n$ samples;"
    r" $\lambda_{\max}(G_P) \le 1 + (|P|-1)\max|\langle p, p'\rangle_n| \le 2\max(1, |P|\delta)$",
    of=(bounds.gram_eigenvalue, bounds.gershgorin, spectrum.largest_overlap),
    hypotheses=SAMPLED,
    cases=DATA_SETS,
    seeds=3,
)
def sampled_parities_are_nearly_orthogonal(config: HiddenParities, seed: int):
    task, cls = config.task, config.parities(seed)
    n, parities = config.samples or len(cls.x), len(cls.codes)
    overlap, eigenvalue = (
        find(cls.density, cls.codes) for find in (spectrum.largest_overlap, spectrum.largest_eigenvalue)
    )
    targets = hiding.values(cls, cls.codes)
    gram = (targets * cls.density) @ targets.T
    found, vectors = np.linalg.eigh(gram)
    off = np.abs(gram - np.diag(np.diag(gram))).max()
    yield equal("largest overlap against the matrix", overlap, off, scale=1e-2)
    yield equal("largest eigenvalue against the matrix", eigenvalue, found[-1], 1e-9)
    yield at_most("largest overlap", overlap, bounds.overlap(task.bits, n))
    yield at_most("largest eigenvalue", eigenvalue, bounds.gram_eigenvalue(task.bits, n, parities))
    yield at_most(
        "largest eigenvalue against Gershgorin", eigenvalue, bounds.gershgorin(parities, overlap), rounding=1e-12
    )
    circle = bounds.gershgorin(parities, bounds.overlap(task.bits, n))
    last = bounds.gram_eigenvalue(task.bits, n, parities)
    yield at_most("Gershgorin's circle at delta against 2 max(1, |P| delta)", circle, last)
    yield at_most("2 max(1, |P| delta) over that circle", last / circle, 2.0)
    one = np.ones((parities, parities))  # all samples alike: every overlap is 1, and the circle is reached
    yield equal("eigenvalue where all overlaps are 1", np.linalg.eigvalsh(one)[-1], bounds.gershgorin(parities, 1.0))
    f = vectors[:, -1] @ targets  # the frame inequality is attained by the top eigenvector
    inner, norm = (targets * cls.density) @ f, cls.density @ f**2
    yield equal("sum_p <f, p>_n^2 over ||f||_n^2 at its largest", np.sum(inner**2) / norm, eigenvalue, 1e-9)
    edge = spectrum.marchenko_pastur_edge(n, parities)
    yield row({"n": n, "lambda_max/|P|": eigenvalue / parities, "Marchenko-Pastur edge": edge})


@dataclass(frozen=True)
class Overlaps(Config):
    """Two parities on n samples."""

    task: Task = option(Task(12, 6), "the class of parities (a named secret does not matter)")
    samples: int = option(1000, "samples n", low=1, high=10**7)


@LEDGER.bound(
    "thm2-overlap",
    statement=("Theorem 2, overlap", "Appendix A"),
    says=r"$\Pr(\max|\langle p, p'\rangle_n| \ge \delta) \le |P|(|P|-1)e^{-n\delta^2/2}$, which is at most $(2/e)^{2d}$"
    r" at $\delta = \sqrt{4d/n}$",
    of=(bounds.overlap_chance, bounds.overlap_chance_of_half, bounds.overlap),
    cases=(Overlaps(), Overlaps(Task(4, 2), 400), Overlaps(Task(64, 32), 10_000)),
    search={"samples": (10, 10**6, "log")},
)
def overlaps_are_rarely_large(config: Overlaps, seed: int):
    from scipy.special import bdtr

    d, n, parities = config.task.bits, config.samples, math.comb(config.task.bits, config.task.size)
    delta = bounds.overlap(d, n)
    for deviations in (1.0, 2.0, 4.0, delta * math.sqrt(n)):  # the chance of each pair is exact
        below = math.floor((n - deviations * math.sqrt(n)) / 2)  # ones among n, at most
        union = parities * (parities - 1) / 2 * 2 * float(bdtr(below, n, 0.5)) if below >= 0 else 0.0
        bound = bounds.overlap_chance(parities, n, deviations / math.sqrt(n))
        yield at_most(f"sum over pairs of the chance of {deviations:.3g} deviations", union, bound)
    at_delta = bounds.overlap_chance(parities, n, delta)
    yield equal("chance at delta", at_delta, parities * (parities - 1) * math.exp(-2 * d))
    yield at_most("chance at delta against (2/e)^(2d)", at_delta, bounds.overlap_chance_of_half(d))
    every_size = sum(math.comb(d, k) for k in range(d + 1))
    yield equal("(2/e)^(2d): subsets of any size", bounds.overlap_chance_of_half(d), every_size**2 * math.exp(-2 * d))


@dataclass(frozen=True)
class GrowingSamples(Config):
    """Data sets of growing size."""

    task: Task = option(Task(10, 5), "the class of parities (a named secret does not matter)")
    samples: tuple[int, ...] = option((64, 256, 1024, 4096, 16_384), "samples n", low=4, high=2**20)

    def check(self) -> None:
        class_fits(self.task)
        require(len(set(self.samples)) > 2, f"samples={self.samples} must be three sizes or more")


@LEDGER.rate(
    "thm2-correlation",
    statement=("Section 3.1, correlation", "Theorem 2, typical overlap"),
    says=r"the empirical correlation of two random parities is $\Theta(n^{-1/2})$: its root mean square is $n^{-1/2}$",
    of=(bounds.typical_overlap,),
    cases=GrowingSamples(),
    seeds=3,
)
def parities_correlate_by_the_square_root(config: GrowingSamples, seed: int):
    codes = spectrum.subset_codes(config.task.bits, config.task.size)
    differences = np.unique(codes[:, None] ^ codes)[1:]
    found = []
    for n in config.samples:
        inner = spectrum.walsh_hadamard(spectrum.histogram(bits_of(config.task, n, seed)))[differences]
        found.append(float(np.sqrt(np.mean(inner**2))))
        off = abs(found[-1] / bounds.typical_overlap(n) - 1)
        yield at_most(f"root mean square over n^(-1/2), off 1 by, n = {n}", off, 5 / math.sqrt(2 * len(differences)))
    yield slope("exponent of n", config.samples, found, -0.5, against="n")


# --- Theorem 1: one predictor against all parities --------------------------------------------------------------------


@dataclass(frozen=True)
class MeanParity(Config):
    """The class P, through its mean at each input; exact integers."""

    task: Task = option(Task(12, 6), "the class of parities (a named secret does not matter)")

    def check(self) -> None:
        require(self.task.bits <= 512, f"task.bits={self.task.bits} must be at most 512")


@LEDGER.bound(
    "thm1-any",
    statement="ours: any predictor against all parities",
    says=r"beyond the paper: any predictor, not only a parity, errs by $\frac{1}{2} - \frac{1}{2}|P|^{-1/2}$ or more on"
    r" average over $P$; $\mathrm{sign}(\mathbb{E}_p p)$ comes near that for every $p$ at once",
    of=(bounds.zero_one_error, mean_parity.mean_magnitude),
    cases=tuple(MeanParity(Task(d, k)) for d, k in ((4, 2), (4, 4), (12, 6), (20, 10), (40, 20))),
)
def one_predictor_can_beat_chance_on_every_parity(config: MeanParity, seed: int):
    d, k = config.task.bits, config.task.size
    gain = float(mean_parity.mean_magnitude(d, k) / 2)
    allowed = 0.5 - bounds.zero_one_error(math.comb(d, k))
    yield at_most("gain of sign(E_p p) over chance", gain, allowed, rounding=1e-9)
    yield equal(
        "the bound is half of sqrt(E_x(E_p p)^2)", allowed, math.sqrt(mean_parity.second_moment(d, k)) / 2, 1e-9
    )
    if d <= 12:
        cls = hiding.parity_class(parity.cube(d).astype(np.float64), k, spectrum.uniform_density(d))
        errors = (1 - hiding.values(cls, cls.codes) @ np.sign(cls.mean) / len(cls.x)) / 2
        yield equal("its error for every p, on the cube", errors, np.full(len(errors), 0.5 - gain))
    yield row({"gain": gain, "gain over e^-d": gain * math.exp(d)})
    yield note("Theorem 1 is stated for estimators in P, where no such gain exists")


# --- Lemma 8 ----------------------------------------------------------------------------------------------------------


@LEDGER.bound(
    "lem8",
    statement="Lemma 8",
    says=r"$\mathbb{E}_p p(x)$ in closed form; $\mathbb{E}_x(\mathbb{E}_p p)^2 = 1/|P|$; every line of the"
    r" proof down to"
    r" $|\mathbb{E}_p p| \le \frac{d}{2}(d/k)^{-k/4}$ where the number of $-1$ is near $d/2$",
    of=(
        mean_parity.even_count_printed,
        mean_parity.mean,
        mean_parity.mean_magnitude,
        mean_parity.on_the_event,
        mean_parity.chain_of_bounds,
        mean_parity.power_bound,
    ),
    hypotheses={"k and d-k of order d": lambda config: of_order_d(config.task)},
    cases=tuple(MeanParity(Task(d, k)) for d, k in ((16, 4), (12, 6), (12, 5), (32, 8), (64, 32), (256, 128))),
)
def the_mean_parity_is_small(config: MeanParity, seed: int):
    d, k = config.task.bits, config.task.size
    few, total = min(k, d - k), math.comb(d, k)
    counts = [mean_parity.even_count(d, k, m) for m in range(d + 1)]
    means = [mean_parity.mean(d, k, m) for m in range(d + 1)]
    weights = [Fraction(math.comb(d, m), 2**d) for m in range(d + 1)]
    yield true(
        "|P_+| with m' and s, for every m", counts == [mean_parity.even_count_printed(d, k, m) for m in range(d + 1)]
    )
    yield true("E_p p = 2|P_+|/|P| - 1", means == [Fraction(2 * count, total) - 1 for count in counts])
    yield true("E_x(E_p p)^2 = 1/|P|", sum(w * m**2 for w, m in zip(weights, means, strict=True)) == Fraction(1, total))
    average = sum(w * abs(m) for w, m in zip(weights, means, strict=True))
    yield true("E_x|E_p p|", mean_parity.mean_magnitude(d, k) == average)
    if d <= 12:
        cls = hiding.parity_class(parity.cube(d).astype(np.float64), k, spectrum.uniform_density(d))
        yield equal("E_p p on the whole cube", hiding.values(cls, cls.codes).mean(axis=0), cls.mean, scale=1.0)
    if few < 1:
        return
    tail, chain = mean_parity.on_the_event(d, few), mean_parity.chain_of_bounds(d, few)
    near = [m for m in range(d + 1) if abs(8 * m - 4 * d) <= min(d, 2 * few)]  # |m - d/2| <= min(1/4, k/2d) d/2
    if not near:
        yield note("no number of -1 is so near to d/2 at this size: the event is empty")
        return
    yield equal("largest |E_p p| on the event", tail.largest, float(max(abs(means[m]) for m in near)), scale=1e-300)
    yield equal("chance of the event", tail.chance, float(sum(weights[m] for m in near)))
    yield at_least("chance of the event against Chernoff", tail.chance, tail.chance_bound)
    width = min(0.25, few / (2 * d))  # Pr(|m - d/2| > width d/2) <= 2 e^{-width^2 (d/2)/3}
    yield equal("Chernoff's bound", tail.chance_bound, 1 - 2 * math.exp(-(width**2) * (d / 2) / 3), scale=1.0)
    every_term = mean_parity.chain_of_bounds(d, few).binomials
    one_term = mean_parity.chain_of_bounds(d, few, terms=1).binomials
    yield equal("terms of the sum over j", every_term / one_term, few // 2 + 1, 1e-9)
    lines = chain._asdict()
    yield equal("the first line of the proof", lines["exact"], tail.largest / 2, scale=1e-300)
    for (name, value), (following, bound) in zip(list(lines.items())[:-1], list(lines.items())[1:], strict=True):
        whole = following != "power" or (d % 4 == 0 and few % 4 == 0)  # d/4 and k/4 are printed without floors
        if math.isfinite(bound) and whole:
            yield at_most(f"{name} against {following.replace('_', ' ')}", value, bound, rounding=1e-12)
    if few == 4 and d % 4 == 0:
        yield equal("the last two lines agree at k = 4", chain.power, chain.quarters)
    yield at_most("|E_p p| on the event", tail.largest, 2 * mean_parity.power_bound(d, few))
    yield vacuous_if(2 * mean_parity.power_bound(d, few) >= 1 and chain.binomials >= 0.5, "every bound is above 1")


@dataclass(frozen=True)
class GrowingShare(Config):
    """The same share k/d at growing d."""

    bits: tuple[int, ...] = option((16, 32, 64, 128, 256), "input bits d", low=4, high=512)
    share: float = option(0.5, "k/d", above=0.0, high=1.0)

    def check(self) -> None:
        require(len(set(self.bits)) > 2, f"bits={self.bits} must be three sizes or more")
        require(
            min(self.bits) * self.share >= 2, f"share={self.share:g} leaves fewer than two of {min(self.bits)} bits"
        )

    def sizes(self) -> list[tuple[int, int]]:
        return [(d, round(self.share * d)) for d in sorted(set(self.bits))]


@LEDGER.rate(
    "lem8-rate",
    statement=("Lemma 8", "Appendix A"),
    says=r"$|\mathbb{E}_p p(x)| = e^{-\Omega(d)}$ near $d/2$, and $|P| = e^{\Theta(d)}$ with"
    r" $(d/k)^k \le \binom{d}{k} \le (ed/k)^k$",
    of=(mean_parity.mean, bounds.class_size),
    hypotheses={"k/d is at most 7/8": lambda config: config.share <= 7 / 8},
    cases=(GrowingShare(), GrowingShare(share=0.25)),
)
def the_mean_parity_falls_exponentially(config: GrowingShare, seed: int):
    sizes, largest, logs = config.sizes(), [], []
    for d, k in sizes:
        event = mean_parity.event(d, min(k, d - k))
        largest.append(float(max(abs(mean_parity.mean(d, k, m)) for m in event)))
        logs.append(math.lgamma(d + 1) - math.lgamma(k + 1) - math.lgamma(d - k + 1))
        yield at_least(f"ln |P| at d = {d}", logs[-1], bounds.class_size(d, k).low)
        yield at_most(f"ln |P| at d = {d}, from above", logs[-1], bounds.class_size(d, k).high)
        yield equal(f"the two bounds are a factor e^k apart, d = {d}", np.subtract(*bounds.class_size(d, k)), -k)
    bits = [d for d, _ in sizes]
    entropy = -sum(p * math.log(p) for p in (config.share, 1 - config.share) if p)
    # Stirling: |P| is e^{d H(k/d)} over sqrt(2 pi k (d-k)/d), which matters at small d
    roots = [math.log(2 * math.pi * k * (d - k) / d) / 2 for d, k in sizes]
    yield slope("exponent of ln |P| in d", bits, np.add(logs, roots), 1.0)
    yield at_most("ln |P| / d against the entropy of k/d", logs[-1] / bits[-1], entropy)
    yield at_least("ln |P| / d against 9/10 of it", logs[-1] / bits[-1], 0.9 * entropy)
    # at most that of the proof's last line, ln(d/k) k/(4d) per bit
    rate = config.share / 4 * math.log(1 / config.share)
    yield slope(
        "rate of |E_p p| in d", bits, largest, -rate, side="at most", law="exponential", within=0.02, against="d"
    )


@LEDGER.refuted(
    "lem8-printed",
    statement="Lemma 8",
    says=r"as printed: $k = \Theta(d)$ alone makes $|\mathbb{E}_p p(x)| \le e^{-\Omega(d)}$ with high probability",
    of=(mean_parity.mean_magnitude,),
    certificate="certificates/lem8.py",
    corrected="lem8",
    cases=GrowingShare(share=1.0),
)
def all_bits_together_have_no_small_mean(config: GrowingShare, seed: int):
    magnitudes = [float(mean_parity.mean_magnitude(d, k)) for d, k in config.sizes()]
    bits = [d for d, _ in config.sizes()]
    yield slope("rate of E_x|E_p p| in d", bits, magnitudes, -1e-3, side="at most", law="exponential", within=0.0)
    yield note("at k = d there is one parity and |E_p p| = 1 everywhere, so d-k = Theta(d) is needed too")


# --- the exponents of Theorem 2(2) ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exponents(Config):
    """The powers of d that Theorem 2(2) speaks of."""

    gradient: float = option(0.5, "nu1, where ||grad f|| = d^nu1", low=0.0, high=10.0)
    accuracy: float = option(2.125, "nu2, where the oracle has accuracy d^-nu2", low=0.0, high=10.0)
    queries: float = option(0.125, "nu3, where T = d^nu3 queries are made", low=0.0, high=10.0)
    loss: float = option(0.125, "nu4, where the loss is at least 1 - O(d^-nu4)", low=0.0, high=10.0)


BITS = (10**3, 10**4, 10**5, 10**6)


@LEDGER.rate(
    "thm2-exponents",
    statement=("Theorem 2(2)", "Theorem 2, part 2", "Equation 5"),
    says=r"with $n = d^\nu$, $\nu = 4\nu_1+4\nu_2+2\nu_3+2\nu_4+1$, equation (5) gives a loss of $1 - O(d^{-\nu_4})$",
    of=(exponents.samples_needed, bounds.gradient_variance, bounds.loss_after),
    cases=(Exponents(), Exponents(1.5, 2.0, 0.5, 1.0), Exponents(0.0, 1.0, 0.0, 0.25), Exponents(0.5, 0.25, 1.0, 2.0)),
    search={"gradient": (0.0, 3.0, "linear"), "loss": (0.05, 3.0, "linear")},
)
def the_loss_approaches_one_at_the_stated_rate(config: Exponents, seed: int):
    powers = [Fraction(str(value)) for value in (config.gradient, config.accuracy, config.queries, config.loss)]
    nu, deficits = float(exponents.samples_needed(*powers)), []
    for d in BITS:
        # |P| is exponential in d: its inverse never counts
        variance = bounds.gradient_variance(d, round(d**nu), 10**300, d ** (2 * config.gradient))
        deficits.append(1 - bounds.loss_after(float(d**config.queries), variance, d**-config.accuracy, 0.0))
    yield slope("exponent of what the loss may lack", BITS, deficits, -config.loss, within=1e-3)
    # equation (5) lacks 2 T Var/eps^2 with Var = 2 sqrt(4d/n) ||grad f||^2, so the constant of the rate is 8
    yield equal("what the loss may lack, times d^nu4", deficits[0] * BITS[0] ** config.loss, 8.0, 1e-6)
    yield equal("the variance where n no longer counts", bounds.gradient_variance(1, 10**18, 7, 3.0), 6 / 7)
    yield equal("the loss where nothing is revealed", bounds.loss_after(0.0, 1.0, 1.0, 0.125), 0.75)
    yield row(nu=nu)


@dataclass(frozen=True)
class Separation(Config):
    """The eps of Theorems 5 and 7, and the model's gradient."""

    epsilon: float = option(1.0, "eps, where the oracle has accuracy d^(-2-eps/8)", above=0.0, high=100.0)
    slope: float = option(0.0, "K = sup|phi'|; 0 = teacher forcing (Lemma 4)", low=0.0, high=4.0)


@LEDGER.exact(
    "thm5-separation",
    statement=("Section 3.2, separation", "Theorem 5, separation"),
    says=r"with Lemma 4's $\|\nabla f\| = O(d^{1/2})$ and $n = d^{11+\epsilon}$ samples, fewer than"
    r" $d^{\epsilon/4}$ queries"
    r" leave the loss above $\frac{1}{2}$",
    of=(exponents.separation, exponents.gradient_power_teacher_forcing),
    cases=(Separation(), Separation(0.25), Separation(4.0)),
    search={"epsilon": (0.05, 8.0, "log")},
)
def eleven_plus_epsilon(config: Separation, seed: int):
    eps = Fraction(str(config.epsilon))
    yield true("nu = 11 + eps", exponents.separation(eps, exponents.gradient_power_teacher_forcing()) == 11 + eps)


@LEDGER.bound(
    "thm7-separation",
    statement=("Section 3.3, separation", "Theorem 7, separation"),
    says=r"restated: Theorem 7 gives the same $d^{\epsilon/4}$ queries as Theorem 5, once $n = d^{\nu}$ with"
    r" $\nu = 11 + \epsilon + 4\log_2\|\phi'\|_\infty > 15 + \epsilon$, since Lemma 6 allows larger gradients",
    of=(exponents.separation, exponents.gradient_power_end_to_end),
    hypotheses={"K > 2": lambda config: config.slope > 2},
    cases=(Separation(1.0, 2.001), Separation(0.5, 4.0)),
    search={"slope": (2.001, 4.0, "linear")},
)
def fifteen_plus_epsilon(config: Separation, seed: int):
    eps, g = Fraction(str(config.epsilon)), exponents.gradient_power_end_to_end(config.slope)
    nu = float(exponents.separation(eps, Fraction(g)))
    yield at_least("nu", nu, 15 + config.epsilon)
    yield equal("2^((nu - 11 - eps)/4), which is K", 2 ** ((nu - 11 - config.epsilon) / 4), config.slope)
