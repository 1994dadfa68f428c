"""Random damage to files, as a function of a seed: other values in JSON, other bytes, and seals that agree again."""

import copy
import hashlib
import json
import random
from pathlib import Path
from typing import Any

from stairwise.lab.store.files import seal, unseal

DEEP: Any = []
for _ in range(100):
    DEEP = [DEEP]
ODD = [
    None, True, False, -1, 0, 1, 3, 2**31, 2**40, 2**63, 10**30, 0.5, -0.0, 1e308, float("nan"), float("inf"),
    "", "x", "5", "../../etc/passwd", "/dev/zero", "two\nlines",
    "\ud800", "\x00", "9" * 5000, [], {}, [[]], [1, "a"], {"a": 1},
    {"$float": "nan"}, DEEP,
]  # fmt: skip


def places(data: Any, path: tuple = ()) -> list[tuple]:
    """Every path into nested data but the empty one."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    found = []
    for key, value in items:
        found += [(*path, key), *places(value, (*path, key))]
    return found


def mutated(data: Any, draw: random.Random) -> Any:
    """The data with one value replaced, removed, renamed, or exchanged with another."""
    data = copy.deepcopy(data)
    *parents, key = draw.choice(places(data))
    place = data
    for parent in parents:
        place = place[parent]
    kind = draw.random()
    if kind < 0.15:
        del place[key]
    elif kind < 0.25 and isinstance(place, dict):
        place[str(draw.choice(ODD[:-1]))] = place.pop(key)
    elif kind < 0.35:
        other = draw.choice([*place] if isinstance(place, dict) else range(len(place)))
        place[key], place[other] = place[other], place[key]
    else:
        place[key] = draw.choice(ODD)
    return data


def mutated_bytes(data: bytes, draw: random.Random) -> bytes:
    """The bytes with some flipped, cut off, doubled or put in."""
    place, kind = draw.randrange(len(data)), draw.randrange(4)
    if kind == 0:
        return data[:place] + bytes([data[place] ^ (1 << draw.randrange(8))]) + data[place + 1 :]
    if kind == 1:
        return data[:place]
    if kind == 2:
        return data[:place] + data[place // 2 : place] + data[place:]
    return data[:place] + draw.randbytes(draw.randrange(1, 40)) + data[place:]


def mutate_json(file: Path, draw: random.Random) -> None:
    file.write_text(json.dumps(mutated(json.loads(file.read_text()), draw)))


def mutate_safetensors(file: Path, draw: random.Random) -> None:
    """The description of the tensors, or any bytes."""
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    if draw.random() < 0.3:
        file.write_bytes(mutated_bytes(data, draw))
        return
    header = json.dumps(mutated(json.loads(data[8 : 8 + size]), draw)).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + size :])


def mutate_sealed(file: Path, draw: random.Random) -> None:
    """The description of a folder with another value, and a seal that says all is well."""
    data = mutated(unseal(file.read_bytes()), draw)
    data.pop("seal", None)
    file.write_bytes(seal(data))


def reseal(folder: Path) -> None:
    """The digests of a folder's files as they are now."""
    description = unseal((folder / "stairwise.json").read_bytes())
    for name, facts in description["files"].items():
        facts["sha256"] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "stairwise.json").write_bytes(seal(description))
