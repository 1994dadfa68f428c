"""Sweeps on a Dask cluster: processes of this machine, a scheduler that runs already, or jobs of a SLURM cluster.

The store is the arbiter: whatever happens to workers, scheduler or client, what is stored is done and what is not is
planned again. A Dask connection is trusted both ways: whoever reaches a scheduler can run code on its workers, and what
a worker sends is unpickled by the client. Processes of this machine and SLURM's jobs talk through TLS with a
certificate of the run. A scheduler that runs already is protected as it was started: not at all (tcp://), or by TLS.
"""

import logging
import os
import re
import signal
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stairwise.config import ConfigError, one_line, short
from stairwise.extras import missing
from stairwise.lab.cluster import remote
from stairwise.lab.cluster.job import LOOK_SECONDS, ClusterError, Job, Lost
from stairwise.lab.contract.experiment import Experiment, Trial
from stairwise.lab.progress import Silent
from stairwise.lab.run.plan import outstanding
from stairwise.lab.run.sharing import Reservations, Work
from stairwise.lab.store.files import explained, remove, scratch_name, sweep
from stairwise.lab.store.store import Store

FORMS = "local:N, tcp://HOST:PORT, tls://HOST:PORT or slurm"
SCHEDULER_SECONDS = 10.0  # how long a scheduler may take to answer
PATIENCE_SECONDS = 300.0  # how long a scheduler that has gone may take to come back
WORD_SECONDS = 5.0  # how long there may be no worker before that is said
STARTS = 3  # how often the processes of this machine are started where some die meanwhile


