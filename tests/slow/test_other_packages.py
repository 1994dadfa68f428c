"""What needs packages that no extra brings: each is installed into a folder of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.guides.page import ROOT, blocks, text
from tests.guides.test_own_model import SMALL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
LENS = ("transformer_lens==4.3.0", "accelerate", "einops", "fancy-einsum", "sentencepiece", "typeguard")
FLAX = ("flax==0.12.8", "msgpack", "orbax-checkpoint", "tensorstore", "treescope")
Call = Callable[..., str]


@pytest.fixture
def with_packages(tmp_path) -> Callable[..., Call]:
    """Packages, without what they need in turn, on the path of the Python that is called."""

    def install(*packages: str) -> Call:
        folder = tmp_path / "packages"
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--target",
            str(folder),
        ]
        done = subprocess.run([*pip, *packages], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"pip cannot get {packages[0]} here: {done.stderr.strip().splitlines()[-1]}")
        path = os.pathsep.join(map(str, (ROOT / "src", ROOT, folder)))

        def call(*words: str, at: Path = ROOT) -> str:
            environment = os.environ | {"PYTHONPATH": path, "STAIRWISE_STORE": str(tmp_path / "store")}
            done = subprocess.run(
                [sys.executable, "-m", *words], cwd=at, env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            return done.stdout

        return call

    return install


def test_transformer_lens_itself_gives_the_same_logits(with_packages):
    call = with_packages(*LENS)
    names = ("-p", "no:cacheprovider", "-k", "same_logits")
    said = call("pytest", str(ROOT / "tests/interop/test_transformer_lens.py"), *names)
    assert "6 passed" in said
    assert "skipped" not in said


def test_the_flax_model_of_the_guide_trains_on_parity(with_packages, tmp_path):
    (model,) = [block for language, block in blocks(text("how-to/own-model")) if language == "py"]
    call = with_packages(*FLAX)
    (tmp_path / "my_flax.py").write_text(model)
    fields = [word for name, value in SMALL.items() for word in (f"--{name}", str(value).lower())]
    ask = ["run", "parity_cot/complexity", "--model", "my_flax:make_model", "--seeds", "1", *fields]
    assert "exact match" in call("stairwise", *ask, at=tmp_path)
