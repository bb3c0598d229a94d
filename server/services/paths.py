"""The prefixes of paths, paths with a suffix after a model name that may have slashes itself, and HEAD.

Falcon's router cannot separate such a suffix from the name, and answers HEAD only where a resource says how.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import falcon
import falcon.asgi
import falcon.routing

PREFIXES = ("/v1", "/v3", "/v3/v1")
"""OpenAI's, OpenVINO Model Server's, and that server's older one."""

NAME = "{name:path}"


class HeadRouter(falcon.routing.CompiledRouter):
    """Falcon's router; HEAD is answered as GET is, whose body Falcon leaves out."""

    def map_http_methods(self, resource: object, **kwargs: Any) -> Any:
        methods: Any = super().map_http_methods(resource, **kwargs)
        if "GET" in methods:
            methods.setdefault("HEAD", methods["GET"])
        return methods


class NameResource:
    """Routes what is asked of a name to the resource of the suffix that follows the name."""

    def __init__(self, suffixes: Mapping[str, Any]) -> None:
        """`suffixes` are templates such as `/versions/{version}/infer`; "" is the resource of the name."""
        longest_first = sorted(suffixes, key=len, reverse=True)
        ends = {suffix: suffix.rpartition("/")[2] for suffix in longest_first}
        open_ends = {suffix for suffix, end in ends.items() if "{" in end or not suffix.startswith("/")}
        self._routes = {
            end: [
                (_pattern(suffix), suffixes[suffix])
                for suffix in longest_first
                if ends[suffix] == end or suffix in open_ends
            ]
            for end in {"", *ends.values()}
        }
        """By the last part of a path, "" for any other: those that it may match, the longest first."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        await self._route("on_get", req, resp, name)

    async def _route(
        self, responder: str, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str
    ) -> None:
        name = name.lstrip("/")  # clients join a base URL and a path with one slash too many
        routes = self._routes.get(name.rpartition("/")[2]) or self._routes[""]
        matches = ((pattern.fullmatch(name), resource) for pattern, resource in routes)
        match, resource = next(((match, resource) for match, resource in matches if match), (None, None))
        if match is None:
            raise falcon.HTTPNotFound
        respond = getattr(resource, responder, None)
        if respond is None:
            raise falcon.HTTPMethodNotAllowed(
                [method for method in ("GET", "POST") if hasattr(resource, f"on_{method.lower()}")]
            )
        await respond(req, resp, **match.groupdict())


class PostedNameResource(NameResource):
    """The resource of a name to which something can be posted."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        await self._route("on_post", req, resp, name)


def _pattern(suffix: str) -> re.Pattern[str]:
    """What a name with a suffix looks like; a suffix has no characters that mean something to `re`."""
    return re.compile("(?P<name>.+)" + re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", suffix), re.DOTALL)


def merge_suffixes(routes: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The routes for Falcon: those that differ only in the suffix after a name become one."""
    made = dict(routes)
    for start in dict.fromkeys(path.partition(NAME)[0] for path in made if NAME in path):
        named = start + NAME
        suffixes = {path.removeprefix(named): one for path, one in made.items() if path.startswith(named)}
        posted = any(hasattr(each, "on_post") for each in suffixes.values())
        yield named, (PostedNameResource if posted else NameResource)(suffixes)
    yield from ((path, resource) for path, resource in made.items() if NAME not in path)
