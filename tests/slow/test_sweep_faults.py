"""Sweeps in real processes, disturbed: no trial lost, none stored twice, the same table bit for bit as in quiet."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from stairwise.config import ConfigError
from stairwise.lab import registry
from stairwise.lab.cluster import remote
from stairwise.lab.cluster.engine import Cluster
from stairwise.lab.cluster.job import Job
from stairwise.lab.progress import Silent
from tests.slow import misbehaving
from tests.slow.processes import REPOSITORY, table, with_misbehaving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
pytest.importorskip("distributed")
pytest.importorskip("cryptography")
psutil = pytest.importorskip("psutil")

WALKS = ["misbehaving/walk", "--grid", "rate=0.1:0.4:0.1", "--seeds", "2"]  # eight trials of one program
SELECTION = ["selection/online", "--grid", "learning_rate=0.3,1", "--seeds", "2", "--steps", "150", "--measure_every"]
SELECTION += ["50", "--test_lengths", "30", "--test_sparsities", "4", "--batch", "16", "--test_examples", "16"]
PATIENCE = 240.0


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> dict[str, str]:
    return with_misbehaving(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def processes():
    """Starts processes and leaves none behind."""
    started: list[subprocess.Popen] = []

    def start(*words: str, env: dict[str, str], cwd: Path = REPOSITORY) -> subprocess.Popen:
        command = [sys.executable, *words]
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        end_now(process)


def end_now(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def sweep(store: Path, *words: str) -> list[str]:
    return ["-m", "stairwise.cli", "sweep", *words, "--store", str(store)]


def end(process: subprocess.Popen, status: int = 0) -> str:
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == status, said
    return said


def wait_until(condition: Callable[[], object], process: subprocess.Popen | None = None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        assert process is None or process.poll() is None, process.communicate()[0]
        time.sleep(0.05)


def stored(root: Path) -> list[Path]:
    return sorted(root.glob("trials/*/*/*/run.json"))


def quiet(environment, processes, store: Path, *words: str) -> dict[str, tuple]:
    end(processes(*sweep(store, *words), env=environment))
    return table(store)


@pytest.fixture(scope="module")
def walks(environment, tmp_path_factory) -> dict[str, tuple]:
    """The table of the eight walks that nobody disturbed."""
    store = tmp_path_factory.mktemp("quiet")
    subprocess.run(
        [sys.executable, *sweep(store, *WALKS)], cwd=REPOSITORY, env=environment, check=True, timeout=PATIENCE
    )
    assert len(table(store)) == 8
    return table(store)


class Gate:
    """Lets a few trials start and holds the others until it is opened."""

    def __init__(self, folder: Path, free: int):
        self.folder, self.free = folder, free
        folder.mkdir()
        self.settings = {"MISBEHAVING_GATE": str(folder), "MISBEHAVING_FREE": str(free)}

    def held(self) -> list[int]:
        """The processes that wait, latest last."""
        arrivals = sorted(self.folder.iterdir(), key=lambda path: path.name.partition("-")[2])
        return [int(path.name.partition("-")[0]) for path in arrivals[self.free :]]

    def open(self) -> None:
        (self.folder / "open").touch()


@pytest.fixture
def gate(tmp_path) -> Gate:
    return Gate(tmp_path / "gate", free=3)


# --- processes that die -----------------------------------------------------------------------------------------------


def test_a_worker_killed_in_the_middle_costs_nothing_but_time(environment, processes, walks, gate, tmp_path):
    client = processes(*sweep(tmp_path / "store", *WALKS, "--cluster", "local:2"), env=environment | gate.settings)
    wait_until(lambda: gate.held() and stored(tmp_path / "store"), client)
    os.kill(gate.held()[-1], signal.SIGKILL)
    gate.open()
    end(client)
    assert table(tmp_path / "store") == walks


def test_a_client_killed_and_started_again_goes_on_where_it_was(environment, processes, walks, gate, tmp_path):
    words = sweep(tmp_path / "store", *WALKS, "--cluster", "local:2")
    client = processes(*words, env=environment | gate.settings)
    wait_until(lambda: gate.held() and stored(tmp_path / "store"), client)
    workers = set(gate.held())
    end_now(client)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))  # they do not outlive it
    kept = {path: path.stat().st_mtime_ns for path in stored(tmp_path / "store")}
    end(processes(*words, env=environment))
    assert table(tmp_path / "store") == walks
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # nothing that was stored ran again


def test_a_trial_whose_workers_died_four_times_is_tried_by_itself_before_it_is_blamed(
    environment, processes, walks, tmp_path
):
    gate, store = Gate(tmp_path / "gate", free=0), tmp_path / "store"
    client = processes(*sweep(store, *WALKS, "--cluster", "local:1"), env=environment | gate.settings)
    killed: set[int] = set()
    while len(killed) < 4:  # Dask gives up after the fourth
        wait_until(lambda: set(gate.held()) - killed, client)
        (held,) = set(gate.held()) - killed
        os.kill(held, signal.SIGKILL)
        killed.add(held)
    gate.open()
    end(client)  # tried again by itself, it behaves: nobody is blamed for what another did
    assert table(store) == walks


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_scheduler(processes, environment, port: int) -> subprocess.Popen:
    words = ("--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    scheduler = processes("-m", "distributed.cli.dask_scheduler", *words, env=environment)
    wait_until(lambda: listening(port), scheduler)
    return scheduler


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


WORKER = ["-m", "distributed.cli.dask_worker", "--nworkers", "1", "--nthreads", "1", "--no-dashboard", "--no-nanny"]


def start_worker(processes, environment, port: int, folder: Path) -> subprocess.Popen:
    return processes(*WORKER, f"tcp://127.0.0.1:{port}", "--local-directory", str(folder), env=environment)


def test_a_scheduler_killed_and_started_again_is_found_again(environment, processes, walks, gate, tmp_path):
    port, held = free_port(), environment | gate.settings
    scheduler = start_scheduler(processes, environment, port)
    workers = [start_worker(processes, held, port, tmp_path / str(k)) for k in range(2)]
    client = processes(*sweep(tmp_path / "store", *WALKS, "--cluster", f"tcp://127.0.0.1:{port}"), env=environment)
    wait_until(lambda: gate.held() and stored(tmp_path / "store"), client)
    for process in (scheduler, *workers):
        end_now(process)
    gate.open()
    start_scheduler(processes, environment, port)
    start_worker(processes, held, port, tmp_path / "again")
    said = end(client)
    assert said.count("lost the scheduler") == 1
    assert "Traceback" not in said
    assert "exception" not in said
    assert table(tmp_path / "store") == walks


def run_here(said: str) -> int:
    """How many trials a sweep with --json has run itself."""
    found = re.search(r'"run here": (\d+)', said)
    assert found, said
    return int(found[1])


@pytest.mark.parametrize("where", [[], ["--cluster", "local:1"]])
def test_two_clients_on_one_sweep_and_store_run_every_trial_once(environment, processes, tmp_path, where):
    expected = quiet(environment, processes, tmp_path / "quiet", *SELECTION)
    both = [processes(*sweep(tmp_path / "store", *SELECTION, *where, "--json"), env=environment) for _ in range(2)]
    assert sum(run_here(end(client)) for client in both) == len(expected) == 8
    assert table(tmp_path / "store") == expected
    assert not list((tmp_path / "store" / "reserved").iterdir())
    assert not list((tmp_path / "store" / "tmp").iterdir())
    assert not list((tmp_path / "store").glob("damaged/*"))


def test_one_of_two_clients_killed_leaves_its_trials_to_the_other(environment, processes, walks, gate, tmp_path):
    words = [*sweep(tmp_path / "store", *WALKS), "--json"]
    both = [processes(*words, env=environment | gate.settings) for _ in range(2)]
    wait_until(lambda: len(set(gate.held())) == 2)
    before = len(stored(tmp_path / "store"))
    end_now(both[0])
    gate.open()
    assert run_here(end(both[1])) >= 8 - before
    assert table(tmp_path / "store") == walks


# --- clusters without workers, workers that die as they start ---------------------------------------------------------


def test_a_sweep_without_a_worker_says_so_and_goes_on_when_one_comes(environment, processes, walks, gate, tmp_path):
    port, held = free_port(), environment | gate.settings
    start_scheduler(processes, environment, port)
    worker = start_worker(processes, held, port, tmp_path / "first")
    client = processes(*sweep(tmp_path / "store", *WALKS, "--cluster", f"tcp://127.0.0.1:{port}"), env=environment)
    wait_until(gate.held, client)
    end_now(worker)
    time.sleep(8)
    gate.open()
    start_worker(processes, held, port, tmp_path / "second")
    said = end(client)
    assert re.search(r"waiting for a worker \([5-8] trials left\)", said), said
    assert table(tmp_path / "store") == walks


def test_a_scheduler_without_workers_is_given_up_after_the_time_that_was_given(environment, processes, tmp_path):
    port = free_port()
    start_scheduler(processes, environment, port)
    words = [*sweep(tmp_path / "store", *WALKS, "--cluster", f"tcp://127.0.0.1:{port}"), "--cluster-timeout", "7"]
    assert end(processes(*words, env=environment), status=2).splitlines() == [
        "waiting for a worker (8 trials left)",
        "stairwise: no worker for 7 s (8 trials left); what is finished is stored",
    ]
    assert not (tmp_path / "store").exists()


@pytest.fixture
def connected(tmp_path, monkeypatch) -> Iterator[Cluster]:
    """A worker of this machine that is killed while the client makes sure that it can be used."""
    (tmp_path / "asked").mkdir()
    monkeypatch.setenv(misbehaving.GATE, str(tmp_path / "asked"))
    monkeypatch.setattr(remote, "code_of", misbehaving.code_of_the_dying)
    cluster = Cluster.parse("local:1")
    cluster.connect(registry.experiment("selection/online"), threading.Event(), Silent(), lambda: 1)
    yield cluster
    cluster.close()


def test_workers_that_die_before_they_run_a_trial_end_no_sweep(connected, tmp_path, monkeypatch):
    assert len(list((tmp_path / "asked").iterdir())) == 2  # killed, and asked again
    (tmp_path / "width").mkdir()
    job = Job(connected, None, None, 1, None, Silent(), threading.Event(), 10.0)
    job.work = SimpleNamespace(left=())  # type: ignore[assignment]
    assert job._asked(misbehaving.die_at_first, str(tmp_path / "width"), 5) == "alive"  # Dask gives up after four
    monkeypatch.setattr("stairwise.lab.cluster.job.ATTEMPTS", 1)
    with pytest.raises(ConfigError, match="workers die, one after another, before they run a trial"):
        job._asked(misbehaving.die_at_first, str(tmp_path / "width"), 1000)


def test_a_worker_of_this_machine_that_dask_has_given_up_is_started_anew(connected):
    configure = pytest.importorskip("dask.config").set
    with configure({"distributed.deploy.lost-worker-timeout": "0.1s"}):  # less than a worker takes to start again
        os.kill(connected.client.submit(os.getpid, pure=False).result(timeout=60), signal.SIGKILL)
        wait_until(lambda: not connected.client.nthreads())
        time.sleep(1)
    connected.threads = 0
    wait_until(lambda: connected.watch(threading.Event(), Silent(), lambda: 1))


# --- who can talk to the workers of this machine ----------------------------------------------------------------------

STRANGER = """
import sys, distributed
for address, security in (("tcp", None), ("tls", distributed.Security.temporary())):
    try:
        client = distributed.Client(f"{address}://127.0.0.1:{sys.argv[1]}", timeout=3, security=security)
        print("connected", client.run_on_scheduler(lambda: 1))
    except (OSError, TimeoutError) as error:
        print("refused")
