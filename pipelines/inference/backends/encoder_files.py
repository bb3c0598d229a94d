"""Reads an encoder's limits (longest text, vocabulary, padding id) from the files beside the model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from pipelines.inference.backends.model_config import read_config, read_max_context
from pipelines.inference.contracts.device_errors import ModelError

POSITIONS_BEHIND_PADDING = frozenset(
    {
        *("roberta", "xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm", "camembert", "xmod", "ibert"),
        *("data2vec-text", "longformer", "mpnet", "esm", "luke", "mluke", "layoutlmv3", "markuplm"),
    }
)
"""Values of `model_type` whose position numbers start after the id of the padding token."""
WITHOUT_MASK = frozenset({"siglip_text_model"})
"""Types of models that read padding too: they were trained with all texts padded to one length."""


@dataclass(frozen=True)
class EncoderFacts:
    """`max_tokens` includes special tokens; ids are below `vocab_size`; `pad_id` fills a text's row after its
    end.

    A model may search for `pad_id` to find the end of a text or to count positions.  `min_width`: to how many
    tokens each text is padded.
    """

    max_tokens: int
    vocab_size: int
    pad_id: int
    min_width: int = 0


def read_encoder_facts(folder: Path) -> EncoderFacts:
    """Read them for the encoder in `folder`.  Raises `ModelError`."""
    folder = _described(folder)
    config = read_config(folder / "config.json")
    pad_id, positions = config.get("pad_token_id"), _positions(folder, config)
    return EncoderFacts(
        max_tokens=min(positions, _model_max_length(folder)),
        vocab_size=_vocab_size(folder, config),
        pad_id=pad_id if isinstance(pad_id, int) else 0,
        min_width=positions if config.get("model_type") in WITHOUT_MASK else 0,
    )


def _described(folder: Path) -> Path:
    """The folder with config.json: that of the encoder, or the one above it, where hubs store it."""
    is_above = not (folder / "config.json").exists() and (folder.parent / "config.json").exists()
    return folder.parent if is_above else folder


def read_image_size(folder: Path) -> int:
    """The side of the images that a model reads, in pixels, from config.json.  Raises `ModelError`."""
    return _vision_size(folder, "image_size")


def read_patches(folder: Path) -> int:
    """How many patches are along a side of the images that a model reads.  Raises `ModelError`."""
    return _vision_size(folder, "image_size") // _vision_size(folder, "patch_size")


def _vision_size(folder: Path, name: str) -> int:
    folder = _described(folder)
    vision = read_config(folder / "config.json").get("vision_config")
    size = vision.get(name) if isinstance(vision, dict) else None
    if not isinstance(size, int) or size < 1:
        raise ModelError(f"{folder / 'config.json'} names no vision_config.{name}.")
    return size


def _positions(folder: Path, config: dict[str, Any]) -> int:
    positions = read_max_context(folder / "config.json")
    if config.get("model_type") not in POSITIONS_BEHIND_PADDING:
        return positions
    return positions - int(config.get("pad_token_id") or 0) - 1


def _model_max_length(folder: Path) -> int:
    """The tokenizer's own limit in tokens; a number beyond all limits when it has none."""
    beyond = 1 << 62
    try:
        length = json.loads((folder / "tokenizer_config.json").read_text()).get("model_max_length")
    except (OSError, ValueError, AttributeError):
        return beyond
    return int(length) if isinstance(length, int | float) and 1 <= length < beyond else beyond


def _vocab_size(folder: Path, config: dict[str, Any]) -> int:
    if isinstance(config.get("vocab_size"), int):
        return int(config["vocab_size"])
    try:
        return int(Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size())
    except Exception as error:  # the tokenizers library raises nothing narrower
        raise ModelError(f"{folder / 'config.json'} names no vocab_size: {error}") from error
