"""Random embeddings: Lemmas 1 to 4 behind Theorem 1, and the technical Lemmas 28 to 31."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, hypothesis, row
from stairwise.papers.parity_cot import construction
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.sizes import products, random_gram, random_signs, sign_tail
from stairwise.papers.parity_cot.config.task import check_secret
from stairwise.papers.parity_cot.theory import bounds
from stairwise.train.draws import draws_of

LARGEST_DRAW = 2**28  # signs


@dataclass(frozen=True)
class Represented(Config):
    """A parity and a width for Theorem 1's weights; all inputs are tried where they are few."""

    bits: int = option(10, "input bits n", low=2, high=10_000)
    size: int = option(3, "secret bits k", low=1, high=10_000)
    width: int = option(200, "width d; at least 2k", low=2, high=2**20)
    secret: tuple[int, ...] = option((), "the secret positions, counted from 0; none = drawn", low=0)
    exhaustive: int = option(12, "try all inputs up to this n", low=0, high=16)

    def check(self) -> None:
        require(self.size <= self.bits, f"size={self.size} must be at most bits={self.bits}")
        require(self.width >= 2 * self.size, f"width={self.width} must be at least 2*size={2 * self.size}")
        check_secret(self.secret, self.bits, self.size)
        signs = 2 * (self.bits + 1) * self.width
        require(signs <= LARGEST_DRAW, f"width={self.width} needs {signs} signs, which must be at most {LARGEST_DRAW}")

    @property
    def atoms(self) -> int:
        """Embeddings of the n inputs and the 0 token."""
        return 2 * (self.bits + 1)


def draw(config: Represented, seed: int, number: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The signs of all embeddings (packed) and the secret, of one draw."""
    random = draws_of(seed, "embeddings and secret", number, config.bits, config.size)
    secret = np.array(config.secret or np.sort(random.permutation(config.bits)[: config.size]), dtype=np.int64)
    return random_signs(config.atoms, config.width, random), secret


def with_secret(config: Represented, seed: int, number: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The inner products of all embeddings with those of the secret, and the secret."""
    words, secret = draw(config, seed, number)
    return products(words, words[construction.secret_atoms(secret)], config.width), secret


def outside(on_atoms: np.ndarray, secret: np.ndarray) -> np.ndarray:
    """The entries of keys that are not in the secret; of the 0 token only bit 0."""
    by_position = on_atoms.reshape(-1, 2)
    keys = np.setdiff1d(np.arange(len(by_position)), secret)
    return np.where(keys[:, None] == len(by_position) - 1, by_position[keys, :1], by_position[keys])


def independence(columns: np.ndarray, secret: np.ndarray):
    """The hypothesis of every claim about dual vectors."""
    return hypothesis("the secret embeddings are linearly independent", construction.independent(columns, secret))


def vectors(words: np.ndarray, width: int) -> np.ndarray:
    """The embeddings themselves, from their packed signs."""
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :width]
    return (1.0 - 2 * bits) / math.sqrt(width)


# --- Lemmas 1 to 4 ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Secrets(Represented):
    """Repeated draws at one width."""

    bits: int = option(30, "input bits n", low=2, high=10_000)
    width: int = option(64, "width d; at least 2k", low=2, high=2**20)
    draws: int = option(40, "draws of the embeddings", low=1, high=10_000)
    failure: float = option(0.1, "delta", above=0.0, below=1.0)


SIX = {"d >= 6k": lambda config: config.width >= 6 * config.size}


