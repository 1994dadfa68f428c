"""Near-orthogonal encodings: restricted isometry, subset encodings, and how likely random signs are to be admissible.

Encodings are kept one per row (T x d_e), so the Gram matrix is G = E E^T here and E^T E in the paper.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from stairwise.config import ConfigError, require
from stairwise.papers.selection.acceptance import pair_fails
from stairwise.train.draws import draws_of

LARGEST_ENUMERATION = 2_000_000
MOST_ROUNDS = 1000
CHUNK = 20_000

Encodings = Float[np.ndarray, "length width"]
Law = Float[np.ndarray, "encodings length width"]
Subsets = Int[np.ndarray, "subsets sparsity"]


# --- restricted isometry and orthogonality (Definition A.1) -----------------------------------------------------------


class Rip(NamedTuple):
    """The two constants of Definition A.1; the property holds with delta, the larger of them."""

    isometry: float
    orthogonality: float

    @property
    def delta(self) -> float:
        return max(self.isometry, self.orthogonality)


def coherence(encodings: Encodings) -> float:
    """mu = max_{i != j} |<e_i, e_j>|, a lower bound on delta."""
    return float(np.max(_off_diagonal(encodings @ encodings.T), initial=0.0))


def rip_constants(encodings: Encodings, sparsity: int) -> Rip:
    """The smallest constants of Definition A.1, by enumeration of the supports.

    isometry = max_{|A|=q} ||G_AA - I||, orthogonality = max ||G_AB|| over disjoint |A| <= q, |B| <= 2q. Norms grow with
    the sets, so only sets that cannot grow are needed; positions orthogonal to all others matter to none.
    """
    gram = encodings @ encodings.T
    coupled = _off_diagonal(gram).max(axis=1, initial=0.0) > 1e-15
    unit = float(np.max(np.abs(np.diag(gram) - 1), initial=0.0))
    gram = gram[np.ix_(coupled, coupled)]
    pairs = rip_supports(len(gram), sparsity)
    require(
        pairs <= LARGEST_ENUMERATION,
        f"task.sparsity={sparsity} has {pairs} pairs of supports in {len(gram)} positions,"
        f" which must be at most {LARGEST_ENUMERATION} to be enumerated",
    )
    isometry = _isometry(gram, min(sparsity, len(gram)))
    return Rip(max(isometry, unit), _orthogonality(gram, sparsity))


def rip_supports(length: int, sparsity: int) -> int:
    """How many pairs of supports `rip_constants` looks at when all positions are coupled."""
    return sum(math.comb(length, a) * math.comb(length - a, b) for a, b in _maximal_sizes(length, sparsity))


def _maximal_sizes(length: int, sparsity: int) -> list[tuple[int, int]]:
    """Sizes (|A|, |B|) of disjoint supports that cannot grow: one pair when T >= 3q, a trade-off below."""
    sizes = [(a, min(2 * sparsity, length - a)) for a in range(1, min(sparsity, length - 1) + 1)]
    return [(a, b) for a, b in sizes if (a + 1, b) not in sizes]


def _isometry(gram: Float[np.ndarray, "n n"], size: int) -> float:
    largest = 0.0
    for sets in _batches(itertools.combinations(range(len(gram)), size)):
        blocks = gram[sets[:, :, None], sets[:, None, :]] - np.eye(size)
        largest = max(largest, float(np.abs(np.linalg.eigvalsh(blocks)).max(initial=0.0)))
    return largest


def _orthogonality(gram: Float[np.ndarray, "n n"], sparsity: int) -> float:
    largest = 0.0
    for a, b in _maximal_sizes(len(gram), sparsity):
        for chosen in _batches(_disjoint(len(gram), a, b)):
            A, B = chosen[:, :a], chosen[:, a:]
            blocks = gram[A[:, :, None], B[:, None, :]]
            squares = blocks @ blocks.transpose(0, 2, 1)
            largest = max(largest, float(np.linalg.eigvalsh(squares).max(initial=0.0)))
    return math.sqrt(largest)


def _disjoint(n: int, a: int, b: int):
    for A in itertools.combinations(range(n), a):
        rest = [i for i in range(n) if i not in A]
        for B in itertools.combinations(rest, b):
            yield A + B


def _batches(rows):
    while batch := list(itertools.islice(rows, CHUNK)):
        yield np.array(batch, dtype=np.int64)


def _off_diagonal(gram: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """Absolute values, with zeros in place of the diagonal."""
    return np.abs(gram - np.diag(np.diag(gram)))


def rip_certificate(mu: float, sparsity: int) -> float:
    """An upper bound on delta from the coherence alone: isometry <= (q-1) mu, orthogonality <= sqrt(2) q mu."""
    return math.sqrt(2) * sparsity * mu


def rip_scale(length: int, sparsity: int, width: int) -> float:
    """sqrt(q log T/d_e): the order of delta that random signs have with positive probability (Lemma A.2)."""
    return math.sqrt(sparsity * math.log(length) / width)


def rip_floor(encodings: Encodings, sparsity: int) -> float:
    """A lower bound on delta at any size: |A| = 1 against the 2q positions that it is closest to."""
    gram = np.sort(_off_diagonal(encodings @ encodings.T) ** 2, axis=1)
    return float(np.sqrt(gram[:, -2 * sparsity :].sum(axis=1).max()))


# --- subset encodings (Lemma A.3) -------------------------------------------------------------------------------------


def subset_encodings(law: Law, subsets: Subsets) -> Float[np.ndarray, "encodings subsets width"]:
    """e_y = E_y (E_y^T E_y)^{-1} 1 of every subset under every set of encodings."""
    rows = law[:, subsets]
    return (rows * _coefficients(rows @ rows.swapaxes(-1, -2), law.shape[2])).sum(axis=2)


def _coefficients(gram: Float[np.ndarray, "encodings subsets q q"], width: int) -> np.ndarray:
    """(E_y^T E_y)^{-1} 1, as columns."""
    try:
        return np.linalg.solve(gram, np.ones((*gram.shape[:3], 1)))
    except np.linalg.LinAlgError:
        raise ConfigError(
            f"encoding_width={width} drew dependent encodings for task.sparsity={gram.shape[-1]};"
            " it must be larger, or the threshold smaller"
        ) from None


def overlaps(law: Law, subsets: Subsets) -> Float[np.ndarray, "encodings subsets others"]:
    """<e_i, e_y> at the T-q positions that y does not name (it is 1 at the others), from products of encodings."""
    gram = law @ law.swapaxes(-1, -2)
    named = gram[:, subsets[:, :, None], subsets[:, None]]
    products = (gram[:, subsets] * _coefficients(named, law.shape[2])).sum(axis=2)
    outside = np.stack([np.setdiff1d(np.arange(law.shape[1]), subset) for subset in subsets])
    return np.take_along_axis(products, outside[None], axis=2)


def overlap_bound(delta: float, sparsity: int) -> float:
    """|<e_i, e_y>| <= sqrt(q) delta/(1-delta) off y: ||G_iy|| <= delta, ||G_yy^{-1}|| <= 1/(1-delta), ||1||^2 = q."""
    return math.sqrt(sparsity) * delta / (1 - delta) if delta < 1 else math.inf


def overlap_bound_printed(delta: float) -> float:
    """delta/(1-2 delta): true of the iterated certificate of Candes and Tao, false of e_y."""
    return delta / (1 - 2 * delta) if delta < 0.5 else math.inf


def norm_bound(delta: float, sparsity: int) -> float:
    """||e_y|| <= sqrt(q)/(1-2 delta)."""
    return math.sqrt(sparsity) / (1 - 2 * delta)


class Counterexample(NamedTuple):
    """Encodings that break the printed Lemma A.3, the subset y, and the closed forms of their constants."""

    encodings: Encodings
    subset: Int[np.ndarray, " sparsity"]
    delta: float
    overlap: float


def counterexample(length: int, sparsity: int, width: int, below: float = 0.1) -> Counterexample:
    """Hadamard columns plus one sign vector v with the same inner product c > 0 with each of the q named ones.

    Points of {+-1}^bits are (x_1..x_n, r, w): the named columns are the coordinates x_1..x_q, the others are products
    of an even number of x_i and any of w. v is the majority of x_1..x_n on a share of the blocks w, and r elsewhere. So
    it is orthogonal to the others, delta = sqrt(q) c, and <v, e_y> = q c is sqrt(q) times as much.
    """
    voters = sparsity + 1 - sparsity % 2  # an even q needs one more voter to break ties
    bits = width.bit_length() - 1
    require(
        width == 2**bits and bits >= voters + 1,
        f"encoding_width={width} must be a power of two of at least {2 ** (voters + 1)} for task.sparsity={sparsity}",
    )
    blocks = 2 ** (bits - voters - 1)
    available = 2 ** (voters - 1) * blocks - 1
    require(
        sparsity + 1 <= length <= sparsity + 1 + available,
        f"task.length={length} must lie in {sparsity + 1}..{sparsity + 1 + available} for encoding_width={width}",
    )
    correlation = math.comb(voters - 1, (voters - 1) // 2) / 2 ** (voters - 1)
    limit = below / (math.sqrt(sparsity) * correlation) * blocks
    used = min(blocks, max(1, math.ceil(limit) - 1))  # the largest share with delta strictly below the limit
    c = correlation * used / blocks

    points = 1 - 2 * ((np.arange(width)[:, None] >> np.arange(bits)) & 1)
    x, r = points[:, :voters], points[:, voters]
    block = np.arange(width) >> (voters + 1)
    v = np.where(block < used, np.sign(x.sum(axis=1)), r)
    even = (mask for mask in range(1, 2**bits) if _even(mask, voters))
    others = [_character(points, mask) for mask in itertools.islice(even, length - sparsity - 1)]
    rows = [*(x[:, i] for i in range(sparsity)), v, *others]
    encodings = np.array(rows, dtype=np.float64) / math.sqrt(width)
    return Counterexample(encodings, np.arange(sparsity), math.sqrt(sparsity) * c, sparsity * c)


def _even(mask: int, voters: int) -> bool:
    """An even number of voters, and not r."""
    return (mask % 2**voters).bit_count() % 2 == 0 and not mask >> voters & 1


def _character(points: Int[np.ndarray, "points bits"], mask: int) -> Int[np.ndarray, " points"]:
    return np.prod(points[:, [bit for bit in range(points.shape[1]) if mask >> bit & 1]], axis=1)


# --- laws of encodings ------------------------------------------------------------------------------------------------


def every(length: int, width: int, threshold: float, sparsity: int) -> Law:
    """All sign matrices with coherence at most `threshold` whose subset encodings exist: the exact conditional law."""
    codes = np.arange(2 ** (length * width), dtype=np.int64)
    signs = 1 - 2 * ((codes[:, None] >> np.arange(length * width)) & 1).astype(np.int8)
    signs = signs.reshape(-1, length, width)
    gram = np.einsum("ntw,nsw->nts", signs, signs, dtype=np.int32)
    off = np.abs(gram * (1 - np.eye(length, dtype=np.int32))).max(axis=(1, 2))
    kept = signs[off <= width * (threshold + 1e-6)].astype(np.float64) / math.sqrt(width)
    return kept[_invertible(kept, sparsity)]


def _invertible(law: Law, sparsity: int) -> np.ndarray:
    fine = np.ones(len(law), dtype=bool)
    for subset in itertools.combinations(range(law.shape[1]), sparsity):
        rows = law[:, subset]
        fine &= np.linalg.eigvalsh(rows @ rows.swapaxes(-1, -2))[:, 0] > 1e-9
    return fine


def draw(seed: int, count: int, length: int, width: int, threshold: float = 1.0, role: str = "encodings") -> Law:
    """`count` sets of random signs; rows too close to an earlier one are drawn again until none is.

    The NumPy twin of `stairwise.nn.encodings.near_orthogonal`, in float64; the coordinates of a set can be flipped and
    swapped without changing the law.
    """
    rng = draws_of(seed, role)
    return np.stack([_draw_one(rng, length, width, threshold) for _ in range(count)]) / math.sqrt(width)


def restricted(law: Law, sparsity: int, delta: float) -> Float[np.ndarray, "kept length width"]:
    """Those sets of a law that have (q, delta)-RIP, which is what Definition 2.5 conditions on.

    It depends on the inner products alone, and is decided once for all sets that share them.
    """
    products = np.round(law @ law.swapaxes(1, 2), 9).reshape(len(law), -1)
    _, first, which = np.unique(products, axis=0, return_index=True, return_inverse=True)
    fine = np.array([rip_constants(law[index], sparsity).delta <= delta for index in first])
    return law[fine[which.reshape(-1)]]


def draw_restricted(seed: int, count: int, length: int, width: int, sparsity: int, delta: float, role: str) -> Law:
    """`count` sets of random signs that have (q, delta)-RIP: others are drawn again as a whole."""
    rng, kept = draws_of(seed, role), []
    for _ in range(MOST_ROUNDS):
        kept.extend(restricted(_signs(rng, length, width)[None] / math.sqrt(width), sparsity, delta))
        if len(kept) == count:
            return np.stack(kept).astype(np.float64)
    raise ConfigError(
        f"isometry={delta:g} leaves too few of the random encodings to be drawn"
        f" (task.length={length}, encoding_width={width}); it must be larger"
    )


def _draw_one(rng: np.random.Generator, length: int, width: int, threshold: float) -> Float[np.ndarray, "length width"]:
    signs = _signs(rng, length, width)
    limit = min(width * (threshold + 1e-6), width - 0.5)  # never twice the same encoding up to its sign
    products = signs @ signs.T  # whole numbers, so that it does not matter in which order they are summed
    for _ in range(MOST_ROUNDS):
        bad = (np.abs(np.tril(products, -1)) > limit).any(axis=1)
        if not bad.any():
            return signs.astype(np.float64)
        signs[bad] = _signs(rng, int(bad.sum()), width)
        products[bad] = signs[bad] @ signs.T
        products[:, bad] = products[bad].T
    if limit > width - 2:  # two sign vectors differ by 2 at least: only repetitions were rejected
        raise ConfigError(
            f"encoding_width={width} has too few sign vectors for task.length={length} different ones to be drawn;"
            " it must be larger"
        )
    raise ConfigError(
        f"threshold={threshold:g} leaves too few of the random encodings to be drawn"
        f" (task.length={length}, encoding_width={width}); it must be larger"
    )


def _signs(rng: np.random.Generator, length: int, width: int) -> Float[np.ndarray, "length width"]:
    return 1 - 2 * rng.integers(0, 2, (length, width), dtype=np.int8).astype(np.float32)


def draw_subsets(seed: int, count: int, length: int, sparsity: int, role: str = "subsets") -> Subsets:
    """`count` uniform subsets, each sorted."""
    rng = draws_of(seed, role)
    return np.sort([rng.choice(length, sparsity, replace=False, shuffle=False) for _ in range(count)], axis=1)


# --- rejection sampling -----------------------------------------------------------------------------------------------


class Acceptance(NamedTuple):
    """How often random signs pass the threshold: a pair fails, a whole matrix or its last row passes, draws per row."""

    pair_fails: float
    matrix: float
    last_row: float
    draws_per_row: float


def acceptance(length: int, width: int, threshold: float) -> Acceptance:
    """p = P(|<e_i, e_j>| > threshold) is an exact binomial tail; the others treat pairs as independent.

    >>> round(acceptance(200, 170, 0.35).matrix, 3)
    0.908
    """
    p = pair_fails(width, threshold)
    if p == 1:  # an odd width, whose sums of signs are never 0, below its smallest: no second row is ever found
        alone = float(length == 1)
        return Acceptance(p, alone, alone, 1.0 if length == 1 else math.inf)
    log_pass = math.log1p(-p)
    rows = np.arange(length)
    return Acceptance(
        p,
        math.exp(log_pass * length * (length - 1) / 2),
        math.exp(log_pass * (length - 1)),
        float(np.mean(np.exp(-log_pass * rows))),
    )
