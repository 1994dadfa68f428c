"""Parity in one gradient step, slow and obvious: full N x N attention, loops, enumeration, no autodiff.

Nothing is shared with the package. Gradients are complex-step derivatives, f(w + ih).imag / h, exact to rounding, since
every link function here is analytic on each of its pieces. Tokens are numbered from 0.
"""

import itertools
import math

import numpy as np

STEP = 1e-30


# --- the task ---------------------------------------------------------------------------------------------------------


def queue_tree(subset, bits):
    """Children and heights of the balanced tree: take two from the front of a queue, put their node at its end."""
    queue = [(position, 0) for position in sorted(subset)]
    children, heights = [], []
    while len(queue) > 1:
        (left, left_height), (right, right_height) = queue.pop(0), queue.pop(0)
        children.append((min(left, right), max(left, right)))
        heights.append(1 + max(left_height, right_height))
        queue.append((bits + len(children) - 1, heights[-1]))
    return children, heights


def chain_tree(subset, bits):
    """One leaf at a time."""
    ordered = sorted(subset)
    children, last = [], ordered[0]
    for leaf in ordered[1:]:
        children.append((min(leaf, last), max(leaf, last)))
        last = bits + len(children) - 1
    return children, list(range(1, len(ordered)))


def tokens_of(children, x):
    """Inputs and the product at every node, for one input."""
    tokens = [float(bit) for bit in x]
    for left, right in children:
        tokens.append(tokens[left] * tokens[right])
    return tokens


def inputs(bits):
    """All inputs; the first bit changes fastest."""
    return [tuple(reversed(signs)) for signs in itertools.product((1, -1), repeat=bits)]


def sees(mask, heights, bits, node, token):
    """Whether internal node `node` may look at `token`."""
    if token < bits:
        return True
    other = token - bits
    return other < node if mask == "causal" else heights[other] < heights[node]


# --- links ------------------------------------------------------------------------------------------------------------


def link(name, slope=4.0):
    """phi as a function of one real or complex number."""
    if name == "poly4":
        return lambda t: -1 + 4 * t**2 - 2 * t**4
    if name == "cos":
        return lambda t: -np.cos(np.pi * t)
    corner, c = 1 - 2 / slope, slope**2 / (2 * (slope - 2))

    def pieces(t):
        t = t if np.real(t) >= 0 else -t
        if np.real(t) <= corner:
            return -1 + c * t**2
        if np.real(t) <= 1 - corner:
            return -1 + c * corner**2 + slope * (t - corner)
        return 1 - c * (1 - t) ** 2

    return pieces


# --- the model --------------------------------------------------------------------------------------------------------


def attention(W, visible):
    """The full softmax matrix, columns normalised over the rows that they see; W is N x N."""
    scores = np.zeros(W.shape, dtype=W.dtype)
    for column in range(W.shape[1]):
        rows = [row for row in range(W.shape[0]) if visible[row][column]]
        if rows:
            weights = [np.exp(W[row, column] - np.max(np.real(W[rows, column]))) for row in rows]
            for row, weight in zip(rows, weights, strict=True):
                scores[row, column] = weight / sum(weights)
    return scores


def visibility(mask, heights, bits):
    """N x N: which token looks at which; inputs look at nothing."""
    size = bits + len(heights)
    return [
        [column >= bits and sees(mask, heights, bits, column - bits, row) for column in range(size)]
        for row in range(size)
    ]


def one_pass(W, tokens, visible, phi, bits):
    """TF once: inputs are copied, every other token becomes phi of its attention-weighted mean."""
    scores = attention(W, visible)
    made = list(tokens[:bits])
    for column in range(bits, len(tokens)):
        made.append(phi(sum(scores[row, column] * tokens[row] for row in range(len(tokens)) if visible[row][column])))
    return made


def generate(W, x, visible, phi, gates=None, heights=None):
    """TF applied to its own output until it cannot change any more; a closed level outputs 0."""
    bits, size = len(x), W.shape[0]
    tokens = [*map(float, x), *[0.0] * (size - bits)]
    for _ in range(size - bits):
        tokens = one_pass(W, tokens, visible, phi, bits)
        if gates is not None:
            for node in range(size - bits):
                if not gates[heights[node] - 1]:
                    tokens[bits + node] = 0.0
    return tokens


def forced_loss(W, data, children, visible, phi):
    """(1/2n) sum over samples and nodes of (phi(z) - x)^2, z from true tokens."""
    total = 0.0
    for x in data:
        true = tokens_of(children, x)
        made = one_pass(W, true, visible, phi, len(x))
        total = total + sum((made[m] - true[m]) ** 2 for m in range(len(x), len(true)))
    return total / (2 * len(data))


def free_loss(W, data, children, visible, phi, gates=None, heights=None):
    """The same along the model's own chain."""
    total = 0.0
    for x in data:
        true = tokens_of(children, x)
        made = generate(W, x, visible, phi, gates, heights)
        total = total + sum((made[m] - true[m]) ** 2 for m in range(len(x), len(true)))
    return total / (2 * len(data))


def gradient(loss, W, entries):
    """d loss / d W at the listed entries (row, column), one complex step each; zero elsewhere."""
    found = np.zeros(W.shape)
    for row, column in entries:
        moved = W.astype(complex)
        moved[row, column] += 1j * STEP
        found[row, column] = np.imag(loss(moved)) / STEP
    return found


# --- the class of parities --------------------------------------------------------------------------------------------


def every_parity(bits, size):
    return list(itertools.combinations(range(bits), size))


def parity_values(subset, data):
    return np.array([math.prod(x[j] for j in subset) for x in data], dtype=float)


def gradients_for_every_target(outputs, jacobian, data, size):
    """The gradient of (1/2n) sum (f - p)^2 for every p, one after another."""
    return np.array(
        [
            jacobian.T @ (outputs - parity_values(subset, data)) / len(data)
            for subset in every_parity(len(data[0]), size)
        ]
    )


def gram(data, size):
    rows = np.array([parity_values(subset, data) for subset in every_parity(len(data[0]), size)])
    return rows @ rows.T / len(data)


def mean_parity(x, size):
    subsets = every_parity(len(x), size)
    return sum(math.prod(x[j] for j in subset) for subset in subsets) / len(subsets)


def is_trivial(children, bits, tokens):
    """Whether the product of some tokens is 1 on every input."""
    return all(math.prod(tokens_of(children, x)[j] for j in tokens) == 1 for x in inputs(bits))
