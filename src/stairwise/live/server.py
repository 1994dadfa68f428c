"""The page of a run over HTTP: this machine only, behind a random word in its address.

GET /WORD/             the page
    /WORD/assets/...   its script and style
    /WORD/events       server-sent events: what is new, at most four times a second
    /WORD/maps/N       maps of trial N; 202 where they are to be asked for later
    /WORD/report/...   the site that `stairwise report` has written, where there is one

Whoever asks by another name for this machine (a page elsewhere whose name has been made to mean it) is refused, and so
is whoever does not know the word. Every reader has a thread of its own, and a limit on how long it may not read.
"""

import hmac
import re
import secrets
import socket
import threading
import time
from contextlib import suppress
from functools import cache, partial
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

from stairwise.config import ConfigError
from stairwise.lab import serve
from stairwise.live.feed import Feed, Seen
from stairwise.live.maps import Maps
from stairwise.report.site.data import to_json
from stairwise.report.site.folder import MARK
from stairwise.report.site.pages import assets, experiment_page

EVERY = 0.25  # seconds between what a reader gets
SIGN_OF_LIFE = 2.0  # seconds; a reader that has gone is noticed when it is written to
PATIENCE = 20.0  # seconds that a reader may leave what is sent to it unread
READERS = 16
MOMENT = 0.5  # seconds in which a page asks for what it still wants
BUFFER = 2**17  # bytes that wait for a reader
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)


@cache
def _files() -> dict[str, bytes]:
    """The page and what it loads, by name."""
    folder = files("stairwise.live").joinpath("assets")
    own = {"": folder.joinpath("live.html").read_bytes()}
    return own | assets() | {f"assets/{name}": folder.joinpath(name).read_bytes() for name in ("live.js", "live.css")}


class LiveHandler(serve.FolderHandler):
    """Answers one request; the page's own server is `self.live`."""

    def __init__(self, *given: Any, live: "Live", **more: Any):
        self.live = live
        super().__init__(*given, directory=str(live.site), **more)

    def do_GET(self) -> None:
        if not self._asked_here():
            return self.send_error(HTTPStatus.FORBIDDEN, "asked for under another name")
        _, word, rest = (*self.path.partition("?")[0].split("/", 2), "", "")[:3]
        if not hmac.compare_digest(word.encode("utf-8", "replace"), self.live.word.encode()):
            return self.send_error(HTTPStatus.FORBIDDEN, "the address lacks the word that the command has printed")
        if rest in _files():
            return self._send(_files()[rest], TYPES[Path(rest or "live.html").suffix] + "; charset=utf-8")
        if rest == "events":
            return self._stream()
        if re.fullmatch(r"maps/[0-9]{1,9}", rest):
            found = self.live.maps.of(int(rest.removeprefix("maps/")))
            if found is None:
                return self.send_error(HTTPStatus.NOT_FOUND)
            return self._send(found, "application/json", HTTPStatus.OK if found else HTTPStatus.ACCEPTED)
        if rest.startswith("report/") and self.live.site_page():
            self.path = self.path.partition(f"/{word}/report")[2]
            return super().do_GET()
        self.send_error(HTTPStatus.NOT_FOUND)

    def do_HEAD(self) -> None:
        self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)

    def _asked_here(self) -> bool:
        port = self.live.http.server_address[1]
        return self.headers.get("Host", "") in (f"{serve.LOOPBACK}:{port}", f"localhost:{port}")

    def _begin(self, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Referrer-Policy", "no-referrer")

    def _send(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._begin(kind, status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self) -> None:
        seen = Seen()
        if not self.live.enter(seen):
            return self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, f"{READERS} pages are open already")
        try:
            self.connection.settimeout(PATIENCE)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
            self._begin("text/event-stream")
            self.end_headers()
            written = time.monotonic()
            while not self.live.closed.wait(EVERY if seen.version >= 0 else 0):
                new = self.live.feed.since(seen)
                if new is not None:
                    self.wfile.write(f"data: {to_json(new)}\n\n".encode())
                    seen.over = new.get("facts", {}).get("over", seen.over)
                elif time.monotonic() - written > SIGN_OF_LIFE:
                    self.wfile.write(b":\n\n")
                else:
                    continue
                written = time.monotonic()
        except OSError:  # it has gone, or does not read
            pass
        finally:
            self.live.leave(seen)

    def handle(self) -> None:
        with suppress(OSError):  # it breaks off while it asks
            super().handle()


class Live:
    """Serves the page of a feed from the moment it is made until `stop`."""

    def __init__(self, feed: Feed, port: int = 0, site: Path = Path("report")):
        if not 0 <= port <= 65535:
            raise ConfigError(f"port={port} must lie in 0..65535")
        self.feed, self.maps, self.site = feed, Maps(feed), site.resolve()
        self.word = secrets.token_urlsafe(16)
        self.closed = threading.Event()
        self.readers: list[Seen] = []
        self.lock = threading.Lock()
        try:
            self.http = ThreadingHTTPServer((serve.LOOPBACK, port), partial(LiveHandler, live=self))
        except OSError as error:
            raise ConfigError(f"port={port} cannot be used: {error.strerror}") from None
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True, name="stairwise-live").start()

    @property
    def address(self) -> str:
        return f"{serve.address(self.http)}{self.word}/"

    def site_page(self) -> str:
        """Where the site has the page of this experiment; empty where there is no site, or no such page."""
        page = experiment_page(self.feed.about["experiment"])
        try:
            return f"report/{page}" if MARK in (self.site / page).read_bytes() else ""
        except OSError:
            return ""

    def enter(self, seen: Seen) -> bool:
        with self.lock:
            if len(self.readers) >= READERS:
                return False
            self.readers.append(seen)
            return True

    def leave(self, seen: Seen) -> None:
        with self.lock:
            self.readers = [each for each in self.readers if each is not seen]

    def watched(self) -> bool:
        """Whether a page is open."""
        return bool(self.readers)

    def close(self, seconds: float = 4.0) -> None:
        """Says that the run is over, and waits until the pages know and have their last maps, or for so long."""
        self.feed.close(self.site_page())
        end = time.monotonic() + seconds
        while not all(seen.over for seen in self.readers) and time.monotonic() < end:
            time.sleep(0.05)
        quiet = time.monotonic()
        while self.watched() and time.monotonic() < min(end, quiet + MOMENT):
            time.sleep(0.05)
            if self.maps.lock.locked() or self.feed.unread:
                quiet = time.monotonic()

    def stop(self) -> None:
        """Ends the server; pages that are open keep what they show."""
        self.closed.set()
        self.http.shutdown()
        self.http.server_close()