"""


def test_workers_of_this_machine_answer_to_nobody_else_and_serve_no_pages(environment, processes, tmp_path):
    gate = Gate(tmp_path / "gate", free=0)
    words = sweep(tmp_path / "store", *WALKS, "--cluster", "local:1")
    client = processes(*words, env=environment | gate.settings)
    wait_until(gate.held, client)
    family = [psutil.Process(client.pid), *psutil.Process(client.pid).children(recursive=True)]
    ports = {
        place.laddr.port: place.laddr.ip
        for process in family
        for place in process.net_connections("tcp")
        if place.status == psutil.CONN_LISTEN
    }
    assert len(ports) == 3  # scheduler, nanny, worker
    assert set(ports.values()) == {"127.0.0.1"}
    assert 8787 not in ports
    for port in ports:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
            stranger.sendall(b"GET /json/identity.json HTTP/1.0\r\n\r\n")
            stranger.settimeout(5)
            with suppress(OSError):
                assert not stranger.recv(5).startswith(b"HTTP")
        found = processes("-c", STRANGER, str(port), env=environment)
        assert end(found).splitlines()[-2:] == ["refused", "refused"]
    gate.open()
    end(client)


@pytest.fixture(scope="module")
def certified(environment, tmp_path_factory) -> dict[str, str]:
    """The environment of processes whose Dask configuration names a certificate."""
    folder, made = tmp_path_factory.mktemp("certificate"), pytest.importorskip("distributed").Security.temporary()
    settings = {}
    for name in ("ca_file", "worker_cert", "worker_key"):
        (folder / name).write_text(getattr(made, f"tls_{name}"))
    for role in ("CLIENT", "SCHEDULER", "WORKER"):
        settings |= {f"{role}__{part.upper()}": str(folder / f"worker_{part}") for part in ("cert", "key")}
    settings["CA_FILE"] = str(folder / "ca_file")
    return environment | {f"DASK_DISTRIBUTED__COMM__TLS__{name}": value for name, value in settings.items()}


def test_a_scheduler_with_tls_is_used_by_whoever_has_its_certificate(
    environment, certified, processes, walks, tmp_path
):
    port = free_port()
    words = ("--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--protocol", "tls")
    wait_until(lambda: listening(port), processes("-m", "distributed.cli.dask_scheduler", *words, env=certified))
    processes(*WORKER, f"tls://127.0.0.1:{port}", "--local-directory", str(tmp_path / "scratch"), env=certified)

    def wanted(protocol: str) -> list[str]:
        there = ["--cluster", f"{protocol}://127.0.0.1:{port}", "--cluster-timeout", "20"]
        return sweep(tmp_path / "store", *WALKS, *there)

    said = end(processes(*wanted("tls"), env=environment), status=2)
    assert said.startswith(f"stairwise: cluster=tls://127.0.0.1:{port} needs a certificate: set distributed.comm.tls")
    said = end(processes(*wanted("tcp"), env=certified), status=2)
    assert said.startswith(f"stairwise: no scheduler answers at tcp://127.0.0.1:{port} within 20 s")
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "store").exists()
    end(processes(*wanted("tls"), env=certified))
    assert table(tmp_path / "store") == walks


SBATCH = """#!/bin/sh
echo "Submitted batch job 1"
cp "$1" job.sh
sh job.sh >job.log 2>&1 &
echo $! >>job.pid
"""


def test_slurm_jobs_talk_through_tls_and_a_stranger_is_refused(environment, processes, walks, tmp_path):
    pytest.importorskip("dask_jobqueue")
    gate, programs = Gate(tmp_path / "gate", free=0), tmp_path / "bin"
    programs.mkdir()
    for name, text in {"sbatch": SBATCH, "scancel": "#!/bin/sh\n"}.items():  # a queue that starts its jobs here
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    table_of = ["jobs = 1", "[slurm]", "cores = 1", "processes = 1", "memory = '1GB'", "interface = 'lo'"]
    (tmp_path / "slurm.toml").write_text("\n".join(table_of))
    own = environment | gate.settings | {"PATH": f"{programs}:{os.environ['PATH']}"}
    words = sweep(tmp_path / "store", *WALKS, "--cluster", "slurm", "--cluster-config", str(tmp_path / "slurm.toml"))
    client = processes(*words, env=own, cwd=tmp_path)
    try:
        wait_until(gate.held, client)
        found = [place for place in psutil.Process(client.pid).net_connections("tcp") if place.status == "LISTEN"]
        (port,) = {place.laddr.port for place in found}  # the scheduler, and no pages
        assert end(processes("-c", STRANGER, str(port), env=environment)).splitlines()[-2:] == ["refused", "refused"]
        gate.open()
        said = end(client)
        assert "Traceback" not in said
        assert table(tmp_path / "store") == walks
        assert not list(tmp_path.glob(".stairwise-*"))
    finally:
        for pid in (tmp_path / "job.pid").read_text().split():
            with suppress(psutil.Error):
                family = [psutil.Process(int(pid)), *psutil.Process(int(pid)).children(recursive=True)]
                for process in family:
                    process.kill()


def test_ctrl_c_on_a_cluster_ends_with_the_command_that_goes_on(environment, processes, tmp_path):
    gate = Gate(tmp_path / "gate", free=0)
    words = sweep(tmp_path / "store", *WALKS, "--cluster", "local:2")
    (tmp_path / "tmp").mkdir()
    client = processes(*words, env=environment | gate.settings | {"TMPDIR": str(tmp_path / "tmp")})
    wait_until(gate.held, client)
    assert list((tmp_path / "tmp").glob(".stairwise-*"))  # the certificate of the run
    client.send_signal(signal.SIGINT)
    said = end(client, status=130)
    assert not list((tmp_path / "tmp").glob(".stairwise-*"))
    assert said.splitlines()[-1].startswith("stairwise: stopped; what is finished is stored. Go on with: stairwise ")


def test_a_worker_that_sees_a_copy_of_the_store_sends_its_results(environment, processes, walks, tmp_path):
    for place in ("client", "worker"):
        (tmp_path / place).mkdir()
    here, there = (Path("/proc/self/cwd/store"), tmp_path / "worker" / "store")  # a path, and two folders
    first = [*WALKS[:2], "rate=0.1", "--seeds", "1"]
    end(processes(*sweep(here, *first), env=environment, cwd=tmp_path / "client"))
    shutil.copytree(tmp_path / "client" / "store", there)
    copied = table(there)
    port = free_port()
    start_scheduler(processes, environment, port)
    worker = [*WORKER, f"tcp://127.0.0.1:{port}", "--local-directory", str(tmp_path / "scratch")]
    processes(*worker, env=environment, cwd=tmp_path / "worker")
    words = sweep(here, *WALKS, "--cluster", f"tcp://127.0.0.1:{port}")
    end(processes(*words, env=environment, cwd=tmp_path / "client"))
    assert table(tmp_path / "client" / "store") == walks
    assert table(there) == copied


# --- disks ------------------------------------------------------------------------------------------------------------

LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))  # smaller than run.json: every trial is too large for this disk
sys.argv = ["worker", *sys.argv[1:]]
runpy.run_module("distributed.cli.dask_worker", run_name="__main__")
"""


