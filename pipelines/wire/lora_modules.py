"""Adapters that are named when the server starts, as in vLLM: `name=path`, or an object in JSON."""

from __future__ import annotations

import msgspec


class LoraModule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An adapter's folder under a name.  `base_model_name` may be left out where one model has adapters."""

    name: str
    path: str
    base_model_name: str | None = None


def parse_module(text: str) -> LoraModule:
    """Raises ValueError, with what is allowed."""
    if text.lstrip().startswith("{"):
        try:
            module = msgspec.json.decode(text, type=LoraModule)
        except msgspec.DecodeError as error:
            raise ValueError(f"{text}: {error}; allowed: name, path, base_model_name") from None
    else:
        name, _, path = text.partition("=")
        module = LoraModule(name.strip(), path.strip())
    if not module.name or not module.path:
        raise ValueError(f"{text}: an adapter is given as name=path, or as a JSON object with name and path")
    return module
