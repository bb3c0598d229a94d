"""The inputs and outputs of exported encoders, by name, and what a batch is in them.

Knows names and arrays; knows no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.host.backends.device_errors import ModelError
from pipelines.host.engine.encoder_batch import TokenBatch

TASK_ADVICE = "Export it as an encoder: braid export HF_FOLDER --name NAME --task embed."

INPUTS: dict[str, Callable[[TokenBatch, int], NDArray[np.int64]]] = {
    "input_ids": lambda batch, pad_id: np.where(batch.mask, batch.ids, pad_id) if pad_id else batch.ids,
    "attention_mask": lambda batch, pad_id: batch.mask,
    "token_type_ids": lambda batch, pad_id: batch.types,
    "position_ids": lambda batch, pad_id: batch.positions,
}
"""What an encoder may read: int64[num_texts, width], of a batch and the id that stands behind texts."""

OUTPUTS = ("logits", "last_hidden_state", "token_embeddings", "sentence_embedding")
"""What is taken of several outputs; the first that is there counts, and none of them: the first output.

Vectors of tokens come before those of texts: a graph says how these are made, and an export that has both
(sentence-transformers') would make them twice.
"""


def check_inputs(path: Path, names: Collection[str]) -> None:
    """Raise `ModelError` where `names` are not the inputs of an encoder."""
    if any(name == "beam_idx" or name.startswith(("past_key_values", "cache_")) for name in names):
        raise ModelError(f"{path} is a decoder that keeps a cache. {TASK_ADVICE}")
    strangers = sorted(set(names) - set(INPUTS))
    if strangers:
        raise ModelError(f"{path} needs inputs that an encoder does not have: {', '.join(strangers)}.")
    if "input_ids" not in names:
        raise ModelError(f"{path} has no input_ids.")


def choose_output(names: Sequence[Collection[str]]) -> int:
    """Which of the outputs is taken; each may go by several names."""
    known = [[name for name in OUTPUTS if name in own] for own in names]
    ranks = [OUTPUTS.index(own[0]) if own else len(OUTPUTS) for own in known]
    return ranks.index(min(ranks))


def output_shape(path: Path, values: NDArray[Any]) -> tuple[bool, int]:
    """(whether these are rows of tokens, their length), of what was given for `PROBE_BATCH`.

    Raises `ModelError`.
    """
    if values.shape[:-1] not in (PROBE_BATCH.lengths.shape, PROBE_BATCH.ids.shape):
        raise ModelError(f"{path} gives {list(values.shape)} for two tokens: no rows. {TASK_ADVICE}")
    return values.ndim == 3, values.shape[-1]


def input_arrays(batch: TokenBatch, types: Mapping[str, Any], pad_id: int) -> dict[str, NDArray[Any]]:
    """Each input of `types` in the integer type it wants: [num_texts, width], C-contiguous.

    Writable as well, which OpenVINO asks of what it reads in place.
    """
    return {name: np.require(INPUTS[name](batch, pad_id), dtype, ["C", "W"]) for name, dtype in types.items()}


def blank_batch(num_texts: int, width: int) -> TokenBatch:
    """Texts that nobody asked for, of token 0."""
    nothing = np.zeros((num_texts, width), np.int64)
    return TokenBatch(nothing, np.full(num_texts, width), nothing, np.ones(num_texts, np.bool_))


PROBE_BATCH = blank_batch(1, 2)
"""Whatever it says, it shows the shape of what an encoder gives."""


def padded_to_width(batch: TokenBatch, width: int) -> TokenBatch:
    """The same texts with more padding; the batch itself where it is that wide."""
    num_texts, had = batch.ids.shape
    if width <= had:
        return batch
    ids, types = np.zeros((2, num_texts, width), np.int64)
    ids[:, :had], types[:, :had] = batch.ids, batch.types
    return TokenBatch(ids, batch.lengths, types, batch.activate)