def test_a_worker_whose_disk_is_full_sends_its_results_instead(environment, processes, walks, tmp_path):
    port = free_port()
    start_scheduler(processes, environment, port)
    full = ["-c", LIMITED, *WORKER[2:], f"tcp://127.0.0.1:{port}", "--local-directory", str(tmp_path / "full")]
    worker = processes(*full, env=environment)
    client = processes(*sweep(tmp_path / "store", *WALKS, "--cluster", f"tcp://127.0.0.1:{port}"), env=environment)
    said = end(client)
    assert worker.poll() is None
    assert "a worker could not store its result and sent it here" in said
    assert "File too large" in said
    assert table(tmp_path / "store") == walks


# --- trials that go wrong ---------------------------------------------------------------------------------------------


def test_trials_that_diverge_or_raise_are_stored_as_such_and_harm_no_other(environment, processes, tmp_path):
    store, group = tmp_path / "store", ("--group", "4")
    healthy = quiet(environment, processes, tmp_path / "quiet", *WALKS, *group)
    faulty = [*WALKS, "--grid", "fault=0,1,2", *group]
    said = end(processes(*sweep(store, *faulty), env=environment), status=1)
    found = table(store)
    assert {digest: found[digest] for digest in healthy} == healthy
    rest = [row for digest, row in found.items() if digest not in healthy]
    lost = [message for status, message, *_ in rest if status == "singular"]
    failed = [message for status, message, *_ in rest if status == "failed"]
    assert len(lost) == 8
    assert all(message.endswith(" and became NaN at tick 52 of stage walk") for message in lost)
    assert len(failed) == 8
    assert all(message.endswith("asked to raise") for message in failed)
    assert said.count("failed: ") >= 8
    # nothing runs again unasked; asked, only what failed does
    kept = {path: path.stat().st_mtime_ns for path in stored(store)}
    end(processes(*sweep(store, *faulty), env=environment), status=1)
    assert {path: path.stat().st_mtime_ns for path in stored(store)} == kept
    end(processes(*sweep(store, *faulty, "--retry-failed"), env=environment | {"MISBEHAVING_CURED": "1"}))
    again = table(store)
    assert {digest for digest in again if again[digest] != found[digest]} == {
        digest for digest, row in found.items() if row[0] == "failed"
    }
    assert {row[0] for row in again.values()} == {"finished", "singular"}


