"""Writes the tokenizer of an export: tokenizer.json and the chat template, from the files of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.export.base.folder import SETTINGS, TOKENIZER, ExportError, first_line
from tools.export.base.tokenizer_check import TEXTS, check_converted

TOKENIZERS = (TOKENIZER, "vocab.json", "vocab.txt", "*.model", "*.tiktoken", "tekken.json")
"""Files that tokenizers are read from."""
NEWER_TOKENIZER = "TokenizersBackend"
"""The class name in transformers 5 of tokenizers that have only a tokenizer.json."""


def write_tokenizer(source: str, folder: Path) -> Any:
    """Write tokenizer.json and the chat template, converting a slow tokenizer where transformers can.

    Returns the tokenizer.  Raises `ExportError`.
    """
    try:
        tokenizer = _read_tokenizer(source)
    except Exception as error:
        raise ExportError(_tried(source, error)) from error
    if not tokenizer.is_fast and (file := _file_beside(source)) and _agree(tokenizer, file):
        tokenizer = file
    if not tokenizer.is_fast:
        raise ExportError(
            f"{source} has no {TOKENIZER} that gives the same ids, which serving needs, and transformers "
            f"cannot make one from its {type(tokenizer).__name__}."
        )
    if _is_empty(tokenizer):
        raise ExportError(_tried(source, ValueError("it has no vocabulary")))
    check_converted(tokenizer, source)
    tokenizer.save_pretrained(folder)
    return tokenizer


def _is_empty(tokenizer: Any) -> bool:
    """Whether it has special tokens alone, as transformers 5 makes one for a folder without its files."""
    words = tokenizer.backend_tokenizer.get_vocab(with_added_tokens=False)
    return set(words) <= {*tokenizer.all_special_tokens, "<unk>", "<s>", "</s>", "<pad>"}


def _read_tokenizer(source: str) -> Any:
    """The tokenizer by its class name, or from its file when transformers 5 wrote a generic name."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    try:
        return AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except ValueError as error:
        if NEWER_TOKENIZER not in str(error):
            raise
        return PreTrainedTokenizerFast.from_pretrained(source, extra_special_tokens={})


def _file_beside(source: str) -> Any:
    """The tokenizer of a tokenizer.json that transformers does not read for this model; None without one."""
    from transformers import PreTrainedTokenizerFast

    if not (Path(source) / TOKENIZER).is_file():
        return None
    return PreTrainedTokenizerFast.from_pretrained(source)


def _agree(tokenizer: Any, other: Any) -> bool:
    return all(tokenizer(text)["input_ids"] == other(text)["input_ids"] for text in TEXTS)


def _tried(source: str, error: Exception) -> str:
    """The reason why nothing could be read, and the searched places."""
    from pipelines.repository.exports.entity_graph import GLINER

    reason = first_line(error)
    if (Path(source) / GLINER).is_file():
        return (
            f"{source}: {GLINER} says that this is a GLiNER model, which the package gliner exports "
            "(`export_to_onnx`); a folder with its ONNX file is served as it is"
        )
    if Path(source).is_dir() and not (Path(source) / SETTINGS[0]).is_file():
        return f"{source} has no {SETTINGS[0]}: it is not the folder of a Hugging Face model"
    if Path(source).is_dir():
        present = [name for name in TOKENIZERS if any(Path(source).glob(name))]
        reason = reason if present else f"none of {', '.join(TOKENIZERS)} is there"
        return f"{source} has no tokenizer that transformers can read: {reason}"
    folder = Path(source).resolve()
    return f"the folder {folder} does not exist, and {source} does not load as a hub id: {reason}"
