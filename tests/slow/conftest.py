"""The browser that the tests of the site share."""

import pytest

from tests.slow.browsing import CHROMIUM


@pytest.fixture(scope="session")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install -e '.[dev]'")
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine: apt install chromium, or set $CHROMIUM")
    with api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()
