"""Random embeddings: Lemmas 1 to 4 behind Theorem 1, and the technical Lemmas 28 to 31."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.lab.checks import identical, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_cot import construction
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.sizes import products, random_gram, random_signs
from stairwise.papers.parity_cot.config.task import check_secret
from stairwise.papers.parity_cot.theory import bounds

LARGEST_DRAW = 2**28  # signs


@dataclass(frozen=True)
class Represented(Config):
    """A parity and a width for Theorem 1's weights; all inputs are tried where they are few."""

    inputs: int = option(10, "input bits n", low=2, high=10_000)
    size: int = option(3, "secret bits k", low=1, high=10_000)
    width: int = option(200, "width d; at least 2k", low=2, high=2**20)
    secret: tuple[int, ...] = option((), "the secret positions, counted from 0; none = drawn", low=0)
    exhaustive: int = option(12, "try all inputs up to this n", low=0, high=16)

    def check(self) -> None:
        require(self.size <= self.inputs, f"size={self.size} must be at most inputs={self.inputs}")
        require(self.width >= 2 * self.size, f"width={self.width} must be at least 2*size={2 * self.size}")
        check_secret(self.secret, self.inputs, self.size)
        signs = 2 * (self.inputs + 1) * self.width
        require(signs <= LARGEST_DRAW, f"width={self.width} needs {signs} signs, which must be at most {LARGEST_DRAW}")

    @property
    def atoms(self) -> int:
        """Embeddings of the n inputs and the 0 token."""
        return 2 * (self.inputs + 1)


