"""The prefixes of paths, and paths with a suffix after a model name that may have slashes itself.

Falcon's router cannot separate such a suffix from the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import falcon.asgi

PREFIXES = ("/v1", "/v3", "/v3/v1")
"""OpenAI's, OpenVINO Model Server's, and that server's older one."""

NAME = "{name:path}"


class NameResource:
    """Routes GET for a name, and for each suffix that may follow it, to the resource for it."""

    def __init__(self, resource: Any, suffixes: Mapping[str, Any]) -> None:
        self._resource = resource
        self._suffixes = suffixes

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        stem, _, suffix = name.rpartition("/")
        if stem and suffix in self._suffixes:
            await self._suffixes[suffix].on_get(req, resp, stem)
        else:
            await self._resource.on_get(req, resp, name)


def merge_suffixes(routes: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The routes for Falcon: those that differ only in the suffix after a name become one."""
    made = dict(routes)
    for path, resource in made.items():
        if path.endswith(NAME):
            start = f"{path}/"
            suffixes = {
                other.removeprefix(start): one for other, one in made.items() if other.startswith(start)
            }
            yield path, NameResource(resource, suffixes)
        elif NAME not in path:
            yield path, resource
