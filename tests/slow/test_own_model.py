"""A run of a model of one's own that is killed, and resumed."""

import os

import pytest

from tests.guides.page import python, text
from tests.slow.processes import eventually, start, table

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
FIELDS = {"task.bits": 8, "task.size": 3, "task.padding": 3, "task.cot": "true", "batch": 8, "look": 16}
FIELDS |= {"budget": 24_000, "past": 100_000, "test_examples": 32}  # all of the budget, however soon it is learnt
WORDS = [word for name, value in FIELDS.items() for word in (f"--{name}", str(value))]
COMMAND = ["run", "parity_cot/complexity", "--model", "my_models:make_model", "--seeds", "1", *WORDS]


def test_a_model_of_ones_own_that_is_killed_resumes_bit_for_bit(tmp_path):
    (tmp_path / "my_models.py").write_text(python(text("how-to/own-model"))[0])
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")}
    # paths of this clone may be relative, and the command runs elsewhere
    cache["PYTHONPATH"] = os.pathsep.join(
        map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(":")))
    )

    def begun(store: str):
        return start(*COMMAND, "--save-every", "0", "--store", store, cwd=tmp_path, **cache)

    whole = begun("whole")
    assert whole.wait(timeout=300) == 0, whole.communicate()[1]
    process = begun("killed")
    assert eventually(lambda: any((tmp_path / "killed").glob("checkpoints/*")), 120.0), process.poll()
    process.kill()
    process.communicate()
    assert table(tmp_path / "killed") == {}
    assert any((tmp_path / "killed").glob("checkpoints/*"))
    again = begun("killed")
    assert again.wait(timeout=300) == 0, again.communicate()[1]
    found = table(tmp_path / "killed")
    assert len(found) == 1
    assert found == table(tmp_path / "whole")
