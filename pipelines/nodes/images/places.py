"""The places of images or sounds in a prompt: what is written there, and the tokens that it becomes.

A chat template writes the family's mark where a message shows an image or has a sound.  The same characters
in what a user typed are text: the prompt is tokenized in pieces there, none of which has the whole mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Any

from pipelines.base.errors import RequestError
from pipelines.values.node_values import Grid, Images, PlacedImage, Prompt, Sounds

BREAK = f"|{token_hex(16)}|"
"""Stands in a conversation where a prompt is cut into pieces; known in this process alone."""


def with_breaks(value: Any, marks: Sequence[str]) -> Any:
    """A part of a request for a chat template, with BREAK inside every mark that its texts have."""
    if isinstance(value, str):
        if not any(mark in value for mark in marks):
            return value
        return re.sub("|".join(map(re.escape, marks)), lambda mark: mark[0][0] + BREAK + mark[0][1:], value)
    if isinstance(value, dict):
        return {with_breaks(name, marks): with_breaks(each, marks) for name, each in value.items()}
    return [with_breaks(each, marks) for each in value] if isinstance(value, list) else value


def in_pieces(prompt: Prompt) -> Prompt:
    """A prompt whose text may have BREAKs, without them."""
    if prompt.text is None or BREAK not in prompt.text:
        return prompt
    return replace(prompt, text=prompt.text.replace(BREAK, ""), pieces=tuple(prompt.text.split(BREAK)))


def write_images(prompts: Sequence[Prompt], images: Images, field: str) -> list[Prompt]:
    """The prompts with what the family writes of each image in the place of its mark.

    Raises RequestError where chat templates have more or fewer marks than there are images.
    """
    rendered = [prompt for prompt in prompts if prompt.is_rendered]
    if rendered:
        marks = sum(piece.count(images.marks[0]) for prompt in rendered for piece in _pieces(prompt))
        _check_number(marks, len(images.texts), images, field)
    texts = iter(images.texts)
    return [_written(prompt, images.marks, texts) for prompt in prompts]


def _written(prompt: Prompt, marks: Sequence[str], texts: Iterator[str]) -> Prompt:
    if prompt.text is None:
        return prompt
    if not prompt.is_rendered:  # what a user typed has no images
        return in_pieces(replace(prompt, text=with_breaks(prompt.text, marks)))
    if not any(marks[0] in piece for piece in _pieces(prompt)):
        return prompt
    pieces = [piece.split(marks[0]) for piece in _pieces(prompt)]
    written = tuple(
        piece[0] + "".join(next(texts) + following for following in piece[1:]) for piece in pieces
    )
    return replace(prompt, text="".join(written), pieces=written if prompt.pieces else ())


def _pieces(prompt: Prompt) -> tuple[str, ...]:
    return prompt.pieces or (prompt.text or "",)


def place_images(
    prompts: Sequence[list[int]], images: Images, field: str
) -> list[tuple[list[int], list[PlacedImage]]]:
    """The ids of each prompt with all tokens of each image, or of each part of one that the encoder reads,
    and where these begin.

    The ids of `prompts` have one token for each.  Raises RequestError for ids of a client that have others.
    """
    _check_number(sum(ids.count(images.token_id) for ids in prompts), len(images.lengths), images, field)
    if not images.lengths:
        return [(ids, []) for ids in prompts]
    grids: Sequence[Grid | None] = [None] * len(images.lengths)
    if images.grids and not images.in_order:
        grids = images.grids
    parts = zip(images.lengths, images.digests, grids, strict=True)
    return [_placed(ids, images.token_id, parts) for ids in prompts]


def _placed(
    ids: list[int], token_id: int, parts: Iterator[tuple[int, bytes, Grid | None]]
) -> tuple[list[int], list[PlacedImage]]:
    whole: list[int] = []
    placed, begin = [], 0
    for _ in range(ids.count(token_id)):
        length, digest, grid = next(parts)
        at = ids.index(token_id, begin)
        whole += ids[begin:at]
        placed.append(PlacedImage(len(whole), length, digest, grid))
        whole += [token_id] * length
        begin = at + 1
    return whole + ids[begin:], placed


def _check_number(found: int, given: int, images: Images, field: str) -> None:
    if found != given:
        noun = "sounds" if isinstance(images, Sounds) else "images"
        raise RequestError(
            f"the prompt has {found} places for {noun}, and the request has {given} {noun}: the chat "
            "template must show them all, and a prompt in token ids must have none",
            field,
        )
