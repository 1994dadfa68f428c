"""Facts about configs: what they refuse, in one line, what they are to JAX, and what a program sees of them."""

import math
import subprocess
import sys
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stairwise.train.loop  # noqa: F401  which makes configs pytrees
from stairwise.config import Config, ConfigError, leaves, option, require, static_fields, structure, update


@dataclass(frozen=True)
class Fields(Config):
    rate: float = option(0.1, "a rate", above=0.0)
    free: float = option(0.1, "any number")
    sizes: tuple[int, ...] = option((1, 2), "some sizes", low=1)
    names: tuple[int, ...] = option((), "perhaps some")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"rate": 0.0}, "rate=0.0 must be above 0"),
        ({"rate": float("inf")}, "rate=inf must be finite and above 0"),
        ({"rate": 1e200}, "rate=1e+200 must be above 0 and below 2^63 in size"),
        ({"free": float("nan")}, "free=nan must be finite"),
        ({"sizes": ()}, "sizes=[] must have at least one value, each at least 1"),
        ({"sizes": (0,)}, "sizes=0 must be at least 1"),
    ],
)
def test_a_refusal_names_what_would_be_right(fields, says):
    with pytest.raises(ConfigError) as refused:
        Fields(**fields)
    assert str(refused.value) == says


def test_a_list_that_is_empty_by_default_may_be():
    assert Fields(names=()).names == ()


# --- a config is a pytree ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inner(Config):
    size: int = option(4, "how many", low=1)
    noise: float = option(0.25, "chance of noise", low=0.0, high=1.0, numeric=True)


@dataclass(frozen=True)
class Outer(Config):
    rate: float = option(0.5, "a rate", above=0.0, numeric=True)
    kind: str = option("plain", "a kind", choices=("plain", "other"))
    inner: Inner = option(Inner(), "a part")
    samples: int = option(8, "samples", low=1, numeric=True)
    wide: bool = option(False, "a switch", numeric=True)
    looks: tuple[int, ...] = option((1, 2), "looks", low=1)

    def check(self) -> None:
        require(
            self.samples >= self.inner.size, f"samples={self.samples} must be at least inner.size={self.inner.size}"
        )


@dataclass(frozen=True)
class Wider(Outer):
    more: float = option(3.0, "one more", numeric=True)


def test_the_leaves_of_a_config_are_its_numeric_fields_in_order():
    assert jax.tree.leaves(Outer()) == [0.5, 0.25, 8, False]
    assert jax.tree.leaves(Wider(rate=0.1)) == [0.1, 0.25, 8, False, 3.0]
    assert jax.tree.leaves(Fields()) == []
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(Outer())]
    assert paths == [".rate", ".inner.noise", ".samples", ".wide"]
    assert [path[1:] for path in paths] == [field.path for field in leaves(Outer()) if field.numeric]


def test_the_structure_of_a_config_is_its_class_and_its_static_fields():
    own = jax.tree.structure(Outer())
    assert jax.tree.structure(update(Outer(), {"rate": 0.1, "inner.noise": 0.5, "samples": 9})) == own
    for changes in ({"kind": "other"}, {"inner.size": 5}, {"looks": (1, 3)}):
        other = jax.tree.structure(update(Outer(), changes))
        assert other != own
        assert hash(jax.tree.structure(update(Outer(), changes))) == hash(other)
    assert jax.tree.structure(Wider()) != own
    with pytest.raises(ValueError, match="other"):
        jax.tree.map(lambda a, b: a, Outer(), Outer(kind="other"))


@pytest.mark.parametrize("config", [Inner(7, 0.5), Outer(rate=0.1, inner=Inner(6, 1.0), wide=True), Fields()])
def test_a_config_comes_back_from_its_leaves(config):
    values, shape = jax.tree.flatten(config)
    again = jax.tree.unflatten(shape, values)
    assert type(again) is type(config)
    assert again == config
    assert hash(again) == hash(config)


def test_leaves_that_no_constructor_would_take_go_into_a_tree_unchecked():
    odd = jax.tree.map(lambda leaf: -leaf, Outer(inner=Inner(noise=0.25)))
    assert (odd.rate, odd.inner.noise, odd.samples) == (-0.5, -0.25, -8)
    named = jax.tree.map(str, Outer())
    assert (named.rate, named.kind, named.inner.size) == ("0.5", "plain", 4)
    stacked = jax.tree.map(lambda *column: jnp.stack(column), *(Outer(samples=n) for n in (8, 9, 10)))
    assert stacked.samples.tolist() == [8, 9, 10]
    assert stacked.inner.noise.shape == (3,)


def test_configs_go_through_jit_and_one_program_serves_all_numbers():
    traces = []

    @jax.jit
    def scaled(config):
        traces.append(config.kind)
        return config, config.rate * config.inner.noise * config.samples

    for rate in (0.5, 0.25):
        config, product = scaled(Outer(rate=rate))
        assert float(product) == rate * 0.25 * 8
        assert (type(config), config.kind, config.inner.size, config.looks) == (Outer, "plain", 4, (1, 2))
        assert float(config.rate) == rate
    assert traces == ["plain"]
    scaled(Outer(kind="other"))
    assert traces == ["plain", "other"]


