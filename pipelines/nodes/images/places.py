"""The places of images or sounds in a prompt: what is written there, and the tokens that it becomes.

A chat template writes the family's mark where a message shows an image or has a sound.  The same characters
in what a user typed are text: the prompt is tokenized in pieces there, none of which has the whole mark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Any

from pipelines.errors import RequestError
from pipelines.values import Grid, Images, PlacedImage, Prompt, Sounds

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


def write_images(prompt: Prompt, images: Images, field: str) -> Prompt:
    """The prompt with what the family writes of each image in the place of its mark.

    Raises RequestError where a chat template has more or fewer marks than there are images.
    """
    if prompt.text is None:
        return prompt
    if not prompt.is_rendered:  # what a user typed has no images
        return in_pieces(replace(prompt, text=with_breaks(prompt.text, images.marks)))
    mark, texts = images.marks[0], iter(images.texts)
    pieces = [piece.split(mark) for piece in prompt.pieces or (prompt.text,)]
    _check_number(sum(map(len, pieces)) - len(pieces), len(images.texts), images, field)
    if not images.texts:
        return prompt
    written = tuple(
        piece[0] + "".join(next(texts) + following for following in piece[1:]) for piece in pieces
    )
    return replace(prompt, text="".join(written), pieces=written if prompt.pieces else ())


def place_images(ids: list[int], images: Images, field: str) -> tuple[list[int], list[PlacedImage]]:
    """The ids with all tokens of each image, or of each part of one that the encoder reads, and where these
    begin.

    `ids` have one token for each.  Raises RequestError for ids of a client that have others.
    """
    found = ids.count(images.token_id)
    _check_number(found, len(images.lengths), images, field)
    if not found:
        return ids, []
    whole: list[int] = []
    placed, begin = [], 0
    grids: Sequence[Grid | None] = images.grids or [None] * len(images.lengths)
    for length, digest, grid in zip(images.lengths, images.digests, grids, strict=True):
        at = ids.index(images.token_id, begin)
        whole += ids[begin:at]
        placed.append(PlacedImage(len(whole), length, digest, grid))
        whole += [images.token_id] * length
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
