"""Writes the graph of a GLiNER model, which finds entities of the labels in a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.repository.exports.export_files import PLACES, TOKENIZER, read_object
from pipelines.repository.files.yaml_words import word

GLINER = "gliner_config.json"
MODELS = ("model.onnx", "onnx/model.onnx")
"""Model files, the preferred one first; else there may be one other ONNX file."""
FORMS = ("*.onnx", "onnx/*.onnx")
NO_BOUND = 1_000_000
"""A tokenizer's `model_max_length` above this says that there is none."""
LINES = """\
task: entities
nodes:
  marked: {{type: mark_words, from: request, tokenizer: {tokenizer}, settings: {settings}{bound}}}
  entities:
    type: find_entities
    from: marked
    settings: {settings}
    body:
      logits: {{type: tensor_model, from: batch, path: {model}, device: cpu}}
"""


def find_gliner(folder: Path) -> Path | None:
    """The folder with gliner_config.json and a model: `folder`, or its subfolder `model`."""
    places = (folder / place for place in PLACES)
    return next((place for place in places if (place / GLINER).is_file() and _models(place)), None)


def entity_lines(folder: Path, place: Path) -> list[str]:
    """The lines of graph.yaml from the task on.  Raises ValueError where there are several models, or no
    tokenizer.json.
    """
    models = _models(place)
    if len(models) > 1:
        raise ValueError(f"{place} holds several models: {', '.join(models)}; name one of them model.onnx")
    if not (place / TOKENIZER).is_file():
        raise ValueError(f"{place / TOKENIZER} is missing; copy that of the model")
    prefix = "" if place == folder else f"{place.name}/"
    most = _max_tokens(place)
    return LINES.format(
        tokenizer=word(prefix + TOKENIZER),
        settings=word(prefix + GLINER),
        model=word(prefix + models[0]),
        bound=f", max_tokens: {most}" if most else "",
    ).splitlines()


def _models(place: Path) -> list[str]:
    """The model files: one, where one of them has the usual name."""
    usual = [name for name in MODELS if (place / name).is_file()]
    found = sorted(file.relative_to(place).as_posix() for form in FORMS for file in place.glob(form))
    return usual[:1] or found


def _max_tokens(place: Path) -> int | None:
    """The most tokens of a text: by the tokenizer, or by the encoder where its positions are a table."""
    encoder: dict[str, Any] = read_object(place / GLINER).get("encoder_config") or {}
    is_table = encoder.get("model_type") in ("bert", "roberta", "xlm-roberta", "electra", "distilbert")
    bounds = (
        read_object(place / "tokenizer_config.json").get("model_max_length"),
        encoder.get("max_position_embeddings") if is_table else None,
    )
    return min((int(bound) for bound in bounds if bound and bound < NO_BOUND), default=None)
