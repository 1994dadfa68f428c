"""What one step does to the attention, and what that does to the error: the proof of Theorem 5."""

import math
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_onestep import model
from stairwise.papers.parity_onestep.claims.concentration import one_step_gradient
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import bits_of, fits, link_of, tokens_of, tree_of
from stairwise.papers.parity_onestep.config import LinkFunction, Task
from stairwise.papers.parity_onestep.theory import noise, population, recursion


@dataclass(frozen=True)
class Step(Config):
    """One step from zero with the causal mask, and inputs to roll out on."""

    task: Task = option(Task(64, 32), "the parity")
    link: LinkFunction = option(LinkFunction(), "the link function")
    lam: float = option(12.0, "logit lam of the root's children: eta = lam V(root)^2/(2c)", above=0.0, high=150.0)
    samples: int = option(0, "samples n; 0 = infinitely many, by the exact mean gradient", low=0, high=2**20)
    test_inputs: int = option(200, "fresh inputs of the roll-out", low=1, high=2**16)
    epsilon: float = option(1.0, "eps of the paper, for its rates d^(-eps/16)", above=0.0, high=1000.0)

    def check(self) -> None:
        fits(max(self.samples, self.test_inputs), self.task)
        tokens = self.task.bits + self.task.size - 1
        require(tokens <= 1000, f"task.bits+task.size-1={tokens} must be at most 1000")


def weights_after(config: Step, seed: int):
    """The tree, W after the step, and the attention that it gives to children."""
    task, tree, link = config.task, tree_of(config.task, seed), link_of(config.link)
    children = np.asarray(tree.children)
    eta = config.lam * (tree.tokens - 1) ** 2 / (2 * link.curvature)
    if config.samples:
        x = tokens_of(tree, bits_of(task, config.samples, seed))
        G = np.asarray(one_step_gradient()(jnp.asarray(x.T), tree, config.link))
    else:
        G = np.zeros((tree.tokens, tree.nodes))
        for i in range(tree.nodes):
            law = population.node_law(children, task.bits, i, i)
            G[: task.bits + i, i] = population.node_gradient(law, link)
    net = model.PositionalAttention(jnp.asarray(-eta * G), tree, link)
    scores = np.asarray(_scores()(net))
    return net, recursion.child_attention(-eta * G, scores, children)


@cache
def _scores():
    return jax.jit(lambda net: net.scores())


@cache
def _rolled():
    return jax.jit(lambda net, x: jax.vmap(net.by_tokens)(x))


@LEDGER.theory(
    "thm5-softmax",
    kind="bound",
    says="after the step the children have attention 1/2 up to (|tanh(Delta/2)| + leak)/2, Delta and leak as predicted",
    cases=(Step(lam=9.0), Step(lam=9.0, samples=16_384), Step(Task(32, 11), LinkFunction("cos"), 10.0, 8192)),
)
def attention_concentrates_on_the_children(config: Step, seed: int) -> Verdict:
    net, attention = weights_after(config, seed)
    expected = expected_attention(config, net.tree, seed)
    off = np.abs(attention.children - 0.5).max(axis=1)
    rate = config.task.bits ** (-config.epsilon / 16)
    row = {
        "largest |s - 1/2|": float(off.max()),
        "over d^(-eps/16)": float(off.max()) / rate,
        "largest leak": float(attention.leak.max()),
        "leak at logit lam and 0": noise.leakage(net.tree.tokens - 1, config.lam),
        "largest |Delta|": float(np.abs(attention.difference).max()),
        "largest Delta expected": float(expected.difference.max()),
        "ln d from which d exp(-d^(eps/16)) < 1": recursion.bits_for_leak(config.epsilon),
    }
    within = recursion.split_bound(expected)
    return Verdict.worst(
        {
            "|s - 1/2| over (tanh(Delta/2) + leak)/2": Verdict.at_most(
                float(np.max(off / within)), 1.0, details=(row,)
            ),
            "leak over the expected": Verdict.at_most(float(np.max(attention.leak / expected.leak)), 1.0),
        }
    )


DEVIATIONS = 5.0  # that the largest of a few hundred normal variables does not exceed


def expected_attention(config: Step, tree, seed: int):
    """Upper ends of Delta and leak, from the exact mean and noise of the gradient and nothing of the run."""
    link, children = link_of(config.link), np.asarray(tree.children)
    eta = config.lam * (tree.tokens - 1) ** 2 / (2 * link.curvature)
    scale = eta / math.sqrt(config.samples) if config.samples else 0.0
    apart, leak = [], []
    for i, pair in enumerate(children.tolist()):
        law = population.node_law(children, config.task.bits, i, i)
        logits, spread = -eta * population.node_gradient(law, link), population.node_spread(law, link, tuple(pair))
        apart.append(abs(logits[pair[0]] - logits[pair[1]]) + DEVIATIONS * scale * spread.difference)
        low = logits[pair].mean() - DEVIATIONS * scale * spread.common
        # log-normal means of the others; half as much again for the scatter of their sum
        others = np.exp(logits + (scale * spread.entry) ** 2 / 2)
        mass = 1.5 * (others.sum() - others[pair].sum())
        leak.append(mass / (mass + 2 * math.exp(low)))
    none = np.zeros((len(children), 2))
    return recursion.Attention(none, np.maximum(leak, 1e-15), np.array(apart))


