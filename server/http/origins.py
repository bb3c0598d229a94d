"""Refuses what a web page of another site could do through the browser of someone who can reach the server.

A browser sends simple requests (forms, texts) and opens WebSockets for any page without asking, and sends
all requests of a page whose own host name leads to this server now (DNS rebinding).  Other programs send no
Origin, and a Host that they were given.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

import falcon.asgi

from pipelines.requests.fields.error_text import quoted
from server.http.errors import Forbidden

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing; a page of another site cannot read their replies."""
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
APPLICATION_SCHEMES = ("app", "file", "tauri", "vscode-file", "vscode-webview")
"""Origins of programs that are installed on a machine, which no site has; as in Ollama."""
LOCAL_ENDINGS = (".localhost", ".local", ".internal")
"""Endings of names that cannot be registered, as in Ollama."""
NUM_KNOWN = 64
"""Addresses and host names that are read once: most requests have the same."""

Header = Callable[[str], str | None]


class PageGuard:
    """Falcon middleware: 403 for requests that a page of a foreign origin sent, and for foreign host names.

    Where a key is needed, no page can send a request without it; so only WebSockets are looked at, which
    CORS does not bound.  Host names are looked at where the server listens at a loopback address and the
    request came in at one: elsewhere it has names that it does not know.
    """

    def __init__(self, has_keys: bool, address: str, origins: Sequence[str], hosts: Sequence[str]) -> None:
        """`address` is where the server listens; `origins` and `hosts` are allowed beside its own, * all."""
        names = [urlsplit(origin).hostname for origin in origins]
        self._has_keys = has_keys
        self._allows_all = "*" in origins
        self._origins = frozenset(origins)
        self._hosts = frozenset([socket.gethostname().lower(), *names, *map(str.lower, hosts)])
        self._checks_hosts = not has_keys and is_loopback(address) and "*" not in hosts

    async def process_request(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        if self._has_keys or self._allows_all:
            return
        self._check_host(req)
        if req.method not in SAFE_METHODS:
            self._check_origin(req.get_header)

    async def process_request_ws(self, req: falcon.asgi.Request, ws: falcon.asgi.WebSocket) -> None:
        if not self._allows_all:
            self._check_host(req)
            self._check_origin(req.get_header)

    def _check_host(self, req: falcon.asgi.Request) -> None:
        address, _ = req.scope.get("server") or ("", 0)
        if not self._checks_hosts or not is_loopback(address):
            return
        name = _name(req.get_header("Host") or "")
        if name not in self._hosts and not is_own_name(name):
            raise Forbidden(
                f"This server has no host name {quoted(name)}; BRAID_ALLOWED_HOSTS lists further names of it"
            )

    def _check_origin(self, header: Header) -> None:
        origin = header("origin")
        if origin is None or origin in self._origins or is_local(origin) or _is_own(origin, header):
            return
        raise Forbidden(
            f"Pages of {quoted(origin)} may not do this; BRAID_CORS_ORIGINS lists the origins that may"
        )


@lru_cache(NUM_KNOWN)
def is_loopback(address: str) -> bool:
    """Whether a server that listens at an address is reached from its own machine alone."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


@lru_cache(NUM_KNOWN)
def is_own_name(name: str) -> bool:
    """Whether a host name is one that no site can have: an address, or none of the public DNS."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return "." not in name or name.endswith(LOCAL_ENDINGS)
    return True


def is_local(origin: str) -> bool:
    """Whether an origin is a page of this machine, at any port, or an installed program."""
    scheme, _, place = origin.partition("://")
    return scheme in APPLICATION_SCHEMES or (scheme in ("http", "https") and _name(place) in LOCAL_NAMES)


def _is_own(origin: str, header: Header) -> bool:
    """Whether a page is this server's own, also behind a proxy that sets another Host.

    No page can set the first of these headers, and none sets the second without asking before.
    """
    forwarded = (header("x-forwarded-host") or "").partition(",")[0].strip()
    place = origin.partition("://")[2]
    return header("sec-fetch-site") == "same-origin" or (place != "" and place in (header("host"), forwarded))


def _name(place: str) -> str:
    """The host name of `name:port`, without the brackets of an address."""
    match = re.fullmatch(r"\[([^\]]*)\](?::\d*)?|([^:]*)(?::\d*)?", place)
    return place if match is None else (match[1] or match[2] or "").rstrip(".").lower()
