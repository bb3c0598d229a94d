"""The families of endpoints, and what a server makes of those that are on.

Each family names its paths and its dialect in `api.py` of its folder, and has one line below.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from server.apis.batches import api as batches
from server.apis.batches.batch_models import ENDPOINTS as BATCH_PATHS
from server.apis.decisions import api as decisions
from server.apis.gemini import api as gemini
from server.apis.generation import api as generation
from server.apis.kserve import api as kserve
from server.apis.llamacpp import api as llamacpp
from server.apis.messages import api as messages
from server.apis.mistral import api as mistral
from server.apis.moderations import api as moderations
from server.apis.ollama import api as ollama
from server.apis.operations.api import OPERATIONS, OVMS_CONFIG, OVMS_V1, STATUS, TRITON_LOADING
from server.apis.pooling.api import COHERE_EMBED, POOLING
from server.apis.realtime import api as realtime
from server.apis.responses import api as responses
from server.apis.scale_out import api as scale_out
from server.apis.speech import api as speech
from server.apis.tei import api as tei
from server.apis.tokenizing import api as tokenizing
from server.apis.voice import api as voice
from server.base.api_names import API_NAMES
from server.base.settings import Settings
from server.dialects import OVMS, Dialects
from server.openapi.endpoint import DocsEndpoint, OpenAPIEndpoint
from server.services.api import Api, Make
from server.services.paths import PREFIXES, merge_suffixes
from server.services.services import Services

APIS: tuple[Api, ...] = (
    batches.API,
    decisions.API,
    gemini.API,
    generation.API,
    llamacpp.API,
    messages.API,
    mistral.API,
    ollama.API,
    moderations.API,
    realtime.API,
    responses.API,
    scale_out.API,
    speech.API,
    tokenizing.API,
    voice.API,
    OPERATIONS,
    STATUS,
    TRITON_LOADING,
    OVMS_CONFIG,
    OVMS_V1,  # it speaks for all of /v1, but for what is spoken above
    COHERE_EMBED,
    POOLING,
    tei.API,
    kserve.API,  # it speaks for all of /v2, but for what is spoken above
)

DOCUMENT = "/openapi.json"
ROOT_ROUTES: dict[str, Make | type] = {
    **{path: make for api in APIS for path, make in api.root.items()},
    DOCUMENT: OpenAPIEndpoint,
    "/docs": DocsEndpoint,
}
"""The paths of all families that have no prefix."""
ROUTES: dict[str, Make] = {path: make for api in APIS for path, make in api.prefixed.items()}
"""The paths of all families below every prefix."""
SOCKET_ROUTES: dict[str, Make] = {path: make for api in APIS for path, make in api.sockets.items()}


def served(settings: Settings) -> list[Api]:
    """The families that are on."""
    left_out = API_NAMES.keys() - settings.apis
    is_off = {STATUS.name: not settings.status, OVMS_V1.name: settings.v1 != OVMS.name}
    return [api for api in APIS if api.name not in left_out and not is_off.get(api.name)]


def prefixes(apis: Iterable[Api]) -> tuple[str, ...]:
    """OpenVINO Model Server's are there with its family."""
    return PREFIXES if OVMS_CONFIG in apis else PREFIXES[:1]


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


def described(settings: Settings, below: tuple[str, ...] = ()) -> dict[str, Any]:
    """The OpenAPI document of what is on, with the paths below these prefixes; default: all."""
    from server.openapi.document import document  # rarely requested, and a worker starts sooner without it

    apis = served(settings)
    root = [*(path for api in apis for path in api.root), DOCUMENT, "/docs"]
    everywhere = [
        prefix + path for prefix in below or prefixes(apis) for api in apis for path in api.prefixed
    ]
    return document([*root, *everywhere], dialects(settings))


@cache
def _written(settings: Settings) -> bytes:
    return json.dumps(described(settings), ensure_ascii=False).encode()


def meant_path(settings: Settings) -> Callable[[str], str | None]:
    """Finds the path of the endpoint that a path ends with: the base URL of a client has no prefix, or too
    much.
    """
    apis = served(settings)
    known = [path for api in apis if api is not STATUS for path in api.prefixed]

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
