"""Reads the events of clients: JSON texts with a `type`, each checked with the model of its type."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ConfigDict, ValidationError
from pydantic_core import from_json

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.validation import from_validation
from server.http.request_body import check_structure

INVALID_JSON = "invalid_json"
INVALID_EVENT = "invalid_event"
UNKNOWN_EVENT = "unknown_event"

Event = TypeVar("Event", bound=DeferredModel)


class ClientEvent(DeferredModel):
    """An event of a client; fields that are not declared do not count."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())


class AppendEvent(ClientEvent):
    """`input_audio_buffer.append`: samples in base64."""

    audio: str


def parse_event(text: str) -> dict[str, Any]:
    """Raises RequestError."""
    data = text.encode("utf-8", "replace")
    try:
        check_structure(data)
    except RequestError as error:
        raise RequestError(error.message, word=INVALID_EVENT) from None
    try:
        event = from_json(data)
    except ValueError:
        raise RequestError("Invalid JSON", word=INVALID_JSON) from None
    if not isinstance(event, dict):
        raise RequestError("An event must be a JSON object", word=INVALID_EVENT)
    return event


def checked(model: type[Event], event: dict[str, Any]) -> Event:
    """The fields of an event.  Raises RequestError that names the first one at fault."""
    try:
        return model.model_validate(event)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "missing":
            name = ".".join(map(str, first["loc"]))
            raise RequestError(f"Missing required field: {name}", name, word=INVALID_EVENT) from None
        fault = from_validation(error)
        raise RequestError(fault.message, fault.field, word=INVALID_EVENT) from None
