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
from stairwise.papers.composition.config import Model as EncoderModel
from stairwise.papers.composition.config import Task as CompositionTask
from stairwise.papers.composition.task import token_form
from stairwise.papers.crossings.learning import in_looks
from stairwise.papers.crossings.sparsity.config import Watched
from stairwise.papers.lego import train as lego
from stairwise.papers.lego.config.practical import Practical, Shape
from stairwise.papers.lego.config.task import Task as LegoTask
from stairwise.papers.lego.evaluate import VALUE
from stairwise.papers.parity_cot import train as parity_cot
from stairwise.papers.parity_cot.config.task import PaddedTask
from stairwise.papers.parity_cot.config.training import Decoder, Training
from stairwise.papers.parity_cot.decoder import logits_of
from stairwise.papers.parity_cot.evaluate import step_attention
from stairwise.papers.parity_cot.task import Layout, problem_of
from stairwise.papers.parity_onestep.model import PositionalAttention
from stairwise.papers.selection.model import SelectionAttention
from stairwise.papers.selection.task import SparseSelection
from stairwise.tasks.decomposition import Tree, balanced
from stairwise.tasks.parity import coin_flips, draw_subset
from stairwise.train.gradient import fresh
from stairwise.train.keys import at, role
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage

Trial = RunningTrial[Watched]


class SeenExample(NamedTuple):
    """One example: the share of its answers that is right, and the attention of the rows that give them."""

    right: Float[Array, ""]
    weights: Float[Array, "*heads rows keys"]
    mask: Bool[Array, "#rows keys"]


class Setting(NamedTuple):
    """A task with its model.

    init(trial, key) -> model;  batch and loss as in `gradient_training`;
    see(trial, model, key) -> Seen of one fresh example.
    """

    init: Callable[..., Any]
    batch: Callable[..., Any]
    loss: Callable[..., Float[Array, ""]]
    see: Callable[..., SeenExample]


