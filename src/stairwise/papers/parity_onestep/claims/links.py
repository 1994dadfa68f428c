"""The link functions: what the paper asks of phi, and that it can be had."""

import numpy as np

from stairwise.lab.contract.checks import at_least, at_most, equal, row
from stairwise.papers.parity_onestep import links
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import SHIPPED, Linked, link_of
from stairwise.papers.parity_onestep.config import LinkFunction
from stairwise.papers.parity_onestep.theory import links as theory


@LEDGER.exact(
    "link",
    statement=("Section 2.2, link function", "Section 2.2"),
    says=r"$\phi(0) = -1$, $\phi(\pm 1) = 1$, $\phi' = 0$ there, even, so that $\phi(\frac{a+b}{2}) = ab$;"
    r" curvatures $c$ at 0"
    r" and $c_1$ at $\pm 1$, and $\|\phi'\|_\infty > 2$",
    of=(links.make_link, theory.error_constant, theory.steepest),
    cases=tuple(Linked(link) for link in SHIPPED),
)
def links_multiply_signs(config: Linked, seed: int):
    link = link_of(config.link)
    t = np.linspace(-1, 1, 2001)
    value, slope = theory.on(link.value, t), theory.on(link.derivative, t)
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    yield equal("phi((a+b)/2) = ab", theory.on(link.value, signs.mean(axis=1)), signs.prod(axis=1))
    yield equal("slopes at -1, 0, 1", slope[[0, 1000, 2000]], np.zeros(3))
    yield equal("even", value[::-1], value)
    h = min(1e-4, (1 - 2 / config.link.slope) / 2) if config.link.name == "requ" else 1e-4  # before the first corner
    near_zero, near_one = theory.on(link.value, np.array([h, 1 - h]))
    yield equal("c against phi near 0", link.curvature, (near_zero + 1) / h**2, 1e-3)
    yield equal("c1 against phi near 1", link.end_curvature, (1 - near_one) / h**2, 1e-3)
    step = 1e-6
    numeric = (theory.on(link.value, t[1:-1] + step) - theory.on(link.value, t[1:-1] - step)) / (2 * step)
    yield at_most("derivative off differences by", np.abs(numeric - slope[1:-1]), 4 * step * link.curvature)
    yield equal("K against the steepest difference", link.steepest, np.abs(numeric).max(), 1e-4)
    yield equal("K on a fine grid", theory.steepest(link), link.steepest, 1e-5)
    constant = max(link.curvature, link.end_curvature)
    yield equal("C2, with |phi(z)-phi(z0)| <= C2 (z-z0)^2 at 0 and +-1", theory.error_constant(link), constant, 2e-3)
    yield at_most("|phi(z)-phi(z0)| over max(c, c1)(z-z0)^2", theory.error_constant(link) / constant, 1 + 1e-6)
    yield at_least("K", link.steepest, 2.0 + 1e-12)
    yield at_most("|phi|", np.abs(value), 1 + 1e-12)


@LEDGER.exact(
    "link-requ",
    statement=("Section 3.3, locally quadratic link", "Section 3.3"),
    says=r"parabolas at 0 and $\pm 1$ joined by straight lines of slope $2+\epsilon$: six ReQU units and a"
    r" bias, for any"
    r" slope above 2",
    of=(theory.requ_units, theory.requ_pieces),
    cases=tuple(Linked(LinkFunction("requ", slope)) for slope in (2.1, 2.5, 3.0, 4.0)),
    search={"link.slope": (2.01, 4.0, "linear")},
)
def six_units_make_the_locally_quadratic_link(config: Linked, seed: int):
    slope, t = config.link.slope, np.linspace(-1, 1, 40_001)
    units, pieces = theory.requ_units(t, slope), theory.requ_pieces(t, slope)
    shipped = link_of(LinkFunction("requ", slope))
    yield equal("six units against the pieces", units, pieces, 1e-12)
    yield equal("the link of training against the pieces", theory.on(shipped.value, t), pieces, 1e-12)
    steps = np.abs(np.diff(pieces) / np.diff(t))
    yield equal("the steepest difference against the slope", steps.max(), slope, 1e-4)
    yield row({"slope": slope, "corner a": 1 - 2 / slope, "c": shipped.curvature})
