"""The inputs and outputs of exported encoders, by name, and the arrays of a batch for them.

Does not depend on an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.backends.encoder_files import read_image_size, read_patches
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import Columns

TASK_ADVICE = "Export it as an encoder: braid export HF_FOLDER --name NAME --task embed."

FEATURES, PIXELS = "input_features", "pixel_values"
ARRAYS = frozenset({FEATURES, PIXELS})
"""The one input of an encoder of sound, and of one of images, as in transformers."""
INPUTS: dict[str, Callable[[TokenBatch, int], NDArray[Any] | None]] = {
    "input_ids": lambda batch, pad_id: np.where(batch.mask, batch.ids, pad_id) if pad_id else batch.ids,
    "attention_mask": lambda batch, pad_id: batch.mask,
    "token_type_ids": lambda batch, pad_id: batch.types,
    "position_ids": lambda batch, pad_id: batch.positions,
    FEATURES: lambda batch, pad_id: batch.features,
    PIXELS: lambda batch, pad_id: batch.features,
}
"""Name of an input → its values, from a batch and the padding id: int64[num_texts, width], or features."""

OUTPUTS = (
    *("logits", "text_embeds", "image_embeds"),
    *("last_hidden_state", "token_embeddings", "sentence_embedding"),
)
"""Outputs in order of preference, for models that have several; when none is present, the first output.

Vectors of tokens are preferred to vectors of texts: the graph defines the pooling, and an export with both
(sentence-transformers') would pool twice.  CLIP's models have a pooling of their own.
"""


def check_inputs(path: Path, names: Collection[str]) -> None:
    """Raise `ModelError` unless `names` are the inputs of an encoder."""
    if any(name == "beam_idx" or name.startswith(("past_key_values", "cache_")) for name in names):
        raise ModelError(f"{path} is a decoder with a cache. {TASK_ADVICE}")
    unknown = sorted(set(names) - set(INPUTS))
    if unknown:
        raise ModelError(f"{path} needs inputs that an encoder does not have: {', '.join(unknown)}.")
    if (array := reads_arrays(names)) and len(names) > 1:
        others = ", ".join(sorted(set(names) - {array}))
        raise ModelError(f"{path} needs {array} beside {others}; an encoder that Braid runs has it alone.")
    if array is None and "input_ids" not in names:
        raise ModelError(f"{path} has no input_ids.")


def reads_arrays(names: Collection[str]) -> str | None:
    """The input for windows of sound, or for images, among `names`; None for an encoder of ids."""
    return next((name for name in names if name in ARRAYS), None)


def choose_output(names: Sequence[Collection[str]]) -> int:
    """Index of the output to read; each output may have several names."""
    known = [[name for name in OUTPUTS if name in own] for own in names]
    ranks = [OUTPUTS.index(own[0]) if own else len(OUTPUTS) for own in known]
    return ranks.index(min(ranks))


def read_columns(path: Path, name: str, shape: Sequence[Any]) -> Columns:
    """The shape of a window of sound or of an image, from that of the input `name`.

    Free axes are no integers; of images they are as config.json says.  Raises `ModelError`.
    """
    if name == PIXELS:
        side = read_image_size(path.parent)
        if len(shape) != 4 or any(isinstance(own, int) and own != side for own in shape[2:]):
            raise ModelError(f"{path}: its input {PIXELS} is {list(shape)}, not [images, 3, {side}, {side}].")
        return 3, side, side
    if len(shape) != 3 or not all(isinstance(length, int) for length in shape[1:]):
        raise ModelError(f"{path}: its input {FEATURES} is {list(shape)}, not [windows, size, columns].")
    return shape[1], shape[2]


def probe_features(columns: Columns) -> TokenBatch:
    """One window of silence, or one black image, for probing an encoder of them."""
    return replace(blank_batch(1, 1), features=np.zeros((1, *columns), np.float32))


class FeaturesShape(NamedTuple):
    """The output of an encoder of sound or of images: a vector of `size` for each of `max_tokens` frames or
    rows, or one for the whole of an image, which counts as many tokens as it has patches.
    """

    per_token: bool
    max_tokens: int
    size: int


def features_shape(path: Path, values: NDArray[Any]) -> FeaturesShape:
    """The shape of features, from the output for one window or image.  Raises `ModelError`."""
    if len(values) != 1 or values.ndim not in (2, 3):
        raise ModelError(f"{path} gives {list(values.shape)} for one input: no vectors of it or its parts.")
    if values.ndim == 3:
        _, max_tokens, size = values.shape
        return FeaturesShape(per_token=True, max_tokens=max_tokens, size=size)
    return FeaturesShape(per_token=False, max_tokens=read_patches(path.parent) ** 2, size=values.shape[1])


def output_shape(path: Path, values: NDArray[Any]) -> tuple[bool, int]:
    """(whether the output has a vector for each token, its length), from the output for `PROBE_BATCH`.

    Raises `ModelError`.
    """
    if values.shape[:-1] not in (PROBE_BATCH.lengths.shape, PROBE_BATCH.ids.shape):
        raise ModelError(
            f"{path} gives {list(values.shape)} for two tokens: no vectors of tokens or texts. {TASK_ADVICE}"
        )
    return values.ndim == 3, values.shape[-1]


def input_arrays(batch: TokenBatch, types: Mapping[str, Any], pad_id: int) -> dict[str, NDArray[Any]]:
    """The inputs named in `types`, each in its type: [num_texts, width], or features; C-contiguous.

    They are writable as well: OpenVINO requires it of arrays that it reads in place.
    """
    return {name: _in_place(INPUTS[name](batch, pad_id), dtype) for name, dtype in types.items()}


def _in_place(array: NDArray[Any] | None, dtype: Any) -> NDArray[Any]:
    """The array itself where it can be read in place; numpy takes longer to find that out."""
    if array is not None and array.dtype == dtype and array.flags.carray:
        return array
    return np.require(array, dtype, ["C", "W"])


def blank_batch(num_texts: int, width: int) -> TokenBatch:
    """A batch of token 0, for probing and for warm-up."""
    nothing = np.zeros((num_texts, width), np.int64)
    return TokenBatch(nothing, np.full(num_texts, width), nothing, np.ones(num_texts, np.bool_))


PROBE_BATCH = blank_batch(1, 2)
"""One text of two tokens; the output for it shows the shape of a model's output."""


def padded_to_width(batch: TokenBatch, width: int) -> TokenBatch:
    """Pads the texts to `width` columns; gives the batch itself when it is that wide."""
    num_texts, had = batch.ids.shape
    if width <= had:
        return batch
    ids, types = np.zeros((2, num_texts, width), np.int64)
    ids[:, :had], types[:, :had] = batch.ids, batch.types
    others = batch.features, batch.grids, batch.images, batch.adapters
    return TokenBatch(ids, batch.lengths, types, batch.activate, *others)
