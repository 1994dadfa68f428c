"""What a GPU's rows say, checked where there is none: the profile's arithmetic, and the jobs of a GPU."""

import pytest

pytest.importorskip("torch")

from jax.profiler import ProfileData

from benchmarks import USUAL, run
from benchmarks.accelerator import busy_nanoseconds, waiting_share
from benchmarks.row import Row, Settings, Work

PROFILE = """
planes {
  name: "/device:GPU:0"
  lines { id: 1 name: "Stream #1(Compute)" timestamp_ns: 100
    events { metadata_id: 1 offset_ps: 0 duration_ps: 5000000 }
    events { metadata_id: 1 offset_ps: 9000000 duration_ps: 1000000 } }
  lines { id: 2 name: "Stream #2(Memcpy)" timestamp_ns: 100
    events { metadata_id: 1 offset_ps: 3000000 duration_ps: 4000000 } }
  lines { id: 3 name: "XLA Modules" timestamp_ns: 100
    events { metadata_id: 1 offset_ps: 0 duration_ps: 90000000 } }
  event_metadata { key: 1 value { id: 1 name: "kernel" } }
}
planes { name: "/host:CPU" lines { id: 1 name: "Stream of words" events { offset_ps: 0 duration_ps: 50000000 } } }
"""


def profile(text):
    return ProfileData.from_serialized_xspace(ProfileData.text_proto_to_serialized_xspace(text))


def test_a_device_is_busy_while_any_of_its_streams_is():
    assert busy_nanoseconds(profile(PROFILE)) == 8000.0  # 0..7 and 9..10 microseconds


def test_the_waiting_share_is_what_kernels_leave_of_the_wall_time(monkeypatch):
    monkeypatch.setattr("benchmarks.accelerator.profile", lambda work: profile(PROFILE))
    row = Row("a", "b", ours=(0.016, 0.016), timed=Work(lambda: None, 1))
    assert waiting_share(row) == {"device busy, ms": 0.008, "waiting share": 0.5}


def test_a_profile_without_kernels_says_so_and_gives_no_share(monkeypatch):
    monkeypatch.setattr("benchmarks.accelerator.profile", lambda work: profile('planes { name: "/host:CPU" }'))
    row = Row("a", "b", ours=(1.0,), timed=Work(lambda: None, 1))
    assert waiting_share(row) == {"waiting share": "not measured: RuntimeError: the profile has no kernel of a GPU"}


def test_a_gpu_has_the_rows_that_its_bars_are_about():
    named = [f"{name}: {job.work}" for name, job in run.jobs(USUAL, Settings(device="gpu"))]
    assert named[0] == "parity_cot: a training step of the decoder, no CoT"
    assert [one for one in named if one.startswith("sweep")] == [
        f"sweep: a training step a model, {width} models" for width in (1, 64, 256)
    ]


@pytest.mark.slow
def test_the_rows_of_a_gpu_agree_where_both_sides_run_on_a_cpu(monkeypatch):
    monkeypatch.setattr(Settings, "torch_device", "cpu")
    settings = Settings(device="gpu", repeats=1, compile=False, tiny=True)
    for name, job in run.jobs(["sweep", "parity_cot"], settings):
        if any(word in job.work for word in ("64", "256", "with CoT")):
            continue  # the same code as the row before
        row = run.protected(name, job, settings)
        assert row.failure == ""
        assert row.error is not None
        assert row.error < 1e-3
        assert row.ratio("eager")
