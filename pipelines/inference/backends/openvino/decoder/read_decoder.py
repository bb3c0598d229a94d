"""Reads a decoder's files and makes of them the paged model that a session compiles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import openvino as ov

from pipelines.adapters.weights import LinearShape
from pipelines.inference.backends.adapter_inputs import check_linears
from pipelines.inference.backends.declared_attention import exact_context
from pipelines.inference.backends.model_config import read_config, read_max_context
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.decoder.embedded_tokens import Embedded, embed_tokens
from pipelines.inference.backends.openvino.decoder.expert_layers import ExpertLayers
from pipelines.inference.backends.openvino.model.activation_groups import check_group
from pipelines.inference.backends.openvino.model.block_linears import (
    BlockLinears,
    ComputedRecurrences,
    use_block_linears,
)
from pipelines.inference.backends.openvino.model.inference_type import has_int8_sums
from pipelines.inference.backends.openvino.model.lm_head import (
    compute_logits_in_float32,
    gather_logits,
    leave_out_head,
    nodes_for_logits,
)
from pipelines.inference.backends.openvino.model.lora_linears import add_lora, narrow_adapters
from pipelines.inference.backends.openvino.model.mapped_files import MappedFile
from pipelines.inference.backends.openvino.model.operator_library import LinearKernels
from pipelines.inference.backends.openvino.paging.paged_attention import (
    STATE_INPUT,
    read_paged,
    weights_beside,
)
from pipelines.inference.backends.openvino.paging.sparse_prefill import check_retained
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.routed_experts import RoutedShape

if TYPE_CHECKING:
    from pipelines.inference.backends.openvino.paging.cross_attention_cache import CrossAttentionModel

NO_LINEARS: Mapping[str, LinearShape] = MappingProxyType({})


class ReadDecoder(NamedTuple):
    """The paged model with gathered logit rows, its longest context in tokens, and the files that it reads.

    `encoder_hidden_size`, `max_frames`: of the frames that it attends to; `embedded`: how it reads images;
    `frames`:
    what it computes of frames; `linears`: which linear layers adapters may change, `adapter_dtype`: the type
    of their inputs; `block_linears`: which of them Braid's own kernels compute; `experts`: what computes its
    layers of routed experts, `recurrent`: its recurrent layers; `routed`: the numbers of experts, where a
    second output has those that tokens choose.
    """

    model: ov.Model
    max_context: int
    files: list[MappedFile]
    encoder_hidden_size: int = 0
    max_frames: int = 0
    embedded: Embedded = Embedded()
    frames: CrossAttentionModel | None = None
    linears: Mapping[str, LinearShape] = NO_LINEARS
    adapter_dtype: np.dtype[Any] = np.dtype(np.float32)
    block_linears: BlockLinears = BlockLinears()
    experts: ExpertLayers = ExpertLayers()
    recurrent: ComputedRecurrences = ComputedRecurrences()
    routed: RoutedShape | None = None

    def facts(self, path: Path, compiled: ov.CompiledModel) -> dict[str, str]:
        """What computes its linear layers, experts and recurrent layers, for logs and the status page."""
        linears = self.block_linears
        experts = self.experts.facts(path, compiled, linears.kernels)
        return {"linear_layers": linears.title, **experts, **self.recurrent.facts()}


def read_decoder(path: Path, settings: OpenVINOSettings) -> ReadDecoder:
    """Read a decoder for a session with these settings.  Raises `ModelError`."""
    targets = settings.targets
    if settings.routed_experts and path.suffix != ".onnx":
        raise ModelError(
            "routed_experts: choices of experts are recorded of GGUF files and of model.onnx, not of "
            f"{path.name}; remove the line, or export the model with braid export."
        )
    rounds = settings.precision != "f32" and settings.activation_group != 0
    if path.suffix == ".onnx":
        read = _of_onnx(path, settings, rounds and settings.kernels is None and has_int8_sums())
    else:
        read = _of_openvino(path, settings)
    if targets is not None:
        check_linears(path, read.linears, read.encoder_hidden_size)
    if settings.retained is not None:
        check_retained(read.model, settings.retained)
    if any(STATE_INPUT.fullmatch(port.any_name) for port in read.model.inputs):
        read = read._replace(recurrent=_computed_recurrences(read.model, settings))
    if settings.kernels is not None:
        block_linears = use_block_linears(
            read.model, settings.kernels, nodes_for_logits(read.model), read.files
        )
        read = read._replace(block_linears=block_linears)
    if settings.activation_group:
        check_group(read.model, settings.activation_group, read.block_linears.count)
    compute_logits_in_float32(read.model, rounds)
    return read._replace(adapter_dtype=narrow_adapters(read.model, settings.precision))


def _computed_recurrences(model: ov.Model, settings: OpenVINOSettings) -> ComputedRecurrences:
    from pipelines.inference.backends.openvino.model.recurrent_kernels import use_recurrent_kernels

    library = None if settings.kernels is None else settings.kernels.library
    return use_recurrent_kernels(model, library)


def _of_onnx(path: Path, settings: OpenVINOSettings, int8_sums: bool) -> ReadDecoder:
    from pipelines.inference.backends.openvino.decoder.from_onnx import read_onnx

    least_rows = 2 if settings.precision == "f32" else 1  # one row is summed in another order
    gives_routed = settings.routed_experts is not None
    read = read_onnx(path, settings.targets, int8_sums, settings.kernels, least_rows, gives_routed)
    return ReadDecoder(
        model=read.model,
        max_context=read.max_context,
        files=list(read.weights.files.values()),
        encoder_hidden_size=read.encoder_hidden_size,
        max_frames=read.max_frames,
        frames=read.frames,
        embedded=Embedded(*read.images),
        linears=read.linears,
        experts=read.experts,
        routed=read.routed,
    )


def _of_openvino(path: Path, settings: OpenVINOSettings) -> ReadDecoder:
    targets, headless = settings.targets, settings.headless
    weights = weights_beside(path)
    model = read_paged(path, weights)
    gather_logits(model)
    linears = {} if targets is None else add_lora(model, targets)
    if headless:
        leave_out_head(model)
    embedded = embed_tokens(model, path.parent)
    if targets is not None and not headless:
        from pipelines.inference.backends.openvino.decoder.lora_embeddings import add_lora_embeddings

        linears |= add_lora_embeddings(model, targets)
    config = path.parent / "config.json"
    max_context = exact_context(read_config(config), read_max_context(config))
    files = [file for file in (weights, embedded.table) if file is not None]
    experts = _experts_of(model, settings.kernels)
    return ReadDecoder(model, max_context, files, embedded=embedded, linears=linears, experts=experts)


def _experts_of(model: ov.Model, kernels: LinearKernels | None) -> ExpertLayers:
    """What computes the experts of OpenVINO's own file: the kernels, where they have the form of a layer."""
    from pipelines.inference.backends.openvino.decoder.tiled_experts import count_tiled  # not for other forms

    num_tiled = count_tiled(model)
    if not num_tiled or kernels is None:
        return ExpertLayers(num_tiled=num_tiled)
    from pipelines.inference.backends.openvino.decoder.routed_tiles import (
        route_tiles,  # few models have tiles
    )

    by_kernels = route_tiles(model, kernels)
    return ExpertLayers(by_kernels=by_kernels, num_tiled=count_tiled(model))
