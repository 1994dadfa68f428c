"""Appendix A: what the loss over every chain leaves where (Lemmas A.5-A.10, Claims A.1, A.2)."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from stairwise.config import option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, row, true
from stairwise.papers.lego import task as tasks
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.retrieval import Copying, active
from stairwise.papers.lego.theory import chains, literal, retrieval
from stairwise.train.keys import at, role_key

MOMENTS = 4  # after the start at which a path is kept
SENTENCES = 100  # that are read at each of them
TWICE, THRICE = 2.0, 3.0  # our constants, where the paper has O(.); 3 is that of the proof of Lemma A.10


@dataclass(frozen=True)
class Descent(Copying):
    """W_4 on the loss over every one-step chain, at several numbers of variables; sigma_0 falls as d^-1/2."""

    variables: tuple[int, ...] = option((8, 12, 16), "numbers of variables |X|", low=2, high=64)
    neurons: int = option(12, "neurons m of a class", low=1, high=64)
    start: float = option(0.25, "sigma_0 times the root of d", above=0.0, high=4.0)

    def check(self) -> None:
        super().check()
        for variables in self.variables:
            number = chains.count(variables, self.group.actions, self.group.values, 1)
            require(
                number <= chains.LARGEST,
                f"variables={variables} gives {number} chains: at most {chains.LARGEST} are listed",
            )

    @property
    def least_vocabulary(self) -> int:
        return min(self.variables) + self.group.actions + self.group.values + 1


small_and_wide = {
    "m >= |Y| (Lemma A.11)": lambda c: c.neurons >= c.group.values,
    "sigma_0 log d <= rho/2: no neuron begins in the linear part": lambda c: (
        c.start * math.log(c.least_vocabulary) / math.sqrt(c.least_vocabulary) <= c.rho / 2
    ),
}
DESCENDED = {
    "hypotheses": small_and_wide,
    "cases": (Descent(), Descent("C6", (8,))),
    "tier": "minutes",
    "seeds": 3,
}


class Descended(NamedTuple):
    """A path: the task, the network at a few moments (the first and the last among them) and the last loss."""

    task: Any
    models: tuple[Any, ...]
    loss: float

    @property
    def bias(self) -> float:
        """b = sigma_0 log d, the scale of what the paper writes as sigma_0 up to logarithms."""
        return float(self.models[0].bias)

    @property
    def end(self) -> np.ndarray:
        """W_4 at the end: (slot, token, class, neuron)."""
        return np.asarray(self.models[-1].weights)[:, :, 0]

    @property
    def change(self) -> np.ndarray:
        return self.end - np.asarray(self.models[0].weights)[:, :, 0]

    @property
    def diagonal(self) -> np.ndarray:
        own = 1 + np.arange(self.task.variables)
        return self.end[0, own, own]

    @property
    def active(self) -> np.ndarray:
        return active(self.diagonal, self.bias)

    @property
    def slots(self) -> tuple[tuple[int, slice], ...]:
        """The tokens that each slot may show: a variable, an action, variables, a value."""
        _, action, value = self.task.starts
        names = slice(1, action)
        return (0, names), (1, slice(action, value)), (2, names), (3, names), (4, slice(value, None))


@lru_cache(maxsize=4)
def descended(config: Descent, seed: int) -> dict[int, Descended]:
    """One path for each number of variables; the claims below read the same paths."""
    paths = {}
    for variables in config.variables:
        task = tasks.lego(config.group, variables, 1)
        sigma0 = config.start / math.sqrt(task.vocabulary)
        key = at(role_key(seed, "weights"), variables)
        now = config.network(key, task.vocabulary, sigma0, dtype=jnp.float64)
        clauses = jnp.asarray(chains.sentences(task, chains.every_chain(task).examples))
        kept, losses = [now], np.array([math.nan])
        for _ in range(MOMENTS):
            now, losses = retrieval.descend(now, clauses, config.learning_rate, config.steps // MOMENTS)
            kept.append(now)
        paths[variables] = Descended(task, tuple(kept), float(losses[-1]))
    return paths


def sums_agree(path: Descended):
    """Every chain moves one token of each slot by the same amount: so all slots change by the same sum."""
    sums = [path.change[slot, tokens].sum(axis=0) for slot, tokens in path.slots]
    same, variables = np.stack(sums[:1] * (len(sums) - 1)), path.task.variables
    yield equal(f"sum of the changes, slot by slot, |X|={variables}", np.stack(sums[1:]), same, 1e-10)
    yield at_least(f"while a weight changes by, |X|={variables}", np.abs(path.change).max(), 1.0)


@LEDGER.bound(
    "lemA5",
    statement="Lemma A.5",
    says=r"the active diagonal $\Phi$ stays below $2B + 2m\rho(1-1/q)$ with $B = C_B\log d$, and ends above $B$",
    of=(retrieval.descend, retrieval.largest_diagonal),
    **DESCENDED,
)
def the_diagonal_stays_bounded(config: Descent, seed: int):
    for variables, path in descended(config, seed).items():
        clip = float(path.models[-1].clip)
        allowed = retrieval.largest_diagonal(clip, config.neurons, config.rho, config.q)
        yield at_most(f"largest Phi, |X|={variables}", path.active.max(), allowed)
        yield at_least(f"least Phi over B, |X|={variables}", path.active.min() / clip, 1.0)
        yield at_least(f"the same over what is allowed, |X|={variables}", path.active.min() / allowed, 0.7)
        yield row({"|X|": variables, "d": path.task.vocabulary, "loss": path.loss, "B": clip, "Phi": path.active.max()})


def shared_slots(config: Descent, seed: int, *, slot: int, count: str):
    """Slot 2 shows one of |G| actions, slot 5 one of |Y| values: each weight takes its share of the diagonal."""
    for variables, path in descended(config, seed).items():
        yield from sums_agree(path)
        own = path.diagonal
        weakest = own[path.active.argmin()]
        least = np.min(weakest[weakest > path.bias], initial=np.inf)  # of the active neurons of j*
        reach = np.maximum(own, least if np.isfinite(least) else 0.0)
        size = np.abs(path.end[slot, path.slots[slot][1], 1 : 1 + variables]).max(axis=0)
        allowed = TWICE * path.bias + reach / getattr(config.group, count)
        yield at_most(f"largest weight of a neuron, |X|={variables}", size, allowed)
        yield row({"|X|": variables, "largest": size.max(), "sigma_0 log d": path.bias, "diagonal": own.max()})


LEDGER.family(
    shared_slots,
    {
        "lemA6": {
            "statement": "Lemma A.6",
            "says": r"weights on actions stay below $2\sigma_0\log d$ plus $1/|G|$ of the diagonal, neuron by neuron;"
            r" over all actions they change by the same sum as slot 1, exactly",
            "given": {"slot": 1, "count": "actions"},
        },
        "lemA7": {
            "statement": "Lemma A.7",
            "says": r"weights on values stay below $2\sigma_0\log d$ plus $1/|Y|$ of the diagonal, neuron by neuron;"
            r" over all values they change by the same sum as slot 1, exactly",
            "given": {"slot": 4, "count": "values"},
        },
    },
    form="bound",
    of=(retrieval.descend,),
    **DESCENDED,
)


@LEDGER.bound(
    "lemA8",
    statement="Lemma A.8",
    says=r"other variables in slot 1 stay below $3\sigma_0\log d$ plus $1/|X|$ of the largest diagonal, and never rise",
    of=(retrieval.descend,),
    **DESCENDED,
)
def other_variables_stay_small(config: Descent, seed: int):
    for variables, path in descended(config, seed).items():
        off, names = ~np.eye(variables, dtype=bool), slice(1, 1 + variables)
        yield at_most(f"largest rise, |X|={variables}", path.change[0, names, names][off].max(), 1e-12)
        yield true(f"the diagonal never falls, |X|={variables}", path.change[0, names, names][~off] > 0)
        size = float(np.abs(path.end[0, names, names][off]).max())
        allowed = THRICE * path.bias + path.diagonal.max() / variables
        yield at_most(f"largest, |X|={variables}", size, allowed)
        yield row({"|X|": variables, "largest": size, "sigma_0 log d": path.bias, "diagonal": path.diagonal.max()})


@LEDGER.bound(
    "lemA9",
    statement="Lemma A.9",
    says=r"slots 3 and 4 stay below $3\sigma_0\log d$, and move together, since both show $x_0$",
    of=(retrieval.descend,),
    **DESCENDED,
)
def slots_three_and_four_stay_small(config: Descent, seed: int):
    for variables, path in descended(config, seed).items():
        names = slice(1, 1 + variables)
        yield from sums_agree(path)
        third, fourth = path.change[2, names, names], path.change[3, names, names]
        yield equal(f"changes of slots 3 and 4, |X|={variables}", third, fourth, 1e-10)
        size = float(np.abs(path.end[2:4, names, names]).max())
        yield at_most(f"largest over sigma_0 log d, |X|={variables}", size / path.bias, THRICE)
        yield row({"|X|": variables, "largest": size, "sigma_0 log d": path.bias})


@LEDGER.bound(
    "lemA10",
    statement="Lemma A.10",
    says=r"classes that are no variables: no weight ever rises, none falls by more than the proof's $3\sigma_0\log d$,"
    r" and all stay below it",
    of=(retrieval.descend,),
    **DESCENDED,
)
def other_classes_only_fall(config: Descent, seed: int):
    for variables, path in descended(config, seed).items():
        others = np.setdiff1d(np.arange(path.task.vocabulary), 1 + np.arange(variables))
        changes = [path.change[slot, tokens][:, others] for slot, tokens in path.slots]
        ends = [path.end[slot, tokens][:, others] for slot, tokens in path.slots]
        yield at_most(f"largest rise, |X|={variables}", max(part.max() for part in changes), 0.0)
        falls, size = -min(part.min() for part in changes), max(np.abs(part).max() for part in ends)
        yield at_most(f"largest fall over sigma_0 log d, |X|={variables}", falls / path.bias, THRICE)
        yield at_most(f"largest over sigma_0 log d, |X|={variables}", size / path.bias, THRICE)
        yield at_least(f"the largest fall is over half of it, |X|={variables}", falls / path.bias, 0.5)


# --- Claims A.1 and A.2 -----------------------------------------------------------------------------------------------


def predictions(model: Any, task: Any, seed: int) -> list[Any]:
    """Token 4 on a few chains, with the paper's quantities."""
    network = literal.network_of(model)
    rows = chains.sentences(task, chains.drawn(task, seed, SENTENCES))
    return [literal.step_of(network, told[:2], 1, told[2, 3:4]) for told in rows]


