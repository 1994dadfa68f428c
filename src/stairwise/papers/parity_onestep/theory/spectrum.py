"""The class of all parities of k out of d bits, exactly: gradients, their variance and Gram matrix by one transform.

A density rho over the 2^d inputs (indexed as `stairwise.tasks.parity.cube` lists them) is 2^-d for the population and
the histogram of a sample divided by n for a data set; then a Walsh-Hadamard transform gives
E_rho[v(x) prod_{j in S} x_j] for all subsets S at once, where S is written as a bit mask.
"""

import numpy as np
from jaxtyping import Float, Integer
from scipy.linalg import hadamard
from scipy.sparse.linalg import LinearOperator, eigsh

DENSE = 64  # class sizes up to which eigenvalues are taken of the matrix itself


def walsh_hadamard(values: Float[np.ndarray, "inputs *rest"]) -> Float[np.ndarray, "inputs *rest"]:
    """sum_x v(x) prod_{j in S} x_j for every S.

    The transform of d bits is the product of those of the low and of the high half of them: two matrix products.

    >>> walsh_hadamard(np.array([1.0, 0.0, 0.0, 0.0]))
    array([1., 1., 1., 1.])
    """
    bits = len(values).bit_length() - 1
    low, high = (hadamard(2**half).astype(np.float64) for half in (bits // 2, bits - bits // 2))
    grid = values.reshape(len(high), len(low), -1)
    return np.tensordot(high, low @ grid, axes=1).reshape(values.shape)


def subset_codes(bits: int, size: int) -> Integer[np.ndarray, " parities"]:
    """The bit masks with `size` ones, ascending: the class P.

    >>> subset_codes(4, 3)
    array([ 7, 11, 13, 14])
    """
    codes = np.arange(2**bits, dtype=np.int64)
    return codes[np.bitwise_count(codes) == size]


def codes_of(x: Integer[np.ndarray, "samples bits"]) -> Integer[np.ndarray, " samples"]:
    """The place of each +-1 row in the cube."""
    return (x < 0).astype(np.int64) @ (1 << np.arange(x.shape[1], dtype=np.int64))


def uniform_density(bits: int) -> Float[np.ndarray, " inputs"]:
    return np.full(2**bits, 0.5**bits)


def histogram(x: Integer[np.ndarray, "samples bits"]) -> Float[np.ndarray, " inputs"]:
    """The empirical density of a sample."""
    return np.bincount(codes_of(x), minlength=2 ** x.shape[1]) / len(x)


# --- gradients of (1/2) E_rho (p - f)^2 over all targets p ------------------------------------------------------------


def coefficients(
    jacobian: Float[np.ndarray, "inputs parameters"],
    density: Float[np.ndarray, " inputs"],
    codes: Integer[np.ndarray, " parities"],
) -> Float[np.ndarray, "parities parameters"]:
    """E_rho[grad f p] for every p; the gradient for target p is E_rho[grad f f] minus this."""
    return walsh_hadamard(density[:, None] * jacobian)[codes]


def variance(coefficients: Float[np.ndarray, "parities parameters"]) -> float:
    """Var(theta; P) = E_p ||grad L_p - E_p' grad L_p'||^2, for the loss with the factor 1/2."""
    return float(np.sum((coefficients - coefficients.mean(axis=0)) ** 2) / len(coefficients))


def deviations(coefficients: Float[np.ndarray, "parities parameters"]) -> Float[np.ndarray, " parities"]:
    """||grad L_p - E_p' grad L_p'|| for every p."""
    return np.linalg.norm(coefficients - coefficients.mean(axis=0), axis=1)


def squared_norm(jacobian: Float[np.ndarray, "inputs parameters"], density: Float[np.ndarray, " inputs"]) -> float:
    """E_rho ||grad f||^2."""
    return float(density @ np.sum(jacobian**2, axis=1))


# --- the Gram matrix G_P = (<p, p'>_n) --------------------------------------------------------------------------------


def largest_overlap(density: Float[np.ndarray, " inputs"], codes: Integer[np.ndarray, " parities"]) -> float:
    """max |<p, p'>_n| over p != p': the spectrum at the symmetric differences, which are the even sizes up to 2k."""
    sizes = np.bitwise_count(np.arange(len(density), dtype=np.int64))
    bits, size = len(density).bit_length() - 1, int(np.bitwise_count(codes[0]))
    differences = (sizes > 0) & (sizes % 2 == 0) & (sizes <= 2 * min(size, bits - size))
    return float(np.abs(walsh_hadamard(density)[differences]).max(initial=0.0))


def gram(density: Float[np.ndarray, " inputs"], codes: Integer[np.ndarray, " parities"]) -> Float[np.ndarray, "p p"]:
    """G_P itself, for small classes."""
    return walsh_hadamard(density)[codes[:, None] ^ codes]


def largest_eigenvalue(density: Float[np.ndarray, " inputs"], codes: Integer[np.ndarray, " parities"]) -> float:
    """lambda_max(G_P), without the matrix: G c is a transform, a product with the density, and a transform back."""
    if len(codes) <= DENSE:
        return float(np.linalg.eigvalsh(gram(density, codes))[-1])

    def apply(weights: np.ndarray) -> np.ndarray:
        spread = np.zeros(len(density))
        spread[codes] = weights.reshape(-1)
        return walsh_hadamard(density * walsh_hadamard(spread))[codes]

    operator = LinearOperator((len(codes), len(codes)), matvec=apply, dtype=np.float64)  # type: ignore[call-arg]
    # fixed, so that the value is a function of the sample alone; random, since it must not be orthogonal to the largest
    # eigenvector (all ones are to that of any sample of odd inputs where k = d/2)
    start = np.random.default_rng(0).standard_normal(len(codes))
    return float(eigsh(operator, k=1, which="LA", v0=start, return_eigenvectors=False)[0])


def marchenko_pastur_edge(samples: int, parities: int) -> float:
    """lambda_max(G_P)/|P| if parities were independent signs: (n^-1/2 + |P|^-1/2)^2."""
    return (samples**-0.5 + parities**-0.5) ** 2
