"""Numbers of the story of parity in one gradient step."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from stairwise.papers.parity_onestep.links import COS, POLY4, requ
from stairwise.papers.parity_onestep.theory import noise, population
from stairwise.stories.numbers import line, plot
from stairwise.tasks.parity import mean_parity

SECRET = (1, 3, 4, 7, 8, 11, 13, 14)  # of 16 bits
CHILDREN = np.array([*zip(SECRET[::2], SECRET[1::2], strict=True), (16, 17), (18, 19), (20, 21)], dtype=np.int64)
BITS = (8, 16, 32, 64, 128, 256)


def numbers() -> dict[str, Any]:
    plots = {"link": _link(), "theorem": _theorem(), "untrue": _untrue()}
    return {"plots": plots, "widgets": {"onestep-step": {"first node": _node(0), "root": _node(6)}}}


def _link() -> dict[str, Any]:
    t = np.arange(-20, 21) / 20
    links = (("quartic", POLY4), ("cosine", COS), ("locally quadratic", requ(2.5)))
    families = [
        (name, [line("link $\\varphi$", t, np.asarray(link(jnp.asarray(t, dtype=jnp.float32))))])
        for name, link in links
    ]
    return plot("mean of two signs $t$", "output of the link", families, choose="link")


def _node(node: int) -> dict[str, Any]:
    """Minus the exact gradient of one node's weights at zero, in units of its leading term at a child."""
    law = population.node_law(CHILDREN, 16, node, node)
    unit = -population.leading(POLY4, law.visible)
    signal = -population.node_gradient(law, POLY4) / unit
    draws = np.random.default_rng(7).standard_normal(law.visible)
    return {
        "signal": [float(f"{value:.6g}") for value in signal],
        "children": CHILDREN[node].tolist(),
        "draws": [float(f"{value:.4f}") for value in draws],
        "noise": noise.leading_law(law.visible, 1, POLY4.curvature).other,
    }


def _theorem() -> dict[str, Any]:
    enough = [noise.support_samples(d + d // 2, d // 2 - 1) for d in BITS]
    asked = [d**2.5 for d in BITS]
    parities = [float(math.comb(d, d // 2)) for d in BITS]
    lines = [line("enough for one step", BITS, enough), line("Theorem 5 with $\\epsilon = 1/2$", BITS, asked, "dash")]
    lines.append(line("number of parities", BITS, parities))
    return plot("bits $d$", "samples", [("", lines)], log="xy")


def _untrue() -> dict[str, Any]:
    sizes = range(2, 33)
    families = []
    for minus in (13, 15):
        found = [abs(float(mean_parity(32, k, minus))) for k in sizes]
        shown = [k for k, value in zip(sizes, found, strict=True) if value > 0]
        families.append((str(minus), [line("mean over all parities of size $k$", shown, filter(None, found))]))
    return plot("size $k$", "size of the mean", families, log="y", choose="bits that are $-1$")
