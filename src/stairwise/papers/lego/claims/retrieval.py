"""Appendix A: the variable token learns to copy x_1 from the predicate (Lemmas A.3-A.10, A.12, Claims A.1, A.2)."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, row, true
from stairwise.papers.lego import groups
from stairwise.papers.lego import model as models
from stairwise.papers.lego import task as tasks
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.config.task import ACTIONS, action_of
from stairwise.papers.lego.theory import chains, literal, retrieval
from stairwise.train.keys import at, role_key

MOMENTS = 4  # after the start at which a path is kept
SENTENCES = 100  # that are read at each of them
TWICE, THRICE = 2.0, 3.0  # our constants, where the paper has O(.); 3 is that of the proof of Lemma A.10


@dataclass(frozen=True)
class Retrieval(Config):
    """Training of W_4 on one-step chains, at several numbers of variables."""

    action: str = option("C3", f"the action: {groups.NAMES}", examples=ACTIONS)
    variables: tuple[int, ...] = option((8, 16, 32), "numbers of variables |X|", low=2, high=512)
    neurons: int = option(12, "neurons m of a class", low=1, high=256)
    sigma0: float = option(0.02, "standard deviation of W at the start", above=0.0, high=1.0)
    rho: float = option(0.5, "knot rho of the smoothed ReLU", above=0.0, high=10.0)
    q: int = option(4, "power q of the smoothed ReLU", low=3, high=12)
    clip_factor: float = option(4.0, "C_B of the logit clip B = C_B log d", above=0.0, high=50.0)
    learning_rate: float = option(
        0.04, "the largest change of a weight in a step", above=0.0, high=1.0, stored_as="rate"
    )
    steps: int = option(600, "steps", low=10, high=100_000)
    batch: int = option(256, "chains a step", low=1, high=65_536)

    def check(self) -> None:
        action_of(self.action)
        require(bool(self.variables), "variables must name at least one number")


class RetrievalRun(NamedTuple):
    """What a run left: the task, the network, its history and its correlations as NumPy."""

    task: Any
    model: Any
    history: Any
    found: Any

    @property
    def scale(self) -> float:
        """log d."""
        return math.log(self.task.vocabulary)

    @property
    def active(self) -> np.ndarray:
        """Phi_x: the diagonal weights of the active neurons (those above sigma_0 log d), added up."""
        diagonal = np.asarray(self.found.diagonal)
        return np.where(diagonal > self.model.bias, diagonal, 0).sum(axis=1)

    @property
    def least(self) -> float:
        """min over variables of max over neurons of the diagonal."""
        return float(np.asarray(self.found.diagonal).max(axis=1).min())


@lru_cache(maxsize=12)
def trained(config: Retrieval, seed: int) -> dict[int, RetrievalRun]:
    """One run for each number of variables; every claim of this file reads the same runs."""
    runs = {}
    for variables in config.variables:
        task = tasks.lego(action_of(config.action), variables, 1)
        d = task.vocabulary
        settings = {"sigma0": config.sigma0, "bias": config.sigma0 * math.log(d), "rho": config.rho, "q": config.q}
        clip = models.logit_clip(d, config.clip_factor)
        start = models.initial(role_key(seed, "weights"), d, config.neurons, positions=1, clip=clip, **settings)
        key = at(role_key(seed, "batches"), variables)
        model, history = retrieval.train(start, task, key, config.learning_rate, config.steps, config.batch)
        found = jax.jit(retrieval.correlations)(model.weights, task)
        runs[variables] = RetrievalRun(task, model, *jax.tree.map(np.asarray, (history, found)))
    return runs


def final_loss(run: RetrievalRun) -> float:
    return float(run.history.loss[-20:].mean())


# --- growth and convergence -------------------------------------------------------------------------------------------


@LEDGER.bound(
    "lemA3",
    statement="Lemma A.3",
    says=r"the diagonal grows as $\Gamma' = \Gamma + \Theta(\eta/d)\,\mathrm{sReLU}'(\Gamma)$ (the constant's median"
    r" lies within 1/20 and 2), and outgrows the rest of slot 1, tenfold at the largest $|X|$",
    of=(retrieval.train, retrieval.diagonal),
    cases=Retrieval(),
    tier="minutes",
    seeds=3,
)
def the_diagonal_grows(config: Retrieval, seed: int):
    ratios = []
    for variables, run in trained(config, seed).items():
        gamma, rate = run.history.gamma, run.history.rate[:-1, None]
        slope = literal.slope(gamma[:-1], config.rho, config.q)
        early = (gamma[:-1] < config.rho) & (slope > 0)
        constants = (np.diff(gamma, axis=0) * run.task.vocabulary / (rate * np.maximum(slope, 1e-30)))[early]
        low, middle, high = (float(np.quantile(constants, share)) for share in (0.1, 0.5, 0.9))
        yield at_least(f"median of Theta, |X|={variables}", middle, 0.05)
        yield at_most(f"median of Theta, |X|={variables}", middle, 2.0)
        ratio = run.least / float(run.found.off_diagonal)
        ratios.append(ratio)
        yield row({"|X|": variables, "10%": low, "median of Theta": middle, "90%": high, "on / off": ratio})
    yield at_least(f"on over off the diagonal, |X|={max(config.variables)}", ratios[-1], 10.0)
    yield true("that ratio grows with |X|", np.diff(ratios) > 0)


@LEDGER.bound(
    "lemA4",
    statement="Lemma A.4",
    says=r"every variable's $\Gamma$ reaches the linear part of sReLU; the time it takes, in units of"
    r" $d/\sigma_0^{q-2}$, is shown",
    of=(retrieval.train,),
    cases=Retrieval(),
    tier="minutes",
    seeds=3,
)
def every_diagonal_emerges(config: Retrieval, seed: int):
    for variables, run in trained(config, seed).items():
        passed = run.history.gamma >= config.rho
        yield true(f"every variable emerges, |X|={variables}", passed.any(axis=0))
        yield true(f"none has emerged at the start, |X|={variables}", ~passed[0])
        last = int(passed.argmax(axis=0).max())
        clock = float(run.history.rate[:last].sum()) * config.sigma0 ** (config.q - 2) / run.task.vocabulary
        yield row({"|X|": variables, "last passes at step": last, "sum of eta sigma_0^{q-2}/d": clock})


@LEDGER.bound(
    "lemA12",
    statement="Lemma A.12",
    says=r"token 4 converges: loss below $10^{-3}$, and every active diagonal $\Phi$ is at least $\log d$",
    of=(retrieval.train,),
    cases=Retrieval(),
    tier="minutes",
    seeds=3,
)
def the_variable_token_converges(config: Retrieval, seed: int):
    for variables, run in trained(config, seed).items():
        yield at_most(f"loss, |X|={variables}", final_loss(run), 1e-3)
        yield at_least(f"loss at the start, |X|={variables}", run.history.loss[0], 1.0)
        yield at_least(f"least Phi / log d, |X|={variables}", run.active.min() / run.scale, 1.0)


@LEDGER.exact(
    "lemA11",
    statement=("Lemma A.11", "Induction A.1"),
    says=r"Induction A.1 all along: the diagonal plus $b$ stays positive and never decreases; the correlations of (b)"
    " to (d) are read off the weights, entry by entry",
    of=(retrieval.train, retrieval.correlations, retrieval.diagonal),
    cases=Retrieval(),
    tier="minutes",
    seeds=3,
)
def the_induction_holds(config: Retrieval, seed: int):
    for variables, run in trained(config, seed).items():
        gamma = run.history.gamma
        yield true(f"Gamma > 0, |X|={variables}", gamma > 0)
        yield true(f"Gamma never decreases, |X|={variables}", np.diff(gamma, axis=0) >= 0)
        for kind, size in read_off(run).items():
            yield equal(f"{kind}, |X|={variables}", float(getattr(run.found, kind)), size, 1e-6)
        sizes = {kind: float(getattr(run.found, kind)) for kind in run.found._fields[1:]}
        yield row({"|X|": variables, "sigma_0 log d": run.model.bias, **sizes})


def read_off(run: RetrievalRun) -> dict[str, float]:
    """The largest weight of each kind, with a loop over slots, tokens and classes."""
    W = np.abs(np.asarray(run.model.weights)[:, :, 0]).max(axis=-1)  # (slot, token, class)
    _, action, value = run.task.starts
    kinds = {"actions": 0.0, "values": 0.0, "off_diagonal": 0.0, "other_slots": 0.0, "other_classes": 0.0}
    shown = {0: range(1, action), 1: range(action, value), 2: range(1, action), 3: range(1, action)}
    shown[4] = range(value, run.task.vocabulary)
    for slot, tokens in shown.items():
        for token in tokens:
            for j in range(run.task.vocabulary):
                if not 1 <= j < action:
                    kind = "other_classes"
                elif slot == 0 and token == j:
                    continue
                else:
                    kind = ("off_diagonal", "actions", "other_slots", "other_slots", "values")[slot]
                kinds[kind] = max(kinds[kind], float(W[slot, token, j]))
    return kinds


# --- the population's path --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Descent(Config):
    """W_4 on the loss over every one-step chain, at several numbers of variables; sigma_0 falls as d^-1/2."""

    action: str = option("C3", f"the action: {groups.NAMES}", examples=ACTIONS)
    variables: tuple[int, ...] = option((8, 12, 16), "numbers of variables |X|", low=2, high=64)
    neurons: int = option(12, "neurons m of a class", low=1, high=64)
    start: float = option(0.25, "sigma_0 times the root of d", above=0.0, high=4.0)
    rho: float = option(0.5, "knot rho of the smoothed ReLU", above=0.0, high=10.0)
    q: int = option(4, "power q of the smoothed ReLU", low=3, high=12)
    clip_factor: float = option(4.0, "C_B of the logit clip B = C_B log d", above=0.0, high=50.0)
    learning_rate: float = option(
        0.04, "the largest change of a weight in a step", above=0.0, high=1.0, stored_as="rate"
    )
    steps: int = option(600, "steps", low=10, high=100_000)

    def check(self) -> None:
        action_of(self.action)
        require(bool(self.variables), "variables must name at least one number")
        for variables in self.variables:
            number = chains.count(variables, self.group.actions, self.group.values, 1)
            require(
                number <= chains.LARGEST,
                f"variables={variables} gives {number} chains: at most {chains.LARGEST} are listed",
            )

    @property
    def group(self) -> groups.Action:
        return action_of(self.action)

    @property
    def least_vocabulary(self) -> int:
        return min(self.variables) + self.group.actions + self.group.values + 1


small_and_wide = {
    "m >= |Y| (Lemma A.11)": lambda c: c.neurons >= c.group.values,
    "sigma_0 log d <= rho/2: no neuron begins in the linear part": lambda c: (
        c.start * math.log(c.least_vocabulary) / math.sqrt(c.least_vocabulary) <= c.rho / 2
    ),
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
        """Phi_x: the diagonal weights above sigma_0 log d, added up."""
        return np.where(self.diagonal > self.bias, self.diagonal, 0).sum(axis=1)

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
        d = task.vocabulary
        sigma0 = config.start / math.sqrt(d)
        settings = {"sigma0": sigma0, "bias": sigma0 * math.log(d), "rho": config.rho, "q": config.q}
        clip = models.logit_clip(d, config.clip_factor)
        key = at(role_key(seed, "weights"), variables)
        now = models.initial(key, d, config.neurons, positions=1, clip=clip, dtype=jnp.float64, **settings)
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
    hypotheses=small_and_wide,
    cases=(Descent(), Descent("C6", (8,))),
    tier="minutes",
    seeds=3,
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
    hypotheses=small_and_wide,
    cases=(Descent(), Descent("C6", (8,))),
    tier="minutes",
    seeds=3,
)


@LEDGER.bound(
    "lemA8",
    statement="Lemma A.8",
    says=r"other variables in slot 1 stay below $3\sigma_0\log d$ plus $1/|X|$ of the largest diagonal, and never rise",
    of=(retrieval.descend,),
    hypotheses=small_and_wide,
    cases=(Descent(), Descent("C6", (8,))),
    tier="minutes",
    seeds=3,
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
    hypotheses=small_and_wide,
    cases=(Descent(), Descent("C6", (8,))),
    tier="minutes",
    seeds=3,
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
    hypotheses=small_and_wide,
    cases=(Descent(), Descent("C6", (8,))),
    tier="minutes",
    seeds=3,
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
    hypotheses=small_and_wide,
    cases=(Descent(), Descent("C6", (8,))),
    tier="minutes",
    seeds=3,
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
    hypotheses=small_and_wide,
    cases=(Descent(), Descent("C6", (8,))),
    tier="minutes",
    seeds=3,
)
def wrong_classes_share_evenly(config: Descent, seed: int):
    for variables, path in descended(config, seed).items():
        d, own = path.task.vocabulary, 1 + np.arange(variables)
        small = config.neurons * float(literal.activation(np.array([THRICE * path.bias]), config.rho, config.q)[0])
        last = []
        for moment, model in enumerate(path.models):
            diagonal = np.asarray(model.weights)[0, own, 0, own]
            largest = np.where(diagonal > path.bias, diagonal, 0).sum(axis=1).max()
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
