"""Triton's config.pbtxt beside a model: nothing of it is used, and a note or a refusal says so."""

from __future__ import annotations

from pathlib import Path

from graphs.errors import Problem, listed, shown
from pipelines.repository.exports.export_files import TENSOR_FILES
from pipelines.repository.files.report import note_line
from pipelines.repository.files.text_format import TextFormatError, TextMessage, parse

FILE = "config.pbtxt"
OF_THE_MODEL = frozenset({"name", "platform", "backend", "input", "output", "default_model_filename"})
"""What the folder and the file of a model say here."""


def find_config(folder: Path) -> Path | None:
    """The config.pbtxt of a model's folder, or of the folder of its version."""
    file = (folder.parent if folder.name.isdecimal() else folder) / FILE
    return file if file.is_file() else None


def note(file: Path) -> str:
    """What of a config.pbtxt has no effect, as a line in the text of a graph."""
    try:
        settings = dict.fromkeys(shown(each.name) for each in _read(file).fields)
        unused = listed([name for name in settings if name not in OF_THE_MODEL])
    except TextFormatError as error:
        unused = f"all of it, which cannot be read: {error}"
    without = f"; without effect, unlike settings of a graph.yaml: {unused}" if unused else ""
    return note_line(f"{FILE}: inputs and outputs are those of the model's file{without}") + "\n"


def refusal(file: Path, name: str) -> Problem:
    """Why a folder of Triton's is not served that holds no model that Braid knows."""
    try:
        config = _read(file)
        kind = config.text("backend") or config.text("platform")
    except TextFormatError:
        kind = ""
    backend = f" of the backend `{shown(kind)}`" if kind else ""
    return Problem(
        1,
        f"a folder of Triton's{backend}, in which no version holds a tensor model: "
        f"put it into {name}/1 as {' or '.join(TENSOR_FILES)}",
        f"{name}/{FILE}",
    )


def _read(file: Path) -> TextMessage:
    return parse(file.read_text(errors="replace"))
