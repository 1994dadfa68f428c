"""Decoders trained from scratch on word problems: does CoT in the training data make attention sparser?

The paper infers it from pre-trained models (Figure 6). Those differ in more than CoT, and its two texts differ in
length, which alone lowers eq. (1). Here everything else is equal: problems, vocabulary, initial weights, the order of
the problems, steps and, in the control, the lengths and the tokens of the texts.

    with CoT         question, its own reasoning, result
    borrowed         question, reasoning of another problem, cut to the same length, result     (the control)
    without CoT      question, result                                                           (shorter)

A borrowed reasoning is fluent text and its steps depend on each other, but it tells nothing about the question and the
result depends on neither: what is taken away is the step-by-step dependence that, by the paper, makes attention sparse.

Hypothesis, with its criterion, written down before any run: on the same held-out texts (question, own reasoning,
result), at the end of training and averaged over layers and heads, decoders trained with CoT have a lower entropy than
those trained on borrowed reasoning, both by eq. (1) and by its mean over tokens: the 95 % interval over seeds of the
paired difference lies below 0 for both.

The tokens of the question are the same in all three, and causal attention cannot know what follows: there the decoders
without CoT can be compared as well ("question").
"""

from functools import partial
from operator import itemgetter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from stairwise.measure.attention import mean_row, sparsest_row
from stairwise.nn.attention import attention_mask
from stairwise.nn.transformer import Transformer
from stairwise.papers.parity_cot.config.gsm8k import Reading
from stairwise.papers.parity_cot.corpus import Parts, tokenise
from stairwise.train.gradient import Training, gradient_training, numbered, with_replacement
from stairwise.train.keys import at, role
from stairwise.train.loop import RunningTrial
from stairwise.train.schedules import warm_up_linear
from stairwise.train.stage import Stage, every

# what is measured of each head: on which text, over which tokens
LOOKS = ("min cot", "mean cot", "min own", "mean own", "min question", "mean question")
AT_ONCE = 8  # held-out texts read side by side


class Text(NamedTuple):
    """Tokens with padding behind them, and where question and result end and begin."""

    tokens: Int[Array, " length"]
    question: Int[Array, ""]  # tokens of the question
    result: Int[Array, ""]  # place of the first token of the result
    end: Int[Array, ""]  # tokens in all

    def present(self) -> Bool[Array, " length"]:
        return jnp.arange(len(self.tokens), dtype=jnp.int32) < self.end


def reading(config: Reading) -> list[Stage]:
    """The one stage of training; the problems are read, on the host, when the program is made."""
    corpus = tokenise(config.data, config.corpus)
    train, held_out = (Parts(*map(jnp.asarray, parts)) for parts in (corpus.train, corpus.held_out))
    return [
        gradient_training(
            model=lambda trial, key: make_model(trial.config, role(key, "model")),
            batch=numbered(
                lambda trial, problem: own_text(train, trial, problem),
                with_replacement(config.batch, len(train.starts)),
            ),
            loss=lambda trial, model, texts, key: batch_loss(model, texts),
            optimizer=optimizer,
            steps=config.steps,
            measure=partial(measure, held_out),
            measure_at=every(config.measure_every, config.steps),
            keep=None,
            finish=partial(every_head, held_out),
        )
    ]


# --- texts ------------------------------------------------------------------------------------------------------------


def compose(parts: Parts, length: int, problem, reasoner, with_reasoning) -> Text:
    """The question and the result of one problem, with the reasoning of another (or its own) between them, or nothing.

    Borrowed reasoning is cut to the length of the problem's own.
    """
    kept = jnp.minimum(parts.lengths[problem, 1], parts.lengths[reasoner, 1])
    lengths = parts.lengths[problem].at[1].set(jnp.where(with_reasoning, kept, 0))
    starts = parts.starts[problem].at[1].set(parts.starts[reasoner, 1])
    ends = jnp.cumsum(lengths)
    place = jnp.arange(length, dtype=jnp.int32)
    part = jnp.minimum(jnp.sum(place[:, None] >= ends, axis=1), 2)
    index = starts[part] + place - (ends - lengths)[part]
    tokens = jnp.where(place < ends[2], parts.tokens[jnp.minimum(index, len(parts.tokens) - 1)], 0)
    return Text(tokens, ends[0], ends[1], ends[2])


