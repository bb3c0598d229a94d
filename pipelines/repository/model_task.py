"""What a model of text is for, as far as its files tell: text, vectors, classes or scores.

Knows config.json's architectures and whether sentence-transformers or OpenVINO Model Server had the folder;
knows no graph of ours.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.repository.exports import CONFIG, CONFIGS, TENSOR_FILES, TOKENIZER, architectures, read_object
from pipelines.repository.ovms_graph import find_calculator
from pipelines.repository.sentence_modules import POOLING, module_types

TEXT = "text"
TASKS = ("embed", "token_embed", "classify", "rerank")
"""What a model may be for, beside text: the tasks of graphs."""

GENERATES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
CLASSIFIES = ("ForSequenceClassification",)
ENCODES = ("Model", "ForMaskedLM", "ForPreTraining")
"""How the names of architectures end."""
NUM_LABELS = 2  # of a classifier that does not say


def find_purpose(place: Path) -> str | None:
    """Of the model whose files lie in `place`; None where they do not tell, or tell of something else."""
    described = next((name for name in CONFIGS if (place / name).is_file()), None)
    if described is None:
        return None
    config = read_object(place / described)
    if described != CONFIG:
        return TEXT if _is_decoder_of_genai(config) else None
    return tell_purpose(config, module_types(place), find_calculator(place))


def find_tensor_model(folder: Path) -> str | None:
    """The model file in `folder` that takes and gives plain tensors, as far as the files beside it tell.

    A model of text without its tokenizer is none: something is missing there.
    """
    if (folder / TOKENIZER).is_file() or find_purpose(folder) is not None:
        return None
    return next((name for name in TENSOR_FILES if (folder / name).is_file()), None)


def tell_purpose(config: dict[str, Any], modules: list[str], calculator: str | None = None) -> str | None:
    """`config`: config.json; `modules`: types of sentence-transformers' modules; `calculator`: OVMS's."""
    named = architectures(config)
    if _end(named, CLASSIFIES):
        return "rerank" if count_labels(config) == 1 else "classify"
    if POOLING in modules or calculator == "EmbeddingsCalculatorOV":
        return "embed"
    if modules:
        return "token_embed"
    if _end(named, GENERATES) or not named:
        return TEXT
    return "embed" if _end(named, ENCODES) and _reads_text_alone(config) else None


def count_labels(config: dict[str, Any]) -> int:
    """How many classes the classifier that config.json describes tells apart."""
    labels = config.get("id2label")
    return len(labels) if isinstance(labels, dict) else int(config.get("num_labels") or NUM_LABELS)


def reads_forward(config: dict[str, Any]) -> bool:
    """Whether a token sees those before it alone, as in models that generate: only the last sees them all."""
    family = str(config.get("model_type", ""))
    return "bert" not in family and ("num_key_value_heads" in config or family.startswith("gpt"))


def _is_decoder_of_genai(config: dict[str, Any]) -> bool:
    model = config.get("model")
    return isinstance(model, dict) and "decoder" in model and "encoder" not in model


def _reads_text_alone(config: dict[str, Any]) -> bool:
    """Whether it has words, and no second half that writes, sees or hears."""
    others = (config.get("is_encoder_decoder"), config.get("vision_config"), config.get("audio_config"))
    return "vocab_size" in config and not any(others)


def _end(named: list[str], endings: tuple[str, ...]) -> bool:
    return any(name.endswith(endings) for name in named)
