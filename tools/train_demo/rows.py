"""Tokens and labels of the corpus, and batches of them.

A row holds a group of conversations with the same beginning: the beginning once, then what is different
in each, a branch that reads the beginning and itself. So a declaration of tools is computed once for
several questions. Rows are sorted by length into batches, and padding is on the right.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from .conversation import Conversation
from .rendering import prompt_of, reply_of
from .tokenizer import TURN_END, TURN_START

IGNORED = -100


@dataclass(frozen=True)
class Row:
    """A group of conversations, all arrays int16[num_tokens].

    `targets[i]` is what follows `token_ids[i]` in its conversation where that is learned, else IGNORED.
    `positions` count within a conversation; `branches` are 0 in the common beginning, else from 1.
    """

    token_ids: np.ndarray
    targets: np.ndarray
    positions: np.ndarray
    branches: np.ndarray


def make_rows(tokenizer: Tokenizer, corpus: Iterable[list[Conversation]]) -> list[Row]:
    """One row per group."""
    corpus = list(corpus)
    items = [item for group in corpus for item in group]
    prompts = tokenizer.encode_batch_fast([prompt_of(item) for item in items], add_special_tokens=False)
    replies = tokenizer.encode_batch_fast([reply_of(item) for item in items], add_special_tokens=False)
    opening = tokenizer.encode(f"{TURN_START}assistant\n").ids
    end = tokenizer.token_to_id(TURN_END)
    pairs = iter(zip(prompts, replies, strict=True))
    rows = []
    for group in corpus:
        sequences = []
        for _ in group:
            prompt, reply = (encoding.ids for encoding in next(pairs))
            sequences.append((prompt + reply, _earlier_labels(prompt, opening, end) + reply))
        rows.append(row_of(sequences))
    return rows


def row_of(sequences: list[tuple[list[int], list[int]]]) -> Row:
    """The row of some (tokens, labels); where all are equal, their last tokens are branches none the less."""
    columns = zip(*(tokens[:-2] for tokens, _ in sequences), strict=False) if len(sequences) > 1 else ()
    beginning = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
    parts = [
        np.array(
            [
                tokens[start:-1],
                labels[start + 1 :],
                range(start, len(tokens) - 1),
                [branch] * (len(tokens) - 1 - start),
            ],
            dtype=np.int16,
        )
        for branch, start, (tokens, labels) in _parts(sequences, beginning)
    ]
    return Row(*np.concatenate(parts, axis=1))


def _parts(
    sequences: list[tuple[list[int], list[int]]], beginning: int
) -> Iterator[tuple[int, int, tuple[list[int], list[int]]]]:
    """The common beginning as branch 0, then each sequence from where it is a branch."""
    if beginning:
        tokens, labels = sequences[0]
        yield 0, 0, (tokens[: beginning + 1], [*labels[:beginning], IGNORED])
    for number, sequence in enumerate(sequences, 1):
        yield number if beginning else 0, beginning, sequence


def _earlier_labels(token_ids: list[int], opening: list[int], end: int) -> list[int]:
    """Labels for the assistant's earlier turns within a prompt.

    The first token of such a turn is not learned: history is written without a thought, so what
    follows the opening there differs from what follows it at inference.
    """
    labels = [IGNORED] * len(token_ids)
    for start in range(len(token_ids) - len(opening)):
        if token_ids[start : start + len(opening)] != opening or end not in token_ids[start:]:
            continue
        stop = token_ids.index(end, start) + 1
        first = start + len(opening) + 1
        labels[first:stop] = token_ids[first:stop]
    return labels


def batches(rows: list[Row], max_tokens: int, seed: int) -> Iterator[list[Row]]:
    """An endless stream of batches of at most `max_tokens` padded tokens, with similar lengths per batch."""
    chooser = random.Random(seed)
    while True:
        order = sorted(rows, key=lambda row: len(row.token_ids) + 8 * chooser.random())
        found: list[list[Row]] = [[]]
        for row in order:
            if found[-1] and (len(found[-1]) + 1) * len(row.token_ids) > max_tokens:
                found.append([])
            found[-1].append(row)
        chooser.shuffle(found)
        yield from found


def inputs_of(batch: list[Row]) -> tuple[dict[str, Any], Tensor]:
    """The model's inputs and the targets, [num_rows, longest].

    The mask is given for the kind of layer, as the model has it inside: None is plain causal attention,
    for which the model would otherwise compute and read a mask.
    """
    targets = _padded([row.targets for row in batch], IGNORED)
    branches = _padded([row.branches for row in batch], 0)
    inputs = {
        "input_ids": _padded([row.token_ids for row in batch], 0),
        "position_ids": _padded([row.positions for row in batch], 0),
        "attention_mask": {"full_attention": _visible(branches) if branches.any() else None},
    }
    return inputs, targets


def _visible(branches: Tensor) -> Tensor:
    """bool[num_rows, 1, longest, longest]: which tokens (last) each token reads."""
    num_tokens = branches.shape[1]
    earlier = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    read = branches[:, None, :]
    return (earlier & ((read == 0) | (read == branches[:, :, None])))[:, None]


def _padded(sequences: list[np.ndarray], fill: int) -> Tensor:
    """int64[num_sequences, longest], filled to the right."""
    padded = np.full((len(sequences), max(map(len, sequences))), fill, dtype=np.int64)
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = sequence
    return torch.from_numpy(padded)
