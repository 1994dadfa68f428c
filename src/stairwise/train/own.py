"""A model of your own where an experiment trains its own one: what it is told, what it must give, how it is held.

`make_model(sizes, key)` gives anything that JAX can train and that maps the tokens of one sequence to logits, an
Equinox module for example:

    tokens   (length,), or (length, slots) where a position holds several tokens; any length up to `sizes.length`
    logits   (length, outputs), or (length, slots, outputs): at each position what comes next

Logits may depend on the tokens up to their position only, and a model that looks ahead is refused; padding comes last.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, PRNGKeyArray

from stairwise.config import ConfigError, one_line


class ModelSizes(NamedTuple):
    """What `make_model` may want to know: tokens are 0..vocabulary-1, logits have `outputs` entries."""

    vocabulary: int
    outputs: int
    length: int
    slots: int | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        """The shape of the longest sequence."""
        return (self.length,) if self.slots is None else (self.length, self.slots)


MakeModel = Callable[[ModelSizes, PRNGKeyArray], Any]


class OwnModel(eqx.Module):
    """A model whose arrays are the leaves; all else of it (functions, sizes) is static."""

    arrays: Any
    static: Any = eqx.field(static=True)

    def __call__(self, tokens: Integer[Array, "length *slots"]) -> Float[Array, "length *logits"]:
        return eqx.combine(self.arrays, self.static)(tokens)


def builder(make_model: MakeModel, sizes: ModelSizes) -> Callable[[PRNGKeyArray], OwnModel]:
    """`make_model` at these sizes, once it is known to give logits of the right shape that do not look ahead.

    ConfigError where it does not.

    >>> def make_model(sizes, key):
    ...     return jax.tree_util.Partial(lambda table, tokens: table[tokens], jnp.eye(3))
    >>> model = builder(make_model, ModelSizes(vocabulary=3, outputs=3, length=4))(jax.random.key(0))
    >>> model(jnp.array([2, 0])).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    name = getattr(make_model, "__name__", type(make_model).__name__)

    def build(key: PRNGKeyArray) -> OwnModel:
        return OwnModel(*eqx.partition(make_model(sizes, key), eqx.is_array))

    def call() -> Any:
        model = build(jax.random.key(0))
        return eqx.filter(model, eqx.is_inexact_array), model(jnp.zeros(sizes.tokens, dtype=jnp.int32))

    try:
        trained, logits = jax.eval_shape(call)
    except Exception as error:  # whatever a stranger's code may raise
        said = one_line(str(error).partition("\n")[0])[:200]
        raise ConfigError(
            f"model={name} raises {type(error).__name__} on tokens of shape {sizes.tokens}: {said}"
        ) from error
    expected = (*sizes.tokens, sizes.outputs)
    shape = getattr(logits, "shape", None)
    if shape != expected or not jnp.issubdtype(logits.dtype, jnp.floating):
        found = f"{logits.dtype} of shape {shape}" if shape is not None else type(logits).__name__
        raise ConfigError(f"model={name} gives {found}, which must be floating logits of shape {expected}")
    if not jax.tree.leaves(trained):
        raise ConfigError(
            f"model={name} has nothing to train: its parameters must be leaves of it, as in an eqx.Module"
        )
    if _looks_ahead(build(jax.random.key(0)), sizes):
        raise ConfigError(
            f"model={name} looks ahead: a later token changes the logits before it, so the answer could be read off"
        )
    return build


def _looks_ahead(model: OwnModel, sizes: ModelSizes) -> bool:
    """Whether another last token changes logits before it."""
    tokens = np.random.default_rng(0).integers(0, sizes.vocabulary, sizes.tokens)
    other = np.concatenate([tokens[:-1], (tokens[-1:] + 1) % sizes.vocabulary])
    one, two = (np.asarray(model(jnp.asarray(each, dtype=jnp.int32)))[:-1] for each in (tokens, other))
    return not np.allclose(one, two, rtol=1e-4, atol=1e-5, equal_nan=True)