def test_a_study_that_raises_on_a_worker_is_recorded_with_its_message(environment, processes, tmp_path):
    words = ["misbehaving/count", "--grid", "fault=0,2", "--cluster", "local:1", "--writer", "client"]
    said = end(processes(*sweep(tmp_path / "store", *words), env=environment), status=1)
    endings = sorted((status, message) for status, message, *_ in table(tmp_path / "store").values())
    broken = [("failed", f"ValueError: cannot count to {seed}") for seed in range(2)]
    assert endings == [*broken, ("finished", ""), ("finished", "")]
    assert "failed: fault=2 seed 1: ValueError: cannot count to 1" in said


# --- schedulers that are not what they should be ----------------------------------------------------------------------


def test_a_worker_with_other_package_versions_is_refused_before_anything_is_written(environment, processes, tmp_path):
    older = tmp_path / "site" / "optax-0.0.1.dist-info"
    older.mkdir(parents=True)
    (older / "METADATA").write_text("Metadata-Version: 2.1\nName: optax\nVersion: 0.0.1\n")
    port = free_port()
    start_scheduler(processes, environment, port)
    other = environment | {"PYTHONPATH": os.pathsep.join([str(older.parent), environment["PYTHONPATH"]])}
    start_worker(processes, other, port, tmp_path / "worker")
    client = processes(*sweep(tmp_path / "store", *WALKS, "--cluster", f"tcp://127.0.0.1:{port}"), env=environment)
    said = end(client, status=2)
    assert len(said.splitlines()) == 1
    assert "is refused: it has optax 0.0.1 instead of" in said
    assert not (tmp_path / "store").exists()
