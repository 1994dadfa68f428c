"""A folder over HTTP, for this machine only: `stairwise report --serve`, `stairwise playground`."""

from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from stairwise.config import ConfigError

LOOPBACK = "127.0.0.1"


class FolderHandler(SimpleHTTPRequestHandler):
    """Files below the folder and nothing else: no listings, no links that lead out, no other host's pages."""

    server_version, sys_version = "stairwise", ""

    def send_head(self) -> Any:
        if not self._asked_here() or not self._inside():
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def list_directory(self, path: Any) -> Any:
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _asked_here(self) -> bool:
        """A page elsewhere that has its own name resolve to this machine would be a reader of the site."""
        name, _, port = self.headers.get("Host", "").partition(":")  # browsers leave port 80 out
        return name in (LOOPBACK, "localhost") and (port.isdigit() or not port)

    def _inside(self) -> bool:
        root = Path(self.directory).resolve()
        try:
            path = Path(self.translate_path(self.path)).resolve()
        except (ValueError, OSError):  # a NUL byte; a name that is too long
            return False
        return path.is_relative_to(root) and not any(part.startswith(".") for part in path.relative_to(root).parts)


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Listens on loopback; port 0 takes a free one."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"port={port} must lie in 0..65535")
    try:
        return ThreadingHTTPServer((LOOPBACK, port), partial(FolderHandler, directory=str(folder.resolve())))
    except OSError as error:
        raise ConfigError(f"port={port} cannot be used: {error.strerror}") from None


def address(made: ThreadingHTTPServer) -> str:
    return f"http://{LOOPBACK}:{made.server_address[1]}/"
