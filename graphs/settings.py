"""The settings of a line → the node's Config, or what is wrong with each of them.

Values are validated strictly: `"64"` is no integer and `1` no truth value.
"""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from graphs.errors import hint, nearest
from graphs.node import NodeConfig
from graphs.read import KeyPath

Faults = list[tuple[KeyPath, str]]
"""What is wrong, and at which setting (a path of keys below the line's name)."""


def read_settings(
    config_type: type[BaseModel],
    settings: Mapping[str, Any],
    folder: Path | None,
    words: tuple[str, ...] = (),
) -> tuple[Any, Faults]:
    """The validated Config and no faults, or None and every fault.

    `words` are the keys of a line that are not settings, for suggestions; a file setting must name a file
    of `folder` unless that is None.
    """
    try:
        # as JSON: the one mode in which strict pydantic takes lists for tuples and words for enums
        config = config_type.model_validate_json(
            json.dumps(settings), strict=True, context={"folder": folder}
        )
    except ValidationError as error:
        return None, _faults(config_type, settings, error, words)
    return config, []


def _faults(
    config_type: type[BaseModel], settings: Mapping[str, Any], error: ValidationError, words: tuple[str, ...]
) -> Faults:
    """One fault per setting; the faults of several members of a union are joined."""
    faults: dict[KeyPath, list[str]] = {}
    for detail in error.errors(include_url=False):
        path = _path(detail["loc"], settings)
        message = _message(detail, path, config_type, words)
        faults.setdefault(path, [])
        if message not in faults[path]:
            faults[path].append(message)
    return [(path, ", or ".join(messages)) for path, messages in faults.items()]


def _path(loc: tuple[str | int, ...], settings: Any) -> KeyPath:
    """`loc` without the steps that are in pydantic only (members of a union)."""
    path: list[str | int] = []
    for step in loc:
        inside = isinstance(settings, dict) and step in settings
        if inside or (isinstance(settings, list) and isinstance(step, int) and step < len(settings)):
            path.append(step)
            settings = settings[step]
    return tuple(path)


def _message(error: ErrorDetails, path: KeyPath, config_type: type[BaseModel], words: tuple[str, ...]) -> str:
    kind, name = error["type"], dotted(path)
    if kind == "extra_forbidden":
        new_name = _new_name(config_type, error["loc"])
        if new_name is not None:
            return f"unknown setting `{name}`: it is called `{dotted((*path[:-1], new_name))}` now"
        if issubclass(config_type, NodeConfig) and name in config_type.elsewhere:
            return f"unknown setting `{name}`: {config_type.elsewhere[name]}"
        allowed = [*_names(config_type, error["loc"][:-1]), *(words if len(path) == 1 else ())]
        return f"unknown setting `{name}`{hint(str(path[-1]), allowed, 'settings')}"
    if kind == "missing":
        return f"the setting `{dotted((*path, error['loc'][-1]))}` is missing"
    if kind in ("file_path", "value_error", "assertion_error"):
        return f"`{name}`: {re.sub('^(Value|Assertion) error, ', '', error['msg'])}"
    fault = re.sub(r"^\w+ should ", "must ", error["msg"]).replace("an object", "a mapping")
    if kind == "string_pattern_mismatch" and (meaning := _description(config_type, error["loc"])):
        fault = f"must be {meaning}"  # the pattern in words
    return f"`{name}` {fault}, not {_shown(error['input'])}{_near_choice(error)}"


def dotted(path: KeyPath) -> str:
    """A path as text: `cache.memory_gb`, `files[2]`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def given_settings(config: BaseModel | None) -> dict[str, Any]:
    """The settings that a file gives, nested ones by their dotted path; defaults are left out."""
    given = config.model_dump(mode="json", exclude_unset=True) if config else {}
    return {dotted(path): value for path, value in _leaves(given)}


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and (value or not path):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)))
    else:
        yield path, value


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _near_choice(error: ErrorDetails) -> str:
    choices = re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected", "")))
    near = nearest(str(error["input"]), choices)
    return f"; did you mean '{near}'?" if near else ""


def _description(config_type: type[BaseModel], loc: tuple[str | int, ...]) -> str | None:
    """The description of the setting at `loc`."""
    fields = [model.model_fields.get(str(loc[-1])) for model in _models_at(config_type, loc[:-1])]
    return next((field.description for field in fields if field), None)


def _names(config_type: type[BaseModel], loc: tuple[str | int, ...]) -> list[str]:
    """The settings that the mapping at `loc` may have."""
    models = _models_at(config_type, loc)
    return [field.alias or name for model in models for name, field in model.model_fields.items()]


def _new_name(config_type: type[BaseModel], loc: tuple[str | int, ...]) -> str | None:
    """What the setting at `loc` is called now; None where no setting had this name."""
    models = _models_at(config_type, loc[:-1])
    return next((new for model in models if (new := _renamed(model).get(str(loc[-1])))), None)


def _renamed(model: type[BaseModel]) -> Mapping[str, str]:
    return model.renamed if issubclass(model, NodeConfig) else {}


def _models_at(config_type: type[BaseModel], loc: tuple[str | int, ...]) -> list[type[BaseModel]]:
    """The models that the mapping at `loc` may have; steps that name no setting are skipped."""
    models = [config_type]
    for step in loc:
        fields = [model.model_fields.get(str(step)) for model in models]
        inner = [found for field in fields if field for found in _models(field.annotation)]
        models = inner or models
    return models


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in typing.get_args(annotation):
        yield from _models(each)
