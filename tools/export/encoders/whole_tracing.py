"""Traces an encoder to one torch program for any number of texts of any length, and checks it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tools.export.base.folder import ExportError, first_line
from tools.export.encoders.whole_model import WholeModel

MaskFunction = Callable[..., torch.Tensor]
"""transformers': (batch, head, query, key) indexes → whether the query sees the key."""
LENGTHS = (7, 19, 4)
"""Lengths in tokens of the texts of the batch that a program is checked with."""
TOLERANCE = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 8e-2}
"""Allowed difference from transformers' values: the mean difference over their standard deviation."""


@torch.no_grad()
def trace(model: WholeModel) -> torch.export.ExportedProgram:
    """The program of `model`, with the inputs `model.inputs` of any number of texts and any width.

    Raises `ExportError` when torch cannot trace it, or when a batch of texts gets other values from
    the program than each text separately from transformers.
    """
    alone = [model(*_inputs(model, [text]))[0] for text in _texts(model)]
    axes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    shapes = dict.fromkeys(model.inputs, axes)
    with _plain_masks():
        try:
            program = torch.export.export(
                model, _inputs(model, _texts(model)), dynamic_shapes=shapes, strict=False
            )
        except Exception as error:
            raise ExportError(f"torch cannot trace {model.family}: {first_line(error)}") from error
    _compare(model, program.module()(*_inputs(model, _texts(model)[::-1])), alone[::-1])
    return program


def _texts(model: WholeModel) -> list[torch.Tensor]:
    """Random ids int64[tokens] of texts of `LENGTHS`."""
    chance, vocab_size = torch.Generator().manual_seed(1), model.config.get_text_config().vocab_size
    return [torch.randint(vocab_size, (length,), generator=chance) for length in LENGTHS]


def _inputs(model: WholeModel, texts: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The inputs of `model` for the batch of texts, padded at their ends."""
    pad = torch.nn.utils.rnn.pad_sequence
    ids, mask = pad(texts, True), pad([torch.ones_like(text) for text in texts], True)
    return (ids, mask, torch.zeros_like(ids))[: len(model.inputs)]


def _compare(model: WholeModel, given: torch.Tensor, expected: list[torch.Tensor]) -> None:
    """Compare the values of a batch with those of each text alone."""
    rows = [row[: len(text)] if model.per_token else row for row, text in zip(given, expected, strict=True)]
    together, alone = (torch.cat([row.flatten() for row in values]) for values in (rows, expected))
    distance = ((together - alone).abs().mean() / alone.std()).item()
    if not distance < TOLERANCE[model.dtype]:
        raise ExportError(
            f"{model.family} gives other values in a batch than for each text alone, or when it is traced: "
            f"they differ by {distance:.2g} standard deviations"
        )


@contextlib.contextmanager
def _plain_masks() -> Iterator[None]:
    """Make transformers' decoders compute their masks with traceable operators."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as masks

    masks["sdpa"] = _mask
    try:
        yield
    finally:
        del masks["sdpa"]


def _mask(
    *,
    batch_size: int,
    kv_length: int,
    kv_offset: int = 0,
    cache_position: torch.Tensor | None = None,
    q_length: int = 0,
    q_offset: int = 0,
    mask_function: MaskFunction | None = None,
    attention_mask: torch.Tensor | None = None,
    **others: Any,
) -> torch.Tensor:
    """transformers' mask, bool[texts, 1, queries, keys], from broadcast indexes.

    Padding attends to itself at least: without any key its value would be NaN and spread.
    """
    if mask_function is None or attention_mask is None:
        raise ExportError("the model makes a mask of its own, which cannot be traced")
    texts, head = torch.arange(batch_size)[:, None, None, None], torch.zeros((), dtype=torch.int64)
    keys = torch.arange(kv_length)[None, None, None] + kv_offset
    if cache_position is None:  # transformers 5
        cache_position = torch.arange(q_length) + q_offset
    queries = cache_position[None, None, :, None]
    visible = mask_function(texts, head, queries, keys) & attention_mask[:, None, None, :].bool()
    return visible | (queries == keys)
