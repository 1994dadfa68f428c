"""A sample of the audit: mutants of exact claims of all five papers, the same ones as long as the code is the same."""

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.quiet, pytest.mark.timeout(300)]
PAPERS = ("composition", "lego", "parity_cot", "parity_onestep", "selection")
SAMPLE, MINUTES = 24, 2.0  # the last mutant may take a little longer


def test_nine_of_ten_mutants_of_a_sample_are_noticed(tmp_path):
    words = ["audit", *PAPERS, "--strength", "exact", "--sample", str(SAMPLE), "--minutes", str(MINUTES), "--jobs", "2"]
    command = [sys.executable, "-m", "stairwise", *words, "--fresh", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr  # 1: a paper below 95 %, which a sample cannot tell
    judged = [trial for trial in json.loads(done.stdout) if trial["outcome"] in ("killed", "survived", "masked")]
    missed = [trial for trial in judged if trial["outcome"] != "killed"]
    assert len(judged) >= SAMPLE / 4, "too slow a machine to say anything"
    assert len(missed) <= 0.1 * max(len(judged), SAMPLE - 4), missed
