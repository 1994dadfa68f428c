"""The pre-norm transformer in plain NumPy: loops over layers, heads and queries, no cache, no mask arrays.

It reads its parameters off the module under test and shares nothing else with it: attention sums over an explicit list
of visible keys, and rotary positions are complex numbers turning in the plane.
"""

import numpy as np

from tests.reference import mixers

TABLES = ("LearnedPositions", "RandomisedPositions")


def forward(model, inputs, *, positions=None, present=None):
    """Logits [length, outputs] and attention weights [layers, heads, length, length]."""
    inputs = np.asarray(inputs)
    length = len(inputs)
    positions = np.arange(length) if positions is None else np.asarray(positions)
    present = np.ones(length, dtype=bool) if present is None else np.asarray(present)
    stream = _embed(model, inputs, positions)
    visible = [[k for k in range(length) if present[k] and (k <= q or not model.causal)] for q in range(length)]
    rotary_base = model.positions.base if type(model.positions).__name__ == "RotaryPositions" else None
    every_weight = []
    bias = score_bias(model, positions)
    for block in model.blocks * model.loops:
        stream, weights = _block(block, stream, visible, positions, rotary_base, bias)
        every_weight.append(weights)
    head = np.asarray(model.table if model.head is None else model.head)
    attended = None if every_weight[0] is None else np.stack(every_weight)
    return layer_norm(stream, model.norm) @ head.T, attended


def greedy(model, prompt, prompt_length):
    """Roll-out that recomputes the whole sequence for every new token."""
    tokens = list(np.asarray(prompt)[:prompt_length])
    while len(tokens) < len(prompt):
        logits, _ = forward(model, np.array(tokens))
        tokens.append(int(np.argmax(logits[-1])))
    return np.array(tokens)


def rotate(vectors, positions, base):
    """Rotary positions of vectors [length, head_width]: coordinates i and i + d/2 are one complex number."""
    half = vectors.shape[1] // 2
    plane = vectors[:, :half] + 1j * vectors[:, half:]
    speeds = base ** (-np.arange(half) / half)
    turned = plane * np.exp(1j * np.outer(positions, speeds))
    return np.concatenate([turned.real, turned.imag], axis=1)


def score_bias(model, positions):
    """What ALiBi and T5 add to scores, by distance: one function a head."""
    kind, heads = type(model.positions).__name__, getattr(model.blocks[0].attention, "heads", 0)
    if kind == "Alibi":
        return [
            lambda s, t, h=h: -(2 ** (-8 * (h + 1) / heads)) * abs(positions[s] - positions[t]) for h in range(heads)
        ]
    if kind == "T5Positions":
        table = np.asarray(model.positions.table)
        return [lambda s, t, h=h: table[bucket(positions[s] - positions[t], model.causal), h] for h in range(heads)]
    return [lambda s, t: 0.0] * heads


def bucket(distance, causal):
    """T5's, by cases: 32 buckets, half of them exact, the others logarithmic up to 128; both ways 16 for each."""
    if not causal:
        return _one_sided(-distance, 16) + 16 if distance < 0 else _one_sided(distance, 16)
    return _one_sided(max(distance, 0), 32)


def _one_sided(distance, count):
    exact = count // 2
    if distance < exact:
        return distance
    return min(count - 1, exact + int(np.log(distance / exact) / np.log(128 / exact) * (count - exact)))


def attention(queries, keys, values, visible, bias=lambda q, k: 0.0):
    """One head: for every query the softmax over the keys visible to it; nothing visible gives zeros."""
    weights = np.zeros((len(queries), len(keys)))
    for q, seen in enumerate(visible):
        if seen:
            scores = np.array([queries[q] @ keys[k] / np.sqrt(queries.shape[1]) + bias(q, k) for k in seen])
            powers = np.exp(scores - scores.max())
            weights[q, seen] = powers / powers.sum()
    return weights @ values, weights


def layer_norm(stream, norm):
    """(x - mean) / sqrt(variance + 1e-5) * gain + bias for every row; a model without norms returns x itself.

    RMSNorm: x / sqrt(mean square + 1e-5) * gain.
    """
    if norm is None:
        return stream
    if type(norm).__name__ == "RMSNorm":
        return stream / np.sqrt((stream**2).mean(axis=1, keepdims=True) + 1e-5) * np.asarray(norm.weight)
    mean = stream.mean(axis=1, keepdims=True)
    variance = ((stream - mean) ** 2).mean(axis=1, keepdims=True)
    return (stream - mean) / np.sqrt(variance + 1e-5) * np.asarray(norm.weight) + np.asarray(norm.bias)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _embed(model, inputs, positions):
    stream = np.asarray(model.table)[inputs] if inputs.ndim == 1 else inputs
    kind = type(model.positions).__name__
    if kind == "SinusoidalPositions":
        width = stream.shape[1]
        angles = [[t / 10000 ** (2 * (i // 2) / width) for i in range(width)] for t in positions]
        return stream + np.where(np.arange(width) % 2 == 0, np.sin(angles), np.cos(angles))
    return stream + np.asarray(model.positions.table)[positions] if kind in TABLES else stream


def _block(block, stream, visible, positions, rotary_base, bias):
    normed = layer_norm(stream, block.attention_norm)
    if type(block.attention).__name__ in mixers.KINDS:
        mixed, weights = mixers.forward(block.attention, normed, [t in seen for t, seen in enumerate(visible)]), None
    else:
        mixed, weights = _attention(block.attention, normed, visible, positions, rotary_base, bias)
    stream = stream + mixed if block.attention_residual else mixed
    hidden = gelu(_linear(block.mlp.expand, layer_norm(stream, block.mlp_norm)))
    update = _linear(block.mlp.contract, hidden)
    return stream + update if block.mlp_residual else update, weights


def _attention(module, normed, visible, positions, rotary_base, bias):
    width, heads = normed.shape[1], module.heads
    head_width = width // heads
    fused = _linear(module.qkv, normed)
    outputs, every_weight = [], []
    for head in range(heads):
        start = head * head_width
        queries, keys, values = (fused[:, part * width + start :][:, :head_width] for part in range(3))
        if rotary_base is not None:
            queries, keys = (rotate(vectors, positions, rotary_base) for vectors in (queries, keys))
        output, weights = attention(queries, keys, values, visible, bias[head])
        outputs.append(output)
        every_weight.append(weights)
    return _linear(module.out, np.concatenate(outputs, axis=1)), np.stack(every_weight)


def _linear(linear, x):
    return x @ np.asarray(linear.weight) + np.asarray(linear.bias)