@LEDGER.bound(
    "lem1",
    statement="Lemma 1",
    says=r"the $2k \times d$ matrix $M$ of secret embeddings: $\lambda_{\min}(MM^\top) > 1/12$ and"
    r" $\|M\| = O(1)$ (here 2), with chance $1-\delta$",
    of=(construction.secret_atoms, bounds.eigenvalue_edges),
    hypotheses=SIX,
    cases=(Secrets(300, 100, 600, draws=5), Secrets()),
    seeds=3,
)
def secret_embeddings_are_independent(config: Secrets, seed: int):
    ends = []
    for number in range(config.draws):
        columns, secret = with_secret(config, seed, number)
        ends.append(np.linalg.eigvalsh(columns[construction.secret_atoms(secret)])[[0, -1]])
    low, high = np.array(ends).T
    yield at_least("share of draws with lambda_min > 1/12", np.mean(low > 1 / 12), 1 - config.failure)
    yield at_least("share of draws with norm < 2", np.mean(high < 4), 1 - config.failure)
    edges = bounds.eigenvalue_edges(config.size, config.width)
    if config.size >= 50:
        yield equal("smallest eigenvalue, against the edge (1 - sqrt(2k/d))^2", np.median(low), edges[0], 0.1)
        yield equal("largest eigenvalue, against the edge (1 + sqrt(2k/d))^2", np.median(high), edges[1], 0.05)
    yield row({"smallest": low.min(), "largest norm": math.sqrt(high.max()), "edges": f"{edges[0]:.3g} {edges[1]:.3g}"})


@LEDGER.exact(
    "lem2",
    statement="Lemma 2",
    says=r"$V$, the sum of the dual vectors $\langle u_{j,b}, e_{j',b'}\rangle = 1((j,b) = (j',b'))$, from inner"
    r" products alone; $\|V\| = O(\sqrt{k})$",
    of=(construction.dual,),
    hypotheses=SIX,
    aliases=("lem2-printed",),
    cases=(Secrets(60, 20, 800), Secrets()),
    seeds=3,
)
def dual_vectors_exist(config: Secrets, seed: int):
    """The dense dual vectors are a pseudo-inverse of M."""
    words, secret = draw(config, seed)
    columns = products(words, words[construction.secret_atoms(secret)], config.width)
    yield (dual_exists := independence(columns, secret))
    if not dual_exists.met:
        return
    found, E = construction.dual(columns, secret), vectors(words, config.width)
    u = np.linalg.pinv(E[construction.secret_atoms(secret)]).T
    yield equal("<V, e> for every embedding", found.V_on, E @ u.sum(axis=0), 1e-9)
    yield equal("<U, e> for every embedding", found.U_on, E @ u[1::2].sum(axis=0), 1e-9)
    yield equal("||V||", found.norm, np.linalg.norm(u.sum(axis=0)), 1e-9)
    yield at_most("||V|| / sqrt k", found.norm / math.sqrt(config.size), 3.0)


@LEDGER.exact(
    "lem3",
    statement="Lemma 3",
    says=r"$\langle V, e_{j,b}\rangle = 1$ on the secret, where $V$ is the sum of $v_j = u_{j,0} + u_{j,1}$;"
    r" $\langle U, e_{j,b}\rangle = 1(b = 1)$",
    of=(construction.dual, construction.secret_atoms),
    hypotheses=SIX,
    cases=(Secrets(60, 20, 800), Secrets()),
    seeds=3,
)
def value_vectors_exist(config: Secrets, seed: int):
    columns, secret = with_secret(config, seed)
    yield (dual_exists := independence(columns, secret))
    if not dual_exists.met:
        return
    found = construction.dual(columns, secret)
    by_position = found.V_on.reshape(-1, 2)[secret], found.U_on.reshape(-1, 2)[secret]
    yield equal("<V, e> on the secret", by_position[0], np.ones((config.size, 2)), 1e-9)
    yield equal("<U, e> on the secret", by_position[1], np.tile([0.0, 1.0], (config.size, 1)), 1e-9)


def others(config: Secrets) -> int:
    """Embeddings outside the secret: two of every other input, one of the 0 token."""
    return 2 * (config.bits - config.size) + 1


