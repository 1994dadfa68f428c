"""The gradients of W on one-step chains, entry by entry (Lemmas A.1, A.2; Facts B.1, C.2)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import equal, note
from stairwise.papers.lego import model as models
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import equals, task_of
from stairwise.papers.lego.claims.sizes import assumption_4_1, assumption_c1, few_weights
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.theory import chains, exact, first_step, literal
from stairwise.train.draws import draws_of


@dataclass(frozen=True)
class FirstStep(Config):
    """Every chain of length 1, and a network with random weights."""

    task: Task = option(Task("C2", 6, 1), "the chains, of length 1")
    neurons: int = option(2, "neurons m", low=1, high=32)
    sigma0: float = option(0.5, "standard deviation of W", above=0.0, high=10.0)
    bias: float = option(0.1, "bias b", low=-10.0, high=10.0)
    clip: float = option(100.0, "logit clip B", above=0.0, high=1000.0)
    rho: float = option(0.5, "knot rho of the smoothed ReLU", above=0.0, high=10.0)
    q: int = option(4, "power q of the smoothed ReLU", low=3, high=12)

    def check(self) -> None:
        require(self.task.length == 1, f"task.length={self.task.length} must be 1: these are gradients on T^1")
        few_weights(self.task, 5 * self.neurons)
        group = self.task.group
        number = self.task.variables * (self.task.variables - 1) * group.actions * group.values
        require(number <= 4000, f"task: {number} chains of length 1 must be at most 4000 to be listed")


@lru_cache(maxsize=12)
def listed(config: FirstStep, seed: int) -> tuple[Any, Any, np.ndarray, np.ndarray]:
    """The task, the network written out, all sentences, and minus the gradient of W by autodiff."""
    task = task_of(config)
    rng, d = draws_of(seed, "weights"), task.vocabulary
    W = jnp.asarray(config.sigma0 * rng.standard_normal((5, d, 5, d, config.neurons)))
    scores = models.SparseScores.zero(d, jnp.float64)
    network = models.ClauseTransformer(W, scores, config.bias, config.clip, config.rho, config.q)
    everything = chains.every_chain(task).examples
    found = exact.descent(exact.traced(network), task, everything, (1,)).weights
    return task, literal.network_of(network), chains.sentences(task, everything), np.asarray(found)


def alphabets(task: Any) -> dict[int, range]:
    """The tokens that each slot may hold, slots from 1."""
    variable, action, value = task.starts
    variables, actions = range(variable, action), range(action, value)
    return {1: variables, 2: actions, 3: variables, 4: variables, 5: range(value, task.vocabulary)}


def entries(config: FirstStep, seed: int, classes: str) -> dict[str, tuple[Any, Any]]:
    """W_4 slot by slot, against Lemma A.1 (variables) or A.2 (all other classes)."""
    task, network, sentences, found = listed(config, seed)
    seen = first_step.population(network, sentences, 4)
    variables = alphabets(task)[1]
    rule = {"variables": first_step.variable_class, "others": first_step.other_class}[classes]
    chosen = variables if classes == "variables" else [j for j in range(task.vocabulary) if j not in variables]
    pairs = {}
    for slot, tokens in alphabets(task).items():
        formula = np.array([[rule(seen, j, slot, s) for j in chosen] for s in tokens])
        pairs[f"slot {slot}"] = (found[slot - 1, tokens.start : tokens.stop, 3][:, chosen], formula)
        outside = [s for s in range(task.vocabulary) if s not in tokens]
        pairs[f"slot {slot}, tokens that it never holds"] = (
            found[slot - 1, outside, 3],
            0 * found[slot - 1, outside, 3],
        )
    return pairs


def token_4(config: FirstStep, seed: int, *, classes: str):
    yield from equals(entries(config, seed, classes))


LEDGER.family(
    token_4,
    {
        "lemA1": {
            "statement": "Lemma A.1",
            "says": r"on $\mathcal{T}^1$, token 4, variable classes: each slot's gradient, from how its token co-occurs"
            " with the class",
            "of": (first_step.variable_class,),
            "given": {"classes": "variables"},
        },
        "lemA2": {
            "statement": "Lemma A.2",
            "says": r"on $\mathcal{T}^1$, token 4, classes that are no variables: only"
            r" $-\frac12 E[\mathrm{logit}_j\, \mathrm{sReLU}' 1\{\text{token shown}\}]$",
            "of": (first_step.other_class,),
            "given": {"classes": "others"},
        },
    },
    form="exact",
    cases=(FirstStep(), FirstStep(clip=1.0)),
    seeds=3,
)


def token_5(config: FirstStep, seed: int):
    """V(g) and V(y) of the value classes: (Gamma+ - Gamma-)/2."""
    task, network, sentences, found = listed(config, seed)
    seen = first_step.population(network, sentences, 5)
    values = alphabets(task)[5]
    for slot, name in ((2, "V(g)"), (5, "V(y)")):
        tokens = alphabets(task)[slot]
        parts = [[first_step.gain_and_loss(seen, j, slot, s) for j in values] for s in tokens]
        formula = np.array([[(gain - loss) / 2 for gain, loss in row] for row in parts])
        yield equal(f"gradient of {name}", found[slot - 1, tokens.start : tokens.stop, 4][:, list(values)], formula)
    variables = alphabets(task)[1]
    still = np.abs(found[0, variables.start : variables.stop, 4]).max()
    yield note(f"slots 1, 3, 4 also have a gradient (up to {still:.2g} here); Assumption B.1 freezes them")


LEDGER.family(
    token_5,
    {
        "factB1": {
            "statement": "Fact B.1",
            "says": r"on $\mathcal{T}^1$, token 5, simply transitive: minus the gradients of $V(g)$ and $V(y)$ are"
            r" $(\Gamma^+ - \Gamma^-)/2$; one pair gains, the others lose",
            "hypotheses": assumption_4_1,
            "cases": (FirstStep(Task("C3", 3, 1)), FirstStep(Task("C3", 3, 1), clip=1.0)),
        },
        "factC2": {
            "statement": "Fact C.2",
            "says": r"on $\mathcal{T}^1$, token 5, transitive and not free: the same with fibers",
            "hypotheses": assumption_c1,
            "cases": FirstStep(Task("S3", 3, 1)),
        },
    },
    form="exact",
    of=(first_step.gain_and_loss,),
    seeds=3,
)
