"""Numbers of the story of parity with and without chain of thought."""

import math
import re
from typing import Any

import numpy as np

from stairwise.papers.parity_cot.construction import zigzag
from stairwise.papers.parity_cot.theory import gradients, hyperparameters, memory, statistics
from stairwise.stories.numbers import line, plot

INPUTS = (8, 12, 16, 24, 32, 48, 64, 96, 128)
LITERAL = (5.0, 0.1, 1.0)  # k = n / ln^5, failure probability, scale of the start
SYMBOLS = {"sqrt": "√", "delta": "δ", "eta": "η", "eps": "ε", ">=": "≥", "<=": "≤", "^2": "²"}
SHOWN = {"inputs": 12, "size": 4, "m": 8}


def numbers() -> dict[str, Any]:
    return {
        "facts": {"conditions": len(hyperparameters.CONDITIONS)},
        "plots": {"express": _express(), "theorem": _theorem(), "untrue": _untrue()},
        "widgets": {"cot-steps": _steps(), "cot-conditions": _conditions()},
    }


def _express() -> dict[str, Any]:
    families = []
    for k in (3, 6, 10):
        ones = range(k + 1)
        families.append((str(k), [line("output of the layer", ones, [zigzag(k, s) for s in ones])]))
    return plot("number of ones", "output", families, choose="secret bits $k$")


def _steps() -> dict[str, Any]:
    """The score of the secret key after step 2 by query, at a product of rates of 1, to which it is proportional."""
    scores = gradients.target_logit(SHOWN["inputs"], SHOWN["size"], SHOWN["m"], 1.0, 1.0).mean(axis=1)
    return SHOWN | {"scores": [float(f"{value:.8g}") for value in scores]}


def _conditions() -> list[dict[str, Any]]:
    """From which ln n on each condition of Lemma 5 holds."""
    found = []
    for name, condition in hyperparameters.CONDITIONS.items():
        says = re.sub(r" \((?:5\.|what ).*\)$", "", condition.says)
        for word, symbol in SYMBOLS.items():
            says = says.replace(word, symbol)
        found.append({"says": says, "from": float(f"{hyperparameters.holds_from(name, *LITERAL):.6g}")})
    return found


def _signal_beats_noise(inputs: int) -> int:
    """The batch at which Lemma 7 puts the noise of a count below half of its signal B/4."""
    size, samples = inputs // 2, 1
    while statistics.lemma7(inputs, size, 2 * size, samples, 0.1)["alpha"] > samples / 8:
        samples = max(samples + 1, math.ceil(samples * 1.02))
    return samples


def _theorem() -> dict[str, Any]:
    chain = [_signal_beats_noise(n) for n in INPUTS]
    elimination = [memory.samples_to_full_rank(n)[0] for n in INPUTS]
    blind = [2.0 ** (n // 2) for n in INPUTS]
    lines = [line("chain: signal beats noise", INPUTS, chain), line("no chain: $2^k$", INPUTS, blind)]
    lines.append(line("elimination", INPUTS, elimination, "dash"))
    return plot("bits $n$", "samples", [("", lines)], log="xy")


def _untrue() -> dict[str, Any]:
    n, k, m = 20, 6, 12
    queries = statistics.place(n, k)
    score = gradients.target_logit(n, k, m, 1.0, 1.0).mean(axis=1), gradients.target_logit_printed(n, k, m, 1.0, 1.0)
    nothing = np.zeros((2 * m, k, 2), dtype=bool)  # the output does not depend on the neurons' start
    output = gradients.third_step(nothing, 1.0).output, gradients.third_step_printed(nothing, 1.0).output
    families = [
        (name, [line("true mean", queries, true), line("as printed", queries, printed, "dash")])
        for name, (true, printed) in (("Lemma 21, score", score), ("Lemma 26, output", output))
    ]
    return plot("step $i$ of the chain", "size at rates of 1", families, log="y", choose="statement")
