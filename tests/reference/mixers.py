"""Recurrent mixers in plain NumPy, one position after the other, one head after the other, as their papers write them.

They read parameters off the module under test and share nothing else with it. `present` leaves out positions: the
output there is that of the unchanged state, or is not looked at.
"""

import numpy as np


def forward(mixer, x, present=None):
    """The outputs [length, width]."""
    present = np.ones(len(x), dtype=bool) if present is None else present
    return KINDS[type(mixer).__name__](mixer, np.asarray(x), present)


def linear_attention(mixer, x, present):
    queries, keys, values = _heads(_linear(mixer.qkv, x), 3, mixer.heads)
    outputs = []
    for head in range(mixer.heads):
        rows = []
        for t in range(len(x)):
            weights = [_feature(queries[t, head]) @ _feature(keys[s, head]) * present[s] for s in range(t + 1)]
            mixed = sum(weight * values[s, head] for s, weight in enumerate(weights))
            rows.append(mixed / (sum(weights) + 1e-6))
        outputs.append(rows)
    return _linear(mixer.out, np.concatenate(outputs, axis=1))


def gated_linear_attention(mixer, x, present):
    queries, keys, values = _heads(_linear(mixer.qkv, x), 3, mixer.heads)
    (gates,) = _heads(_linear(mixer.gate, x), 1, mixer.heads)
    outputs = []
    for head in range(mixer.heads):
        width = queries.shape[2]
        state, rows = np.zeros((width, width)), []
        for t in range(len(x)):
            if present[t]:
                fade = _sigmoid(gates[t, head]) ** (1 / 16)
                state = np.diag(fade) @ state + np.outer(keys[t, head], values[t, head])
            rows.append(_rms(state.T @ queries[t, head] / np.sqrt(width)))
        outputs.append(rows)
    return _linear(mixer.out, np.concatenate(outputs, axis=1))


def delta_net(mixer, x, present):
    """The dense product of (I - beta k k^T), token by token and step by step."""
    length, steps, heads = len(x), mixer.householders, mixer.heads
    (queries,) = _heads(_linear(mixer.query, x), 1, heads)
    both = _linear(mixer.key_value, x).reshape(length, 2, steps, heads, -1)
    strengths = _linear(mixer.strength, x).reshape(length, steps, heads)
    outputs = []
    for head in range(heads):
        width = queries.shape[2]
        state, rows = np.zeros((width, width)), []
        for t in range(length):
            for j in range(steps if present[t] else 0):
                key, value = both[t, 0, j, head], both[t, 1, j, head]
                key = key / np.linalg.norm(key)
                beta = (2 if mixer.signed else 1) * _sigmoid(strengths[t, j, head])
                state = (np.eye(width) - beta * np.outer(key, key)) @ state + beta * np.outer(key, value)
            rows.append(_rms(state.T @ (queries[t, head] / np.linalg.norm(queries[t, head]))))
        outputs.append(rows)
    return _linear(mixer.out, np.concatenate(outputs, axis=1))


def diagonal_state_space(mixer, x, present):
    own = _linear(mixer.inputs, x)
    deltas = np.log1p(np.exp(_linear(mixer.rate, x) - 2.25))
    writes, reads = np.split(_linear(mixer.read_write, x), 2, axis=1)
    rates = np.exp(np.asarray(mixer.log_decay))
    told = np.zeros_like(own)
    for channel in range(own.shape[1]):
        state = np.zeros(rates.shape[1])
        for t in range(len(x)):
            if present[t]:
                decay = np.exp(-deltas[t, channel] * rates[channel])
                decay = 2 * decay - 1 if mixer.signed else decay
                state = decay * state + deltas[t, channel] * writes[t] * own[t, channel]
            told[t, channel] = reads[t] @ state + np.asarray(mixer.skip)[channel] * own[t, channel]
    return _linear(mixer.out, told)


def lstm(mixer, x, present):
    hidden = cell = np.zeros(x.shape[1])
    rows = []
    for t in range(len(x)):
        entry, keep, new, tell = np.split(_linear(mixer.inputs, x[t]) + hidden @ np.asarray(mixer.again), 4)
        after = _sigmoid(keep + 1) * cell + _sigmoid(entry) * np.tanh(new)
        told = _sigmoid(tell) * np.tanh(after)
        if present[t]:
            hidden, cell = told, after
        rows.append(told)
    return _linear(mixer.out, np.array(rows))


def min_gru(mixer, x, present):
    hidden, rows = np.zeros(x.shape[1]), []
    for t in range(len(x)):
        gate, candidate = np.split(_linear(mixer.inputs, x[t]), 2)
        if present[t]:
            hidden = (1 - _sigmoid(gate)) * hidden + _sigmoid(gate) * candidate
        rows.append(hidden)
    return _linear(mixer.out, np.array(rows))


KINDS = {
    "LinearAttention": linear_attention,
    "GatedLinearAttention": gated_linear_attention,
    "DeltaNet": delta_net,
    "DiagonalStateSpace": diagonal_state_space,
    "LSTM": lstm,
    "MinGRU": min_gru,
}


def _heads(x, parts, heads):
    """[parts, length, heads, head_width]."""
    return np.moveaxis(x.reshape(len(x), parts, heads, -1), 1, 0)


def _linear(linear, x):
    return x @ np.asarray(linear.weight) + np.asarray(linear.bias)


def _feature(x):
    return np.where(x > 0, x, np.exp(x) - 1) + 1


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _rms(x):
    return x / np.sqrt(np.mean(x**2) + 1e-6)
