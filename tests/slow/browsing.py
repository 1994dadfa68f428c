"""A page in a real browser, opened from disk with the network off."""

import os
import shutil
import time
from pathlib import Path

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


class Visit:
    """A page in the browser, with what it complained about."""

    def __init__(self, browser, site: Path, **options):
        self.site = site
        self.context = browser.new_context(offline=True, viewport={"width": 1200, "height": 900}, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append("a dialog"), dialog.dismiss()))

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.context.close()

    def until(self, condition: str) -> None:
        """Waits for an expression to become true; asked from outside, since the page's policy forbids eval within."""
        end = time.monotonic() + 15
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, f"never came true: {condition}"
            time.sleep(0.05)

    def open(self, name: str) -> float:
        """Opens a page and waits until it has drawn; returns the seconds that took."""
        self.page.goto("about:blank")
        began = time.monotonic()
        self.page.goto((self.site / name.partition("#")[0]).as_uri() + "".join(name.partition("#")[1:]))
        for selector in (".curves svg", "#compare svg", "#scope canvas"):
            if self.page.query_selector(selector.split()[0]):
                self.page.wait_for_selector(selector)
        return time.monotonic() - began
