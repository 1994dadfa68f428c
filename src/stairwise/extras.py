"""What is installed only where it is asked for: the extras, and the one line that names a missing one."""

import importlib.util

# the modules that each extra brings and the core does not
EXTRAS = {
    "bench": ("torch",),
    "gpu": ("jax_cuda13_plugin",),
    "cluster": ("distributed", "dask_jobqueue", "cryptography"),
    "hf": ("torch", "transformers"),
    "query": ("duckdb",),
    "falsify": ("optuna",),
    "log": ("tensorboard", "wandb"),
    "docs": ("sphinx", "myst_parser", "furo", "nbclient"),
}


def missing(what: str, extra: str) -> str:
    """One line for a user who has not installed an extra.

    >>> missing("stairwise query", "query")
    "stairwise query needs the extra query: pip install 'stairwise[query]'"
    """
    return f"{what} needs the extra {extra}: {install(extra)}"


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'stairwise[{extra}]'"


def installed(extra: str) -> bool:
    """Whether all modules of an extra can be found; none is imported."""
    return all(importlib.util.find_spec(module) is not None for module in EXTRAS[extra])
