"""Converts a stateful OpenVINO decoder to the same decoder over a paged cache.

This is the only file that calls OpenVINO's private transformation; the result is tested by
tests/pipelines/inference/backends/openvino/paging/test_paged_attention.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import openvino as ov

from pipelines.inference.backends.model_config import read_config, read_max_context
from pipelines.inference.backends.openvino.model.mapped_files import MappedFile
from pipelines.inference.backends.openvino.paging.attention_masks import read_attention_masks
from pipelines.inference.backends.openvino.paging.carried_attention import (
    carry_over,
    check_declared,
    check_paged,
    count_sinks,
)
from pipelines.inference.backends.openvino.paging.deepstack import DEEP, MASK
from pipelines.inference.backends.openvino.paging.positions import give_positions
from pipelines.inference.backends.openvino.paging.token_kinds import connect_kinds
from pipelines.inference.contracts.device_errors import EXPORT_ADVICE, ModelError
from pipelines.onnx_format.decoder_format import TOKEN_KINDS

EMBEDDINGS = "inputs_embeds"
"""What the decoder of a vision model reads, float32[tokens, size], instead of `input_ids`."""

STEP_INPUTS = frozenset(
    {
        "input_ids",
        EMBEDDINGS,
        TOKEN_KINDS,
        *(DEEP, MASK),
        "position_ids",
        "past_lens",
        "subsequence_begins",
        "block_indices",
        "block_indices_begins",
        "max_context_len",
    }
)
"""Inputs of a paged decoder that describe a step; a model without positions lacks `position_ids`, and only
one whose tokens of an image attend to one another has TOKEN_KINDS; DEEP and MASK are those of deepstack.
"""

STATE_STEP_INPUTS = frozenset(
    {"la.block_indices", "la.block_indices_begins", "la.past_lens", "la.cache_interval"}
)
"""Further ones of a decoder with recurrent states, int32, rank 1: which rows of the state tables a step reads
and writes.
"""

CACHE_INPUT = re.compile(r"(key|value)_cache\.(\d+)")
"""Inputs of a paged decoder for its cache, two for each layer of attention."""

ENCODER_INPUT = "encoder_hidden_states"
"""Input of the decoders of encoder-decoder models, as optimum exports them."""

STATE_INPUT = re.compile(r"\w+_state_table\.(\d+)")
"""Inputs of a paged decoder for its recurrent states, one or two for each such layer, [rows, ...]."""


def read_paged(path: Path, weights: MappedFile | None = None) -> ov.Model:
    """Read `path` and page its attention; `weights` is its mapped .bin, None to let OpenVINO map it.

    The model gains the inputs STEP_INPUTS (int64 ids and positions, int32 otherwise; all of rank 1 but the
    scalar `max_context_len`) and loses `attention_mask`, `beam_idx` and its state; tokens are the first axis
    of every activation.  Recurrent states (short convolutions, gated delta nets, Mamba 2) become tables, with
    STATE_STEP_INPUTS.  Raises `ModelError`.
    """
    model = read_model(path, weights)
    if not model.get_variables():
        raise ModelError(f"{path} has no state, so its attention cannot be paged. {EXPORT_ADVICE}")
    if any(ENCODER_INPUT in port.get_names() for port in model.inputs):
        raise ModelError(
            f"{path} attends to an encoder ({ENCODER_INPUT}), and OpenVINO pages a part of its attention "
            "only. Convert the checkpoint it was made from with braid export HF_FOLDER --name NAME."
        )
    config = path.parent / "config.json"
    fields, max_context = read_config(config), read_max_context(config)
    try:
        check_declared(fields)
        masks = read_attention_masks(model, max_context)
        num_sinks = count_sinks(model)
        _page(model)
        connect_kinds(model)
        _name_step_inputs(model)
        give_positions(model)
        carry_over(model, masks, fields)
        check_paged(model, num_sinks)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    unknown = sorted(_names(model) - STEP_INPUTS - STATE_STEP_INPUTS)
    if unknown:
        raise ModelError(f"{path} needs inputs that a text decoder does not have: {', '.join(unknown)}.")
    return model


def weights_beside(path: Path) -> MappedFile | None:
    """The weights of an openvino_model.xml; None when they are absent, which OpenVINO reports itself."""
    weights = path.with_suffix(".bin")
    return MappedFile(weights) if weights.is_file() and weights.stat().st_size else None


def read_model(path: Path, weights: MappedFile | None) -> ov.Model:
    """The model of an .xml, whose weights are read in place.  Raises `ModelError`."""
    if not path.exists():
        raise ModelError(f"{path} does not exist.")
    try:
        if weights is None:
            return ov.Core().read_model(path)
        return ov.Core().read_model(path.read_text(), ov.Tensor(weights.bytes, shared_memory=True))
    except RuntimeError as error:
        raise ModelError(f"OpenVINO cannot read {path}: {last_line(error)}") from error


def _page(model: ov.Model) -> None:
    try:
        from openvino._offline_transformations import paged_attention_transformation
    except ImportError as error:
        raise ModelError(
            f"OpenVINO {ov.__version__} has no paged attention transformation; Braid needs 2026.4.1."
        ) from error
    try:
        paged_attention_transformation(model)
    except RuntimeError as error:
        raise ModelError(f"OpenVINO cannot page its attention: {last_line(error)} {EXPORT_ADVICE}") from error


def _name_step_inputs(model: ov.Model) -> None:
    """Name inputs of a step as their nodes: those that the transformation adds may be called "103"."""
    for parameter in model.get_parameters():
        if parameter.get_friendly_name() in STEP_INPUTS:
            parameter.output(0).set_names({parameter.get_friendly_name()})


def _names(model: ov.Model) -> set[str]:
    """Names of the inputs other than those for the cache and the states."""
    names = {port.any_name for port in model.inputs}
    return {name for name in names if not (CACHE_INPUT.fullmatch(name) or STATE_INPUT.fullmatch(name))}


def last_line(error: Exception) -> str:
    """The message of an OpenVINO exception, without the source files before it."""
    return [line for line in str(error).splitlines() if line.strip()][-1].strip()
