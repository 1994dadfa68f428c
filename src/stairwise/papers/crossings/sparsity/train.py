"""The five tasks behind one door: how a model starts, the loss of a batch, and what a look sees."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from stairwise.measure.accuracy import share
from stairwise.measure.attention import mean_row
from stairwise.nn.encodings import distinct_signs, subset_encoding
from stairwise.papers.composition import encoder
from stairwise.papers.composition.config import Encoder
from stairwise.papers.composition.config import Task as CompositionTask
from stairwise.papers.composition.task import token_form
from stairwise.papers.crossings.learning import in_looks
from stairwise.papers.crossings.sparsity.config import Watched
from stairwise.papers.lego import train as lego
from stairwise.papers.lego.config.practical import Lessons, Practical, Shape
from stairwise.papers.lego.config.task import Task as LegoTask
from stairwise.papers.lego.evaluate import VALUE
from stairwise.papers.parity_cot import train as parity_cot
from stairwise.papers.parity_cot.config.task import PaddedTask
from stairwise.papers.parity_cot.config.training import Decoder, Training
from stairwise.papers.parity_cot.decoder import cross_entropy, logits_of, make_decoder
from stairwise.papers.parity_cot.evaluate import step_attention
from stairwise.papers.parity_cot.task import Layout, problem_of
from stairwise.papers.parity_onestep.model import PositionalAttention
from stairwise.papers.selection.model import SelectionAttention
from stairwise.papers.selection.task import SparseSelection
from stairwise.tasks.decomposition import Tree, balanced
from stairwise.tasks.parity import coin_flips, draw_subset
from stairwise.train.keys import at, role
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage

Trial = RunningTrial[Watched]


class Seen(NamedTuple):
    """One example: the share of its answers that is right, and the attention of the rows that give them."""

    right: Float[Array, ""]
    weights: Float[Array, "*heads rows keys"]
    mask: Bool[Array, "#rows keys"]


class Setting(NamedTuple):
    """A task with its model.

    init(trial, key) -> model;  loss(trial, model, key, number) of step `number`;
    see(trial, model, key) -> Seen of one fresh example.
    """

    init: Callable[..., Any]
    loss: Callable[..., Float[Array, ""]]
    see: Callable[..., Seen]


def training(config: Watched) -> list[Stage]:
    """The one stage, watched to its end."""
    setting = SETTINGS[config.task](config)

    def loss(trial, model, number):
        return setting.loss(trial, model, at(trial.key("batch"), number), number)

    return [
        in_looks(
            init=lambda trial: setting.init(trial, trial.key("model")),
            loss=loss,
            look=partial(look, config, setting),
            steps=config.look,
            looks=config.looks,
            threshold=1.0,
            measure_at=tuple(range(config.looks + 1)),
            stop=False,
        )
    ]


def look(config: Watched, setting: Setting, trial, model) -> dict[str, Float[Array, ""]]:
    """Accuracy and normalised entropy on the same fresh examples every time; entropy also of the sparsest head."""

    def one(key: PRNGKeyArray):
        seen = setting.see(trial, model, key)
        return seen.right, mean_row(seen.weights, seen.mask)

    keys = jax.vmap(partial(at, trial.key("test")))(jnp.arange(config.test, dtype=jnp.int32))
    right, entropy = jax.vmap(one)(keys)
    heads = jnp.mean(entropy, axis=0)
    return {"accuracy": share(right), "entropy": jnp.mean(heads), "sparsest head": jnp.min(heads)}


# --- the settings -----------------------------------------------------------------------------------------------------


def composition(config: Watched) -> Setting:
    """The encoder of Figure 3 right on hops 1..k; what is watched are the k hops."""
    hops = tuple(range(1, config.parts + 1))
    own = Encoder(
        task=CompositionTask(config.parts, config.length, any_blocks=True),
        hops=hops,
        test_hops=hops,
        layers=config.layers,
        width=config.width,
        heads=4,
        batch=config.batch,
    )

    def loss(trial, model, key, number):
        drawn = number * config.batch + jnp.arange(config.batch, dtype=jnp.int32)
        task = encoder.task_of(trial.with_config(own))
        lessons = jax.vmap(partial(encoder.training_lesson, trial.with_config(own), task))(drawn)
        return encoder.batch_loss(own, model, lessons)

    def see(trial, model, key) -> Seen:
        task = encoder.task_of(trial.with_config(own))
        sequence = task.sequence(key)
        tokens = token_form(sequence, own.kinds.index(config.parts))
        logits, weights = model.with_attention(tokens)
        right = jnp.argmax(logits[1:], axis=-1) == task.hop(sequence, config.parts).reshape(-1)
        return Seen(share(right), weights[..., 1:, :], jnp.ones((1, len(tokens)), dtype=bool))

    return Setting(lambda trial, key: encoder.make_encoder(own, key), loss, see)


def lego_chain(config: Watched) -> Setting:
    """The practical decoder, without positions, on chains of a cyclic group."""
    own = Practical(
        task=LegoTask(f"C{config.parts}", 3 * config.length, config.length),
        model=Shape(width=config.width, heads=4),
        lessons=Lessons(batch=config.batch),
        test_lengths=(config.length,),
    )
    task = lego.make_task(own.task)

    def loss(trial, model, key, number):
        sentences = lego.draw_sentences(own, trial.seed, jnp.int32(0), key, number)
        return lego.batch_loss(own, key, sentences, model)

    def see(trial, model, key) -> Seen:
        chain = task.sample(key)
        clauses = task.clauses(chain)
        logits, weights = model.with_attention(clauses[:-1], config.length)
        right = jnp.argmax(logits[:, VALUE], axis=-1) == clauses[config.length + 1 :, VALUE]
        place = jnp.arange(2 * config.length, dtype=jnp.int32)
        return Seen(share(right), weights, place <= place[config.length :, None])

    return Setting(lambda trial, key: lego.make_decoder(own, key), loss, see)


def parity_chain(config: Watched) -> Setting:
    """The standard decoder on a parity with its chain of partial sums."""
    own = Training(
        task=PaddedTask(inputs=config.length, size=config.parts, padding=config.parts),
        decoder=Decoder(width=config.width, layers=config.layers),
        batch=config.batch,
        look=config.batch,
        budget=config.batch,
        validation=1,
    )
    layout = Layout.of(own.task)

    def loss(trial, model, key, number):
        drawn = number * config.batch + jnp.arange(config.batch, dtype=jnp.int32)
        asked = problem_of(own.task, trial.seed)
        tokens = jax.vmap(partial(parity_cot.training_tokens, trial.with_config(own), asked))(drawn)
        return cross_entropy(logits_of(model, layout, tokens), asked.labels(tokens), asked.live)

    def see(trial, model, key) -> Seen:
        asked = problem_of(own.task, trial.seed)
        tokens = asked.tokens(coin_flips(key, config.length))
        said = jnp.argmax(logits_of(model, layout, tokens[None])[0], axis=-1)
        place = jnp.arange(layout.length, dtype=jnp.int32)
        mask = place <= place[layout.first :, None]
        right = share(said == asked.labels(tokens))
        return Seen(right, step_attention(model, asked, tokens), mask)

    return Setting(lambda trial, key: make_decoder(own.decoder, layout.length, own.decoder.std, key), loss, see)


def parity_tree(config: Watched) -> Setting:
    """The positional attention of the one-step theorem on a balanced tree, its weights W trained by Adam from zero."""

    def tree_of(trial) -> Tree:
        secret = draw_subset(trial.key("secret"), config.length, config.parts)
        return balanced(secret, config.length)

    def predicted(tree: Tree, W, key):
        tokens = tree.complete(1 - 2 * coin_flips(key, config.length).astype(jnp.float32))
        model = PositionalAttention(W, tree)
        return model, model.link(model.forced(tokens)), tokens[config.length :]

    def init(trial, key):
        return jnp.zeros((config.length + config.parts - 1, config.parts - 1), dtype=jnp.float32)

    def loss(trial, W, key, number):
        def one(place):
            _, said, nodes = predicted(tree_of(trial), W, at(key, place))
            return jnp.mean((said - nodes) ** 2)

        return jnp.mean(jax.vmap(one)(jnp.arange(config.batch, dtype=jnp.int32)))

    def see(trial, W, key) -> Seen:
        tree = tree_of(trial)
        model, said, nodes = predicted(tree, W, key)
        right = share(jnp.sign(said) == nodes)
        return Seen(right, model.scores().T[None], tree.visible("causal").T)

    return Setting(init, loss, see)


def token_selection(config: Watched) -> Setting:
    """(W, V) from zero with fresh sign encodings; how right: the share of the answer's variance that is explained."""
    token_width = 5
    task = SparseSelection(config.length, config.parts, token_width)
    joint = token_width + config.width

    def init(trial, key):
        zeros = partial(jnp.zeros, dtype=jnp.float32)
        return SelectionAttention(zeros((joint, joint)), zeros((token_width, joint)))

    def read(model, encodings, key):
        example = task.sample(key)
        zero = jnp.zeros(token_width, dtype=jnp.float32)
        query = jnp.concatenate([zero, subset_encoding(encodings, example.subset)])
        error = model(example.tokens, encodings, query) - task.answer(example)
        return error, model.attention(example.tokens, encodings, query)

    def encodings_of(key):
        return distinct_signs(role(key, "encodings"), config.length, config.width) / config.width**0.5

    def loss(trial, model, key, number):
        encodings = encodings_of(key)
        keys = jax.vmap(partial(at, key))(jnp.arange(config.batch, dtype=jnp.int32))
        errors = jax.vmap(lambda one: read(model, encodings, one)[0])(keys)
        return 0.5 * jnp.mean(jnp.sum(errors**2, axis=-1))

    def see(trial, model, key) -> Seen:
        error, weights = read(model, encodings_of(key), key)
        explained = 1 - jnp.sum(error**2) * config.parts / token_width
        return Seen(explained, weights[None, None], jnp.ones((1, config.length), dtype=bool))

    return Setting(init, loss, see)


SETTINGS = {
    "composition": composition,
    "lego": lego_chain,
    "parity_cot": parity_chain,
    "parity_onestep": parity_tree,
    "selection": token_selection,
}
