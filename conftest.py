"""Switches on run-time shape and type checks (jaxtyping + beartype) for the whole package while tests run."""

import os

import tests.helpers  # noqa: F401  the hook looks its checker up as an attribute
from jaxtyping import install_import_hook

os.environ.setdefault("JAX_PLATFORMS", "cpu")
install_import_hook("stairwise", "tests.helpers.typecheck")
