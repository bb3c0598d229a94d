"""Recognizes a model with an encoder of texts and another of images (CLIP, SigLIP), and writes its graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.repository.exports.export_files import CONFIG, PLACES, TOKENIZER, read_object

TEXT_NAME, IMAGE_NAME = "text", "vision"
"""Folders in which `braid export` writes the two models."""
SETTINGS = "preprocessor_config.json"
KINDS = ("clip", "siglip")
"""Values of `model_type`."""
PAIRS = (
    (f"{TEXT_NAME}/openvino_model.xml", f"{IMAGE_NAME}/openvino_model.xml"),
    (f"{TEXT_NAME}/model.onnx", f"{IMAGE_NAME}/model.onnx"),
    ("onnx/text_model.onnx", "onnx/vision_model.onnx"),
)
"""The two files, as `braid export` and as onnx-community name them."""
OF_ONE_KIND = {"onnx/text_model.onnx": "clip"}
"""SigLIP's files there give no vectors of whole texts and images as their first output."""
LINES = """\
task: embed
nodes:
  texts: {{type: texts, from: request}}
  tokens: {{type: tokenize, from: texts, tokenizer: {at}tokenizer.json{cleaning}}}
  read:
    type: batcher
    from: tokens
    body:
      text: {{type: encoder, from: batch, path: {at}{text}, device: cpu}}
      unit: {{type: normalize, from: text}}
  images:
    type: images
    from: request
    model: {at}config.json
    settings: {at}preprocessor_config.json
    max_images: 32
  seen:
    type: batcher
    from: images
    body:
      image: {{type: encoder, from: batch, path: {at}{image}, device: cpu}}
      unit: {{type: normalize, from: image}}
  embeddings: {{type: merge, from: {{texts: read, images: seen}}}}
"""
CLEANING = {"siglip": ", lowercase: true"}
"""What is done to texts first: SigLIP was trained with small letters."""


def is_dual(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is that of a whole model with both encoders."""
    return config.get("model_type") in KINDS and "text_config" in config and "vision_config" in config


def find_dual(folder: Path) -> str | None:
    """The prefix of the files of such a model in `folder` or in its subfolder `model`; None without one.

    One without a tokenizer may be a tensor model.
    """
    places = (("" if place == "." else f"{place}/", folder / place) for place in PLACES)
    return next((at for at, where in places if _is_model(where)), None)


def _is_model(where: Path) -> bool:
    return is_dual(read_object(where / CONFIG)) and bool(_pair(where) or (where / TOKENIZER).is_file())


def dual_fault(folder: Path, at: str) -> str | None:
    """Why the model with the prefix `at` is not served; None for one that is."""
    where = folder / at
    if _pair(where) is None:
        kind = read_object(where / CONFIG).get("model_type")
        return (
            f"a model of type {kind} is served as two files, one for texts and one for images; `braid export "
            "HF_FOLDER --name NAME` writes them"
        )
    missing = [name for name in (TOKENIZER, SETTINGS) if not (where / name).is_file()]
    return f"{', '.join(missing)} is missing; copy it from the model's own folder" if missing else None


def dual_lines(folder: Path, at: str) -> list[str]:
    """The lines of graph.yaml from the task on."""
    text, image = _pair(folder / at) or PAIRS[0]
    kind = read_object(folder / at / CONFIG).get("model_type")
    return LINES.format(at=at, text=text, image=image, cleaning=CLEANING.get(str(kind), "")).splitlines()


def _pair(where: Path) -> tuple[str, str] | None:
    kind = read_object(where / CONFIG).get("model_type")
    pairs = (pair for pair in PAIRS if OF_ONE_KIND.get(pair[0], kind) == kind)
    return next((pair for pair in pairs if all((where / name).is_file() for name in pair)), None)
