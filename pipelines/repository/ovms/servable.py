"""One servable of a config.json as a model of the repository: its files, and the text of its graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphs.errors import GraphError, Problem
from pipelines.repository.exports.export_graph import HEADER, export_graph, inference_lines
from pipelines.repository.files.regular_files import read_regular
from pipelines.repository.ovms import graph_file
from pipelines.repository.ovms.devices import device
from pipelines.repository.ovms.tensor_graph import ServedFile

GRAPH_YAML = "graph.yaml"


@dataclass(frozen=True)
class Servable:
    """What config.json says of one version of one model.

    Its graph is that of `graph`, a graph.pbtxt; else that of one model, `file` in `folder`, with `settings`
    on `device`, OpenVINO's word, `max_runs` at once; else what the folder itself means.  `others` are the
    models that a graph.pbtxt may name, `places` the folders whose files belong to it, `faults` what is wrong
    with its entry, whose name stands in line `line` of `place`.
    """

    name: str
    version: int
    folder: Path
    places: tuple[Path, ...] = ()
    group: str | None = None
    graph: Path | None = None
    file: str | None = None
    device: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    max_runs: int | None = None
    others: Mapping[str, ServedFile] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    place: str = "config.json"
    line: int = 1

    def files(self) -> Iterator[Path]:
        """Every file that belongs to it."""
        for place in dict.fromkeys(self.places):
            yield place
            yield from place.rglob("*")

    def graph_text(self, override: str | None) -> str:
        """The text of its graph; `override` is the device that all models run on instead of their own.

        Raises GraphError with every problem; OSError and UnicodeDecodeError.
        """
        faults, said = list(self.faults), list(self.notes)
        where = device(self.device, override, gpus=True, problem=faults.append, note=said.append)
        if faults:
            raise GraphError([self._problem(fault) for fault in faults])
        notes = "".join(f"# note: {note}\n" for note in said)
        if self.graph is not None:
            source = f"{self.name}/{self.graph.name}"
            return notes + graph_file.graph_text(self.graph, source, override, self.others, self.folder)
        if self.file is not None:
            lines = inference_lines(self.file, {"device": where, **self.settings}, self.max_runs)
            return "\n".join([f"{notes}version: 1", *lines]) + "\n"
        if (self.folder / GRAPH_YAML).is_file():
            return read_regular(self.folder / GRAPH_YAML)
        try:
            return notes + export_graph(self.folder).removeprefix(HEADER)
        except ValueError as error:
            raise GraphError([self._problem(str(error))]) from error

    def _problem(self, text: str) -> Problem:
        return Problem(self.line, f"{self.name}: {text}", self.place)
