"""An exported model in a folder: its kind, its files as a graph names them, what its config.json says.

Looks at file names and JSON; opens no model, and knows no graph.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL_FILES = {
    "openvino_model.xml": "openvino",
    "openvino/openvino_model.xml": "openvino",
    "model.onnx": "onnx",
    "onnx/model.onnx": "onnx",
}
"""Model file → kind of export, in the order of preference.  Folders with several exports keep them apart."""
TENSOR_FILES = {"openvino_model.xml": "openvino", "model.xml": "openvino", "model.onnx": "onnx"}
"""Model file → kind of export, for models of tensors, which have no tokenizer."""
TOKENIZER, CONFIG = "tokenizer.json", "config.json"
CONFIGS = (CONFIG, "genai_config.json")
"""What describes the model: transformers' file, or onnxruntime-genai's where that is missing."""
TEMPLATES = ("chat_template.jinja", "tokenizer_config.json")
"""Where a chat template may be."""
PLACES = (".", "model")
"""Where an export may lie in a model's folder."""


@dataclass(frozen=True)
class Export:
    """An exported model: `place` is its folder, `prefix` is what its files' names begin with in a graph."""

    kind: str
    model: str
    place: Path
    prefix: str

    def names(self, name: str) -> str | None:
        """The file as a graph names it, None when it is not there."""
        return self.prefix + name if (self.place / name).is_file() else None

    def read(self, name: str) -> dict[str, Any]:
        """The object in a file; {} when there is none that can be read."""
        return read_object(self.place / name)

    @property
    def tokenizer(self) -> str:
        return self.prefix + TOKENIZER

    @property
    def model_path(self) -> str:
        return self.prefix + self.model


def find_export(folder: Path) -> Export | None:
    """A model of text in `folder` or in its subfolder `model`, whatever it is for."""
    for place in PLACES:
        where = folder / place
        if not (where / TOKENIZER).is_file() or not any((where / name).is_file() for name in CONFIGS):
            continue
        for name, kind in MODEL_FILES.items():
            if (where / name).is_file():
                return Export(kind, name, where, "" if place == "." else f"{place}/")
    return None


def find_chat_template(export: Export) -> tuple[str | None, str]:
    """The file that holds the chat template, as a graph names it, and the template's text."""
    file, settings = TEMPLATES
    if name := export.names(file):
        return name, (export.place / file).read_text(encoding="utf-8", errors="replace")
    template = export.read(settings).get("chat_template")
    if isinstance(template, list):  # several named templates; "default" serves plain chat
        named = {each.get("name"): each.get("template") for each in template if isinstance(each, dict)}
        template = named.get("default")
    return (export.prefix + settings, template) if isinstance(template, str) else (None, "")


def architectures(config: dict[str, Any]) -> list[str]:
    """What config.json says the model is; [] where it says nothing."""
    named = config.get("architectures")
    return [str(each) for each in named] if isinstance(named, list) else []


def read_json(file: Path) -> Any:
    """What a file holds; None when there is none that can be read."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def read_object(file: Path) -> dict[str, Any]:
    """The object in a file; {} when there is none that can be read."""
    content = read_json(file)
    return content if isinstance(content, dict) else {}
