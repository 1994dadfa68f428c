"""`sw.fit`: your own stages once per seed, with models, a table, progress, and a place in the store."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import stairwise as sw
from stairwise.config import ConfigError
from stairwise.lab.progress import Silent

TRUTH = jnp.array([1.0, -2.0], dtype=jnp.float32)


def stage(steps=30):
    return sw.online(
        init=lambda key: {"w": jnp.zeros(2, dtype=jnp.float32)},
        sample=lambda key: jax.random.normal(key, (2,), dtype=jnp.float32),
        loss=lambda model, x: 0.5 * ((model["w"] - TRUTH) @ x) ** 2,
        optimizer=lambda config: optax.sgd(config.rate),
        batch=16,
        steps=steps,
        measure_every=10,
    )


def test_a_fit_has_its_model_its_numbers_and_its_metrics():
    fits = sw.fit(stage(), seeds=[5, 6], rate=[0.0, 0.3])
    assert [(fit.seed, fit.numbers, fit.status) for fit in fits] == [
        (5, {"rate": 0.0}, "finished"),
        (6, {"rate": 0.3}, "finished"),
    ]
    assert fits[0].model["w"].tolist() == [0, 0]
    np.testing.assert_allclose(fits[1].model["w"], TRUTH, atol=0.1)
    for fit in fits:
        np.testing.assert_array_equal(fit.model["w"], fit.arrays["train/w"])


def test_the_models_of_a_group_are_those_of_its_members():
    alone, together = sw.fit(stage(), seeds=3, rate=0.1), sw.fit(stage(), seeds=3, rate=0.1, group=2)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(other.model["w"], one.model["w"], rtol=1e-5)


def test_the_table_has_a_row_per_measurement():
    table = sw.fit(stage(), seeds=2, rate=[0.1, 0.2]).table()
    assert table.column_names == ["seed", "rate", "status", "stage", "step", "name", "value"]
    assert table["step"].to_pylist() == [10, 20, 30] * 2
    assert table["rate"].to_pylist() == [0.1] * 3 + [0.2] * 3


def test_a_lost_training_has_no_model():
    (fit,) = sw.fit(stage(200), rate=100.0)
    assert fit.status in ("diverged", "overflow")
    assert fit.model is None


def test_fits_are_stored_read_and_replaced_by_others(tmp_path):
    store = str(tmp_path / "store")
    first = sw.fit(stage(), seeds=2, rate=0.1, name="line", store=store)
    table = sw.load("own/line", store=store, fields=["rate"])
    assert set(table["rate"].to_pylist()) == {0.1}
    assert table.num_rows == first.table().num_rows
    record = first[0].record
    assert record is not None
    np.testing.assert_array_equal(record.array("train/w"), first[0].arrays["train/w"])
    sw.fit(stage(20), seeds=2, rate=0.1, name="line", store=store)  # the code has changed
    assert max(sw.load("own/line", store=store)["step"].to_pylist()) == 20


def test_a_model_of_a_fit_is_exported_and_comes_back(tmp_path):
    (fit,) = sw.fit(stage(), rate=0.1)
    sw.export(fit.model, tmp_path / "net")
    back = sw.interop.weights.load(tmp_path / "net", like=fit.model)
    np.testing.assert_array_equal(back["w"], fit.model["w"])


def test_progress_is_shown_unless_it_is_switched_off(capsys):
    class Told(Silent):
        def __init__(self):
            self.heard = []

        def finished(self, label, status):
            self.heard.append((label, status))

    told = Told()
    sw.fit(stage(), seeds=2, rate=0.1, progress=told)
    assert told.heard == [("seed 0", "finished"), ("seed 1", "finished")]
    sw.fit(stage(), rate=0.1, progress=False)
    assert capsys.readouterr().err == ""


def test_a_name_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"name=a/b must consist of letters, digits, _ and -"):
        sw.fit(stage(), rate=0.1, name="a/b", store=str(tmp_path))


def test_fit_refuses_columns_of_another_length():
    stage = sw.Stage("idle", init=lambda *_: (), tick=lambda *_: (), max_ticks=0)
    with pytest.raises(ValueError, match="rate has 2 values and there are 3 seeds"):
        sw.fit(stage, seeds=3, rate=[1.0, 2.0])
