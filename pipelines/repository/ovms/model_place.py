"""The folder that a calculator's `models_path` names, and the export in it."""

from __future__ import annotations

from pathlib import Path

from pipelines.repository.exports.export_files import CONFIGS, MODEL_FILES, TOKENIZER, Export, export_in
from pipelines.repository.files.report import Report
from pipelines.repository.ovms.options import Given


def find_model(options: Given, name: str, folder: Path, report: Report) -> Export | None:
    """The export at the path in the option `name`; None, with a problem in `report`, where it is none."""
    path, line = options[name], options.line(name)
    if path is None:
        return None
    if path.lower().endswith(".gguf"):
        report.problem(
            line, f"`{name}` names a GGUF file: put the file alone into the folder, without graph.pbtxt"
        )
        return None
    inside = (folder / path).resolve()
    if not inside.is_relative_to(folder.resolve()):
        report.problem(
            line, f"`{name}` {path} leads out of the folder of graph.pbtxt; put the model inside it"
        )
        return None
    relative = inside.relative_to(folder.resolve()).as_posix()
    export = export_in(inside, "" if relative == "." else f"{relative}/")
    if export is None:
        report.problem(line, f"`{name}` {path} {_missing(inside)}")
    return export


def _missing(place: Path) -> str:
    if not place.is_dir():
        return "is no folder"
    needed = (tuple(MODEL_FILES), (TOKENIZER,), CONFIGS)
    lacking = [names for names in needed if not any((place / name).is_file() for name in names)]
    return "holds no exported model: it lacks " + " and ".join(" or ".join(names) for names in lacking)
