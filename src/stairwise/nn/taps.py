"""Names for what a model computes on the way: read them with `trace`, change them with `edit`.

A model says `tap("attn.pattern", weights)`. That is `weights` itself, unless the call runs inside `trace` or on a model
that `edit` has made. Whether it does is decided while JAX traces the model: where nobody looks, the compiled program is
the one without taps.

    outputs, seen = trace(model, tokens)                        seen["blocks.0.attn.pattern"]
    ablated = edit(model, {"blocks.0.attn.z": jnp.zeros_like})  a model like the first one, called in the same way
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.extend.core
import jax.numpy as jnp
from jaxtyping import Array

Edit = Callable[[Array], Array]
# which transformations of JAX the present line runs under; older releases have it in jax.core
_place = jax.extend.core if hasattr(jax.extend.core, "get_opaque_trace_state") else jax.core
_transformations: Callable[[], Any] = _place.get_opaque_trace_state

_Watch = Callable[[str, Array], Array]  # what to do with a value, given its full name

_watches: ContextVar[tuple[_Watch, ...]] = ContextVar("watches", default=())  # the innermost call comes first
_scope: ContextVar[str] = ContextVar("scope", default="")


def tap(name: str, value: Array) -> Array:
    """The value itself, or what an edit of this name makes of it; `trace` notes it. Inside `scope` names get longer."""
    for watch in _watches.get():
        value = watch(_scope.get() + name, value)
    return value


def tapped() -> bool:
    """Whether somebody looks: a model then goes by the way on which every name is met."""
    return bool(_watches.get())


@contextmanager
def scope(name: str) -> Iterator[None]:
    """Names inside begin with `name` and a dot."""
    token = _scope.set(f"{_scope.get()}{name}.")
    try:
        yield
    finally:
        _scope.reset(token)


@contextmanager
def _watched(watch: _Watch) -> Iterator[None]:
    token = _watches.set((watch, *_watches.get()))
    try:
        yield
    finally:
        _watches.reset(token)


def trace(model: Callable[..., Any], *inputs: Any, **options: Any) -> tuple[Any, dict[str, Array]]:
    """`model(*inputs, **options)`, and every named value of that call, in the order in which they were computed.

    `model` may also be a method (`model.heads`) or a function. It works under `jax.jit` and `jax.vmap` (out of which
    JAX hands the names in alphabetical order).
    """
    seen: dict[str, Array] = {}
    here = _transformations()

    def note(name: str, value: Array) -> Array:
        if _transformations() != here:
            raise ValueError(
                f"{name} is computed inside a loop or a compiled function of the model: trace what it calls"
            )
        if name in seen:
            raise ValueError(f"{name} is computed twice in this call: trace one step of it")
        seen[name] = value
        return value

    with _watched(note):
        outputs = model(*inputs, **options)
    if not seen:
        raise ValueError("the call meets no name: the model has no `tap`, or it was compiled before")
    return outputs, seen


def edit(model: Any, edits: Mapping[str, Any]) -> "Edited":
    """The model with the values of these names replaced by what the functions make of them, in every call.

    A function takes the value and gives one of the same shape. A name that a call does not meet is refused there.
    """
    for name, function in edits.items():
        if not callable(function):
            raise ValueError(f"edits[{name}]={function!r} must be a function of the value")
    return Edited(model, tuple(edits.items()))


class Edited(eqx.Module):
    """What `edit` gives: a pytree with the leaves of the model, called as it is, with the same methods.

    Weights and layers are not handed on: who computes with them by hand would pass by the edits.
    """

    model: Any
    edits: tuple[tuple[str, Edit], ...] = eqx.field(static=True)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        outputs, met = self._call(self.model, inputs, options)
        self._check(met)
        return outputs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("model", "edits"):
            raise AttributeError(name)
        found = getattr(self.model, name)
        if found is None or isinstance(found, bool | int | float | str):
            return found
        if not (callable(found) and hasattr(type(self.model), name)):
            raise AttributeError(
                f"an edited model has methods only: {name} is found at .model.{name}, without the edits"
            )

        def method(*inputs: Any, **options: Any) -> Any:
            outputs, met = self._call(found, inputs, options)
            if met:  # such as `empty_cache` compute nothing that has a name
                self._check(met)
            return outputs

        return method

    def _call(self, function: Callable[..., Any], inputs: Any, options: Any) -> tuple[Any, dict[str, None]]:
        edits, met = dict(self.edits), {}

        def change(name: str, value: Array) -> Array:
            met[name] = None
            if name not in edits:
                return value
            changed = jnp.asarray(edits[name](value), value.dtype)
            if changed.shape != value.shape:
                raise ValueError(f"{name}: the edit gives shape {changed.shape}, which must be {value.shape}")
            return changed

        with _watched(change):
            return function(*inputs, **options), met

    def _check(self, met: dict[str, None]) -> None:
        missing = [name for name, _ in self.edits if name not in met]
        if missing:
            raise ValueError(f"edits: {missing[0]} must be one of the names of this call: {', '.join(met) or 'none'}")
