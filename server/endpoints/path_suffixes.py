"""Paths that go on behind a name with slashes, which Falcon's router cannot tell from the name.

Knows templates and resources; knows nothing of what they answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import falcon.asgi

NAME = "{name:path}"


class Named:
    """What answers GET for a name, and for each tail that may follow it."""

    def __init__(self, resource: Any, tails: Mapping[str, Any]) -> None:
        self._resource = resource
        self._tails = tails

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        stem, _, tail = name.rpartition("/")
        if stem and tail in self._tails:
            await self._tails[tail].on_get(req, resp, stem)
        else:
            await self._resource.on_get(req, resp, name)


def joined(routes: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The routes as Falcon takes them: those that differ behind a name are one."""
    made = dict(routes)
    for path, resource in made.items():
        if path.endswith(NAME):
            head = f"{path}/"
            tails = {other.removeprefix(head): one for other, one in made.items() if other.startswith(head)}
            yield path, Named(resource, tails)
        elif NAME not in path:
            yield path, resource
