"""How cost grows: the fitted exponents are those of known laws, and compiled programs weigh what counting says."""

import jax
import jax.numpy as jnp
import pytest

from benchmarks import GROWING
from benchmarks.growing import LINEAR, SQUARE, powers
from benchmarks.growth import Grown, Growth, Point, draw, growth_of, measure, peak_bytes
from tests.helpers import assert_close


def synthetic(exponent: float) -> Grown:
    growth = Growth("work", "size", powers(1, 128), lambda size: (abs, (size,)), LINEAR, SQUARE, "because")
    return Grown(growth, [Point(n, (float(n**exponent),) * 3, 4 * n**2) for n in growth.sizes])


@pytest.mark.parametrize("exponent", [1.0, 1.5, 3.0])
def test_a_power_law_gives_its_exponent(exponent):
    grown = synthetic(exponent)
    assert_close([*grown.time, grown.memory], [exponent] * 3 + [2.0], 1e-9)
    assert_close([grown.counted(LINEAR), grown.counted(SQUARE)], [1.0, 2.0], 1e-9)


def test_only_the_largest_sizes_are_fitted():
    flat = synthetic(1.0)
    points = [point._replace(milliseconds=(9.0,)) if point.size < 16 else point for point in flat.points]
    assert_close(Grown(flat.growth, points).time.value, 1.0, 1e-9)


def test_a_program_weighs_its_arguments_results_and_buffers():
    compiled = jax.jit(lambda x: x @ x).lower(jnp.ones((64, 64), dtype=jnp.float32)).compile()
    assert 2 * 64 * 64 * 4 <= peak_bytes(compiled) < 3 * 64 * 64 * 4


@pytest.mark.parametrize("paper", GROWING)
def test_sizes_span_two_orders_of_magnitude(paper):
    growth = growth_of(paper)
    assert growth.sizes[-1] >= 100 * growth.sizes[0]


def test_a_product_of_matrices_takes_the_square_of_its_size_in_memory():
    def program(size: int):
        return jax.jit(lambda x: x @ x), (jnp.ones((size, size), dtype=jnp.float32),)

    grown = measure(Growth("product", "size", powers(16, 128), program, LINEAR, SQUARE, "because"), repeats=1)
    assert [len(point.milliseconds) for point in grown.points] == [1] * 4
    assert abs(grown.memory - 2.0) < 0.05


@pytest.mark.slow
def test_memory_of_a_selection_step_grows_with_its_tokens_as_counted():
    growth = growth_of("selection")
    small = Growth(growth.work, growth.size, (64, 256), growth.program, growth.time, growth.memory, growth.why)
    grown = measure(small, repeats=1)
    assert abs(grown.memory - grown.counted(LINEAR)) < 0.05


def test_a_figure_is_drawn(tmp_path):
    draw(synthetic(2.0), tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
