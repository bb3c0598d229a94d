"""HTTP as a download needs it: redirects without tokens, proxies of the environment, bounded replies.

The connection is the standard library's: what it lacks (resuming, ranges, retries) is the download's own
work, and no client that Braid could depend on does that either.
"""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from pipelines.hub.base.errors import Corrupt, HubError

REDIRECTS = (301, 302, 303, 307, 308)
MAX_REDIRECTS = 8
MAX_JSON_BYTES = 64 << 20
MAX_ERROR_BYTES = 4096
USER_AGENT = "braid"


class Broken(Exception):
    """A connection that ended or stalled; the same request may succeed."""


@dataclass
class HubReply:
    """A reply whose body was not read; `headers` have small names, and those of redirects are among them
    that begin with `x-`.
    """

    status: int
    headers: Mapping[str, str]
    body: http.client.HTTPResponse

    def read(self, num_bytes: int) -> bytes:
        """The next bytes of the body, b"" at its end.  Raises Broken."""
        try:
            return self.body.read1(num_bytes)
        except (OSError, http.client.HTTPException) as error:
            raise Broken(_reason(error)) from error

    def read_json(self) -> Any:
        """Raises Broken, and Corrupt for what is no JSON or too long."""
        data = bytearray()
        while piece := self.read(1 << 16):
            data += piece
            if len(data) > MAX_JSON_BYTES:
                raise Corrupt("the reply of the hub is too long")
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise Corrupt(f"the reply of the hub is no JSON: {bytes(data[:60])!r}") from error

    def error_text(self) -> str:
        """What the reply says about a failure, short and in printable characters."""
        text = self.headers.get("x-error-message") or ""
        if not text:
            try:
                content = json.loads(self.read(MAX_ERROR_BYTES))
                text = str(content.get("error") or content.get("Message") or "")
            except (Broken, ValueError, AttributeError, RecursionError):
                text = ""
        return printable(text)


class _AsItIs(urllib.request.HTTPErrorProcessor):
    """Every reply is given back, whatever its status: nothing follows redirects by itself."""

    def http_response(self, request: Any, response: Any) -> Any:
        return response

    https_response = http_response


class Transport:
    """Sends requests, each over a connection of its own, with `timeout_s` for each wait."""

    def __init__(self, timeout_s: float, authorities: Path | None = None) -> None:
        """`authorities`: whose certificates are trusted; None: the system's authorities.  Raises HubError."""
        self.timeout_s = timeout_s
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(context=_trust(authorities)),
            _AsItIs(),
        ):
            self._opener.add_handler(handler)

    @contextmanager
    def get(
        self,
        url: str,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
    ) -> Iterator[HubReply]:
        """The reply behind all redirects.  The token goes to the origin of `url` alone, until a redirect
        leads elsewhere.  Raises Broken, and HubError for redirects that are refused.
        """
        seen: dict[str, str] = {}
        place, secret = url, token
        for _ in range(1 + MAX_REDIRECTS):
            body = self._send(place, secret, headers or {}, method)
            headers_here = {name.lower(): value for name, value in body.headers.items()}
            if body.status not in REDIRECTS or not body.headers.get("Location"):
                try:
                    yield HubReply(body.status, {**seen, **headers_here}, body)
                finally:
                    body.close()
                return
            body.close()
            seen |= {name: value for name, value in headers_here.items() if name.startswith("x-")}
            next_place = _redirected(place, body.headers["Location"])
            secret = secret if origin(next_place) == origin(url) else None
            place = next_place
        raise HubError(f"{shown(url)} redirects more than {MAX_REDIRECTS} times")

    def _send(
        self, url: str, token: str | None, headers: Mapping[str, str], method: str
    ) -> http.client.HTTPResponse:
        sent = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **headers}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        try:
            request = urllib.request.Request(url, headers=sent, method=method)
            reply = self._opener.open(request, timeout=self.timeout_s)
        except (OSError, http.client.HTTPException) as error:
            raise Broken(_reason(error)) from error
        except ValueError as error:
            raise HubError(f"{shown(url)} is no address") from error
        assert isinstance(reply, http.client.HTTPResponse)
        return reply


def _trust(authorities: Path | None) -> ssl.SSLContext:
    if authorities is None:
        return ssl.create_default_context()
    file, folder = (None, authorities) if authorities.is_dir() else (authorities, None)
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except (OSError, ssl.SSLError) as error:
        raise HubError(f"{authorities} holds no certificates of authorities") from error


def printable(text: str, length: int = 200) -> str:
    """The begin of a text of a hub, without characters that a terminal acts on or no encoding has."""
    return "".join(character for character in text if character.isprintable())[:length]


def origin(url: str) -> tuple[str, str, int | None]:
    """What a token is bound to: scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port


def shown(url: str) -> str:
    """An address for messages, without what may be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _redirected(url: str, location: str) -> str:
    """Where a redirect leads.  Raises HubError for what is no HTTP, or leaves TLS."""
    try:
        place = urljoin(url, location)
        parts = urlsplit(place)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
        _ = parts.port
    except ValueError:
        is_web = False
    if not is_web or not place.isascii() or not place.isprintable() or " " in place:
        raise HubError(f"{shown(url)} redirects to what is no address of a file")
    if url.startswith("https:") and not place.startswith("https:"):
        raise HubError(f"{shown(url)} redirects to an address without TLS, {shown(place)}")
    return place


def _reason(error: BaseException) -> str:
    """The innermost reason, without addresses that may hold secrets."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return "no answer in time"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return type(reason).__name__ if not isinstance(reason, OSError) else str(reason) or type(reason).__name__