@LEDGER.bound(
    "lem4",
    statement="Lemma 4",
    says=r"$|\langle V, e_{j,b}\rangle| \le 1/2$ for all $j \notin S$ with chance $1-\delta$ at"
    r" $d = 2k + 16k\ln(2N/\delta)$, $N = 2(n-k)+1$",
    of=(bounds.overlap_chance, bounds.overlap_width),
    hypotheses={"d >= 2k + 16k ln(2N/delta)": lambda c: c.width >= bounds.overlap_width(c.size, c.failure, others(c))},
    aliases=("lem4-printed",),
    cases=(Secrets(width=343), Secrets(1000, 5, 860, draws=20), Secrets(width=2000, draws=20)),
    seeds=3,
)
def other_embeddings_overlap_little(config: Secrets, seed: int):
    k, N = config.size, others(config)
    largest = []
    for number in range(config.draws):
        columns, secret = with_secret(config, seed, number)
        yield (dual_exists := independence(columns, secret))
        if not dual_exists.met:
            return
        found = construction.dual(columns, secret)
        largest.append(np.max(np.abs(outside(found.V_on, secret))))
    yield at_most("share of draws with an overlap above 1/2", np.mean(np.array(largest) > 0.5), config.failure)
    needed = bounds.overlap_width(k, config.failure, N)
    chance = bounds.overlap_chance(math.sqrt(2 * k * needed / (needed - 2 * k)), needed, N)
    yield at_most("the union bound at that width, ||V||^2 = 2kd/(d-2k)", chance, config.failure, rounding=1e-9)
    least = config.failure * math.exp(-1 / (16 * k))  # the width is rounded up to a whole number
    yield at_least("the union bound at that width, from below", chance, least, rounding=1e-9)
    # the chance of one vector where it is no rare event
    narrow = Secrets(config.bits, k, 20 * k)
    columns, secret = with_secret(narrow, seed)
    V, random = construction.dual(columns, secret), draws_of(seed, "fresh vectors")
    words, _ = draw(narrow, seed)
    fresh = products(random_signs(20_000, narrow.width, random), words[construction.secret_atoms(secret)], narrow.width)
    share = np.mean(np.abs(fresh @ V.V) >= 0.5 - 1e-9)
    yield at_most(
        "share of fresh vectors with an overlap of 1/2 or more, d = 20k",
        share,
        bounds.overlap_chance(V.norm, narrow.width, 1),
    )
    if k > 1:  # at k = 1 half of V's entries are 0, and overlaps with so few signs have few values
        yield at_least("the same, within 6 of Hoeffding's", share, bounds.overlap_chance(V.norm, narrow.width, 1) / 6)
    yield equal("the same at d = 1, where it says nothing", bounds.overlap_chance(V.norm, 1, 1), 1.0)
    yield row({"largest": max(largest), "width of the rule": needed})


# --- textbook bounds --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matrices(Config):
    """Random sign matrices of several shapes."""

    shapes: tuple[int, ...] = option(
        (10, 30, 100, 300), "numbers of rows; columns are 4 times as many", low=1, high=2000
    )
    draws: int = option(10, "draws of each", low=1, high=1000)


LISTED = ((2, 2), (3, 3), (4, 4), (5, 5), (3, 9), (9, 3), (2, 12), (12, 2))  # shapes of which every matrix is looked at
LONG = 200  # columns of matrices with two rows, whose law is known
OF_SIGN = 1 / math.sqrt(math.log(2))  # the sub-Gaussian norm of a sign: E exp(1/K^2) = 2
OF_SIGNS = math.sqrt(8 / 3)  # of a vector of signs, at most: that of a normal variable, (1 - 2/K^2)^(-1/2) = 2


def singular_values(config: Matrices, seed: int) -> list[tuple[int, int, np.ndarray]]:
    """(rows, columns, [smallest, largest] of every draw) of matrices with entries +-1."""
    found = []
    for rows in config.shapes:
        random = draws_of(seed, "sign matrices", rows)
        ends = []
        for _ in range(config.draws):
            gram = random_gram(rows, 4 * rows, random) * 4 * rows
            ends.append(np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[[0, -1]], 0)))
        found.append((rows, 4 * rows, np.array(ends)))
    return found