@dataclass
class Cluster:
    """A cluster and the connection to it."""

    kind: str  # local, address or slurm
    workers: int = 0
    address: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    timeout: float | None = None  # for a scheduler, else SCHEDULER_SECONDS; for a first worker, else for ever
    patience: float = PATIENCE_SECONDS
    client: Any = None
    local: Any = None
    private: Path | None = None  # where the certificate of the run is
    threads: int = 0
    looked: float = -1.0
    alone_since: float | None = None
    said: bool = False

    @classmethod
    def parse(cls, text: str, config: str | None = None, timeout: float | None = None) -> "Cluster":
        """The cluster that `--cluster` and its TOML file describe; nothing is started."""
        if timeout is not None and not 0 < timeout <= 86400:
            raise ConfigError(f"cluster-timeout={timeout:g} must lie above 0 and be at most 86400 seconds")
        if config is not None and text != "slurm":
            raise ConfigError(f"cluster-config={config} is read for --cluster slurm, not for {text}")
        if text == "slurm":
            options = _slurm_options(config)
            _jobqueue()  # here, in the main thread: see there
            return cls("slurm", options.pop("jobs"), options=options, timeout=timeout)
        count = re.fullmatch(r"local:(\d{1,4})", text)
        if count and int(count[1]) >= 1:
            return cls("local", int(count[1]), timeout=timeout)
        if re.fullmatch(r"(tcp|tls)://[^\s:/]+:\d{1,5}", text):
            return cls("address", address=text, timeout=timeout)
        raise ConfigError(f"cluster={text} must be {FORMS}")

    # --- connecting ---------------------------------------------------------------------------------------------------

    def connect(self, experiment: Experiment, stop: threading.Event, progress: Silent, left: Callable[[], int]) -> None:
        """Reach or start the scheduler, wait for a first worker, refuse other versions; ClusterError says why not.

        A scheduler that has answered and goes is looked for again.
        """
        try:
            self._connect(experiment, stop, progress, left)
        except Lost as lost:
            progress.warn(f"{lost} {self.address}; it is looked for again")
            self._reconnect(experiment, stop, progress, left)

    def _connect(
        self, experiment: Experiment, stop: threading.Event, progress: Silent, left: Callable[[], int]
    ) -> None:
        distributed = _distributed()
        _quieten()
        if self.kind == "address":
            seconds = self.timeout or SCHEDULER_SECONDS
            try:
                self.client = distributed.Client(self.address, timeout=seconds, set_as_default=False)
            except TypeError:  # what Dask raises where its settings name no certificate
                raise ClusterError(
                    f"cluster={self.address} needs a certificate: set distributed.comm.tls in Dask's configuration"
                ) from None
            except (OSError, TimeoutError, ValueError) as error:
                raise ClusterError(
                    f"no scheduler answers at {self.address} within {seconds:g} s ({_why(error)})"
                ) from None
        try:
            if self.kind != "address":
                if self.local is None:
                    self.local = self._local_cluster() if self.kind == "local" else self.slurm_cluster()
                self.client = distributed.Client(self.local, set_as_default=False)
            self._check_scheduler()
            while True:
                while not self.watch(stop, progress, left):
                    time.sleep(LOOK_SECONDS)
                if self._check_workers(experiment):
                    break
        except BaseException:
            self.close()
            raise

    def _local_cluster(self) -> Any:
        try:
            from stairwise.lab.cluster import local

            self.private = _private_folder(tempfile.gettempdir())
            security = local.certified(self.private)
            for attempt in range(STARTS):
                try:
                    return local.start(self.workers, security)
                except (OSError, RuntimeError, TimeoutError) as error:  # a worker was killed while it started
                    if attempt == STARTS - 1:
                        raise ClusterError(f"the workers of local:{self.workers} do not start: {_why(error)}") from None
        except ImportError:
            raise ClusterError(missing("--cluster local", "cluster")) from None

    def slurm_cluster(self) -> Any:
        """The scheduler in this process, and as many jobs as asked for, submitted again where they end early."""
        cluster = self._unscaled_slurm()
        cluster.adapt(minimum_jobs=self.workers, maximum_jobs=self.workers)
        return cluster

    def _unscaled_slurm(self) -> Any:
        """With TLS and a certificate of this run, unless the options say otherwise, and without pages."""
        try:
            from stairwise.lab.cluster.local import LocalScheduler, certified
        except ImportError:
            raise ClusterError(missing("--cluster slurm", "cluster")) from None
        options = {"security": True, **self.options}
        secure = options.pop("security")
        if not isinstance(secure, bool):
            raise ClusterError(f"cluster-config [slurm]: security={short(secure)} must be true or false")
        if secure:
            self.private = _private_folder(options.get("shared_temp_directory") or ".")
            options["security"] = certified(self.private)
        try:
            return _jobqueue().SLURMCluster(**{"scheduler_cls": LocalScheduler, **options})
        except (TypeError, ValueError) as error:
            self.close()
            raise ClusterError(f"cluster-config [slurm]: {one_line(str(error))[:300]}") from None

    def job_script(self) -> str:
        """The script that would be submitted to SLURM, once a job."""
        self.local = self._unscaled_slurm()
        try:
            return self.local.job_script()
        finally:
            self.close()

    def _check_scheduler(self) -> None:
        """Differing versions of Python or of Dask make messages unreadable in ways that show late."""
        try:
            found = self.client.get_versions(check=False)
        except (OSError, TimeoutError):
            raise Lost from None
        except Exception as error:  # whatever a differing scheduler answers
            raise ClusterError(f"the scheduler cannot be talked to: {type(error).__name__}") from None
        names = ("python", "dask", "distributed")
        here, there = (
            {name: str(found[side]["packages"].get(name)) for name in names} for side in ("client", "scheduler")
        )
        other = remote.differences(here, there)
        if other:
            raise ClusterError(f"the scheduler {self._name()} is refused: it has {other}")

    def watch(self, stop: threading.Event, progress: Silent, left: Callable[[], int]) -> int:
        """How many threads the workers have, asked once a second; says so where there are none, ends at the timeout."""
        from stairwise.train.loop import Interrupted

        if stop.is_set():
            raise Interrupted
        if self.client.status != "running":
            raise Lost
        now = time.monotonic()
        if now - self.looked >= 1:
            self.looked = now
            with suppress(OSError, TimeoutError):  # whether the scheduler is gone is seen above
                self.threads = sum(self.client.nthreads().values())
            if self.kind == "local" and self.threads < self.workers:
                from stairwise.lab.cluster.local import keep_up

                keep_up(self.local)
        if self.threads:
            self.alone_since, self.said = None, False
            return self.threads
        if self.alone_since is None:
            self.alone_since = now
        if self.timeout is not None and now - self.alone_since >= self.timeout:
            raise ClusterError(f"no worker for {self.timeout:g} s ({left()} trials left); what is finished is stored")
        if not self.said and now - self.alone_since >= WORD_SECONDS:
            self.said = True
            progress.warn(f"waiting for a worker ({left()} trials left)")
        return 0

    def _check_workers(self, experiment: Experiment) -> bool:
        """Whether there is a worker that can run the experiment; one that cannot is refused, one that has died is not.

        Workers that come later are held to the same by every task.
        """
        wanted, able = remote.code(experiment), False
        try:
            answers = self.client.run(remote.code_of, experiment.name, on_error="return")
            there = self.client.nthreads()
        except (OSError, TimeoutError):
            raise Lost from None
        for address, answer in answers.items():
            if isinstance(answer, OSError) or (isinstance(answer, Exception) and address not in there):
                continue  # it died meanwhile
            if isinstance(answer, Exception) or "error" in answer:
                why = answer["error"] if isinstance(answer, dict) else f"{type(answer).__name__}: {answer}"
                raise ClusterError(f"worker {address} cannot run {experiment.name}: {one_line(why)[:200]}")
            other = remote.differences(wanted, answer)
            if other:
                raise ClusterError(f"worker {address} is refused: it has {other}")
            able = True
        return able

    def _name(self) -> str:
        return self.address or self.client.scheduler.address

    def close(self) -> None:
        if self.private is not None:
            remove(self.private)  # first: after Ctrl-C there may not be time for the rest
        for thing in (self.client, self.local):
            if thing is not None:
                with suppress(Exception):  # it may be gone already, and nothing depends on a polite goodbye
                    thing.close(timeout=5)
        self.client = self.local = self.private = None

    # --- running ------------------------------------------------------------------------------------------------------

    def execute(
        self,
        trials: Sequence[Trial],
        store: Store,
        writer: str,
        preset_group: int,
        group: int | None,
        *,
        settled: Callable[[Trial], bool],
        progress: Silent,
        stop: threading.Event,
        save_every: float = 10.0,
    ) -> tuple[int, int]:
        """Run every trial that is not settled; plan again from the store when the scheduler has been lost.

        Returned is how many trials were run for this process, and how many others have run meanwhile.
        """
        missing, left = outstanding(trials, settled)
        stored = len(trials) - len(missing)
        progress.begin(trials[0].experiment.name, stored + left, stored)
        try:
            with Reservations(store) as reservations:
                mark = reservations.mark.name if writer == "workers" else None
                job = Job(self, store, mark, preset_group, group, progress, stop, save_every)
                job.work = work = Work(missing, reservations, settled, job.width, progress)
                while True:
                    try:
                        job.run()
                        return work.here, work.meanwhile
                    except Lost as lost:
                        progress.warn(f"{lost} {self.address}; what is stored stays, the rest is planned again")
                        self._reconnect(trials[0].experiment, stop, progress, lambda: len(work.left))
                        work.restart()
        finally:
            progress.end()

    def _reconnect(
        self, experiment: Experiment, stop: threading.Event, progress: Silent, left: Callable[[], int]
    ) -> None:
        from stairwise.train.loop import Interrupted

        deadline = time.monotonic() + self.patience
        with suppress(Exception):  # a client without its scheduler may not close
            self.client.close(timeout=2)
        while True:
            if stop.is_set():
                raise Interrupted
            try:
                return self._connect(experiment, stop, progress, left)
            except (ClusterError, Lost) as error:
                if time.monotonic() > deadline or "refused" in str(error):
                    raise ClusterError(f"{error}; what is finished is stored") from None
                time.sleep(LOOK_SECONDS)


