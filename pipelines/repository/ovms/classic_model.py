"""A classic model of OpenVINO Model Server: a folder of versions, each with one model file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.repository.exports.export_graph import find_whole_model
from pipelines.repository.files.model_versions import VersionPolicy, other_version
from pipelines.repository.ovms.config_schema import ModelEntry, VersionPolicies
from pipelines.repository.ovms.devices import model_settings
from pipelines.repository.ovms.servable import GRAPH_YAML, Servable

SUFFIXES = (".xml", ".onnx", ".tflite")
SAVED_MODEL = "saved_model.pb"
REFUSED_SUFFIXES = {
    ".pdmodel": "a PaddlePaddle model; convert it with `ovc` first",
    ".blob": "compiled for one device",
}
TEXT_PARTS = ("openvino_tokenizer", "openvino_detokenizer")
"""Models beside a text model, which the tokenizer.json replaces."""
MAPPING = "mapping_config.json"
FREE = -1
AUTO = "auto"
_SHAPE = re.compile(r"\(?\s*((?:-1|\d+(?::\d+)?)(?:\s*,\s*(?:-1|\d+(?::\d+)?))*)?\s*,?\s*\)?")


def classic_servables(entry: ModelEntry, path: Path) -> list[Servable]:
    """The versions of a model that are served, the newest first; one with its faults where none can be."""
    faults: list[str] = []
    notes: list[str] = []
    settings = _settings(entry, faults, notes)
    numbered = versions(path)
    chosen = version_policy(entry.model_version_policy).choose(numbered)
    if not chosen:
        faults.append(_nothing(entry, path, sorted(numbered)))
        return [Servable(entry.name, 1, path, group=entry.group_name, faults=tuple(faults))]
    return [
        _version(entry, number, numbered[number], is_other, settings, faults, notes)
        for is_other, number in enumerate(chosen)
    ]


def versions(path: Path) -> dict[int, Path]:
    """Version → its folder or model file; a model without numbered folders is version 1."""
    if path.is_file():
        return {1: path}
    folders = {int(each.name): each for each in path.iterdir() if each.name.isdecimal() and each.is_dir()}
    found = {number: folder for number, folder in folders.items() if number and any(folder.iterdir())}
    return found or ({1: path} if _is_whole(path) else {})


def version_policy(policies: VersionPolicies | None) -> VersionPolicy:
    """Our policy for theirs; the newest version without one."""
    if policies is None:
        return VersionPolicy()
    if policies.specific is not None:
        return VersionPolicy(specific=tuple(policies.specific.versions))
    return VersionPolicy(latest=policies.latest.num_versions if policies.latest else None)


def _version(
    entry: ModelEntry,
    number: int,
    place: Path,
    is_other: int,
    settings: Mapping[str, Any],
    faults: list[str],
    notes: list[str],
) -> Servable:
    name = other_version(entry.name, number) if is_other else entry.name
    folder = place.parent if place.is_file() else place
    common = (folder,) if place.is_dir() else tuple(folder.glob(f"{place.stem}.*"))
    if place.is_dir() and _is_whole(place):
        return Servable(name, number, folder, common, entry.group_name, faults=tuple(faults))
    file, problem = (place.name, None) if place.is_file() else model_file(place)
    own = [*faults, problem] if problem else faults
    return Servable(
        name,
        number,
        folder,
        places=common,
        group=entry.group_name,
        file=file,
        device=entry.target_device or "",
        settings={**settings, **renamed(folder)},
        max_runs=entry.nireq or settings.get("streams"),
        faults=tuple(own),
        notes=tuple(f"config.json: {note}" for note in notes),
    )


def _is_whole(folder: Path) -> bool:
    """Whether a folder has a graph of its own, or a text model that one is written for."""
    return (folder / GRAPH_YAML).is_file() or find_whole_model(folder)


def model_file(folder: Path) -> tuple[str | None, str | None]:
    """(the one model file of a folder, None), or (None, what is wrong)."""
    files = [file for file in sorted(folder.iterdir()) if file.is_file() and file.stem not in TEXT_PARTS]
    for suffix in SUFFIXES:
        names = [file.name for file in files if file.suffix == suffix]
        if len(names) > 1:
            return (
                None,
                f"{folder} holds several models: {', '.join(names)}; one stands in a version's folder",
            )
        if names:
            return names[0], None
    if (folder / SAVED_MODEL).is_file():
        return SAVED_MODEL, None
    for file in files:
        if file.suffix in REFUSED_SUFFIXES:
            return None, f"{file.name} is {REFUSED_SUFFIXES[file.suffix]}"
    return None, f"{folder} holds no model: {', '.join(SUFFIXES)} or {SAVED_MODEL}"


def renamed(folder: Path) -> dict[str, dict[str, str]]:
    """The names that mapping_config.json gives to inputs and outputs."""
    try:
        found = json.loads((folder / MAPPING).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {key: found[key] for key in ("inputs", "outputs") if isinstance(found.get(key), dict)}


def read_shape(text: str) -> list[int] | None:
    """`(1,3,-1,100:200)` as numbers, -1 for a free length; None where it is no shape."""
    found = _SHAPE.fullmatch(text.strip())
    if found is None:
        return None
    return [FREE if ":" in size else int(size) for size in re.split(r"\s*,\s*", found[1] or "") if size]


def _settings(entry: ModelEntry, faults: list[str], notes: list[str]) -> dict[str, Any]:
    """The settings of the tensor_model line."""
    settings = model_settings(entry.plugin_config, faults.append, notes.append, streams=True)
    if entry.shape is not None and entry.shape != AUTO:
        settings["shape"] = _shapes(entry.shape, faults)
    elif entry.shape == AUTO:
        notes.append("shape auto: lengths that the model leaves free are free")
    if entry.batch_size not in (None, 0, AUTO) and entry.shape is None:
        settings["batch_size"] = _batch_size(entry.batch_size, faults)
    if entry.layout is not None:
        settings["layout"] = entry.layout
    if entry.allow_cache is not None:
        notes.append("allow_cache changes nothing here: compiled models are not stored")
    return settings


def _shapes(said: str | dict[str, str], faults: list[str]) -> Any:
    shapes = {"": said} if isinstance(said, str) else said
    found = {name: read_shape(text) for name, text in shapes.items() if text != AUTO}
    for name, shape in found.items():
        if shape is None:
            faults.append(
                f"shape {shapes[name]}: a shape is numbers, (1,3,224,224), with -1 for a free length"
            )
    return found.get("") if isinstance(said, str) else found


def _batch_size(said: int | str | None, faults: list[str]) -> int | None:
    if isinstance(said, str) and not re.fullmatch(r"-1|\d+(:\d+)?", said):
        faults.append(f"batch_size {said}: a number, a range (1:8), -1 or auto")
        return None
    return FREE if isinstance(said, str) and ":" in said else int(said or 0)


def _nothing(entry: ModelEntry, path: Path, found: list[int]) -> str:
    if found:
        return f"model_version_policy names none of the versions of {path}: {', '.join(map(str, found))}"
    return f"{path} holds no folder with the number of a version, such as {path.name}/1, and a model in it"
