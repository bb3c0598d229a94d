"""The one place that reads tokenizer.json.  A tokenizer is loaded once per file and shared by its nodes."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer


def open_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`, without its padding and truncation settings.

    Raises ValueError, naming the file, when it cannot be read.
    """
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise ValueError(f"`tokenizers` cannot read {path.name}: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