def training(config: Watched) -> list[Stage]:
    """The one stage, watched to its end."""
    setting = SETTINGS[config.task](config)
    return [
        in_looks(
            model=lambda trial, key: setting.init(trial, trial.key("model")),
            batch=setting.batch,
            loss=setting.loss,
            look=partial(look, config, setting),
            key_role="batch",
            steps=config.measure_every,
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

    keys = jax.vmap(partial(at, trial.key("test")))(jnp.arange(config.test_examples, dtype=jnp.int32))
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
        model=EncoderModel(layers=config.model.layers, width=config.model.width, heads=4),
        samples=0,
        batch=config.batch,
    )

    def batch(trial, aux, model, key, n):
        return encoder.batch(trial.with_config(own), aux, model, key, n)

    def loss(trial, model, lessons, key):
        return encoder.batch_loss(own, model, lessons)

    def see(trial, model, key) -> SeenExample:
        task = encoder.task_of(trial.with_config(own))
        sequence = task.sequence(key)
        tokens = token_form(sequence, own.kinds.index(config.parts))
        logits, weights = model.with_attention(tokens)
        right = jnp.argmax(logits[1:], axis=-1) == task.hop(sequence, config.parts).reshape(-1)
        return SeenExample(share(right), weights[..., 1:, :], jnp.ones((1, len(tokens)), dtype=bool))

    return Setting(lambda trial, key: encoder.make_encoder(own, key), batch, loss, see)


def lego_chain(config: Watched) -> Setting:
    """The practical decoder, without positions, on chains of a cyclic group."""
    own = Practical(
        task=LegoTask(f"C{config.parts}", 3 * config.length, config.length),
        model=Shape(width=config.model.width, heads=4),
        batch=config.batch,
        test_lengths=(config.length,),
    )
    task = lego.make_task(own.task)

    def batch(trial, aux, model, key, n):
        return lego.with_places(own, lego.draw_sentences)(trial.with_config(own), aux, model, key, n)

    def loss(trial, model, batch, key):
        return lego.batch_loss(own, model, batch)

    def see(trial, model, key) -> SeenExample:
        chain = task.sample(key)
        clauses = task.clauses(chain)
        logits, weights = model.with_attention(clauses[:-1], config.length)
        right = jnp.argmax(logits[:, VALUE], axis=-1) == clauses[config.length + 1 :, VALUE]
        place = jnp.arange(2 * config.length, dtype=jnp.int32)
        return SeenExample(share(right), weights, place <= place[config.length :, None])

    return Setting(lambda trial, key: lego.make_decoder(own, key), batch, loss, see)


def parity_chain(config: Watched) -> Setting:
    """The standard decoder on a parity with its chain of partial sums."""
    own = Training(
        task=PaddedTask(bits=config.length, size=config.parts, padding=config.parts),
        model=Decoder(width=config.model.width, layers=config.model.layers),
        batch=config.batch,
        look=config.batch,
        budget=config.batch,
        test_examples=1,
    )
    layout = Layout.of(own.task)

    def batch(trial, aux, model, key, n):
        return parity_cot.batch(trial.with_config(own), problem_of(own.task, trial.seed), model, key, n)

    def loss(trial, model, batch, key):
        return parity_cot.loss(model, batch)

    def see(trial, model, key) -> SeenExample:
        asked = problem_of(own.task, trial.seed)
        tokens = asked.tokens(coin_flips(key, config.length))
        said = jnp.argmax(logits_of(model, layout, tokens[None])[0], axis=-1)
        place = jnp.arange(layout.length, dtype=jnp.int32)
        mask = place <= place[layout.first :, None]
        right = share(said == asked.labels(tokens))
        return SeenExample(right, step_attention(model, asked, tokens), mask)

    return Setting(lambda trial, key: parity_cot.decoder(own, key), batch, loss, see)


def parity_tree(config: Watched) -> Setting:
    """The positional attention of the one-step theorem on a balanced tree, its weights W trained by Adam from zero."""

    def tree_of(trial) -> Tree:
        secret = draw_subset(trial.key("secret"), config.length, config.parts)
        return balanced(secret, config.length)

    def drawn(tree: Tree, key):
        return tree.complete(1 - 2 * coin_flips(key, config.length).astype(jnp.float32))

    def predicted(tree: Tree, W, tokens):
        model = PositionalAttention(W, tree)
        return model, model.link(model.forced(tokens)), tokens[config.length :]

    def init(trial, key):
        return jnp.zeros((config.length + config.parts - 1, config.parts - 1), dtype=jnp.float32)

    def loss(trial, W, batch, key):
        def one(tokens):
            _, said, nodes = predicted(tree_of(trial), W, tokens)
            return jnp.mean((said - nodes) ** 2)

        return jnp.mean(jax.vmap(one)(batch))

    def see(trial, W, key) -> SeenExample:
        tree = tree_of(trial)
        model, said, nodes = predicted(tree, W, drawn(tree, key))
        right = share(jnp.sign(said) == nodes)
        return SeenExample(right, model.scores().T[None], tree.visible("causal").T)

    return Setting(init, fresh(lambda trial, key: drawn(tree_of(trial), key), config.batch), loss, see)


def token_selection(config: Watched) -> Setting:
    """(W, V) from zero with fresh sign encodings; how right: the share of the answer's variance that is explained."""
    token_width = 5
    task = SparseSelection(config.length, config.parts, token_width)
    joint = token_width + config.model.width

    def init(trial, key):
        zeros = partial(jnp.zeros, dtype=jnp.float32)
        return SelectionAttention(zeros((joint, joint)), zeros((token_width, joint)))

    def read(model, encodings, example):
        zero = jnp.zeros(token_width, dtype=jnp.float32)
        query = jnp.concatenate([zero, subset_encoding(encodings, example.subset)])
        error = model(example.tokens, encodings, query) - task.answer(example)
        return error, model.attention(example.tokens, encodings, query)

    def encodings_of(key):
        return distinct_signs(role(key, "encodings"), config.length, config.model.width) / config.model.width**0.5

    def batch(trial, aux, model, key, n):
        examples = fresh(lambda trial, key: task.sample(key), config.batch)
        return encodings_of(key), examples(trial, aux, model, key, n)

    def loss(trial, model, batch, key):
        encodings, examples = batch
        errors = jax.vmap(lambda one: read(model, encodings, one)[0])(examples)
        return 0.5 * jnp.mean(jnp.sum(errors**2, axis=-1))

    def see(trial, model, key) -> SeenExample:
        error, weights = read(model, encodings_of(key), task.sample(key))
        explained = 1 - jnp.sum(error**2) * config.parts / token_width
        return SeenExample(explained, weights[None, None], jnp.ones((1, config.length), dtype=bool))

    return Setting(init, batch, loss, see)


SETTINGS = {
    "composition": composition,
    "lego": lego_chain,
    "parity_cot": parity_chain,
    "parity_onestep": parity_tree,
    "selection": token_selection,
}
