"""What is looked at: loss, accuracy and error of every head, attention on the right key in every layer."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer

from stairwise.measure.accuracy import share
from stairwise.papers.composition.model import AttentionOnly
from stairwise.papers.composition.task import Composition, ideal_attention, ideal_stream


def right_key_mass(
    model: AttentionOnly, task: Composition, sequence: Integer[Array, "blocks alphabet"], attention: list[Array]
) -> Float[Array, "layers tokens"]:
    """How much each token attends to the key that it should, layer by layer, given the model's attention."""
    if not attention:
        return jnp.ones((0, task.tokens), dtype=model.readout.dtype)
    ideal = ideal_attention(model.plan, task.hidden, ideal_stream(model.plan, task.hidden, sequence))
    return jnp.stack(
        [jnp.take_along_axis(weights, keys[None], axis=0)[0] for weights, keys in zip(attention, ideal, strict=False)]
    )


def leak_by_layer(
    model: AttentionOnly, task: Composition, sequences: Integer[Array, "samples blocks alphabet"]
) -> Float[Array, " layers"]:
    """The most attention that any token of any sequence spends off its right key, in each layer."""

    def leak(sequence):
        return 1 - jnp.min(right_key_mass(model, task, sequence, model.attention(sequence)), axis=1)

    return jnp.max(jax.lax.map(leak, sequences), axis=0)


def evaluate(
    model: AttentionOnly, task: Composition, sequences: Integer[Array, "samples blocks alphabet"]
) -> dict[str, Float[Array, ""]]:
    """Metrics of every head r (hops) and every layer (from 1) on fresh sequences, at all tokens.

    sup error  the largest 1 - p(label)
    mass       the least attention on the right key; attending: the share of tokens that give it more than half
    """

    def one(sequence):
        stream = model.stream(sequence)
        labels = jnp.stack([task.hop_by_doubling(sequence, layer.hops).reshape(-1) for layer in model.plan])
        log_p = jax.nn.log_softmax(model.read(stream.blocks), axis=-1)
        of_label = jnp.take_along_axis(log_p, labels[:, :, None], axis=2)[:, :, 0]
        right = jnp.argmax(log_p, axis=2) == labels
        mass = right_key_mass(model, task, sequence, stream.attention)
        return -of_label, right, -jnp.expm1(of_label), mass

    loss, right, error, mass = jax.lax.map(one, sequences)
    metrics = {}
    for head, layer in enumerate(model.plan):
        hops = f"{layer.hops} hop{'s' if layer.hops > 1 else ''}"
        metrics |= {
            f"loss {hops}": jnp.mean(loss[:, head]),
            f"accuracy {hops}": share(right[:, head]),
            f"exact match {hops}": share(jnp.all(right[:, head], axis=1)),
            f"sup error {hops}": jnp.max(error[:, head]),
            f"mass layer {head + 1}": jnp.min(mass[:, head]),
            f"attending layer {head + 1}": share(mass[:, head] > 0.5),
        }
    return metrics
