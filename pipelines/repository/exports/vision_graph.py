"""Recognizes an exported vision model, and writes its graph: images → embeddings → text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.repository.exports.export_files import CONFIG, PLACES, TOKENIZER, Export

DECODER, ENCODER = "openvino_language_model.xml", "openvino_vision_embeddings_model.xml"
SETTINGS = "preprocessor_config.json"
NEEDED = (CONFIG, SETTINGS, ENCODER, "openvino_text_embeddings_model.xml", TOKENIZER)
MERGER = "openvino_vision_embeddings_merger_model.xml"
POSITIONS = "openvino_vision_embeddings_pos_model.xml"
ENCODERS: dict[str, tuple[str | None, ...]] = {
    "gemma3": ("siglip_vision_model",),
    "idefics3": ("idefics3_vision", "idefics3"),
    "internvl_chat": ("intern_vit_6b",),
    "llava": ("clip_vision_model", "siglip_vision_model"),
    "smolvlm": ("smolvlm_vision",),
    "qwen2_vl": ("qwen2_vl", None),
    "qwen2_5_vl": ("qwen2_5_vl", None),
    "qwen3_vl": ("qwen3_vl", None),
}
"""`model_type` of the models that are served → of the vision models with which they are; None: not named."""
FURTHER = {"qwen2_vl": (MERGER,), "qwen2_5_vl": (MERGER,), "qwen3_vl": (MERGER, POSITIONS)}
"""`model_type` → files that its folder has beside those of NEEDED."""
LARGEST = "max_image_tokens: {}  # larger images are scaled down: a photo could have 16,000"
VARIED = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")
"""Values of `model_type` whose images keep their sizes."""
IN_CHAT, TO_EMBED = 1280, 1800
"""Tokens of their largest image in a conversation, and in an input to embed, as Qwen3-VL-Embedding has it."""
STEP = {"max_step_tokens": 1024}
"""An image is hundreds of tokens, and some models compute all of them in one step."""
LINES = """\
  images:
    type: images
    from: request
    model: {at}config.json
    settings: {at}preprocessor_config.json
{further}
  seen:
    type: batcher
    from: images
    body:
      rows: {{type: encoder, from: batch, path: {at}{encoder}, device: cpu}}
"""
OWN, OWN_ENCODERS = "vision/", ("patches.onnx", "pixels.onnx")
"""The folder of the vision model with which that of a GGUF file reads images, and what its file may be."""


def find_vision(folder: Path) -> Export | None:
    """The vision model in `folder` or in its subfolder `model`, as optimum-intel exports it; or None."""
    places = ((folder / place, "" if place == "." else f"{place}/") for place in PLACES)
    found = ((where, prefix) for where, prefix in places if (where / DECODER).is_file())
    return next((Export("openvino", DECODER, where, prefix) for where, prefix in found), None)


def sees(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is that of a family that is served with images."""
    return config.get("model_type") in ENCODERS


def family_fault(config: Mapping[str, Any]) -> str | None:
    """Why a model with this config.json is not served with images; None for one that is."""
    kind, vision = config.get("model_type"), config.get("vision_config")
    vision = vision.get("model_type") if isinstance(vision, dict) else None
    if kind not in ENCODERS:
        return (
            f"models of type {kind} with images are not served yet; those of type {', '.join(ENCODERS)} are"
        )
    if vision not in ENCODERS[kind]:
        known = ", ".join(filter(None, ENCODERS[kind]))
        return f"a vision model of type {vision} is not served; those of type {known} are"
    return None


def vision_fault(export: Export) -> str | None:
    """Why a vision model is not served; None for one that is."""
    config = export.read(CONFIG)
    if (fault := family_fault(config)) is not None:
        return fault
    further = FURTHER.get(str(config["model_type"]), ())
    missing = [name for name in (*NEEDED, *further) if not (export.place / name).is_file()]
    if missing:
        return (
            f"{', '.join(missing)} is missing; braid export HF_FOLDER --name NAME writes all files of a "
            "model, and optimum-cli export openvino --task image-text-to-text does, with its processor"
        )
    return None


def image_lines(export: Export, most: int | None = None) -> list[str]:
    """The lines of graph.yaml for the images of a model, which chats; `most` are those of a request to one
    that embeds or scores.
    """
    return _lines(export, "", ENCODER, most)


def own_description(export: Export) -> str:
    """The line that says which mmproj file a converted GGUF file reads images with."""
    named = export.read(OWN + CONFIG).get("mmproj", "a vision model of its own")
    return f"description: {json.dumps(f'Reads images with {named}')}"


def own_image_lines(export: Export) -> list[str] | None:
    """The lines for the images of a converted GGUF file; None where it reads none."""
    encoders = (name for name in OWN_ENCODERS if (export.place / OWN / name).is_file())
    encoder = next(encoders, None)
    return None if encoder is None else _lines(export, OWN, encoder)


def _lines(export: Export, folder: str, encoder: str, most: int | None = None) -> list[str]:
    further = [f"max_images: {most}"] if most else []
    if export.read(folder + CONFIG).get("model_type") in VARIED:
        further.append(LARGEST.format(TO_EMBED if most else IN_CHAT))
    text = "\n".join(f"    {line}" for line in further)
    lines = LINES.format(at=export.prefix + folder, encoder=encoder, further=text)
    return [line for line in lines.splitlines() if line]
