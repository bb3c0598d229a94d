"""Checks API keys, in constant time, and says whose a request is.  Paths that are not open need a key."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import unquote_plus

import falcon.asgi

from server.http.errors import Unauthorized
from server.http.exchange import Exchange
from server.keys.key_file import KeyFile

OPEN_PATHS = frozenset(
    {
        *(
            "/health",
            "/v1/health",
            "/ping",
            "/load",
            "/v2/health/live",
            "/v2/health/ready",
            "/version",
            "/metrics",
        ),
        *("/openapi.json", "/docs", "/", "/status"),
    }
)
FRONT = "/"
"""A path that needs no key to be read; something may be posted to it."""
OPEN_PREFIX = "/status/"
"""The prefix of the status page's files, which need no key and hold no data of a server."""
SESSION = "x-session-id"
SUBPROTOCOL_KEY = "openai-insecure-api-key."
"""The prefix of a key among the subprotocols: a browser can set no headers of a WebSocket."""
ADMIN_PATHS = frozenset(
    {
        *("/api/pull", "/api/copy", "/api/create", "/api/delete"),
        *("/models/load", "/models/unload", "/models/pull", "/v1/config/reload", "/v2/repository/index"),
        *("/sleep", "/wake_up", "/pause", "/resume", "/reset_prefix_cache"),
        *("/inference/v1/abort_requests", "/inference.GRPCInferenceService/RepositoryIndex"),
    }
)
"""Where models come and go, requests are ended and caches emptied: an admin key opens it, if there is one."""
ADMIN_ENDINGS = ("/load_lora_adapter", "/unload_lora_adapter")
ADMIN_PREFIXES = ("/v2/repository/models/", "/models/pull/")
SHOWING_ENDINGS = ("/status", "/usage", "/organization/usage/completions")
"""The ends of the paths that show what all keys do: an admin key opens them too."""
REQUESTS, CANCEL_ENDING = "/requests/", "/cancel"
"""What the path that ends one request is between."""


class Keys:
    """Digests of the accepted API keys; without any, no key is needed."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._tenants = {_digest(key.encode()): _tenant(key) for key in keys}

    def __len__(self) -> int:
        return len(self._tenants)

    def tenant(
        self, authorization: str | None, api_key: str | None = None, subprotocols: str | None = None
    ) -> str | None:
        """The tenant whose key `Authorization: Bearer <key>`, `x-api-key: <key>`, Google's `x-goog-api-key`
        or parameter `key`, or one of the subprotocols of a WebSocket is; None for no such key.

        The time that it takes does not depend on which key matches, or on how much of it.
        """
        digests, owner = sent_digests(authorization, api_key, subprotocols), None
        for digest, tenant in self._tenants.items():
            for sent_digest in digests:
                owner = tenant if hmac.compare_digest(sent_digest, digest) else owner
        return owner


def sent_digests(authorization: str | None, api_key: str | None, subprotocols: str | None) -> list[bytes]:
    """The digests of the keys that a request carries; each vendor's clients send another header."""
    named = [name.strip() for name in (subprotocols or "").split(",")]
    offered = [name.removeprefix(SUBPROTOCOL_KEY) for name in named if name.startswith(SUBPROTOCOL_KEY)]
    scheme, _, key = (authorization or "").partition(" ")
    bearer = [key] if scheme.lower() == "bearer" else []
    sent = [*bearer, *([api_key] if api_key is not None else []), *offered[:1]]
    return [_digest(key.strip().encode("utf-8", "surrogateescape")) for key in sent]


def take_key(scope: MutableMapping[str, Any], parameter: str) -> str | None:
    """The value of a parameter of the query, which is taken out of it, so that no log shows the key."""
    begin = f"{parameter}=".encode()
    pairs = scope["query_string"].split(b"&")
    keys = [pair[len(begin) :] for pair in pairs if pair.startswith(begin)]
    if not keys:
        return None
    scope["query_string"] = b"&".join(pair for pair in pairs if not pair.startswith(begin))
    return unquote_plus(keys[-1].decode("latin-1"), errors="surrogateescape")


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _tenant(name: str) -> str:
    """The id by which a key or a session is known: the same in every worker and after a restart."""
    encoded = name.encode("utf-8", "surrogateescape")
    return hashlib.blake2b(encoded, digest_size=8, person=b"braid tenant").hexdigest()


class Guard:
    """Falcon middleware: refuses a request without a key before it is routed or read.

    It notes in the exchange whose the request is: its key's, or where no key is needed its session's: the
    client's address, and with it the session that the client names.  OPTIONS passes: browsers send no
    credentials with a preflight, and it reaches no endpoint of ours.
    """

    def __init__(
        self,
        keys: Iterable[str],
        admin_keys: Iterable[str] = (),
        key_file: Callable[[], KeyFile | None] = lambda: None,
    ) -> None:
        """`key_file` gives the file of further keys, if there is one: then every path needs a key."""
        self._keys = Keys(keys)
        self._admin_keys = Keys(admin_keys)
        self._key_file = key_file

    async def process_request(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        is_page = is_open(req.path) and (req.path != FRONT or req.method != "POST")
        if not is_page and req.method != "OPTIONS":
            address, _ = req.scope.get("client") or ("", 0)
            self.note_tenant(req.scope["braid.exchange"], req.get_header, address, req.path)

    async def process_request_ws(self, req: falcon.asgi.Request, ws: falcon.asgi.WebSocket) -> None:
        address, _ = req.scope.get("client") or ("", 0)
        self.note_tenant(req.scope["braid.exchange"], req.get_header, address, req.path, is_socket=True)

    def note_tenant(
        self,
        exchange: Exchange,
        header: Callable[[str], str | None],
        address: str,
        path: str = "",
        is_socket: bool = False,
    ) -> None:
        """Note whose a request is; `header` gives its headers, by names in small letters.

        Raises Unauthorized without a valid key.
        """
        key_file = self._key_file()
        needs_admin = _is_admin(path) and (bool(self._admin_keys) or key_file is not None)
        keys = self._admin_keys if needs_admin else self._keys
        if not keys and key_file is None:
            exchange.tenant = _tenant(f"{address} {header(SESSION) or ''}")
            return
        subprotocols = header("sec-websocket-protocol") if is_socket else None
        by_header = header("x-api-key") or header("x-goog-api-key")
        sent = header("authorization"), by_header or exchange.query_key, subprotocols
        named = None if key_file is None else key_file.find(sent_digests(*sent))
        tenant = keys.tenant(*sent)
        is_admin = self._admin_keys.tenant(*sent) is not None
        if named is not None and (named.admin or not needs_admin):
            exchange.key, tenant, is_admin = named, named.account, named.admin
        elif tenant is None and path.endswith(SHOWING_ENDINGS):
            tenant = self._admin_keys.tenant(*sent)
        if tenant is None:
            kind = "admin key, which this path needs," if needs_admin else "API key"
            raise Unauthorized(
                f"Unauthorized: send a valid {kind} as `Authorization: Bearer <key>` or `x-api-key: <key>`"
            )
        exchange.tenant = exchange.account = exchange.trace.account = tenant
        is_only_one = key_file is None and len(self._keys) < 2
        exchange.sees = None if is_admin or is_only_one else tenant


def is_open(path: str) -> bool:
    """Whether a path, or the template of paths, needs no key."""
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIX)


def _is_admin(path: str) -> bool:
    is_cancel = path.endswith(CANCEL_ENDING) and REQUESTS in path
    return is_cancel or path in ADMIN_PATHS or path.startswith(ADMIN_PREFIXES) or path.endswith(ADMIN_ENDINGS)