@LEDGER.bound(
    "claimA1",
    statement="Claim A.1",
    says=r"all along: $\Lambda$ of class $x_1$ is $(W_1 + W_2 + W_5)/2 + b$, of another variable $(W_2 + W_5)/2 + b$,"
    r" both up to $3\sigma_0\log d$, and of any other class at most $3\sigma_0\log d$",
    of=(retrieval.descend,),
    **DESCENDED,
)
def three_slots_make_lambda(config: Descent, seed: int):
    for variables, path in descended(config, seed).items():
        own, other, rest = [], [], []
        for model in path.models:
            W = np.asarray(model.weights)[:, :, 0]
            for step in predictions(model, path.task, seed):
                target, (g, y) = int(step.target[0]), (int(step.clauses[0, 1]), int(step.clauses[1, 4]))
                shared = (W[1, g] + W[4, y]) / 2 + path.bias
                left = step.lam[0] - shared
                names = np.arange(1, 1 + variables)
                own.append(np.abs(left[target] - W[0, target, target] / 2).max())
                other.append(np.abs(left[names[names != target]]).max())
                rest.append(np.delete(step.lam[0], names, axis=0).max())
        for kind, sizes in {"class x_1": own, "other variables": other}.items():
            yield at_most(f"what is left, {kind}, over sigma_0 log d, |X|={variables}", max(sizes) / path.bias, THRICE)
        yield at_most(f"Lambda of other classes over sigma_0 log d, |X|={variables}", max(rest) / path.bias, THRICE)
        yield at_least(
            f"while the diagonal is, over sigma_0 log d, |X|={variables}", path.diagonal.max() / path.bias, 10.0
        )


