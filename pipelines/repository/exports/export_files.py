"""Recognizes an exported model in a folder: its format, its files as a graph names them, and its config.json.

Reads file names and JSON only; opens no model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from os.path import lexists
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.repository.files.regular_files import read_regular

MODEL_FILES = {
    "openvino_model.xml": "openvino",
    "openvino/openvino_model.xml": "openvino",
    "model.onnx": "onnx",
    "onnx/model.onnx": "onnx",
}
"""Model file → format of the export, in order of preference when a folder holds several."""
TENSOR_FILES = {"openvino_model.xml": "openvino", "model.xml": "openvino", "model.onnx": "onnx"}
"""Model file → format of the export, for tensor models, which have no tokenizer."""
GRAPH_PBTXT = "graph.pbtxt"
"""A graph of OpenVINO Model Server, which decides what a folder is."""
TOKENIZER, CONFIG = "tokenizer.json", "config.json"
CONFIGS = (CONFIG, "genai_config.json")
"""Files that describe the model: that of transformers, else that of onnxruntime-genai."""
TEMPLATES = ("chat_template.jinja", "tokenizer_config.json")
"""Files that may hold the chat template."""
TOOL_TEMPLATE = "additional_chat_templates/tool_use.jinja"
"""Where transformers writes the template of conversations with tools, when that is one of its own."""
PLACES = (".", "model")
"""Folders of a model's folder that may hold the export."""


@dataclass(frozen=True)
class Export:
    """An exported model in the folder `place`; a graph names its files with `prefix`."""

    kind: str
    model: str
    place: Path
    prefix: str

    def names(self, name: str) -> str | None:
        """The file as a graph names it, None when it does not exist."""
        return self.prefix + name if (self.place / name).is_file() else None

    def read(self, name: str) -> dict[str, Any]:
        """The JSON object in a file; {} when it is missing or invalid."""
        return read_object(self.place / name)

    @property
    def tokenizer(self) -> str:
        return self.prefix + TOKENIZER

    @property
    def model_path(self) -> str:
        return self.prefix + self.model


def find_export(folder: Path) -> Export | None:
    """The text model of any task in `folder` or in its subfolder `model`; None when there is none."""
    routed = [path.name for path in sorted(folder.glob("document_*Transformer"))]
    places = ((folder / place, "" if place == "." else f"{place}/") for place in (*PLACES, *routed))
    return next((found for where, prefix in places if (found := export_in(where, prefix))), None)


def export_in(where: Path, prefix: str) -> Export | None:
    """The text model in one folder, whose files a graph names with `prefix`; None when there is none.

    What has the name of a file and is none is found when the graph is checked.
    """
    if not lexists(where / TOKENIZER) or not any(lexists(where / name) for name in CONFIGS):
        return None
    found = next((each for each in MODEL_FILES.items() if (where / each[0]).is_file()), None)
    return Export(found[1], found[0], where, prefix) if found else None


class ChatTemplates(NamedTuple):
    """The file of a chat template as a graph names it, its text, and that for conversations with tools."""

    file: str
    text: str
    tool_use: str | None


def find_chat_template(export: Export) -> ChatTemplates | None:
    """The chat template of a model; None where it has none."""
    file, settings = TEMPLATES
    if name := export.names(file):
        tool_use = _text(export.place / TOOL_TEMPLATE) if export.names(TOOL_TEMPLATE) else None
        return ChatTemplates(name, _text(export.place / file), tool_use)
    template = export.read(settings).get("chat_template")
    named = template if isinstance(template, list) else [{"name": "default", "template": template}]
    texts = {entry.get("name"): entry.get("template") for entry in named if isinstance(entry, dict)}
    default, tool_use = texts.get("default"), texts.get("tool_use")
    if not isinstance(default, str):
        return None
    return ChatTemplates(export.prefix + settings, default, tool_use if isinstance(tool_use, str) else None)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def architectures(config: dict[str, Any]) -> list[str]:
    """The `architectures` of a config.json; [] when it names none."""
    named = config.get("architectures")
    return [str(each) for each in named] if isinstance(named, list) else []


def read_json(file: Path) -> Any:
    """The JSON value in a file; None when it is missing or invalid."""
    try:
        return json.loads(read_regular(file))
    except (OSError, ValueError, RecursionError):
        return None


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object in a file; {} when it is missing or invalid."""
    content = read_json(file)
    return content if isinstance(content, dict) else {}
