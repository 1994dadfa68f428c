"""Worker processes of this machine that nobody else can talk to: TLS with a certificate of this run, no HTTP."""

import logging
import sys
from pathlib import Path
from typing import Any

import cryptography  # noqa: F401  which Dask needs for the certificate
from dask.config import set as configure
from distributed import Nanny, Scheduler, Security, SpecCluster, Status, Worker

HOST = "127.0.0.1"
# what is left behind by a process that ends at once, on Ctrl-C, is cleaned up all the same
TRACKER_WARNINGS = "ignore::UserWarning:multiprocessing.resource_tracker"


class _WithoutHttp:
    """Dask opens an HTTP server even where no dashboard is asked for, and it answers to anybody."""

    def start_http_server(self, routes: Any, *where: Any, **options: Any) -> None:
        pass


class LocalScheduler(_WithoutHttp, Scheduler):
    pass


class LocalWorker(_WithoutHttp, Worker):
    pass


def certified(folder: Path) -> Security:
    """A certificate of this run, in files that the processes of the same user can read, and nobody else.

    Dask writes one that it holds in memory to files as well, again and again, and a killed process leaves them.
    """
    made, files = Security.temporary(), {}
    for name in ("ca_file", "worker_cert", "worker_key"):
        files[name] = folder / name
        files[name].touch(mode=0o600)
        files[name].write_text(getattr(made, f"tls_{name}"))
    roles = ("client", "scheduler", "worker")
    own = {f"tls_{role}_{part}": str(files[f"worker_{part}"]) for role in roles for part in ("cert", "key")}
    return Security(require_encryption=True, tls_ca_file=str(files["ca_file"]), **own)


def start(workers: int, security: Security) -> SpecCluster:
    """A scheduler in this process and `workers` processes of one thread each."""
    # workers see the same cores and settings as this process, so that they give the same bits; one that takes long to
    # start again is not given up
    configure({"distributed.nanny.pre-spawn-environ": {}, "distributed.deploy.lost-worker-timeout": "5m"})
    if TRACKER_WARNINGS not in sys.warnoptions:
        sys.warnoptions.append(TRACKER_WARNINGS)  # given on to the processes that multiprocessing starts
    common = {"host": HOST, "protocol": "tls://", "security": security}
    options = {**common, "nthreads": 1, "memory_limit": 0, "silence_logs": logging.CRITICAL}
    worker = {"cls": Nanny, "options": {**options, "worker_class": LocalWorker}}
    return SpecCluster(
        scheduler={"cls": LocalScheduler, "options": {**common, "port": 0, "dashboard": False}},
        workers=dict.fromkeys(range(workers), worker),
        worker=worker,
        security=security,
    )


def keep_up(cluster: SpecCluster) -> None:
    """Start workers anew that Dask has given up: those that took long to come back, or failed as they started."""

    def reopen() -> None:
        ended = [name for name, nanny in cluster.workers.items() if nanny.status in (Status.closed, Status.failed)]
        for name in ended:
            del cluster.workers[name]
        if len(cluster.workers) < len(cluster.worker_spec):
            cluster.scale(len(cluster.worker_spec))

    loop: Any = cluster.loop
    loop.add_callback(reopen)
