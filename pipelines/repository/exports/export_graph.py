"""Writes the graph of an exported model from its own files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.repository.exports.audio_graph import audio_fault, find_audio, sound_lines
from pipelines.repository.exports.decoder_graph import (
    GenerationSettings,
    MediaLines,
    generation_lines,
    settings_of,
)
from pipelines.repository.exports.dual_graph import dual_fault, dual_lines, find_dual
from pipelines.repository.exports.entity_graph import entity_lines, find_gliner
from pipelines.repository.exports.export_files import (
    CONFIGS,
    MODEL_FILES,
    TENSOR_FILES,
    TOKENIZER,
    Export,
    find_export,
)
from pipelines.repository.exports.model_task import TEXT, find_task, find_tensor_model
from pipelines.repository.exports.pooling_graph import (
    PoolingSettings,
    longest_input,
    pooling_lines,
    scores_pairs,
)
from pipelines.repository.exports.speech_graph import REFUSAL, find_speech, is_optimums, speech_lines
from pipelines.repository.exports.text_pair_graph import find_text_pair, text_pair_lines
from pipelines.repository.exports.vision_graph import (
    STEP,
    find_vision,
    image_lines,
    own_description,
    own_image_lines,
    vision_fault,
)
from pipelines.repository.exports.voice_graph import find_voices, voice_lines
from pipelines.repository.files.yaml_words import settings_text

HEADER = "# Made by `braid new-graph` from the files of this folder; edit it as needed.\n"


def recognise_export(folder: Path) -> str | None:
    """`openvino` or `onnx` when the folder holds a model that `export_graph` writes a graph for, else None.

    optimum-intel's Whisper is always recognised, and refused, and so is a vision model, of which some are.
    """
    vision = find_vision(folder), find_dual(folder)
    if is_optimums(folder) or vision != (None, None):
        return "openvino"
    if (
        find_gliner(folder) is not None
        or find_speech(folder) is not None
        or find_text_pair(folder) is not None
        or find_voices(folder)
    ):
        return "onnx"
    export = find_export(folder)
    if export is not None and find_task(export.place) is not None:
        return export.kind
    return TENSOR_FILES.get(find_tensor_model(folder) or "")


def find_whole_model(folder: Path) -> bool:
    """Whether the folder holds a text model, with its tokenizer."""
    export = find_export(folder)
    return export is not None and find_task(export.place) is not None


def export_graph(folder: Path) -> str:
    """The text of a graph.yaml for the export in `folder`; its files determine the task.

    A model without a tokenizer is a tensor model with the task infer.  Raises ValueError when there is no
    export that Braid recognises, or one that it cannot run.
    """
    if is_optimums(folder):
        raise ValueError(f"{folder}: {REFUSAL}")
    if (place := find_gliner(folder)) is not None:
        return "\n".join([HEADER + "version: 1", *entity_lines(folder, place)]) + "\n"
    if (prefix := find_speech(folder)) is not None:
        return "\n".join([HEADER + "version: 1", *speech_lines(folder, prefix)]) + "\n"
    if (prefix := find_text_pair(folder)) is not None:
        return "\n".join([HEADER + "version: 1", *text_pair_lines(prefix)]) + "\n"
    if voices := find_voices(folder):
        return "\n".join([HEADER + "version: 1", *voice_lines(folder, voices)]) + "\n"
    if (audio := find_audio(folder)) is not None:
        if fault := audio_fault(audio):
            raise ValueError(f"{folder}: {fault}")
        media = MediaLines(sound_lines(audio), "sounds", "heard")
        lines = generation_lines(audio, GenerationSettings(scheduler=STEP), media)
        return "\n".join([HEADER + "version: 1", *lines]) + "\n"
    if (vision := find_vision(folder)) is not None:
        if fault := vision_fault(vision):
            raise ValueError(f"{folder}: {fault}")
        return "\n".join([HEADER + "version: 1", *_vision_lines(vision)]) + "\n"
    if (at := find_dual(folder)) is not None:
        if fault := dual_fault(folder, at):
            raise ValueError(f"{folder}: {fault}")
        return "\n".join([HEADER + "version: 1", *dual_lines(folder, at)]) + "\n"
    export = find_export(folder)
    task = find_task(export.place) if export else None
    if export is not None and task is not None:
        lines = _text_lines(export, folder) if task == TEXT else pooling_lines(export, task)
        return "\n".join([HEADER + "version: 1", *lines]) + "\n"
    if (model := find_tensor_model(folder)) is not None:
        return "\n".join([HEADER + "version: 1", *inference_lines(model, {"device": "cpu"})]) + "\n"
    raise ValueError(_refusal(folder, export))


def _text_lines(export: Export, folder: Path) -> list[str]:
    """The lines of a decoder, which may read images, as that of a GGUF file with an mmproj file beside it."""
    images = own_image_lines(export)
    if images is None:
        return generation_lines(export, settings_of(folder))
    media = MediaLines(images, "images", "seen")
    lines = generation_lines(export, GenerationSettings(scheduler=STEP), media)
    return [own_description(export), *lines]


MOST_IMAGES = {"embed": 32, "token_embed": 32, "rerank": 128}
"""Task → images of a request; a query's counts with each document."""


def _vision_lines(export: Export) -> list[str]:
    """The lines of graph.yaml from the task on, for a vision-language decoder: it chats, or modules.json
    says how it embeds, or it has a head that scores pairs.
    """
    task = "rerank" if scores_pairs(export) else find_task(export.place)
    if task not in MOST_IMAGES:
        media = MediaLines(image_lines(export), "images", "seen")
        return generation_lines(export, GenerationSettings(scheduler=STEP), media)
    media = MediaLines(image_lines(export, MOST_IMAGES[task]), "images", "seen")
    return pooling_lines(export, task, PoolingSettings(max_tokens=longest_input(export)), media)


def _refusal(folder: Path, export: Export | None) -> str:
    if export is not None:
        return (
            f"{export.place}: neither config.json nor modules.json determines the model's task: text, "
            "embeddings, classes or scores; write a graph.yaml with the task (`braid schema`)"
        )
    if files := sorted(file for file in folder.iterdir() if file.suffix.lower() == ".gguf"):
        return (
            f"{files[0]} is served without a graph.yaml; `braid export {files[0]} --name NAME` writes a "
            "folder with one"
        )
    if any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin")):
        return f"{folder} is not exported yet: `braid export {folder} --name NAME` does that"
    return (
        f"{folder} holds no exported language model: {' or '.join(MODEL_FILES)} with {TOKENIZER} and "
        f"{' or '.join(CONFIGS)}; nor a tensor model: {' or '.join(TENSOR_FILES)} without those files"
    )


def inference_lines(model: str, settings: Mapping[str, Any], max_runs: int | None = None) -> list[str]:
    """The lines of graph.yaml from the task on, for one tensor model and the settings of its line."""
    line = settings_text({"path": model, **settings})
    return [
        "task: infer",
        "nodes:",
        "  result:",
        "    type: infer",
        "    from: request",
        *([f"    max_runs: {max_runs}"] if max_runs else []),
        "    body:",
        f"      outputs: {{type: tensor_model, from: batch{line}}}",
    ]
