"""The link functions: what the paper asks of phi, and that it can be had."""

import numpy as np

from stairwise.lab.checks import identical
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import SHIPPED, Linked, link_of
from stairwise.papers.parity_onestep.config import LinkFunction
from stairwise.papers.parity_onestep.theory import links as theory


@LEDGER.theory(
    "link",
    kind="construction",
    says="phi(0) = -1, phi(+-1) = 1, phi' = 0 there, even, phi((a+b)/2) = ab, curvatures c and c1, K = sup|phi'| > 2",
    cases=tuple(Linked(link) for link in SHIPPED),
)
def links_multiply_signs(config: Linked, seed: int) -> Verdict:
    link = link_of(config.link)
    t = np.linspace(-1, 1, 2001)
    value, slope = theory.on(link.value, t), theory.on(link.derivative, t)
    h = min(1e-4, (1 - 2 / config.link.slope) / 2) if config.link.name == "requ" else 1e-4  # before the first corner
    near_zero, near_one = theory.on(link.value, np.array([h, 1 - h]))
    step = 1e-6
    numeric = (theory.on(link.value, t[1:-1] + step) - theory.on(link.value, t[1:-1] - step)) / (2 * step)
    verdicts = {
        "values at -1, 0, 1": identical({"phi": (value[[0, 1000, 2000]], [1.0, -1.0, 1.0])}),
        "slopes there": Verdict.at_most(float(np.abs(slope[[0, 1000, 2000]]).max()), 1e-12),
        "even": identical({"phi(-t)": (value[::-1], value)}),
        "derivative against differences": Verdict.at_most(
            float(np.abs(numeric - slope[1:-1]).max()), 4 * step * link.curvature
        ),
        "c against phi near 0": Verdict.at_most(abs((near_zero + 1) / h**2 / link.curvature - 1), 1e-3),
        "c1 against phi near 1": Verdict.at_most(abs((1 - near_one) / h**2 / link.end_curvature - 1), 1e-3),
        "K against sup |phi'|": Verdict.at_most(abs(theory.steepest(link) / link.steepest - 1), 1e-5),
        "|phi(z)-phi(z0)| over max(c, c1) (z-z0)^2 exceeds 1 by": Verdict.at_most(
            max(0.0, theory.error_constant(link) / max(link.curvature, link.end_curvature) - 1), 1e-6
        ),
        "K above 2": Verdict.at_least(link.steepest, 2.0 + 1e-12),
        "leaves [-1, 1] by": Verdict.at_most(max(0.0, float(np.abs(value).max()) - 1), 1e-12),
    }
    return Verdict.worst(verdicts)


@LEDGER.theory(
    "link-requ",
    kind="construction",
    says="parabolas at 0 and +-1 joined by straight lines of slope K = 2 + eps: six ReQU units and a bias, any K > 2",
    cases=tuple(Linked(LinkFunction("requ", slope)) for slope in (2.1, 2.5, 3.0, 4.0)),
)
def six_units_make_the_locally_quadratic_link(config: Linked, seed: int) -> Verdict:
    slope, t = config.link.slope, np.linspace(-1, 1, 40_001)
    units, pieces = theory.requ_units(t, slope), theory.requ_pieces(t, slope)
    shipped = link_of(LinkFunction("requ", slope))
    row = {"slope": slope, "corner a": 1 - 2 / slope, "c": shipped.curvature}
    return Verdict.worst(
        {
            "six units against the pieces": Verdict.at_most(
                float(np.abs(units - pieces).max()), 1e-14 * max(1.0, shipped.curvature), details=(row,)
            ),
            "the shipped link against the pieces": Verdict.at_most(
                float(np.abs(theory.on(shipped.value, t) - pieces).max()), 1e-14 * max(1.0, shipped.curvature)
            ),
            "sup |phi'| against the slope": Verdict.at_most(abs(theory.steepest(shipped) / slope - 1), 1e-5),
        }
    )
