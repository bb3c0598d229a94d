"""Compares a tokenizer that transformers made of another library's file with that library: tekken.json of
Mistral, read by tiktoken, and tokenizer.model where nothing says how it is meant, read by sentencepiece.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.export.base.folder import TOKENIZER, ExportError

TEKKEN, PIECES, SETTINGS = "tekken.json", "tokenizer.model", "tokenizer_config.json"
TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "def add(a, b):\n    return a + b  # 42\n",
    "Größe, naïve, 今天天气很好, Привет! 3.14159",
)
Encode = Callable[[str], list[int]]


def check_converted(tokenizer: Any, source: str) -> None:
    """Raise `ExportError` where `tokenizer`, read from `source` (a folder or a hub id), gives other ids than
    the library of its file.
    """
    if _found(source, TOKENIZER):
        return
    if file := _found(source, TEKKEN):
        _compare(tokenizer, _tekken(file), file)
    elif (file := _found(source, PIECES)) and not _found(source, SETTINGS):
        _compare(tokenizer, _sentencepiece(file), file)


def _found(source: str, name: str) -> Path | None:
    from transformers.utils import cached_file

    missing = {
        "_raise_exceptions_for_missing_entries": False,
        "_raise_exceptions_for_connection_errors": False,
    }
    path = cached_file(source, name, **missing)
    return Path(path) if path else None


def _compare(tokenizer: Any, encode: Encode | None, file: Path) -> None:
    from transformers import __version__

    for text in TEXTS if encode else ():
        if tokenizer(text, add_special_tokens=False)["input_ids"] != encode(text):
            raise ExportError(
                f"transformers {__version__} reads {file} otherwise than it is meant: {text!r} gets other "
                f"ids; put a {TOKENIZER} beside it, as the model's page or another version of transformers "
                "has it"
            )


def _tekken(file: Path) -> Encode:
    """Ids of tokens come after those of special tokens."""
    import tiktoken

    read = json.loads(file.read_text(encoding="utf-8"))
    config = read["config"]
    special = int(config["default_num_special_tokens"])
    words = read["vocab"][: int(config["default_vocab_size"]) - special]
    ranks = {base64.b64decode(word["token_bytes"]): int(word["rank"]) for word in words}
    encoding = tiktoken.Encoding(
        file.name, pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={}
    )
    return lambda text: [special + rank for rank in encoding.encode_ordinary(text)]


def _sentencepiece(file: Path) -> Encode | None:
    """None for a file of another kind, as Llama 3's."""
    from sentencepiece import SentencePieceProcessor

    pieces = SentencePieceProcessor()
    try:
        pieces.LoadFromSerializedProto(file.read_bytes())
    except (RuntimeError, OSError):
        return None
    return pieces.EncodeAsIds