def test_configs_go_through_vmap():
    configs = jax.tree.map(lambda *column: jnp.stack(column), *(Outer(rate=rate) for rate in (0.1, 0.2, 0.4)))
    found = jax.vmap(lambda config: config.rate * config.inner.size)(configs)
    assert found.tolist() == pytest.approx([0.4, 0.8, 1.6])
    axes = jax.tree.unflatten(jax.tree.structure(Outer()), [0, None, None, None])
    mixed = replace(configs, inner=Inner(noise=0.5), samples=10, wide=True)
    found = jax.vmap(lambda config: config.rate * config.inner.noise * config.samples, in_axes=(axes,))(mixed)
    assert found.tolist() == pytest.approx([0.5, 1.0, 2.0])


def test_a_config_with_traced_numbers_skips_the_checks_that_look_at_them_and_no_other():
    @jax.jit
    def few(samples):
        return replace(Outer(), samples=samples, inner=Inner(noise=samples / 4))

    found = few(jnp.int32(-2))  # out of range, and below inner.size: nobody can look
    assert (int(found.samples), float(found.inner.noise), found.kind) == (-2, -0.5, "plain")

    for changes in ({"kind": "odd"}, {"looks": (0,)}, {"rate": -1.0}):
        with pytest.raises(ConfigError, match=next(iter(changes))):
            jax.jit(lambda samples, changes=changes: replace(Outer(), samples=samples, **changes))(jnp.int32(8))
    with pytest.raises(ConfigError, match=r"samples=2 must be at least inner\.size=4"):
        replace(Outer(), samples=2)


def test_a_static_field_takes_no_array():
    with pytest.raises(ConfigError, match="size"):
        jax.jit(lambda size: Inner(size=size))(jnp.int32(3))


def test_a_list_cannot_be_numeric():
    with pytest.raises(TypeError, match="a list cannot be numeric: some rates"):
        option((0.1, 0.2), "some rates", numeric=True)


def test_configs_declared_before_and_after_jax_is_imported_are_pytrees():
    lines = [
        "import sys",
        "from dataclasses import dataclass",
        "from stairwise.config import Config, option",
        "@dataclass(frozen=True)",
        "class Early(Config):",
        "    rate: float = option(0.5, 'a rate', numeric=True)",
        "assert 'jax' not in sys.modules",
        "import stairwise.train.loop, jax",
        "@dataclass(frozen=True)",
        "class Late(Early):",
        "    more: float = option(2.0, 'more', numeric=True)",
        "assert jax.tree.leaves([Early(), Late()]) == [0.5, 0.5, 2.0]",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


# --- what a program is built from -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1, lambda x: 1 + x, lambda x: x - 1, lambda x: 1 - x, lambda x: 2 * x, lambda x: x * 2,
        lambda x: x / 2, lambda x: 2 / x, lambda x: x // 2, lambda x: 2 // x, lambda x: x % 2, lambda x: 2 % x,
        lambda x: x**2, lambda x: 2**x, lambda x: -x, lambda x: +x, abs, round,
        lambda x: x < 1, lambda x: x <= 1, lambda x: x > 1, lambda x: x >= 1, lambda x: x == 1, lambda x: x != 1,
        bool, lambda x: 1 if x else 0, lambda x: not x,
        int, float, complex, range, math.sqrt, str, lambda x: f"{x}", lambda x: f"{x:.3g}", lambda x: f"{x!s}",
        jnp.asarray, np.asarray, lambda x: jnp.float32(1) * x, lambda x: np.float64(1) * x,
        list, len, lambda x: max(x, 1), lambda x: divmod(x, 2), lambda x: divmod(2, x),
    ],
)  # fmt: skip
def test_a_numeric_field_has_no_value_while_a_program_is_built(use):
    for path, value in (("rate", structure(Outer()).rate), ("inner.noise", structure(Outer()).inner.noise)):
        with pytest.raises(TypeError, match=rf"^{path} is numeric: it has no value while a program is built"):
            use(value)


def test_static_fields_are_as_they_were_and_numeric_ones_say_what_they_are():
    shape = structure(Outer(kind="other", inner=Inner(6), looks=(3,)))
    assert type(shape) is Outer
    assert (shape.kind, shape.inner.size, shape.looks) == ("other", 6, (3,))
    assert repr(shape.inner) == "Inner(size=6, noise=<inner.noise: numeric>)"


def test_configs_that_differ_in_numbers_have_one_structure():
    first, second = structure(Outer()), structure(update(Outer(), {"rate": 0.1, "inner.noise": 1, "samples": 99}))
    assert first == second
    assert hash(first) == hash(second)
    assert first != structure(update(Outer(), {"inner.size": 5}))
    assert structure(first) == first
    assert replace(first, kind="other").kind == "other"


def test_static_fields_are_those_that_decide_the_program():
    assert static_fields(Outer()) == {"kind": "plain", "inner.size": 4, "looks": (1, 2)}
