"""Infers the task of an exported model from its files: text, embeddings, classes or scores.

Uses the architectures of config.json, and the files of sentence-transformers.
"""

from __future__ import annotations

from os.path import lexists
from pathlib import Path
from typing import Any

from pipelines.repository.exports.export_files import (
    CONFIG,
    CONFIGS,
    TENSOR_FILES,
    TOKENIZER,
    architectures,
    read_object,
)
from pipelines.repository.exports.sentence_modules import POOLING, ROUTER, SPLADE, module_types

TEXT = "text"
TASKS = ("embed", "token_embed", "classify", "token_classify", "rerank")
"""Tasks of embedding and pooling models, as in graphs."""

GENERATIVE = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
CLASSIFIERS, TAGGERS = ("ForSequenceClassification",), ("ForTokenClassification",)
ENCODERS = ("Model", "ForMaskedLM", "ForPreTraining")
"""Endings of the names of architectures."""
NUM_LABELS = 2  # default of transformers


def find_task(place: Path) -> str | None:
    """The task of the text model in `place`; None when its files do not determine a supported one."""
    described = next((name for name in CONFIGS if (place / name).is_file()), None)
    if described is None:
        return None
    config = read_object(place / described)
    if described != CONFIG:
        return TEXT if _is_decoder_of_genai(config) else None
    return infer_task(config, module_types(place))


def find_tensor_model(folder: Path) -> str | None:
    """The file of the tensor model in `folder`; None when there is none.

    A text model without its tokenizer is not a tensor model: a file is missing.
    """
    if lexists(folder / TOKENIZER) or find_task(folder) is not None:
        return None
    return next((name for name in TENSOR_FILES if (folder / name).is_file()), None)


def infer_task(config: dict[str, Any], modules: list[str]) -> str | None:
    """The task for a config.json and sentence-transformers' module types; or None."""
    names = architectures(config)
    if _end(names, CLASSIFIERS):
        return "rerank" if count_labels(config) == 1 else "classify"
    if _end(names, TAGGERS):
        return "token_classify"
    if {POOLING, SPLADE, ROUTER} & {*modules}:
        return "embed"
    if modules:
        return "token_embed"
    if _end(names, GENERATIVE) or not names:
        return TEXT
    return "embed" if _end(names, ENCODERS) and _is_text_encoder(config) else None


def count_labels(config: dict[str, Any]) -> int:
    """The number of classes of a classifier."""
    labels = config.get("id2label")
    return len(labels) if isinstance(labels, dict) else int(config.get("num_labels") or NUM_LABELS)


def is_causal(config: dict[str, Any]) -> bool:
    """Whether attention is causal, as in generative models: only the last token attends to all others."""
    family = str(config.get("model_type", ""))
    return "bert" not in family and ("num_key_value_heads" in config or family.startswith("gpt"))


def _is_decoder_of_genai(config: dict[str, Any]) -> bool:
    model = config.get("model")
    return isinstance(model, dict) and "decoder" in model and "encoder" not in model


def _is_text_encoder(config: dict[str, Any]) -> bool:
    """Whether the model has a vocabulary and no decoder, vision or audio part."""
    others = (config.get("is_encoder_decoder"), config.get("vision_config"), config.get("audio_config"))
    return "vocab_size" in config and not any(others)


def _end(names: list[str], endings: tuple[str, ...]) -> bool:
    return any(name.endswith(endings) for name in names)
