"""Clusters without one: what is asked for is checked, the job script is as configured, tasks are JSON."""

import json
import os
import shutil
import threading
from collections import deque

import pytest

from stairwise.config import ConfigError
from stairwise.lab.cluster import remote
from stairwise.lab.cluster.engine import Cluster
from stairwise.lab.cluster.job import ClusterError, Job, Lost
from stairwise.lab.progress import Silent
from stairwise.lab.run.plan import Group
from stairwise.lab.run.sharing import Reservations, Work
from stairwise.lab.store import files
from stairwise.lab.store.store import Store
from tests.lab.walking import PAPER

WALK = PAPER.experiment("walk")
TOML = """
jobs = 3

[slurm]
cores = 4
memory = "16GB"
queue = "gpu"
walltime = "02:00:00"
job_extra_directives = ["--gres=gpu:1"]
job_script_prologue = ["module load cuda"]
interface = "lo"
"""


@pytest.mark.parametrize("text", ["", "local", "local:0", "local:x", "http://a:1", "tcp://a", "tcp://a:b", "slurm:3"])
def test_what_is_no_cluster_is_refused_with_what_is(text):
    with pytest.raises(ConfigError, match="must be local:N, tcp://HOST:PORT"):
        Cluster.parse(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("jobs = 0\n[slurm]\ncores = 1\nmemory = '1GB'", "jobs=0 must lie in 1..10000"),
        ("[slurm]\ncores = 1", "must give memory"),
        ("queue = 'x'", "queue must be one of jobs, slurm"),
        ("slurm = 3", r"\[slurm\] must give a table"),
        ("jobs = ", "is not TOML"),
    ],
)
def test_a_cluster_config_that_is_wrong_is_one_line(tmp_path, text, words):
    (tmp_path / "slurm.toml").write_text(text)
    with pytest.raises(ConfigError, match=words):
        Cluster.parse("slurm", str(tmp_path / "slurm.toml"))
    with pytest.raises(ConfigError, match="cannot be read"):
        Cluster.parse("slurm", str(tmp_path / "none.toml"))


def test_the_job_script_asks_slurm_for_what_the_file_says(tmp_path, monkeypatch):
    pytest.importorskip("dask_jobqueue")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slurm.toml").write_text(TOML)
    cluster = Cluster.parse("slurm", str(tmp_path / "slurm.toml"))
    assert cluster.workers == 3
    lines = cluster.job_script().splitlines()
    for line in ("#SBATCH -p gpu", "#SBATCH --cpus-per-task=4", "#SBATCH -t 02:00:00", "#SBATCH --gres=gpu:1"):
        assert line in lines
    assert "module load cuda" in lines
    (command,) = [line for line in lines if "dask_worker" in line or "dask worker" in line]
    assert "tls://127.0.0.1:" in command
    assert all(f"--tls-{part} {tmp_path}/.stairwise-" in command for part in ("ca-file", "cert", "key"))
    assert lines.index("module load cuda") < lines.index(command)
    assert os.listdir(tmp_path) == ["slurm.toml"]  # the certificate has gone with its cluster


def test_the_certificate_of_slurm_jobs_is_for_its_owner_alone_and_a_dead_process_leaves_none(tmp_path):
    pytest.importorskip("dask_jobqueue")
    left = f".stairwise-{files._machine()}-{2**22 + 1}-01234567"  # of a process that there cannot be
    (tmp_path / left).mkdir()
    (tmp_path / "slurm.toml").write_text(f"{TOML}shared_temp_directory = '{tmp_path}'\n")
    cluster = Cluster.parse("slurm", str(tmp_path / "slurm.toml"))
    cluster.local = cluster._unscaled_slurm()
    try:
        (folder,) = tmp_path.glob(".stairwise-*")
        assert folder.name != left
        assert folder.stat().st_mode & 0o777 == 0o700
        assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600] * 3
    finally:
        cluster.close()
    assert os.listdir(tmp_path) == ["slurm.toml"]