def _private_folder(shared: str) -> Path:
    """A folder for this process and those that it starts; what processes that were killed left there is removed."""
    place = Path(os.path.expandvars(shared)).expanduser().absolute()
    sweep(place, hidden=True)
    made = place / f".{scratch_name()}"
    with explained(f"write a certificate to {place}"):
        made.mkdir(mode=0o700)
    return made


def _why(error: Exception) -> str:
    return one_line(str(error).splitlines()[0] if str(error) else type(error).__name__)[:120]


def _quieten() -> None:
    """Dask's own tracebacks (a scheduler that has died, say) add nothing to what is said here."""
    for name in ("distributed", "distributed.client", "tornado", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").addFilter(_not_of_dask)  # adding it again changes nothing


def _not_of_dask(record: logging.LogRecord) -> bool:
    said = record.getMessage()  # names the coroutine and its file
    return "distributed" not in said and "tornado" not in said


def _jobqueue() -> Any:
    """dask_jobqueue, whose import takes over Ctrl-C (and so works in the main thread only); we take it back."""
    heard = signal.getsignal(signal.SIGINT)
    try:
        import dask_jobqueue
    except ImportError:
        raise ClusterError(missing("--cluster slurm", "cluster")) from None
    except ValueError:
        raise ClusterError("--cluster slurm must be started from the main thread") from None
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, heard)
    return dask_jobqueue


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ClusterError(missing("--cluster", "cluster")) from None
    return distributed


def _slurm_options(config: str | None) -> dict[str, Any]:
    """`jobs` and the [slurm] table of the TOML file, whose entries are the options of dask_jobqueue.SLURMCluster."""
    if config is None:
        raise ConfigError("--cluster slurm needs --cluster-config FILE.toml (cores, memory, walltime, queue, ...)")
    try:
        data = tomllib.loads(Path(config).read_text())
    except OSError as error:
        raise ConfigError(f"cluster-config={config} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"cluster-config={config} is not TOML: {error}") from None
    unknown = [name for name in data if name not in ("jobs", "slurm")]
    if unknown:
        raise ConfigError(f"cluster-config={config}: {unknown[0]} must be one of jobs, slurm")
    jobs, options = data.get("jobs", 1), data.get("slurm", {})
    if not isinstance(jobs, int) or isinstance(jobs, bool) or not 1 <= jobs <= 10_000:
        raise ConfigError(f"cluster-config={config}: jobs={jobs!r} must lie in 1..10000")
    missing = [name for name in ("cores", "memory") if name not in options] if isinstance(options, dict) else []
    if not isinstance(options, dict) or missing:
        raise ConfigError(f"cluster-config={config}: [slurm] must give {', '.join(missing or ['a table'])}")
    return {"jobs": jobs, **options}
