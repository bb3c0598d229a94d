"""Asks a server for its status once a second, in a thread, so that a slow reply delays no key."""

from __future__ import annotations

import threading
import urllib.parse
from typing import Any

from tools.client.api_server import ApiServer
from tools.client.http_client import RequestFailed

PERIOD_S = 1.0
UNKNOWN_PATH = 404


def read_status(server: ApiServer, model: str | None) -> Any:
    """Raises RequestFailed."""
    query = f"?model={urllib.parse.quote(model, safe='')}" if model else ""
    try:
        return server.get(f"/status{query}")
    except RequestFailed as error:
        if error.status == UNKNOWN_PATH and not model:
            raise RequestFailed(
                f"{server.url} gives no status: it is no Braid, or BRAID_STATUS is 0"
            ) from error
        raise


class Watcher:
    """The newest status of the chosen model, or why there is none.  `model` None: the server's default."""

    def __init__(self, server: ApiServer, model: str | None) -> None:
        self._server = server
        self._wanted = threading.Event()
        self._ended = False
        self.model = model
        self.status: Any = None
        self.problem = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def choose(self, step: int) -> None:
        """The next model, or the one before."""
        names = [model["id"] for model in self.status["models"]] if self.status else []
        if names:
            at = names.index(self.status["model"]) if self.status["model"] in names else -step
            self.model = names[(at + step) % len(names)]
            self._wanted.set()

    def end(self) -> None:
        self._ended = True
        self._wanted.set()

    def _run(self) -> None:
        while not self._ended:
            try:
                self.status, self.problem = read_status(self._server, self.model), ""
            except RequestFailed as error:
                self.problem = str(error)
            self._wanted.wait(PERIOD_S)
            self._wanted.clear()
