"""Recognizes an exported audio model, and writes its graph: sounds → embeddings → text."""

from __future__ import annotations

from pathlib import Path

from pipelines.repository.exports.export_files import CONFIG, PLACES, TOKENIZER, Export

DECODER, ENCODER = "openvino_language_model.xml", "openvino_audio_encoder_model.xml"
TABLE, SETTINGS = "openvino_text_embeddings_model.xml", "preprocessor_config.json"
NEEDED = (CONFIG, SETTINGS, DECODER, TABLE, TOKENIZER)
FAMILIES = ("voxtral",)
"""Values of `model_type` that are served."""
STEP = {"max_step_tokens": 1024}
"""A sound has hundreds of tokens."""
LINES = """\
  sounds:
    type: audio
    from: request
    model: {at}config.json
    settings: {at}preprocessor_config.json
  heard:
    type: batcher
    from: sounds
    body:
      rows: {{type: encoder, from: batch, path: {at}openvino_audio_encoder_model.xml, device: cpu}}
"""


def find_audio(folder: Path) -> Export | None:
    """The audio model in `folder` or in its subfolder `model`, as `braid export` writes it; or None."""
    places = ((folder / place, "" if place == "." else f"{place}/") for place in PLACES)
    found = ((where, prefix) for where, prefix in places if (where / ENCODER).is_file())
    return next((Export("openvino", DECODER, where, prefix) for where, prefix in found), None)


def audio_fault(export: Export) -> str | None:
    """Why an audio model is not served; None for one that is."""
    kind = export.read(CONFIG).get("model_type")
    if kind not in FAMILIES:
        return f"models of type {kind} with sounds are not served; those of type {', '.join(FAMILIES)} are"
    missing = [name for name in NEEDED if not (export.place / name).is_file()]
    if missing:
        return f"{', '.join(missing)} is missing; braid export HF_FOLDER --name NAME writes all files"
    return None


def sound_lines(export: Export) -> list[str]:
    """The lines of graph.yaml for the sounds of a model."""
    return LINES.format(at=export.prefix).splitlines()
