"""The families of endpoints, and what a server makes of those that are on.

Each family names its paths and its dialect in `api.py` of its folder, and has one line below.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from typing import Any

from server.apis.batches.batch_models import ENDPOINTS as BATCH_PATHS
from server.base.api_names import API_NAMES
from server.base.settings import Settings
from server.dialects import OVMS, Dialects
from server.openapi.endpoint import DocsEndpoint, OpenAPIEndpoint
from server.services.api import Api
from server.services.paths import PREFIXES, merge_suffixes
from server.services.services import Services

FAMILIES: tuple[tuple[str, str], ...] = (
    ("batches", "batches.api:API"),
    ("decisions", "decisions.api:API"),
    ("gemini", "gemini.api:API"),
    ("openai", "generation.api:API"),
    ("llamacpp", "llamacpp.api:API"),
    ("anthropic", "messages.api:API"),
    ("mistral", "mistral.api:API"),
    ("deepseek", "deepseek.api:API"),
    ("ollama", "ollama.api:API"),
    ("moderations", "moderations.api:API"),
    ("realtime", "realtime.api:API"),
    ("responses", "responses.api:API"),
    ("retrieval", "retrieval.api:API"),
    ("scale_out", "scale_out.api:API"),
    ("speech", "speech.api:API"),
    ("tokenizing", "tokenizing.api:API"),
    ("usage", "usage.api:API"),
    ("voice", "voice.api:API"),
    ("operations", "operations.api:OPERATIONS"),
    ("status", "operations.api:STATUS"),
    ("kserve", "operations.api:TRITON_LOADING"),
    ("ovms", "operations.api:OVMS_CONFIG"),
    ("v1", "operations.api:OVMS_V1"),  # it speaks for all of /v1, but for what is spoken above
    ("cohere", "pooling.api:COHERE_EMBED"),
    ("pooling", "pooling.api:POOLING"),
    ("tei", "tei.api:API"),
    ("kserve", "kserve.api:API"),  # it speaks for all of /v2, but for what is spoken above
)
"""(name, module and variable of its `Api`) of each family: a worker imports those that are on."""

DOCUMENT = "/openapi.json"


def every_api() -> tuple[Api, ...]:
    """All families, whether on or off."""
    return tuple(_imported(place) for _, place in FAMILIES)


@cache
def served(settings: Settings) -> tuple[Api, ...]:
    """The families that are on."""
    left_out = API_NAMES.keys() - settings.apis
    is_off = {"status": not settings.status, "v1": settings.v1 != OVMS.name}
    return tuple(
        _imported(place) for name, place in FAMILIES if name not in left_out and not is_off.get(name)
    )


def prefixes(apis: Iterable[Api]) -> tuple[str, ...]:
    """OpenVINO Model Server's are there with its family."""
    return PREFIXES if any(api.name == "ovms" for api in apis) else PREFIXES[:1]


def dialects(settings: Settings) -> Dialects:
    """What the paths of the families that are on speak."""
    return Dialects((api.speaks, api.dialect) for api in served(settings) if api.speaks)


def routes(services: Services) -> Iterator[tuple[str, Any]]:
    """(path template, resource) of every endpoint that is on; the prefixes share one resource."""
    settings, apis = services.settings, served(services.settings)
    prefixed = [pair for api in apis for pair in (*api.prefixed.items(), *api.sockets.items())]
    everywhere = [(path, make(services)) for path, make in prefixed]
    resources = [(path, make(services)) for api in apis for path, make in api.root.items()]
    resources += [(prefix + path, resource) for prefix in prefixes(apis) for path, resource in everywhere]
    resources += [(DOCUMENT, OpenAPIEndpoint(lambda: _written(settings))), ("/docs", DocsEndpoint())]
    return merge_suffixes(resources)


def described(settings: Settings) -> dict[str, Any]:
    """The OpenAPI document of what is on."""
    from server.openapi.document import document  # rarely requested, and a worker starts sooner without it

    return document(described_paths(settings), dialects(settings))


def described_paths(settings: Settings, below: tuple[str, ...] = ()) -> list[str]:
    """The path templates in the document of `described`, as routes are written."""
    apis = served(settings)
    root = [*(path for api in apis for path in api.root), DOCUMENT, "/docs"]
    return root + [
        prefix + path for prefix in below or prefixes(apis) for api in apis for path in api.prefixed
    ]


@cache
def _written(settings: Settings) -> bytes:
    return json.dumps(described(settings), ensure_ascii=False).encode()


def meant_path(settings: Settings) -> Callable[[str], str | None]:
    """Finds the path of the endpoint that a path ends with: the base URL of a client has no prefix, or too
    much.
    """
    apis = served(settings)
    known = [path for api in apis if api.name != "status" for path in api.prefixed]

    def meant(path: str) -> str | None:
        below = (prefix for prefix in reversed(prefixes(apis)) if path.startswith(f"{prefix}/"))
        prefix = next(below, PREFIXES[0])
        nearest = prefix + max((end for end in known if path.endswith(end)), key=len, default="")
        return nearest if nearest not in (prefix, path) else None

    return meant


def batch_routes(services: Services) -> Iterator[tuple[str, Any]]:
    """(path, resource) of the endpoints that requests of batches may name."""
    on = {path: make for api in served(services.settings) for path, make in api.prefixed.items()}
    for path in BATCH_PATHS:
        if (end := path.removeprefix(PREFIXES[0])) in on:
            yield path, on[end](services)


def _imported(place: str) -> Api:
    module, _, name = place.partition(":")
    api: Api = getattr(import_module(f"{__package__}.{module}"), name)
    return api
