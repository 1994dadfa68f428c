"""Fifteen SIGKILLs at random moments of every command that writes (`make kills` tries a hundred)."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
pytest.importorskip("distributed")
pytest.importorskip("cryptography")
pytest.importorskip("psutil")

from tests.kills import SHARES, disturb  # noqa: E402


def test_after_kills_at_random_moments_everything_is_as_without(tmp_path):
    killed = disturb(tmp_path, 15, 20261116)
    assert set(killed) == set(SHARES)
    assert killed.total() == 15