@cache
def every_matrix(rows: int, columns: int) -> np.ndarray:
    """[s_n, s_1] of every sign matrix: flips of rows and columns change neither, so the first of each are ones."""
    free = (rows - 1) * (columns - 1)
    signs = 1.0 - 2 * (np.arange(2**free)[:, None] >> np.arange(free) & 1)
    matrices = np.ones((2**free, rows, columns))
    matrices[:, 1:, 1:] = signs.reshape(-1, rows - 1, columns - 1)
    values = np.linalg.svd(matrices, compute_uv=False)
    return np.stack([values[:, -1] if columns <= rows else np.zeros(2**free), values[:, 0]], axis=1)


def two_rows(columns: int) -> tuple[np.ndarray, np.ndarray]:
    """[s_n, s_1] of the 2 x n sign matrices, by |S|, and their chances: s^2 = n +- |S| with S a sum of n signs."""
    minus = np.arange(columns // 2 + 1)
    sums = columns - 2 * minus
    chances = np.array([math.comb(columns, int(each)) / 2**columns for each in minus]) * np.where(sums > 0, 2, 1)
    return np.sqrt(np.stack([columns - sums, columns + sums], axis=1)), chances


def law(values: np.ndarray, chances: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The values, sorted, and the t at which 2 exp(-t^2) is the chance of one at least as large."""
    order = np.argsort(values)
    ordered = values[order]
    weights = np.full(len(values), 1 / len(values)) if chances is None else chances[order]
    tails = np.cumsum(weights[::-1])[::-1]
    same = np.searchsorted(ordered, ordered - 1e-9 * max(1.0, ordered[-1]))
    return ordered, np.sqrt(np.log(2 / np.minimum(tails[same], 1.0)))


def sign_sums(terms: int) -> tuple[np.ndarray, np.ndarray]:
    """The values of a sum of so many signs over its deviation, and their chances."""
    minus = np.arange(terms + 1)
    chances = np.array([math.comb(terms, int(each)) / 2**terms for each in minus])
    return (terms - 2 * minus) / math.sqrt(terms), chances


@LEDGER.bound(
    "lem28",
    statement="Lemma 28",
    says=r"cited: $\|A\| \le CK(\sqrt{m} + \sqrt{n} + t)$ but for a chance of $2e^{-t^2}$; $C = 1$ serves matrices of"
    r" signs, for every $t$: all matrices up to 5 x 5, 3 x 9 and 2 x 200, and drawn ones",
    of=(bounds.operator_norm,),
    cases=Matrices(),
    seeds=3,
)
def operator_norms(config: Matrices, seed: int):
    yield equal("E exp(sign^2/K^2)", math.exp(1 / OF_SIGN**2), 2.0)
    for m, n in LISTED:  # entries +-1/sqrt(n), as those of Lemma 1
        norms, t = law(every_matrix(m, n)[:, 1] / math.sqrt(n))
        yield at_most(f"||A|| of every matrix, {m} x {n}", norms, bounds.operator_norm(m, n, t, OF_SIGN / math.sqrt(n)))
    ends, chances = two_rows(LONG)  # long enough for t to matter
    norms, t = law(ends[:, 1] / math.sqrt(LONG), chances)
    limits = bounds.operator_norm(2, LONG, t, OF_SIGN / math.sqrt(LONG))
    yield at_most(f"||A|| of every matrix, 2 x {LONG}", norms, limits)
    room = math.nan
    for m, n, ends in singular_values(config, seed):
        norms, t = law(ends[:, 1] / math.sqrt(n))
        limits = bounds.operator_norm(m, n, t, OF_SIGN / math.sqrt(n))
        room = float(np.max(norms / limits))
        yield at_most(f"||A|| of drawn ones, {m} x {n}", norms, limits)
        yield row({"m": m, "n": n, "||A|| / (sqrt m + sqrt n)": ends[:, 1].max() / (math.sqrt(m) + math.sqrt(n))})
    if max(config.shapes) >= 100:  # where sqrt m + sqrt n is all: it is then 1/K = 0.83 of the bound
        yield at_least("the largest ones over their bound", room, 0.75)


@LEDGER.bound(
    "lem29",
    statement="Lemma 29",
    says=r"cited: singular values lie within $CK^2(\sqrt{n} + t)$ of $\sqrt{m}$, and $|A'A/m - 1| \le K^2\max(\delta,"
    r" \delta^2)$, but for a chance of $2e^{-t^2}$; $C = 1/2$ and $C = 5/4$ serve matrices of signs, for every $t$",
    of=(bounds.singular_gap, bounds.covariance_gap),
    cases=Matrices(),
    seeds=3,
)
def singular_value_ends(config: Matrices, seed: int):
    yield equal("E exp(g^2/K^2) of a normal g", (1 - 2 / OF_SIGNS**2) ** -0.5, 2.0)
    for terms in (1, 2, 5, 30, 300):  # flat directions; for each of them E exp is at most that of the normal law
        sums, chances = sign_sums(terms)
        yield at_most(f"E exp(<row, x>^2/K^2), {terms} terms", float(chances @ np.exp(sums**2 / OF_SIGNS**2)), 2.0)
    ends, chances = two_rows(LONG)
    for m, n, low in ((2, LONG, 0.0), (LONG, 2, 1.0)):  # with more columns than rows the last singular value is 0
        both = ends * [low, 1]
        gaps, t = law(np.max(np.abs(both - math.sqrt(m)), axis=1), chances)
        yield at_most(f"|s - sqrt m| of every matrix, {m} x {n}", gaps, bounds.singular_gap(n, t, OF_SIGNS))
        squares, t = law(np.max(np.abs(both**2 / m - 1), axis=1), chances)
        yield at_most(f"|A'A/m - 1| of every matrix, {m} x {n}", squares, bounds.covariance_gap(m, n, t, OF_SIGNS))
    rooms = {}
    drawn = [(m, n, ends, "drawn ones") for n, m, ends in singular_values(config, seed)]  # transposed: n <= m
    for m, n, ends, kind in [*((m, n, every_matrix(m, n), "every matrix") for m, n in LISTED), *drawn]:
        gaps, t = law(np.max(np.abs(ends - math.sqrt(m)), axis=1))
        limits = bounds.singular_gap(n, t, OF_SIGNS)
        yield at_most(f"|s - sqrt m| of {kind}, {m} x {n}", gaps, limits)
        squares, t = law(np.max(np.abs(ends**2 / m - 1), axis=1))
        others = bounds.covariance_gap(m, n, t, OF_SIGNS)
        yield at_most(f"|A'A/m - 1| of {kind}, {m} x {n}", squares, others)
        rooms = {"|s - sqrt m|": np.max(gaps / limits), "|A'A/m - 1|": np.max(squares / others)}
        if kind == "drawn ones":
            yield row({"m": m, "n": n, "|s - sqrt m| / sqrt n": gaps.max() / math.sqrt(n)})
    if max(config.shapes) >= 100:
        for name, room in rooms.items():
            yield at_least(f"{name} of the largest ones over their bound", room, 0.6)


# --- inner products ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sums(Config):
    """A combination of random sign vectors, all signs of which are enumerated."""

    terms: int = option(12, "other vectors of the combination", low=1, high=16)
    width: int = option(1, "width d", low=1, high=16)
    equal: bool = option(True, "all coefficients 1, or drawn from a normal law")

    def check(self) -> None:
        signs = self.terms * self.width
        require(signs <= 16, f"terms={self.terms} times width={self.width} is {signs} signs, which must be at most 16")


@LEDGER.bound(
    "lem30",
    statement="Lemma 30",
    says=r"$|\langle e, v\rangle - \lambda| \le \sqrt{2\ln(2/\delta)/d\,\sum\lambda'^2}$ with chance $1-\delta$, for"
    r" every $\delta$ (all signs)",
    of=(bounds.inner_product,),
    cases=(Sums(), Sums(4), Sums(1), Sums(5, 3, False), Sums(2, 8, False)),
    seeds=3,
)
def inner_products_concentrate(config: Sums, seed: int):
    N, d = config.terms, config.width
    coefficients = np.ones(N) if config.equal else draws_of(seed, "coefficients").standard_normal(N)
    signs = 1 - 2 * (np.arange(2 ** (N * d))[:, None] >> np.arange(N * d) & 1)
    sizes = np.sort(np.abs(signs @ np.repeat(coefficients, d)) / d)
    first = np.searchsorted(sizes, sizes * (1 - 1e-12))
    chances = 1 - first / len(sizes)  # of a deviation at least as large
    limits = [bounds.inner_product(np.sum(coefficients**2), d, chance) for chance in np.unique(chances)]
    yield at_most(
        "deviations, where delta is their chance", [sizes[chances == one].max() for one in np.unique(chances)], limits
    )
    hoeffding = 2 * np.exp(-d * np.square(limits) / (2 * np.sum(coefficients**2)))
    yield equal("Hoeffding's bound at the limits", hoeffding, np.unique(chances), 1e-9)


@dataclass(frozen=True)
class Products(Config):
    """Random sign vectors, drawn again and again."""

    bits: int = option(12, "input bits n", low=1, high=2000)
    size: int = option(3, "secret bits k", low=1, high=2000)
    width: int = option(1024, "width d", low=1, high=2**22)
    failure: float = option(0.05, "delta", above=0.0, below=1.0)
    draws: int = option(50, "draws of the embeddings", low=1, high=100_000)

    def check(self) -> None:
        require(self.size <= self.bits, f"size={self.size} must be at most bits={self.bits}")
        signs = 2 * (self.bits + self.size) * self.width * self.draws
        require(signs <= 2**34, f"draws={self.draws} need {signs} signs, which must be at most {2**34}")


@LEDGER.bound(
    "lem31",
    argument=r"the union bound over all pairs needs $d \ge N(N-1)/(8n)$ with $N = 2(n+k)$, while Assumption 2 has $d"
    " < n$",
    statement="Lemma 31",
    says=r"$|\langle e, e'\rangle - 1(e = e')| \le \sqrt{2\ln(8nd/\delta)/d}$ for all pairs with chance $1-\delta$",
    of=(bounds.gram_deviation, bounds.width_for_all_pairs),
    hypotheses={
        "d >= N(N-1)/(8n), N = 2(n+k), for the union over all pairs": lambda c: (
            c.width >= bounds.width_for_all_pairs(c.bits, c.size)
        )
    },
    cases=(Products(width=16, failure=0.99), Products(width=256), Products(width=4096), Products(width=2**17, draws=2)),
    seeds=3,
)
def embeddings_are_nearly_orthogonal(config: Products, seed: int):
    n, k, d, delta = config.bits, config.size, config.width, config.failure
    random, atoms = draws_of(seed, "embeddings"), 2 * (n + k)
    off = [np.max(np.abs(random_gram(atoms, d, random) - np.eye(atoms))) for _ in range(config.draws)]
    bound = bounds.gram_deviation(n, d, delta)
    yield at_most("pairs beyond the bound, expected", atoms * (atoms - 1) / 2 * sign_tail(d, bound * d), delta)
    yield at_most("largest |<e, e'>|, median", np.median(off), bound)
    yield at_most("share of draws with a pair beyond the bound", np.mean(np.array(off) > bound), delta)
    # Hoeffding for every pair is the lemma's delta at the smallest width that is allowed
    narrowest = bounds.width_for_all_pairs(n, k)
    pairs = atoms * (atoms - 1) / 2 * 2 * math.exp(-narrowest * bounds.gram_deviation(n, narrowest, delta) ** 2 / 2)
    yield equal("Hoeffding's union bound at the smallest width", pairs, delta)