def draw(config: Represented, seed: int, number: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The signs of all embeddings (packed) and the secret, of one draw."""
    random = np.random.default_rng([seed, number, config.inputs, config.size])
    secret = np.array(config.secret or np.sort(random.permutation(config.inputs)[: config.size]), dtype=np.int64)
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


def dependent(columns: np.ndarray, secret: np.ndarray, width: int) -> Verdict | None:
    """What a claim about dual vectors says of a draw that has none."""
    if construction.independent(columns, secret):
        return None
    named = f"width={width} must be larger: the secret embeddings must be linearly independent, and here are not"
    return Verdict("vacuous", note="there are no dual vectors", hypotheses=(named,))


def six_k(config: Represented) -> tuple[str, ...]:
    """Lemma 1's hypothesis on the width."""
    enough = 6 * config.size
    return () if config.width >= enough else (f"width={config.width} must be at least about 6k={enough}",)


# --- Lemmas 1 to 4 ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Secrets(Represented):
    """Repeated draws at one width."""

    inputs: int = option(30, "input bits n", low=2, high=10_000)
    width: int = option(64, "width d; at least 2k", low=2, high=2**20)
    draws: int = option(40, "draws of the embeddings", low=1, high=10_000)
    failure: float = option(0.1, "delta", above=0.0, below=1.0)


@LEDGER.theory(
    "lem1",
    kind="bound",
    says="the 2k x d matrix M of secret embeddings: lambda_min(MM') > 1/12, operator norm O(1), with chance 1-delta",
    cases=(Secrets(), Secrets(100, 20, 200)),
)
def secret_embeddings_are_independent(config: Secrets, seed: int) -> Verdict:
    ends = []
    for number in range(config.draws):
        columns, secret = with_secret(config, seed, number)
        ends.append(np.linalg.eigvalsh(columns[construction.secret_atoms(secret)])[[0, -1]])
    low, high = np.array(ends).T
    ratio = math.sqrt(2 * config.size / config.width)
    row = {"smallest": float(low.min()), "largest norm": math.sqrt(float(high.max())), "1 + sqrt(2k/d)": 1 + ratio}
    verdict = Verdict.at_least(float(np.mean(low > 1 / 12)), 1 - config.failure, details=(row,))
    return under(six_k(config), verdict)


@LEDGER.theory(
    "lem2",
    kind="identity",
    says="dual vectors: <u_{j,b}, e_{j',b'}> = 1((j,b) = (j',b')) on the secret, and their sum has norm O(sqrt k)",
    cases=(Secrets(), Secrets(60, 20, 800)),
)
def dual_vectors_exist(config: Secrets, seed: int) -> Verdict:
    columns, secret = with_secret(config, seed)
    if none := dependent(columns, secret, config.width):
        return none
    M_M = columns[construction.secret_atoms(secret)]
    u = np.linalg.inv(M_M)  # row j: the coefficients of u_j on the secret embeddings
    found = construction.dual(columns, secret)
    norms = []
    for number in range(config.draws):
        drawn = with_secret(config, seed, number)
        norms.append(construction.dual(*drawn).norm ** 2 if construction.independent(*drawn) else math.inf)
    k, d = config.size, config.width
    predicted = 2 * k * d / (d - 2 * k - 1) if d > 2 * k + 1 else math.inf
    verdict = Verdict.worst(
        {
            "biorthogonal": identical({"<u, e>": (u @ M_M, np.eye(len(M_M)))}, 1e-10),
            "norm": identical({"||V||^2 = 1'(MM')^-1 1": (found.norm**2, float(np.sum(u)))}, 1e-10),
            "||V|| / sqrt k, median": Verdict.at_most(
                math.sqrt(float(np.median(norms)) / k),
                3.0,
                details=({"mean ||V||^2 over 2kd/(d-2k-1)": float(np.mean(norms)) / predicted},),
            ),
        }
    )
    return under(six_k(config), verdict)


@LEDGER.theory(
    "lem2-printed",
    kind="identity",
    says="as printed: u_{S[i],b} uses the one-hot vector o_{2(i-1)+b} of R^{2k}",
    cases=Secrets(),
)
def the_index_is_off_by_one(config: Secrets, seed: int) -> Verdict:
    printed = [2 * (i - 1) + b for i in range(1, config.size + 1) for b in (0, 1)]
    outside_range = [index for index in printed if not 1 <= index <= 2 * config.size]
    row = {"i": 1, "b": 0, "printed index": printed[0], "p(i, b) = 2(i-1)+b+1": printed[0] + 1}
    return Verdict.at_most(
        len(outside_range), 0, otherwise="refuted", note="p(x, y) = 2(x-1) + y + 1 is meant", details=(row,)
    )


@LEDGER.theory(
    "lem3",
    kind="identity",
    says="v_j = u_{j,0} + u_{j,1} has <v_j, e_{j,b}> = 1 and 0 on the other secret embeddings; V is their sum",
    cases=(Secrets(), Secrets(60, 20, 800)),
)
def value_vectors_exist(config: Secrets, seed: int) -> Verdict:
    columns, secret = with_secret(config, seed)
    if none := dependent(columns, secret, config.width):
        return none
    rows = construction.secret_atoms(secret)
    v = np.linalg.inv(columns[rows]).reshape(config.size, 2, -1).sum(axis=1)
    on_secret = v @ columns[rows]
    found = construction.dual(columns, secret)
    verdict = identical(
        {
            "<v_j, e>": (on_secret, np.repeat(np.eye(config.size), 2, axis=1)),
            "V": (v.sum(axis=0), found.V),
            "<V, e> on the secret": (found.V_on[rows], np.ones(len(rows))),
            "<U, e> on the secret": (found.U_on[rows], np.arange(len(rows)) % 2),
        },
        1e-10,
    )
    return under(six_k(config), verdict)


@LEDGER.theory(
    "lem4",
    kind="bound",
    says="|<V, e_{j,b}>| <= 1/2 for all j not in S with chance 1-delta, at d = 2k + 16k ln(2N/delta), N = 2(n-k)+1",
    cases=(Secrets(width=400), Secrets(1000, 5, 1200, draws=20)),
)
def other_embeddings_overlap_little(config: Secrets, seed: int) -> Verdict:
    vectors = 2 * (config.inputs - config.size) + 1
    needed = bounds.overlap_width(config.size, config.failure, vectors)
    largest, chances = overlaps(config, seed)
    row = {"largest": float(largest.max()), "width of the rule": needed, "union bound, mean": float(np.mean(chances))}
    row["2k(1+8 ln 2n)"] = 2 * config.size * (1 + 8 * math.log(2 * config.inputs))
    verdict = Verdict.at_most(float(np.mean(largest > 0.5)), config.failure, details=(row,))
    short = () if config.width >= needed else (f"width={config.width} must be at least {needed}",)
    return under(short, verdict)


def overlaps(config: Secrets, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest |<V, e>| outside the secret, and the union bound on its being above 1/2, for every draw.

    A draw whose secret embeddings are dependent has no V: its overlap is infinite.
    """
    largest, chances = [], []
    for number in range(config.draws):
        columns, secret = with_secret(config, seed, number)
        if not construction.independent(columns, secret):
            largest.append(math.inf)
            chances.append(1.0)
            continue
        found = construction.dual(columns, secret)
        largest.append(np.max(np.abs(outside(found.V_on, secret))))
        chances.append(bounds.overlap_chance(found.norm, config.width, 2 * (config.inputs - config.size) + 1))
    return np.array(largest), np.array(chances)


@LEDGER.theory(
    "lem4-printed",
    kind="bound",
    says="as printed: ln(2k/delta) is enough in the width, whatever n (d = 2k + 16k ln(2k/delta))",
    cases=Secrets(2000, 1, 50, draws=60),
)
def the_union_is_over_all_positions(config: Secrets, seed: int) -> Verdict:
    width = bounds.overlap_width(config.size, config.failure, config.size)
    at_rule = Secrets(config.inputs, config.size, width, draws=config.draws, failure=config.failure)
    largest, _ = overlaps(at_rule, seed)
    row = {"width": width, "median of the largest": float(np.median(largest))}
    return Verdict.at_most(
        float(np.mean(largest > 0.5)),
        config.failure,
        otherwise="refuted",
        note="the union is over 2(n-k)+1 vectors; in Theorem 1's range of k both logarithms are of one order",
        details=(row,),
    )


# --- textbook bounds --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matrices(Config):
    """Random sign matrices of several shapes."""

    shapes: tuple[int, ...] = option(
        (10, 30, 100, 300), "numbers of rows; columns are 4 times as many", low=1, high=2000
    )
    draws: int = option(10, "draws of each", low=1, high=1000)


def singular_values(config: Matrices, seed: int) -> list[tuple[int, int, np.ndarray]]:
    """(rows, columns, [smallest, largest] of every draw) of matrices with entries +-1."""
    found = []
    for rows in config.shapes:
        random = np.random.default_rng([seed, rows])
        ends = []
        for _ in range(config.draws):
            gram = random_gram(rows, 4 * rows, random) * 4 * rows
            ends.append(np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[[0, -1]], 0)))
        found.append((rows, 4 * rows, np.array(ends)))
    return found


@LEDGER.theory(
    "lem28",
    kind="bound",
    says="textbook: ||A|| <= C K (sqrt m + sqrt n + t) for independent sub-Gaussian entries; C is measured for signs",
    cases=Matrices(),
)
def operator_norms(config: Matrices, seed: int) -> Verdict:
    rows = [
        {"shape": f"{m} x {n}", "||A|| / (sqrt m + sqrt n)": float(ends[:, 1].max() / (math.sqrt(m) + math.sqrt(n)))}
        for m, n, ends in singular_values(config, seed)
    ]
    largest = max(row["||A|| / (sqrt m + sqrt n)"] for row in rows)
    return Verdict.reported(largest, note="cited, not proved; lem1 is the check", details=tuple(rows))


@LEDGER.theory(
    "lem29",
    kind="bound",
    says="textbook: sqrt m - C K^2 (sqrt n + t) <= s_n <= s_1 <= sqrt m + C K^2 (sqrt n + t); C is measured for signs",
    cases=Matrices(),
)
def singular_value_ends(config: Matrices, seed: int) -> Verdict:
    rows = []
    for n, m, ends in singular_values(config, seed):  # the transposed matrix: m rows, n <= m columns
        off = np.max(np.abs(ends - math.sqrt(m))) / math.sqrt(n)
        rows.append({"shape": f"{m} x {n}", "|s - sqrt m| / sqrt n": float(off)})
    largest = max(row["|s - sqrt m| / sqrt n"] for row in rows)
    return Verdict.reported(largest, note="cited, not proved; lem1 is the check", details=tuple(rows))


# --- inner products ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Products(Config):
    """Random sign vectors, drawn again and again."""

    inputs: int = option(12, "input bits n", low=1, high=2000)
    size: int = option(3, "secret bits k", low=1, high=2000)
    width: int = option(1024, "width d", low=1, high=2**22)
    failure: float = option(0.05, "delta", above=0.0, below=1.0)
    draws: int = option(200, "draws of the embeddings", low=1, high=100_000)

    def check(self) -> None:
        require(self.size <= self.inputs, f"size={self.size} must be at most inputs={self.inputs}")
        signs = 2 * (self.inputs + self.size) * self.width * self.draws
        require(signs <= 2**34, f"draws={self.draws} need {signs} signs, which must be at most {2**34}")


@LEDGER.theory(
    "lem30",
    kind="bound",
    says="|<e, v> - lambda| <= sqrt(2 ln(2/delta)/d * sum of the other lambda^2) with chance 1-delta",
    cases=(Products(), Products(width=64, failure=0.2), Products(30, 10, 300)),
)
def inner_products_concentrate(config: Products, seed: int) -> Verdict:
    random = np.random.default_rng(seed)
    above = []
    for _ in range(config.draws):
        gram = random_gram(2 * config.size, config.width, random)
        coefficients = random.standard_normal(2 * config.size)
        off = np.abs(gram @ coefficients - coefficients)
        others = np.sum(coefficients**2) - coefficients**2
        above.append(off > [bounds.inner_product(other, config.width, config.failure) for other in others])
    return Verdict.at_most(float(np.mean(above)), config.failure)


@LEDGER.theory(
    "lem31",
    kind="bound",
    says="max |<e, e'> - 1(e = e')| <= sqrt(2 ln(8nd/delta)/d) over all pairs with chance 1-delta",
    cases=(Products(width=256, draws=50), Products(width=1024, draws=50), Products(width=4096, draws=50)),
)
def embeddings_are_nearly_orthogonal(config: Products, seed: int) -> Verdict:
    random = np.random.default_rng(seed)
    atoms = 2 * (config.inputs + config.size)
    off = [np.max(np.abs(random_gram(atoms, config.width, random) - np.eye(atoms))) for _ in range(config.draws)]
    bound = bounds.gram_deviation(config.inputs, config.width, config.failure)
    union = bounds.gram_union(config.inputs, config.size, config.width, config.failure)
    row = {"largest": float(np.max(off)), "bound": bound, "union bound over all pairs": union}
    verdict = Verdict.at_most(float(np.mean(np.array(off) > bound)), config.failure, details=(row,))
    short = f"width={config.width} must be at least about (n+k)^2/(2n), for the union over all pairs"
    return under(() if union <= config.failure else (short,), verdict)
