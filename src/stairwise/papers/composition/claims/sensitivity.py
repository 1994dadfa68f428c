"""Steps inside the proofs of Lemmas 29, 32 and 35: how far changes of weights reach, how little attention moves."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_most, equal, monomial, row, slope
from stairwise.papers.composition.claims.curriculum import lemma_29
from stairwise.papers.composition.claims.gradients import leaky_model
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.mixture import GROWTH, SMALL_START, MixtureStep, distance
from stairwise.papers.composition.claims.noise import Leaky
from stairwise.papers.composition.claims.sizes import doubling, few_tokens, hidden_of, random_sequences
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import descent, exact, literal, noise, perturbation, sensitivity, streams
from stairwise.train.draws import draws_of

SECOND_ORDER = 1e-3  # what eps^2 and rounding leave, relative to eps: eps is 1e-11, and a softmax knows it to 1e-16
SEQUENCES = 2  # sequences at which every derivative of the stream is taken


# --- Lemma 29: a change of a trained layer ----------------------------------------------------------------------------


@LEDGER.bound(
    "lem29-induction",
    statement="Lemma 29, induction of the proof",
    says=(
        r"a change $\Delta W$ of a trained layer $\ell'$ moves $X^{(t)}$ by at most $(kNL)^{3/2}\epsilon"
        r"(1+\frac1k)^{t-\ell'}\|\Delta W\|_F$; where all wrong keys get the same, by "
        r"$(\ell'+1)\frac{\epsilon}{2}\sqrt{kN/(kN-1)}$ at every $t$"
    ),
    of=(sensitivity.reach_bound, sensitivity.reach_sharp),
    hypotheses=lemma_29,
    cases=Leaky(Task(4, 2), betas=(26.0, 27.0, 28.0), samples=1),
    seeds=3,
)
def a_change_reaches_no_further_than_the_leak(config: Leaky, seed: int):
    task, hidden = config.task, hidden_of(config.task, seed)
    k, N, L = task.blocks, task.alphabet, task.layers
    require(L >= 3, f"task.blocks={k} must be at least 4: a layer after a trained one is read")
    require(len(set(config.betas)) > 2, f"betas={config.betas} must be at least three sharpnesses")
    sequences = random_sequences(task, SEQUENCES, seed)
    leaks: list[float] = []
    found: dict[tuple[int, int], list[float]] = {}
    for beta in config.betas:
        network = leaky_model(hidden, config.beta0, beta, L - 1)
        leaks.append(2 * float(streams.deviation(network, hidden, sequences).leak[: L - 1].max()))
        for layer in range(1, L):
            for t in range(layer, L):
                each = [sensitivity.reach(network, jnp.asarray(sequence), layer, t) for sequence in sequences]
                found.setdefault((layer, t), []).append(max(each))
    for (layer, t), values in found.items():
        where = f"of layer {layer}, in X^({t})"
        allowed = [sensitivity.reach_bound(k, N, L, eps, t - layer) for eps in leaks]
        sharp = [sensitivity.reach_sharp(task.tokens, layer, eps) for eps in leaks]
        yield at_most(f"a change {where}", values, allowed)
        yield equal(f"a change {where}, first order", np.divide(values, sharp), np.ones(len(sharp)), SECOND_ORDER)
        yield slope(f"exponent of eps {where}", leaks, values, 1.0)
        if t > layer:
            growth = np.divide(values, found[layer, t - 1])
            yield at_most(f"growth from X^({t - 1}) {where}", growth, 1 + 1 / k)
        yield row({"layer": layer, "t": t, "moved": values[-1], "allowed": allowed[-1], "first order": sharp[-1]})
    printed = (k * N * L) ** 1.5 * (1 + 1 / k) ** 3
    yield equal("bound at eps = 1, three layers later, as printed", sensitivity.reach_bound(k, N, L, 1.0, 3), printed)


@dataclass(frozen=True)
class Attention(Config):
    """Attention to some keys, all but a little of it to one of them."""

    keys: int = option(12, "keys", low=2, high=500)
    epsilon: float = option(0.1, "twice the attention off the first key", above=0.0, high=1.0)
    draws: int = option(50, "ways to spread it over the others", low=1, high=1000)


@LEDGER.bound(
    "lem29-jacobian",
    statement="Lemma 29, Jacobian of the softmax",
    says=r"attention of at least $1-\frac{\epsilon}{2}$ to one key has $\|J\|_2 \le \epsilon(1-\frac{\epsilon}{2})$, "
    r"which is attained where the rest goes to one other key",
    of=(sensitivity.jacobian_bound,),
    cases=(Attention(), Attention(3, 1.0), Attention(100, 1e-6)),
    seeds=3,
)
def sharp_attention_has_a_small_jacobian(config: Attention, seed: int):
    rng, leak = draws_of(seed, "attention"), config.epsilon / 2
    wrong = rng.dirichlet(np.full(config.keys - 1, 0.3), config.draws)
    wrong = np.concatenate([np.eye(config.keys - 1)[:1], wrong])
    S = np.concatenate([np.full((len(wrong), 1), 1 - leak), leak * wrong], axis=1)
    J = np.stack([np.diag(s) - np.outer(s, s) for s in S])
    norms = np.linalg.norm(J, 2, axis=(1, 2))
    bound = sensitivity.jacobian_bound(config.epsilon)
    yield at_most("||J||_2", norms, bound, rounding=1e-9)
    yield equal("||J||_2 where one key gets all that leaks", norms[0], bound, 1e-9)
    yield row({"keys": config.keys, "largest ||J||_2": float(norms.max()), "least": float(norms.min())})


# --- Lemmas 32 and 35: layers that have not been trained --------------------------------------------------------------


@dataclass(frozen=True)
class SmallWeights(Config):
    """A layer with small weights after some trained ones."""

    task: Task = option(Task(4, 3), "the composition")
    trained: int = option(1, "trained layers before it", low=0, high=10)
    norms: tuple[float, ...] = option((1e-6, 1e-4, 1e-2), "norms of its key-query matrix", above=0.0, high=1.0)
    beta: float = option(30.0, "sharpness of the trained layers", above=0.0, high=700.0)

    def check(self) -> None:
        few_tokens(self.task, 64)
        require(not doubling(self.task), f"task.blocks={self.task.blocks} must be a power of two")
        require(len(set(self.norms)) > 2, f"norms={self.norms} must be at least three")
        require(
            self.trained < self.task.layers,
            f"trained={self.trained} must be below the number of layers {self.task.layers}",
        )


@LEDGER.bound(
    "lem32-softmax",
    statement=("Lemma 32, proof, attention of untrained layers", "Lemma 35, proof, attention of untrained layers"),
    says=(
        r"weights of norm $\|W\|_2$ move the attention of layer $\ell$ off $\frac{1}{kN}$ by at most "
        r"$C\frac{L^2}{kN}\|W\|_2$: to first order by $(\ell+1)\sqrt{1-\frac{1}{kN}}\,\|W\|_2/(kN)$, which is attained"
    ),
    of=(sensitivity.off_uniform_bound, sensitivity.off_uniform_printed, sensitivity.score_spread),
    cases=(SmallWeights(), SmallWeights(Task(4, 2), trained=2), SmallWeights(Task(2, 5), trained=0)),
    seeds=3,
)
def small_weights_keep_attention_uniform(config: SmallWeights, seed: int):
    task, hidden = config.task, hidden_of(config.task, seed)
    T, L, layer = task.tokens, task.layers, config.trained + 1
    network = leaky_model(hidden, 1.0, config.beta, config.trained)
    sequence = random_sequences(task, 1, seed)[0]
    X = np.stack(network.stream(jnp.asarray(sequence), config.trained).blocks).reshape(-1, T)
    rng, size = draws_of(seed, "weights"), X.shape[0]
    query = int(rng.integers(T))
    aligned = np.outer(X[:, 0] - X.mean(axis=1), X[:, query])
    directions = {"random weights": rng.standard_normal((size, size)), "the worst weights": aligned}
    for name, W in directions.items():
        unit, away = W / np.linalg.norm(W, 2), []
        for norm in config.norms:
            S = literal.softmax(X.T @ (norm * unit) @ X)
            away.append(float(np.abs(S - 1 / T).max()))
        bounds = [sensitivity.off_uniform_bound(T, layer, norm) for norm in config.norms]
        yield at_most(f"{name}: attention off uniform", away, bounds)
        yield slope(f"{name}: exponent of the norm", config.norms, away, 1.0)
        yield row({"weights": name, "norm": config.norms[-1], "off uniform": away[-1], "allowed": bounds[-1]})
    least = min(config.norms)
    first = sensitivity.score_spread(T, layer, least) / T
    smallest = np.abs(literal.softmax(X.T @ (least / np.linalg.norm(aligned, 2) * aligned) @ X) - 1 / T).max()
    yield equal("the worst weights, first order", smallest, first, 1e-6 + 2 * sensitivity.score_spread(T, layer, least))
    # (l+1) <= C L^2 with the same C at all sizes: C = 2 does, since l is at most L
    printed = sensitivity.off_uniform_printed(T, L, least)
    yield at_most("first order, over the printed bound with C = 1", first / printed, 2.0)
    written = [math.expm1(math.sqrt(0.75)) / 4, -math.expm1(-math.sqrt(3) / 50) / 4]
    found = [sensitivity.off_uniform_bound(4, 1, norm) for norm in (0.5, 0.01)]
    yield equal("bound on attention, written out", found, written)
    yield monomial("printed bound", sensitivity.off_uniform_printed, 1, tokens=-1, layers=2, norm=1)


@LEDGER.bound(
    "lem35-norm",
    statement=("Lemma 35, norm of untrained layers", "Lemma 32, norm of untrained layers"),
    says=(
        r"a step of the mixture from weights of norm $D_{t-1}$ at most leaves $\|W_{KQ}^{(\ell)}(t)\|_2 \le D_t = "
        r"(kNL)^6\log\frac1\epsilon\,D_{t-1}$ in the layers $\ell > t$, by the gradients of Lemmas 33 and 37; "
        r"in fact it stays below twice what it was"
    ),
    of=(sensitivity.norm_after,),
    hypotheses=SMALL_START,
    cases=MixtureStep(betas=(13.0, 16.0, 19.0, 22.0)),
    seeds=3,
)
def untrained_layers_keep_small_weights(config: MixtureStep, seed: int):
    task, t, hidden = config.task, config.step, hidden_of(config.task, seed)
    k, N, L = task.blocks, task.alphabet, task.layers
    require(t < L, f"step={t} must be below the number of layers {L} for a layer after it")
    rng = draws_of(seed, "weights of untrained layers")
    batch = exact.batch(hidden, L, noise.samples_lemmas(k, N), draws_of(seed, "batch"))
    directions = [rng.standard_normal((layer + 2, layer + 2, task.tokens, task.tokens)) for layer in range(L)]
    before, after = [], []
    for beta in config.betas:
        network = leaky_model(hidden, config.beta0, beta, t - 1)
        D = distance(config, seed, hidden, network, t - 1)
        left = [D * W / sensitivity.spectral_norm(W) for W in directions]
        matrices = [
            W if layer < t else jnp.asarray(left[layer - 1]) for layer, W in enumerate(network.key_query, start=1)
        ]
        network = exact.with_key_query(network, tuple(matrices))
        D = max(D, distance(config, seed, hidden, network, t - 1))
        rate = 2 * noise.learning_rate_theorem(k, N, config.beta0, D / 2)
        stepped, _ = descent.key_query_step(network, batch, rate, *range(1, L + 1))
        norms = [sensitivity.spectral_norm(np.asarray(W)) for W in stepped.key_query[t:]]
        chain = [sensitivity.norm_after(k, N, L, layer, D, rate * config.beta0, D) for layer in range(t + 1, L + 1)]
        before.append(D)
        after.append(max(norms))
        yield at_most(f"norm at beta = {beta:g}, by Lemmas 33 and 37", norms, chain)
        yield row({"beta": beta, "D before": D, "norm after": after[-1], "by the lemmas": max(chain)})
    yield at_most("norm after the step", after, [perturbation.mixture_growth(k, N, L, D) * D for D in before])
    yield at_most("norm after the step over that before it", np.divide(after, before), GROWTH)
    yield slope("exponent of the distance", before, after, 1.0)
    terms = sensitivity.norm_after(2, 3, 5, 4, 7.0, 11.0, 13.0)
    yield equal("bound, written out", terms, 7 + 11 * 6 * 5 * 13 * (1 + 6 * 4 * 6 * 5))
