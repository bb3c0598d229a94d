"""The models of a server as clients of KServe's protocol see them: names, versions, tensors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from graphs.errors import shown
from pipelines.base.errors import NotFound
from pipelines.wire.messages import ModelStatus, TensorSpec
from server.apis.kserve.datatypes import DATATYPES
from server.apis.kserve.messages import ModelMetadata, ServerMetadata, TensorMetadata
from server.apis.kserve.text import text_ports
from server.base.version import VERSION as SERVER_VERSION
from server.services.services import Services

NEWEST = ("", "0")
"""Versions that mean the newest one; ovmsclient asks for 0."""
VERSION = re.compile("[0-9]{1,18}")
PLATFORMS = {"infer": "braid_tensors"}
TEXT_PLATFORM = "braid_text"
EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "statistics")
"""The extensions of the protocol that this server has over HTTP."""
GRPC_EXTENSIONS = ("binary_tensor_data", "model_configuration", "statistics")


@dataclass(frozen=True, slots=True)
class Served:
    """One version of a model: `key` is its name in the catalogue."""

    name: str
    key: str
    status: ModelStatus


def find_served(services: Services, name: str, version: str | None) -> Served:
    """A version of a model; without one the newest.  Raises NotFound."""
    newest = services.catalogue.status(services.catalogue.model_of(name))
    if version is None or version in NEWEST:
        return Served(name, name, newest)
    cards = services.catalogue.versions(name)
    card = cards.get(int(version)) if VERSION.fullmatch(version) else None
    if card is None:
        served = ", ".join(map(str, sorted(cards)))
        raise NotFound(f"The model `{name}` has no version {shown(version)}; it has {served}", "version")
    return Served(name, card.name, services.catalogue.status(card.name))


def check_ready(services: Services, name: str, version: str | None = None) -> None:
    """Raises BraidError unless a version of a model takes requests; an idle one is loaded by them."""
    served = find_served(services, name, version)
    if not services.catalogue.may_wait(served.key):
        services.catalogue.get(served.key)


def metadata(services: Services, served: Served) -> ModelMetadata:
    """What a model takes and gives."""
    inputs, outputs = text_ports(served.status.task)
    if served.status.task == "infer":
        inputs, outputs = served.status.inputs, served.status.outputs
    return ModelMetadata(
        served.name,
        list(map(str, sorted(services.catalogue.versions(services.catalogue.model_of(served.name))))),
        PLATFORMS.get(served.status.task, TEXT_PLATFORM),
        _tensors(inputs),
        _tensors(outputs),
    )


def server_metadata(extensions: Sequence[str]) -> ServerMetadata:
    return ServerMetadata("braid", SERVER_VERSION, list(extensions))


def _tensors(specs: Sequence[TensorSpec]) -> list[TensorMetadata]:
    return [
        TensorMetadata(
            each.name,
            DATATYPES.get(each.dtype, each.dtype),
            [-1 if length is None else length for length in each.shape or [None]],
        )
        for each in specs
    ]
