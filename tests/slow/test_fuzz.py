"""A thousand random command lines: none raises, hangs or leaves half a file (`make fuzz` tries ten thousand)."""

import pytest

from tests.fuzz import failures

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("seed", range(4))
def test_any_command_line_is_done_or_refused_in_one_planned_line(seed):
    assert list(failures(250, seed)) == []
