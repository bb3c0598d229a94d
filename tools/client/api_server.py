"""One server with OpenAI's API, as the commands for terminals use it: JSON replies, and replies as events."""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

TIMEOUT_S = 600.0
"""The longest pause of a server: a long prompt sends nothing before its first token."""
DEFAULT_URL = "http://127.0.0.1:8000"
EVENT, END = b"data:", b"[DONE]"


class RequestFailed(Exception):
    """The server refused a request, or could not be reached; says why.  `status` is 0 without a reply."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ApiServer:
    """Sends requests to the server at `url`, below its /v1, or below the path that the URL has."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.key = key
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url} is no address of a server, as {DEFAULT_URL}")
        self.host, self.is_tls = parts.hostname, parts.scheme == "https"
        self.port = parts.port or (443 if self.is_tls else 80)
        self.path = parts.path.rstrip("/") or "/v1"
        self.headers = {"Content-Type": "application/json"}
        if key:
            self.headers["Authorization"] = f"Bearer {key}"
        self.url = urllib.parse.urlunsplit((parts.scheme, parts.netloc, self.path, "", ""))

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
            return _json(reply.read())

    def post(self, path: str, body: object) -> Any:
        """Raises RequestFailed."""
        with self._reply("POST", path, body) as reply:
            return _json(reply.read())

    def post_above(self, path: str, body: object) -> Any:
        """Posts to a path beside /v1, where vLLM has /tokenize."""
        with self._reply("POST", path, body, self.path.removesuffix("/v1")) as reply:
            return _json(reply.read())

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
        kind = http.client.HTTPSConnection if self.is_tls else http.client.HTTPConnection
        content = None if body is None else json.dumps(body).encode()
        try:
            with closing(kind(self.host, self.port, timeout=TIMEOUT_S)) as connection:
                connection.request(
                    method, (self.path if base is None else base) + path, content, self.headers
                )
                with connection.getresponse() as reply:
                    if reply.status != 200:
                        raise RequestFailed(error_message(reply.status, reply.read()), reply.status)
                    yield reply
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise RequestFailed(f"no reply of {self.url}: {reason}") from error


def error_message(status: int, body: bytes) -> str:
    """What a server says about a failure: the message of OpenAI's form of errors, or the body's start."""
    try:
        error = json.loads(body)
        error = error.get("error", error)
        message = error.get("message") or error.get("detail") if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        message = body[:200].decode(errors="replace").strip()
    return f"{status}: {message or http.client.responses.get(status, 'without a message')}"


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise RequestFailed(f"the reply is not JSON: {body[:60]!r}") from error


def _events(reply: http.client.HTTPResponse) -> Iterator[Any]:
    """To [DONE], or to the end of the reply: not every server writes [DONE]."""
    for line in reply:
        if not line.startswith(EVENT):
            continue
        text = line[len(EVENT) :].strip()
        if text == END:
            return
        event = _json(text)
        if isinstance(event, dict) and event.get("error"):
            raise RequestFailed(error_message(reply.status, text).partition(": ")[2])
        yield event