@LEDGER.bound(
    "claimA2",
    statement="Claim A.2",
    says=r"$d\,\mathrm{logit}_j \le e^{F_j}\frac{d}{d-1}(1 - \mathrm{logit}_{x_1})$ of a wrong class, with $F_j \le"
    r" \max\Phi/|Y| + m\,\mathrm{sReLU}(3\sigma_0\log d)$ all along; at the end, 2 serves for the $O(1)$",
    of=(retrieval.descend,),
    **DESCENDED,
)
def wrong_classes_share_evenly(config: Descent, seed: int):
    for variables, path in descended(config, seed).items():
        d, own = path.task.vocabulary, 1 + np.arange(variables)
        small = config.neurons * float(literal.activation(np.array([THRICE * path.bias]), config.rho, config.q)[0])
        last = []
        for moment, model in enumerate(path.models):
            largest = active(np.asarray(model.weights)[0, own, 0, own], path.bias).max()
            steps = predictions(model, path.task, seed)
            shares = np.array([np.delete(step.logit[0], step.target[0]) for step in steps])
            outputs = np.array([np.delete(step.F[0], step.target[0]) for step in steps])
            shares = shares / shares.sum(axis=1, keepdims=True)
            name = f"|X|={variables}, moment {moment}"
            yield at_most(f"d logit_j / (1 - logit), {name}", d * shares, np.exp(outputs) * d / (d - 1), rounding=1e-9)
            yield at_most(f"F of wrong classes, {name}", outputs.max(), largest / config.group.values + small)
            last.append(float(d * shares.max()))
        yield at_most(f"d logit_j / (1 - logit) at the end, |X|={variables}", last[-1], TWICE)
        yield at_most(f"loss at the end, |X|={variables}", path.loss, 1e-2)
        yield row({"|X|": variables, "largest share times d": max(last), "loss": path.loss})
