"""`stairwise doctor`: what this machine offers, and whether everything that runs need is in order."""

import argparse
import os
import time
from pathlib import Path
from typing import Any

from stairwise import compiler
from stairwise.commands import flags
from stairwise.commands.stored import opened
from stairwise.extras import EXTRAS, install, installed
from stairwise.lab import registry
from stairwise.lab.progress import for_terminal
from stairwise.lab.run.execute import device, prepare_jax
from stairwise.lab.store import provenance
from stairwise.lab.store.store import Store
from stairwise.terminal import print_json


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)


def act(options, fields) -> int:
    found = facts(opened(options.store))
    if options.json:
        print_json(found)
    else:
        for name, values in found.items():
            print(name)
            for key, value in (values or {"none": ""}).items():
                print(f"    {key:22} {value}".rstrip())
    right = all(found[name]["right"] for name in ("first computation", "float64", "attention in bfloat16", "compiler"))
    return 0 if right and not found["store"]["damaged"] else 1


def facts(store: Store) -> dict[str, Any]:
    """Device, precision, compilation cache, versions, extras, store."""
    import jax
    import jax.numpy as jnp

    prepare_jax()
    began = time.monotonic()
    matrix = jnp.ones((512, 512), dtype=jnp.float32)
    exact = bool((matrix @ matrix == 512).all())
    with jax.enable_x64(True):
        third = float(jnp.float64(1) / 3)
    cache = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    files = [os.path.join(folder, name) for folder, _, names in os.walk(cache or "") for name in names]
    return {
        "device": device(),
        "first computation": {"right": exact, "seconds": round(time.monotonic() - began, 2)},
        "float64": {"right": third == 1 / 3},
        "attention in bfloat16": {"right": _half_precision_error() < 0.05},
        "compiler": {"right": compiler.right(), "XLA_FLAGS": os.environ.get("XLA_FLAGS", "")},
        "compilation cache": {"folder": cache, "megabytes": round(sum(map(os.path.getsize, files)) / 1e6, 1)},
        "versions": provenance.versions(),
        "plug-ins": _plug_ins(),
        "machine": provenance.machine(),
        "extras": {extra: "installed" if installed(extra) else f"absent: {install(extra)}" for extra in EXTRAS},
        "store": _store(store),
    }


def _store(store: Store) -> dict[str, Any]:
    """How much is in the store; every byte of it is read again."""
    damaged = {path for path, _ in store.damaged(progress=for_terminal())}
    trials = sum(Path(path) not in damaged for path in store.index().places(None))
    return {"folder": str(store.root), "trials": trials, "damaged": len(damaged)}


def _half_precision_error() -> float:
    """How far attention in bfloat16 (on a GPU: by our own kernels) and its gradient are from float32, at most."""
    import jax
    import jax.numpy as jnp

    from stairwise.nn.attention import attend_packed, attention_mask

    mask = attention_mask(33, causal=True)
    packed = jax.random.normal(jax.random.key(0), (4, 33, 3, 2, 40), dtype=jnp.float32)

    @jax.jit
    def both(packed):
        attended, back = jax.vjp(jax.vmap(lambda one: attend_packed(one, mask)), packed)
        return attended.astype(jnp.float32), back(jnp.sin(attended))[0].astype(jnp.float32)

    found, wanted = both(packed.astype(jnp.bfloat16)), both(packed)
    return max(float(jnp.abs(a - b).max()) for a, b in zip(found, wanted, strict=True))


def _plug_ins() -> dict[str, str]:
    """Papers that were installed by themselves, and why those that cannot be used are left out."""
    found = registry.plug_ins()
    named = {f"{name} {version}": id for id, of in found.distributions.items() for name, version in of.items()}
    return named | {what: f"left out: {why}" for what, why in found.broken.items()}
