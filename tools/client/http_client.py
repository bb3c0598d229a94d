"""Blocking requests to one server, by the standard library: how all tools speak HTTP that need not be async.

Those that send many requests at once from one thread have `async_client.py` beside it.
"""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http import HTTPStatus
from threading import local
from typing import NamedTuple

TIMEOUT_S = 600.0
"""The longest pause of a server: a long prompt sends nothing before its first token."""
JSON = {"Content-Type": "application/json"}


class RequestFailed(Exception):
    """The server refused a request, or could not be reached; says why.  `status` is 0 without a reply."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Answer(NamedTuple):
    """A whole reply of status 200; names of `headers` are looked up in any case."""

    headers: http.client.HTTPMessage
    body: bytes


class Address(NamedTuple):
    """Where a server is; `path` comes before those of requests."""

    host: str
    port: int
    is_tls: bool
    path: str
    url: str

    @classmethod
    def of(cls, url: str) -> Address:
        """`url` as `host:8000` or `https://host/v1`.  Raises ValueError for what is no address."""
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url} is no address of a server, as http://127.0.0.1:8000")
        is_tls, path = parts.scheme == "https", parts.path.rstrip("/")
        whole = urllib.parse.urlunsplit((parts.scheme, parts.netloc, path, "", ""))
        return cls(parts.hostname, parts.port or (443 if is_tls else 80), is_tls, path, whole)


class HttpClient:
    """Requests to the server at a URL; each thread may send one at a time."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        """`url` as `Address.of` takes it; callers add its path.  Raises ValueError."""
        self.host, self.port, self.is_tls, self.path, self.url = Address.of(url)
        self._timeout_s, self._threads = timeout_s, local()

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}
    ) -> Answer:
        """The whole reply, over a connection of the thread that stays open.  Raises RequestFailed."""
        if not hasattr(self._threads, "connection"):
            self._threads.connection = self._connection()
        try:
            self._threads.connection.request(method, path, body, headers)
            with self._threads.connection.getresponse() as reply:
                return Answer(reply.headers, _content(reply))
        except (OSError, http.client.HTTPException) as error:
            self._threads.connection.close()  # the next request opens it again
            raise self._unreached(error) from error

    @contextmanager
    def reply(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}
    ) -> Iterator[http.client.HTTPResponse]:
        """A reply that is read line by line, over a connection that ends with it, even in its middle.

        Raises RequestFailed.
        """
        try:
            with closing(self._connection()) as connection:
                connection.request(method, path, body, headers)
                with connection.getresponse() as reply:
                    if reply.status != HTTPStatus.OK:
                        _content(reply)
                    yield reply
        except (OSError, http.client.HTTPException) as error:
            raise self._unreached(error) from error

    def answers(self, path: str) -> bool:
        """Whether the server answers a GET with 200."""
        try:
            with self.reply("GET", path):
                return True
        except RequestFailed:
            return False

    def close(self) -> None:
        """Close the connection of this thread, where `send` opened one."""
        if hasattr(self._threads, "connection"):
            self._threads.connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self.is_tls else http.client.HTTPConnection
        return kind(self.host, self.port, timeout=self._timeout_s)

    def _unreached(self, error: Exception) -> RequestFailed:
        return RequestFailed(f"no reply of {self.url}: {str(error) or type(error).__name__}")


def local_client(port: int, timeout_s: float = TIMEOUT_S) -> HttpClient:
    """The client of a server on this machine; its paths begin at the root."""
    return HttpClient(f"http://127.0.0.1:{port}", timeout_s)


def error_message(status: int, body: bytes) -> str:
    """What a server says about a failure: the message of OpenAI's form of errors, or the body's start."""
    try:
        error = json.loads(body)
        error = error.get("error", error)
        message = error.get("message") or error.get("detail") if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        message = body[:200].decode(errors="replace").strip()
    return f"{status}: {message or http.client.responses.get(status, 'without a message')}"


def _content(reply: http.client.HTTPResponse) -> bytes:
    """The whole body.  Raises RequestFailed for another status than 200."""
    body = reply.read()
    if reply.status != HTTPStatus.OK:
        raise RequestFailed(error_message(reply.status, body), reply.status)
    return body