@LEDGER.theory(
    "thm5-recursion",
    kind="bound",
    says="errors obey e_m <= C2 (delta_m + e)^2, e the larger error of the children, C2 = max(c, c1)",
    cases=(Step(), Step(Task(16, 8), lam=14.0), Step(Task(64, 16), LinkFunction("cos"))),
)
def errors_follow_the_recursion(config: Step, seed: int) -> Verdict:
    net, attention = weights_after(config, seed)
    children, d = np.asarray(net.tree.children), config.task.bits
    constant = max(net.link.curvature, net.link.end_curvature)
    delta = recursion.disturbance(attention)
    predicted = recursion.recursion_by_tree(delta, children, d, constant)
    x = tokens_of(net.tree, bits_of(config.task, config.test_inputs, seed + 1))
    made = np.asarray(_rolled()(net, jnp.asarray(x[:, :d])))
    errors = np.abs(made - x)[:, d:].max(axis=0)
    fixed = recursion.fixed_point(float(delta.max()), constant)
    row = {
        "largest error": float(errors.max()),
        "recursion": float(predicted.max()),
        "as printed, from the largest delta": recursion.recursion_printed(float(delta.max()), len(delta), constant),
        "largest delta": float(delta.max()),
        "1/(4 C2)": 1 / (4 * constant),
        "fixed point": fixed,
    }
    floor = 1e-13 * constant  # rounding of phi near +-1
    if predicted.max() >= 2:
        return Verdict(
            "vacuous",
            float(errors.max()),
            float(predicted.max()),
            details=(row,),
            note="delta is above what the recursion can bear, and it says only that errors are at most 2",
        )
    over = float(np.max((errors - floor) / np.maximum(predicted, 1e-300)))
    return Verdict.at_most(over, 1.0, details=(row,))


@dataclass(frozen=True)
class Support(Config):
    """Data sets around the size from which the children are found."""

    task: Task = option(Task(64, 32), "the parity")
    link: LinkFunction = option(LinkFunction(), "the link function")
    repeats: int = option(20, "data sets of each size", low=1, high=10_000)
    factor: float = option(8.0, "how many times fewer samples must fail", low=2.0, high=1e6)

    def check(self) -> None:
        require(self.task.bits >= 8, f"task.bits={self.task.bits} must be at least 8 (among fewer few samples do)")
        fits(round(noise_free_samples(self.task)), self.task)


def noise_free_samples(task: Task) -> float:
    """n of `noise.support_samples` for the root's V and all nodes."""
    return noise.support_samples(task.bits + task.size - 2, task.size - 1)


@LEDGER.theory(
    "support-law",
    kind="empirical",
    says="beyond the paper: from n = 2V (sqrt(2 ln 2k) + sqrt(2 ln Vk))^2 on, ~ d ln d, all children are found",
    cases=(Support(), Support(Task(32, 16)), Support(Task(128, 16))),
)
def children_are_found_from_d_log_d_samples_on(config: Support, seed: int) -> Verdict:
    tree = tree_of(config.task, seed)
    enough = noise_free_samples(config.task)
    shares = {}
    for n in (round(enough), max(1, round(enough / config.factor))):
        found = [found_children(config, tree, bits_of(config.task, n, seed + r)) for r in range(config.repeats)]
        shares[n] = float(np.mean(found))
    (many, most), (few, some) = shares.items()
    row = {
        "n": many,
        "n over d": many / config.task.bits,
        "share found": most,
        "n that is too few": few,
        "share then": some,
    }
    return Verdict.worst(
        {
            "share of data sets that find all children": Verdict.at_least(most, 0.9, details=(row,)),
            f"share with {config.factor:g} times fewer samples": Verdict.at_most(some, 0.5),
        }
    )


def found_children(config: Support, tree, x: np.ndarray) -> bool:
    """Whether in every column the two largest weights after one step are those of the children."""
    G = np.asarray(one_step_gradient()(jnp.asarray(tokens_of(tree, x).T), tree, config.link))
    children = np.asarray(tree.children)
    for i, pair in enumerate(children.tolist()):
        column = -G[: config.task.bits + i, i]
        others = np.delete(column, pair)
        if len(others) and column[pair].min() <= others.max():
            return False
    return True
