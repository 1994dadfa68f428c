"""Gradient descent that sees the target parity only through an oracle (Theorems 1 and 2): exact, all parities at once.

The model is a small tanh net; its gradients for every target come from one Walsh-Hadamard transform, so that the set Q
of parities which the oracle never reveals is known exactly.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Integer

from stairwise.papers.parity_onestep.theory import spectrum
from stairwise.tasks.parity import krawtchouk

Theta = Float[np.ndarray, " parameters"]
Oracle = Callable[[Theta, Theta], Theta]  # (true gradient, mean gradient over P) -> answer


class TanhNet(NamedTuple):
    """f(x) = a . tanh(B x + b) + c, with its parameters in one vector."""

    bits: int
    width: int

    @property
    def parameters(self) -> int:
        return self.width * (self.bits + 2) + 1

    def start(self, seed: int) -> Theta:
        """Normal weights over the square root of the fan-in, zero biases."""
        random = np.random.default_rng(seed)
        B = random.standard_normal((self.width, self.bits)) / np.sqrt(self.bits)
        a = random.standard_normal(self.width) / np.sqrt(self.width)
        return np.concatenate([B.reshape(-1), np.zeros(self.width), a, [0.0]])

    def outputs(self, theta: Theta, x: Float[np.ndarray, "inputs bits"]) -> Float[np.ndarray, " inputs"]:
        return self.outputs_and_jacobian(theta, x)[0]

    def outputs_and_jacobian(
        self, theta: Theta, x: Float[np.ndarray, "inputs bits"]
    ) -> tuple[Float[np.ndarray, " inputs"], Float[np.ndarray, "inputs parameters"]]:
        B, b, a, c = np.split(theta, np.cumsum([self.width * self.bits, self.width, self.width]))
        hidden = np.tanh(x @ B.reshape(self.width, self.bits).T + b)
        inward = a * (1 - hidden**2)
        by_weight = (inward[:, :, None] * x[:, None, :]).reshape(len(x), -1)
        return hidden @ a + c, np.concatenate([by_weight, inward, hidden, np.ones((len(x), 1))], axis=1)


class Class(NamedTuple):
    """All parities of k out of d bits under a density over the cube.

    x        the cube
    density  rho(x): uniform, or the histogram of a sample
    codes    the subsets as bit masks
    mean     E_p p(x), by the Krawtchouk closed form
    """

    x: Float[np.ndarray, "inputs bits"]
    density: Float[np.ndarray, " inputs"]
    codes: Integer[np.ndarray, " parities"]
    mean: Float[np.ndarray, " inputs"]


def parity_class(x: Float[np.ndarray, "inputs bits"], size: int, density: Float[np.ndarray, " inputs"]) -> Class:
    bits = x.shape[1]
    codes = spectrum.subset_codes(bits, size)
    by_minus = np.array([krawtchouk(bits, size, m) / len(codes) for m in range(bits + 1)])
    minus = np.sum(x < 0, axis=1)
    return Class(x, density, codes, by_minus[minus])


def values(cls: Class, codes: Integer[np.ndarray, " some"]) -> Float[np.ndarray, "some inputs"]:
    """p(x) of some parities on the whole cube."""
    minus = (cls.x < 0).astype(np.int64) @ (1 << np.arange(cls.x.shape[1], dtype=np.int64))
    return 1.0 - 2.0 * (np.bitwise_count(codes[:, None] & minus) % 2)


class Hidden(NamedTuple):
    """The run that every parity of Q sees.

    thetas      theta_0, ..., theta_T under mean gradients
    deviations  ||grad L_p - E_p' grad L_p'|| at each query, for every p
    variances   Var(theta_t; P) at each query
    bounds      E_rho ||grad f||^2 and sup_x ||grad f||^2 at each query
    """

    thetas: Float[np.ndarray, "queries_and_one parameters"]
    deviations: Float[np.ndarray, "queries parities"]
    variances: Float[np.ndarray, " queries"]
    bounds: Float[np.ndarray, "queries 2"]

    def hidden_from(self, epsilon: float) -> Bool[np.ndarray, " parities"]:
        """Q: the parities whose gradient is never farther than epsilon from the mean."""
        return np.all(self.deviations <= epsilon, axis=0)


def hidden_run(cls: Class, net: TanhNet, theta: Theta, rate: float, queries: int) -> Hidden:
    """Descent on the mean gradient, with everything that Theorem 2 speaks of recorded on the way.

    The mean over P of the gradients is the gradient for the mean parity as target, whatever |P| is.
    """
    thetas, deviations, variances, bounds = [theta], [], [], []
    for _ in range(queries):
        f, J = net.outputs_and_jacobian(thetas[-1], cls.x)
        C = spectrum.coefficients(J, cls.density, cls.codes)
        deviations.append(spectrum.deviations(C))
        variances.append(spectrum.variance(C))
        seen = cls.density > 0
        bounds.append((spectrum.squared_norm(J, cls.density), np.max(np.sum(J[seen] ** 2, axis=1))))
        thetas.append(thetas[-1] - rate * gradient(cls, f, J, cls.mean))
    return Hidden(np.array(thetas), np.array(deviations), np.array(variances), np.array(bounds))


def gradient(cls: Class, f: np.ndarray, J: np.ndarray, target: np.ndarray) -> Theta:
    """The gradient of (1/2) E_rho (f - target)^2; not by BLAS, whose order of summation may change between calls."""
    return np.einsum("i,ij->j", cls.density * (f - target), J)


def run_with(
    cls: Class, net: TanhNet, theta: Theta, rate: float, queries: int, target: Float[np.ndarray, " inputs"], ask: Oracle
) -> Float[np.ndarray, "queries_and_one parameters"]:
    """Descent of one parity against an oracle that is given its true gradient and the mean one."""
    thetas = [theta]
    for _ in range(queries):
        f, J = net.outputs_and_jacobian(thetas[-1], cls.x)
        answer = ask(gradient(cls, f, J, target), gradient(cls, f, J, cls.mean))
        thetas.append(thetas[-1] - rate * answer)
    return np.array(thetas)


def sup_errors(cls: Class, f: Float[np.ndarray, " inputs"], chunk: int = 256) -> Float[np.ndarray, " parities"]:
    """max_x |p(x) - f(x)| for every p."""
    parts = [cls.codes[at : at + chunk] for at in range(0, len(cls.codes), chunk)]
    return np.concatenate([np.max(np.abs(values(cls, codes) - f), axis=1) for codes in parts])


def correlations(cls: Class, f: Float[np.ndarray, " inputs"]) -> Float[np.ndarray, " parities"]:
    """E_x[p(x) f(x)] over the uniform cube, for every p."""
    return spectrum.walsh_hadamard(f)[cls.codes] / len(f)
