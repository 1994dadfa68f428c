"""Descent on the parity alone through an oracle that hides it (Theorems 1 and 2), for the whole class of parities.

The mean gradient over all parities needs no target, so the run that it drives is the same for every parity that the
oracle never reveals: Pr(Q) of them. What such a run returns can be right for hardly any of them.
"""

import jax.numpy as jnp
import numpy as np

from stairwise.papers.parity_onestep import oracles
from stairwise.papers.parity_onestep.config import Hardness
from stairwise.papers.parity_onestep.theory import hiding, spectrum
from stairwise.tasks.parity import cube
from stairwise.train.stage import Outcome


def hidden_descent(config: Hardness, seed: int) -> Outcome:
    """Variances along the run, and for every oracle error: Pr(Q), the loss on Q, and the bounds on both."""
    cls = parity_class(config, seed)
    net = hiding.TanhNet(config.bits, config.width)
    start = net.start(seed)
    run = hiding.hidden_run(cls, net, start, config.learning_rate, config.queries)
    outcome = Outcome()
    for query, (variance, bounds) in enumerate(zip(run.variances, run.bounds, strict=True)):
        metrics = {"variance": variance, "mean gradient norm": bounds[0], "bound": bounds[0] / len(cls.codes)}
        outcome.add("oracle", query, metrics)
    rows = [at_tolerance(config, cls, net, run, factor) for factor in config.tolerances]
    outcome.arrays = {f"oracle/{name}": np.array([row[name] for row in rows]) for name in rows[0]}
    outcome.arrays["oracle/differing replays"] = np.array(differing_replays(config, cls, net, start, run))
    return outcome


def parity_class(config: Hardness, seed: int) -> hiding.Class:
    """All parities under the uniform density, or under that of a sample."""
    x = cube(config.bits).astype(np.float64)
    density = spectrum.uniform_density(config.bits)
    if config.samples:
        drawn = np.random.default_rng([seed, 1]).integers(0, len(x), config.samples)
        density = np.bincount(drawn, minlength=len(x)) / config.samples
    return hiding.parity_class(x, config.size, density)


def at_tolerance(config: Hardness, cls: hiding.Class, net: hiding.TanhNet, run: hiding.Hidden, factor: float) -> dict:
    """What an oracle of error eps = factor * sqrt(Var) hides, and what the hidden run is worth to what it hides."""
    variance = float(run.variances.max())
    epsilon = factor * np.sqrt(variance)
    hidden = run.hidden_from(epsilon)
    f = net.outputs(run.thetas[-1], cls.x)
    losses = 1 + np.mean(f**2) - 2 * hiding.correlations(cls, f)
    errors = (1 - hiding.correlations(cls, np.where(f >= 0, 1.0, -1.0))) / 2
    share = float(np.mean(hidden))
    return {
        "factor": factor,
        "epsilon": epsilon,
        "hidden": share,
        "chebyshev": 1 - config.queries * variance / epsilon**2,
        "loss": float(np.mean(losses[hidden])) if share else np.nan,
        "loss bound": 2 - 1 / share if share else -np.inf,
        "zero-one": float(np.mean(errors[hidden])) if share else np.nan,
    }


def differing_replays(
    config: Hardness, cls: hiding.Class, net: hiding.TanhNet, start: np.ndarray, run: hiding.Hidden
) -> int:
    """Of some hidden parities, those whose own run against the oracle differs from the hidden run in any bit."""
    epsilon = float(run.deviations.max())  # hides every parity

    def ask(gradient: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return np.asarray(oracles.hiding(jnp.asarray(gradient), jnp.asarray(mean), epsilon)[0])

    chosen = cls.codes[:: max(1, len(cls.codes) // max(config.replays, 1))][: config.replays]
    targets = hiding.values(cls, chosen)
    runs = [hiding.run_with(cls, net, start, config.learning_rate, config.queries, target, ask) for target in targets]
    return sum(not np.array_equal(own, run.thetas) for own in runs)