def test_slurm_jobs_without_tls_are_a_choice(tmp_path):
    pytest.importorskip("dask_jobqueue")
    (tmp_path / "slurm.toml").write_text(f"{TOML}security = false\n")
    script = Cluster.parse("slurm", str(tmp_path / "slurm.toml")).job_script()
    assert "tcp://127.0.0.1:" in script
    assert "--tls" not in script


def test_an_option_that_slurm_clusters_do_not_have_is_one_line(tmp_path, monkeypatch):
    pytest.importorskip("dask_jobqueue")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slurm.toml").write_text(TOML + "colour = 'red'\n")
    with pytest.raises(ConfigError, match="colour"):
        Cluster.parse("slurm", str(tmp_path / "slurm.toml")).job_script()
    assert os.listdir(tmp_path) == ["slurm.toml"]


def test_a_task_is_an_experiment_id_configs_and_seeds(tmp_path):
    trials = WALK.trials("quick", [4, 9])
    group, store = Group(tuple(trials), 8), Store.open(tmp_path)
    task = json.loads(remote.describe_group(group, store, None, save_every=1.0, topic="t"))
    assert (task["experiment"], task["width"], task["store"]) == ("walking/walk", 8, None)
    assert [(member["config"]["rate"], member["arm"], member["seeds"]) for member in task["members"]] == [
        (0.1, "slow", [4, 9]),
        (0.5, "fast", [4, 9]),
    ]


class KilledWorker(Exception):
    """As Dask calls it."""


def test_a_group_whose_workers_die_is_halved_until_the_trial_that_kills_them_is_alone_and_recorded(tmp_path):
    store = Store.open(tmp_path)
    job = Job(None, store, "mark", 1, 4, Silent(), threading.Event(), 10.0)
    bad, *others = WALK.trials("quick", [0, 1], {"rate": 0.1})
    job.work = Work([bad, *others], Reservations(store), store.has, 4, Silent())
    groups = deque([Group((bad, *others), 4)])
    while groups:
        group = groups.popleft()
        if bad in group.trials:
            job._broken(KilledWorker(), group)
        groups.extend(job.suspects)
        job.suspects.clear()
    record = store.read(bad)
    assert (record.status, record.run["message"]) == ("failed", "its workers died, one after another, while it ran")
    assert len(store.trials()) == 1
    with pytest.raises(ConfigError, match="a worker failed: OSError: no"):
        job._broken(OSError("no"), Group((bad,), 4))


def test_a_worker_takes_no_copy_of_the_store_for_the_store(tmp_path):
    store = Store.open(tmp_path / "store")
    shutil.copytree(store.root, tmp_path / "copy")
    with Reservations(store) as reservations:
        mark = reservations.mark.name
        assert remote._shared_store([str(store.root), mark]) == store
        assert remote._shared_store([str(tmp_path / "copy"), mark]) is None
        assert remote._shared_store([str(store.root), "."]) is None
    with Reservations(store):  # another sweep
        assert remote._shared_store([str(store.root), mark]) is None


def test_differing_packages_are_named_with_both_versions():
    here = {"jax": "0.9", "optax": "1.0", "source of the experiment": "a" * 64}
    there = {"jax": "0.10", "optax": "1.0"}
    assert remote.differences(there, here) == "jax 0.9 instead of 0.10"
    assert remote.differences(here, there) == (
        "jax 0.10 instead of 0.9, source of the experiment missing instead of aaaaaaaaaaaa"
    )


def test_a_scheduler_that_goes_while_it_is_being_reached_is_looked_for_again(monkeypatch):
    answers, said = deque([Lost(), ClusterError("no scheduler answers"), None]), []

    def connect(self, *given):
        if answer := answers.popleft():
            raise answer

    monkeypatch.setattr(Cluster, "_connect", connect)
    progress = Silent()
    monkeypatch.setattr(progress, "warn", said.append)
    Cluster.parse("tcp://here:1").connect(WALK, threading.Event(), progress, lambda: 1)
    assert not answers
    assert said == ["lost the scheduler tcp://here:1; it is looked for again"]