def own_text(parts: Parts, trial: RunningTrial[Reading], problem) -> Text:
    """A problem as this trial reads it: a function of the seed and the problem alone."""
    config = trial.config
    key = at(trial.key("format"), problem)
    draws = jax.random.uniform(key, (2,), dtype=jnp.float32)
    reasoner = jnp.where(draws[1] < config.own, problem, parts.partner[problem])
    return compose(parts, config.corpus.length, problem, reasoner, draws[0] < config.reasoning)


# --- training ---------------------------------------------------------------------------------------------------------


def make_model(config: Reading, key: PRNGKeyArray) -> Transformer:
    return Transformer(
        vocab=config.corpus.vocabulary,
        width=config.model.width,
        layers=config.model.layers,
        heads=config.model.heads,
        causal=True,
        positions="rotary",
        std=config.model.std,
        compute_dtype=config.model.compute,
        key=key,
    )


def optimizer(config: Reading) -> optax.GradientTransformation:
    """Adam on clipped gradients; the rate goes up linearly over the first 5 % of the steps, then down linearly to 0."""
    rate = warm_up_linear(config.learning_rate, max(1, config.steps // 20), config.steps)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate, b2=0.99))


def batch_loss(model: Transformer, texts: Text) -> Float[Array, ""]:
    losses, counted = jax.vmap(lambda text: token_losses(model(text.tokens), text))(texts)
    return jnp.sum(losses) / jnp.sum(counted)


def token_losses(
    logits: Float[Array, "length vocabulary"], text: Text
) -> tuple[Float[Array, " length"], Bool[Array, " length"]]:
    """-ln p(next token) at every place that has one, and which do."""
    following = jnp.roll(text.tokens, -1)
    counted = jnp.arange(len(text.tokens), dtype=jnp.int32) < text.end - 1
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, following)
    return jnp.where(counted, losses, 0), counted


# --- measurements -----------------------------------------------------------------------------------------------------


def look(parts: Parts, trial: RunningTrial[Reading], model: Transformer) -> dict[str, Array]:
    """Losses, the result's accuracy, and every head's entropies [look, layer, head], means over the held-out problems.

    The loss of a token and whether the whole result is predicted right are those of the trial's own kind of text.
    """

    config = trial.config

    def one(problem):
        texts = own_text(parts, trial, problem), compose(parts, config.corpus.length, problem, problem, True)
        both = jax.vmap(partial(read, model))(jax.tree.map(lambda *two: jnp.stack(two), *texts))  # compiled once
        own, cot = (jax.tree.map(itemgetter(k), both) for k in range(2))
        heads = [cot["min"], cot["mean"], own["min"], own["mean"], own["min question"], own["mean question"]]
        return {"heads": jnp.stack(heads)} | {name: own[name] for name in ("loss", "result loss", "accuracy")}

    problems = jnp.arange(len(parts.starts), dtype=jnp.int32)
    found = jax.lax.map(one, problems, batch_size=min(AT_ONCE, len(problems)))
    return jax.tree.map(lambda values: jnp.mean(values, axis=0), found)


def read(model: Transformer, text: Text) -> dict[str, Array]:
    """One text through the decoder: its loss a token, whether the result is right, entropies [layer, head]."""
    logits, weights = model.with_attention(text.tokens)
    losses, counted = token_losses(logits, text)
    place = jnp.arange(len(text.tokens), dtype=jnp.int32)
    # the first token of the result is the sign #### itself
    of_result = counted & (place >= text.result)
    right = (jnp.argmax(logits, axis=-1) == jnp.roll(text.tokens, -1)) | ~of_result
    mask, present = attention_mask(len(text.tokens), causal=True), text.present()
    entropies = {}
    for name, rows in {"": present, " question": place < text.question}.items():
        entropies |= {f"min{name}": sparsest_row(weights, mask, rows), f"mean{name}": mean_row(weights, mask, rows)}
    return {
        "loss": jnp.sum(losses) / jnp.sum(counted),
        "result loss": jnp.sum(losses, where=of_result) / jnp.sum(of_result),
        "accuracy": jnp.all(right).astype(jnp.float32),
    } | entropies


def measure(parts: Parts, trial: RunningTrial[Reading], state: Training, key, t) -> dict[str, Array]:
    found = look(parts, trial, state.model)
    heads = jnp.mean(found.pop("heads"), axis=(1, 2))
    return {"train loss": state.loss} | found | {name: heads[k] for k, name in enumerate(LOOKS)}


def every_head(parts: Parts, trial: RunningTrial[Reading], state: Training, key) -> dict[str, Array]:
    """Every head at the end."""
    return {"heads": look(parts, trial, state.model)["heads"]}
