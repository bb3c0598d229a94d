"""The vocabulary of a GGUF file: its tokens, their kinds, and the ids with a role."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Kinds of tokens in `tokenizer.ggml.token_type`."""
ROLES = ("bos", "eos", "eot", "eom", "unknown", "padding", "seperator", "cls", "mask")
ENDS = ("eos", "eot", "eom")
END_TEXTS = frozenset(
    {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<|end_of_text|>"}
)
"""Control tokens that end a reply, whether or not the file says so."""


@dataclass(frozen=True)
class GgufVocabulary:
    """Token i is `tokens[i]` of kind `kinds[i]`; `roles` holds the ids that the file names."""

    tokens: list[str]
    kinds: list[int]
    roles: dict[str, int]

    def of_kind(self, kind: int) -> list[str]:
        return [token for token, each in zip(self.tokens, self.kinds, strict=True) if each == kind]

    def numbers(self) -> dict[str, int]:
        """The id of each token."""
        return {token: number for number, token in enumerate(self.tokens)}

    def text(self, role: str) -> str | None:
        """The token of a role; None where the file names none."""
        return self.tokens[self.roles[role]] if role in self.roles else None

    def ends(self) -> list[int]:
        """Ids that end a reply: those that the file names, and control tokens that always do."""
        named = {self.roles[role] for role in ENDS if role in self.roles}
        known = {
            number
            for number, (token, kind) in enumerate(zip(self.tokens, self.kinds, strict=True))
            if kind == CONTROL and token in END_TEXTS
        }
        return sorted(named | known)


def read_vocabulary(metadata: Metadata, size: int) -> GgufVocabulary:
    """The vocabulary of a table of `size` embeddings.  Raises `GgufError`."""
    tokens = metadata.texts("tokenizer.ggml.tokens")
    if not tokens or len(tokens) > size or len(set(tokens)) < len(tokens):
        raise GgufError(
            f"has {len(tokens)} tokens, {len(set(tokens))} of them different, for {size} embeddings"
        )
    kinds = metadata.array("tokenizer.ggml.token_type")
    if kinds is None:
        kinds = np.full(len(tokens), NORMAL)
    if len(kinds) != len(tokens):
        raise GgufError(f"has {len(kinds)} kinds of tokens for {len(tokens)} tokens")
    return GgufVocabulary(tokens, kinds.tolist(), _roles(metadata, len(tokens)))


def _roles(metadata: Metadata, count: int) -> dict[str, int]:
    roles = {}
    for role in ROLES:
        number = int(metadata.number(f"tokenizer.ggml.{role}_token_id", -1, -1, (1 << 32) - 1))
        if number in (-1, (1 << 32) - 1):  # the file's own "none"
            continue
        if number >= count:
            raise GgufError(f"names token {number} as {role}, of {count}")
        roles[role] = number
    return roles
