"""How families of models mark a text with a gap, which they fill: by special tokens of the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class GapMarks(NamedTuple):
    """The tokens before the text in front of the gap, before the text behind it, and before what fills it.

    `suffix_first`: the text behind the gap comes first in the prompt.
    """

    prefix: str
    suffix: str
    middle: str = ""
    suffix_first: bool = False


MARKS = (
    GapMarks("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),  # Qwen, CodeGemma, Granite 3.3 and 4
    GapMarks("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),  # StarCoder, StableCode, Granite Code, Refact
    GapMarks("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),  # SantaCoder
    GapMarks("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # DeepSeek
    GapMarks("▁<PRE>", "▁<SUF>", "▁<MID>"),  # CodeLlama
    GapMarks("<PRE>", "<SUF>", "<MID>"),
    GapMarks("<|prefix|>", "<|suffix|>", "<|middle|>"),  # Falcon-H1
    GapMarks("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", suffix_first=True),  # GLM
    GapMarks("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", suffix_first=True),  # Seed-Coder
    GapMarks("[PREFIX]", "[SUFFIX]", suffix_first=True),  # Codestral
)
"""The first row of which a vocabulary has all tokens is its form."""
MELLUM = ("<fim_prefix>", "<filename>")
"""A vocabulary with both reads the text behind the gap first."""
REPOSITORY = (
    "<|fim_repo|>",
    "<|repo_name|>",
    "<repo_name>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|reponame|>",
)
FILE = ("<|file_sep|>", "<file_sep>", "<|file_separator|>", "<filename>", "<|filename|>")
PADDING = ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>")
"""Tokens that stand before the name of a repository, before a file, and in place of text."""

ALL_MARKS = frozenset({*REPOSITORY, *FILE, *PADDING, *(token for marks in MARKS for token in marks[:3])}) - {
    ""
}


class GapForm(NamedTuple):
    """The form of one vocabulary, in token ids; None for a token that it does not have.

    `stops` end what fills a gap, as end tokens do.
    """

    prefix: int
    suffix: int
    middle: int | None
    suffix_first: bool
    repository: int | None
    file: int | None
    stops: tuple[int, ...]


def gap_form(ids: Mapping[str, int]) -> GapForm | None:
    """The form of a vocabulary, of the ids of its special tokens; None for a family that fills no gaps."""
    marks = next((row for row in MARKS if all(token in ids for token in row[:3] if token)), None)
    if marks is None:
        return None
    repository, file = (_first(ids, tokens) for tokens in (REPOSITORY, FILE))
    others = [ids[token] for token in (*PADDING, *marks[:3]) if token in ids]
    return GapForm(
        ids[marks.prefix],
        ids[marks.suffix],
        ids.get(marks.middle),
        marks.suffix_first or all(token in ids for token in MELLUM),
        repository,
        file,
        tuple(sorted({*others, *(token for token in (repository, file) if token is not None)})),
    )


def _first(ids: Mapping[str, int], tokens: tuple[str, ...]) -> int | None:
    return next((ids[token] for token in tokens if token in ids), None)
