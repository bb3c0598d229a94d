"""config.json of OpenVINO Model Server → the servables that it lists."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from pipelines.repository.exports.export_files import GRAPH_PBTXT
from pipelines.repository.files.model_versions import is_other_version, model_of, other_version
from pipelines.repository.files.regular_files import is_regular
from pipelines.repository.ovms import graph_file
from pipelines.repository.ovms.classic_model import classic_servables
from pipelines.repository.ovms.config_schema import GraphEntry, ModelEntry, ServerConfig, SubConfig, sentences
from pipelines.repository.ovms.servable import Servable
from pipelines.repository.ovms.tensor_graph import ServedFile

SUBCONFIG = "subconfig.json"
CLOUD = ("s3://", "gs://", "azure://", "azfs://", "az://")
DAG = (
    "a DAG of pipeline_config_list; the model server itself calls them deprecated: write a graph.pbtxt with "
    "session and inference calculators"
)
_NAME = re.compile(r'"name"\s*:\s*("(?:[^"\\]|\\.)*")')
Config = TypeVar("Config", bound=SubConfig)


def read_config(file: Path) -> list[Servable]:
    """The servables of a config.json.

    Raises ValueError where the file is not as the schema has it or a name stands twice, FileNotFoundError.
    What is wrong with one servable is in that servable.
    """
    config = read_file(file, ServerConfig)
    entries = list(_entries(config, file))
    names = [entry.name for entry, _ in entries] + [pipeline.name for pipeline in config.pipeline_config_list]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{file}: a name may stand once, in all lists together: {_lines(file, twice)}")
    classic = {
        entry.name: _looked_into(entry, home, _classic)
        for entry, home in entries
        if _graph(entry, home) is None
    }
    graphs = [
        servable
        for entry, home in entries
        if _graph(entry, home) is not None
        for servable in _looked_into(entry, home, partial(_graph_servable, models=classic))
    ]
    dags = [
        Servable(pipeline.name, 1, file.parent, faults=(DAG,)) for pipeline in config.pipeline_config_list
    ]
    listed = [*(servable for several in classic.values() for servable in several), *graphs, *dags]
    files = [nested for entry, home in entries if is_regular(nested := _subconfig(entry, home))]
    placed = _places([*files, file])
    return sorted((_placed(servable, placed) for servable in listed), key=lambda servable: servable.name)


def _looked_into(
    entry: GraphEntry, home: Path, look: Callable[[GraphEntry, Path], list[Servable]]
) -> list[Servable]:
    """What an entry means; one whose files cannot be looked into has a fault that says so."""
    try:
        return look(entry, home)
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError
        fault = f"cannot be looked into: {error}"
        return [Servable(entry.name, 1, home, group=entry.group_name, faults=(fault,))]


def _lines(file: Path, names: list[str]) -> str:
    """`m (lines 3, 9)` for each name, of those that stand in this file."""
    text, lines = file.read_text(encoding="utf-8"), dict[str, list[str]]()
    for match in _NAME.finditer(text):
        lines.setdefault(json.loads(match[1]), []).append(str(text.count("\n", 0, match.start()) + 1))
    return ", ".join(f"{name} (lines {', '.join(lines.get(name, ['of other files']))})" for name in names)


def _places(files: list[Path]) -> dict[str, tuple[str, int]]:
    """Name of a servable → the file that lists it, and its line there."""
    found = {}
    for file in files:
        text = file.read_text(encoding="utf-8")
        for match in _NAME.finditer(text):
            found[json.loads(match[1])] = (file.name, text.count("\n", 0, match.start()) + 1)
    return found


def _placed(servable: Servable, places: dict[str, tuple[str, int]]) -> Servable:
    place, line = places.get(model_of(servable.name), (servable.place, servable.line))
    return replace(servable, place=place, line=line)


def read_file(file: Path, schema: type[Config]) -> Config:
    """A config file, or a subconfig.  Raises ValueError with every problem, FileNotFoundError."""
    if not file.is_file():
        raise FileNotFoundError(f"{file} does not exist")
    try:
        return schema.model_validate(json.loads(file.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise ValueError("\n".join(f"{file}: {each}" for each in sentences(error))) from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{file} is not JSON: {error}") from None


def _entries(config: ServerConfig, file: Path) -> Iterator[tuple[GraphEntry, Path]]:
    """(entry, folder that its base_path starts from), with those of subconfigs."""
    for entry in (*config.model_config_list, *config.mediapipe_config_list):
        yield entry, file.parent
        nested = _subconfig(entry, file.parent)
        if is_regular(nested):
            yield from ((each, nested.parent) for each in read_file(nested, SubConfig).model_config_list)


def _subconfig(entry: GraphEntry, home: Path) -> Path:
    return base_path(entry, home) / (entry.subconfig or SUBCONFIG)


def base_path(entry: GraphEntry, home: Path) -> Path:
    """The folder, or file, of a servable."""
    return home / (entry.base_path or entry.name)


def _graph(entry: GraphEntry, home: Path) -> Path | None:
    """The graph.pbtxt of an entry; None for a model."""
    file = base_path(entry, home) / (entry.graph_path or GRAPH_PBTXT)
    return file if is_regular(file) or not isinstance(entry, ModelEntry) or entry.graph_path else None


def _classic(entry: GraphEntry, home: Path) -> list[Servable]:
    assert isinstance(entry, ModelEntry), "an entry of mediapipe_config_list is a graph"
    path = base_path(entry, home)
    faults = _faults(entry)
    if faults or not path.exists():
        missing = () if faults else (f"its base_path {path} does not exist",)
        return [Servable(entry.name, 1, home, group=entry.group_name, faults=(*faults, *missing))]
    return classic_servables(entry, path)


def _faults(entry: GraphEntry) -> tuple[str, ...]:
    faults = []
    if entry.base_path and entry.base_path.startswith(CLOUD):
        faults.append(f"base_path {entry.base_path}: models are read from folders; copy it to one")
    if is_other_version(entry.name):
        faults.append(f"the name {entry.name} is that of a version of another model; give it another name")
    if isinstance(entry, ModelEntry) and entry.custom_loader_options is not None:
        loader = entry.custom_loader_options.loader_name
        faults.append(f"custom_loader_options names the library {loader}; no library of others is loaded")
    return tuple(faults)


def _graph_servable(entry: GraphEntry, home: Path, models: dict[str, list[Servable]]) -> list[Servable]:
    """A graph with what it names of other servables; its paths start from a folder that holds all of them."""
    file = _graph(entry, home)
    assert file is not None, "it was chosen because it has one"
    faults = _faults(entry)
    if not is_regular(file):
        faults = (*faults, f"there is no {file}")
    served = _by_version(models)
    named = {name: served[name] for name in graph_file.named_servables(file) if name in served}
    usable = {
        name: servable
        for name, servable in named.items()
        if servable.file is not None and not servable.faults
    }
    if broken := named.keys() - usable.keys():
        faults = (
            *faults,
            *(f"it names {name}, which is no tensor model that runs" for name in sorted(broken)),
        )
    places = [file.parent, *(servable.folder for servable in usable.values())]
    folder = Path(os.path.commonpath([place.resolve() for place in places]))
    others = {
        name: ServedFile(
            (servable.folder.resolve() / (servable.file or "")).relative_to(folder).as_posix(),
            servable.settings,
            servable.max_runs,
        )
        for name, servable in usable.items()
    }
    graph = Servable(
        name=entry.name,
        version=1,
        folder=folder,
        places=tuple(folder / place.resolve().relative_to(folder) for place in places),
        group=entry.group_name,
        graph=file,
        others=others,
        faults=faults,
    )
    return [graph]


def _by_version(models: dict[str, list[Servable]]) -> dict[str, Servable]:
    """The served versions of all models, by NAME (the newest) and by NAME/versions/N (each)."""
    newest = {name: several[0] for name, several in models.items()}
    return newest | {
        other_version(name, one.version): one for name, several in models.items() for one in several
    }
