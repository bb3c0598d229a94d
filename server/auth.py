"""Who may call: API keys, compared in constant time.  Fails closed: what is not in OPEN_PATHS is guarded."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

import falcon.asgi

from server.errors import Unauthorized

OPEN_PATHS = frozenset({"/health", "/v2/health/live", "/v2/health/ready", "/version", "/metrics"})


class Keys:
    """Digests of the keys that clients may send; no key at all means that no key is asked."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [_digest(key.encode()) for key in keys]

    def allow(self, authorization: str | None) -> bool:
        """Whether `Authorization: Bearer <key>` names a key; its time tells nothing of which or how far."""
        if not self._digests:
            return True
        scheme, _, key = (authorization or "").partition(" ")
        given = _digest(key.strip().encode("utf-8", "surrogateescape"))
        found = False
        for digest in self._digests:
            found |= hmac.compare_digest(given, digest)
        return found and scheme.lower() == "bearer"


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


class Guard:
    """Falcon middleware: refuses a request without a key before it is routed or read.

    OPTIONS passes: browsers send no credentials with a preflight, and it reaches no endpoint of ours.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = Keys(keys)

    async def process_request(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        if req.path in OPEN_PATHS or req.method == "OPTIONS":
            return
        if not self._keys.allow(req.get_header("Authorization")):
            raise Unauthorized("Unauthorized: send `Authorization: Bearer <API key>` with a valid key")
