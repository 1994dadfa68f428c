"""Writes the goldens anew: `python -m tests.goldens.record [EXPERIMENT ...]`, all of them or those named."""

import json
import sys
import tempfile
import time

from stairwise.lab.run.execute import prepare_jax
from stairwise.lab.store.store import Store
from tests.goldens.cases import bits, every_golden, finals, machine, outcomes
from tests.goldens.test_goldens import FILE, read


def record(wanted: list[str]) -> None:
    prepare_jax()
    kept = read() if FILE.exists() else {"machine": "", "trials": {}}
    ids = {golden.id for golden in every_golden()}
    kept["trials"] = {id: row for id, row in kept["trials"].items() if id in ids}
    if kept["machine"] not in ("", machine()):
        raise SystemExit("the goldens were recorded on another kind of machine: record all of them or none")
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(folder)
        for golden in every_golden():
            if wanted and golden.experiment not in wanted:
                continue
            began = time.monotonic()
            found = outcomes(golden, store)
            kept["trials"][golden.id] = {"bits": bits(found), "finals": finals(found)}
            _write(kept)
            print(f"{time.monotonic() - began:6.1f} s  {golden.id}  {found[0].status}", flush=True)


def _write(kept: dict) -> None:
    kept["machine"] = machine()
    rows = ",\n".join(f"{json.dumps(id)}: {json.dumps(row)}" for id, row in sorted(kept["trials"].items()))
    FILE.write_text(f'{{"machine": {json.dumps(kept["machine"])},\n"trials": {{\n{rows}\n}}}}\n')


if __name__ == "__main__":
    record(sys.argv[1:])
