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


def longest_token(tokenizer: Tokenizer) -> int:
    """Characters of the longest token, at least; a byte counts as one."""
    return max(map(len, tokenizer.get_vocab()), default=1)


def special_tokens(tokenizer: Tokenizer) -> dict[str, int]:
    """Tokens that a grammar must name by their ids, by what they are called.

    To llguidance an added token in angle brackets is special, too, whatever its file says.
    """
    return {
        token.content: token_id
        for token_id, token in tokenizer.get_added_tokens_decoder().items()
        if token.special or (token.content.startswith("<") and token.content.endswith(">"))
    }
