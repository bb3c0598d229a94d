"""One server with OpenAI's API, as the commands for terminals use it: JSON replies, and replies as events."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tools.client.event_lines import END, event_of, event_text, json_of
from tools.client.http_client import JSON, HttpClient, RequestFailed

DEFAULT_URL = "http://127.0.0.1:8000"


class ApiServer(HttpClient):
    """Sends requests to the server at `url`, below its /v1, or below the path that the URL has."""

    def __init__(self, url: str, key: str | None = None) -> None:
        super().__init__(url)
        self.key = key
        if not self.path:
            self.path, self.url = "/v1", f"{self.url}/v1"
        self.headers = dict(JSON)
        if key:
            self.headers["Authorization"] = f"Bearer {key}"

    def model_names(self) -> list[str]:
        """What the server offers, in its order, at least one.  Raises RequestFailed."""
        listed = self.get("/models")
        try:
            names = [str(model["id"]) for model in listed["data"]]
        except (KeyError, TypeError) as error:
            raise RequestFailed(f"{self.url}/models is no list of models") from error
        if not names:
            raise RequestFailed(f"{self.url} has no models")
        return names

    def get(self, path: str) -> Any:
        """Raises RequestFailed."""
        with self._reply("GET", path, None) as reply:
            return json_of(reply.read())

    def post(self, path: str, body: object) -> Any:
        """Raises RequestFailed."""
        with self._reply("POST", path, body) as reply:
            return json_of(reply.read())

    def post_above(self, path: str, body: object) -> Any:
        """Posts to a path beside /v1, where vLLM has /tokenize."""
        with self._reply("POST", path, body, self.path.removesuffix("/v1")) as reply:
            return json_of(reply.read())

    @contextmanager
    def events(self, path: str, body: object) -> Iterator[Iterator[Any]]:
        """The JSON of each event of a stream, which is closed at the end of `with`, even in its middle.

        Raises RequestFailed.
        """
        with self._reply("POST", path, body) as reply:
            yield _events(reply)

    @contextmanager
    def _reply(
        self, method: str, path: str, body: object, base: str | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        content = None if body is None else json.dumps(body).encode()
        path = (self.path if base is None else base) + path
        with self.reply(method, path, content, self.headers) as reply:
            yield reply


def _events(reply: http.client.HTTPResponse) -> Iterator[Any]:
    """The events to [DONE], or to the end of the reply: not every server writes [DONE]."""
    for text in filter(None, map(event_text, reply)):
        if text == END:
            return
        yield event_of(text, reply.status)
