"""Checks API keys, in constant time.  Every path that is not in OPEN_PATHS needs one."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

import falcon.asgi

from server.http.errors import Unauthorized

OPEN_PATHS = frozenset(
    {
        *("/health", "/ping", "/load", "/v2/health/live", "/v2/health/ready", "/version", "/metrics"),
        *("/openapi.json", "/docs"),
    }
)


class Keys:
    """Digests of the accepted API keys; without any, no key is needed."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [_digest(key.encode()) for key in keys]

    def allow(self, authorization: str | None, api_key: str | None = None) -> bool:
        """Whether `Authorization: Bearer <key>` or `x-api-key: <key>` names a key.

        The time that it takes does not depend on which key matches, or on how much of it.
        """
        if not self._digests:
            return True
        given = [_digest(key.encode("utf-8", "surrogateescape")) for key in _sent(authorization, api_key)]
        found = False
        for digest in self._digests:
            for one in given:
                found |= hmac.compare_digest(one, digest)
        return found


def _sent(authorization: str | None, api_key: str | None) -> list[str]:
    """The keys that a request carries: OpenAI's clients send one header, Anthropic's the other."""
    scheme, _, key = (authorization or "").partition(" ")
    bearer = [key] if scheme.lower() == "bearer" else []
    return [key.strip() for key in [*bearer, *([api_key] if api_key is not None else [])]]


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
        if not self._keys.allow(req.get_header("Authorization"), req.get_header("x-api-key")):
            raise Unauthorized(
                "Unauthorized: send a valid API key as `Authorization: Bearer <key>` or `x-api-key: <key>`"
            )
