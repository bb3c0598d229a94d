"""Keys and values of an encoder's frames: computed once for each context, and written to its blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.arrays import inference_of
from pipelines.inference.backends.openvino.paging.kv_cache import OpenVINOCache, OpenVINOCacheLayout
from pipelines.onnx_format.decoder_format import CONTEXT_FRAMES

FRAMES = "frames."
"""Before the names of such inputs for cross-attention, where every token is a sequence of its own."""
LAST_FRAME = "last_frame"
"""Input of the decoder, float32[num_tokens, numbers]: keys and values of each token's last frame, of all
layers, in the order of the outputs of the model of frames.
"""
LAST_ROWS = "last_rows"
"""Input of the compiled model of frames, int64[num_blocks]: the row of the last frame in each block."""
HEADS_FIRST = [0, 2, 1, 3]


class CrossAttentionModel(NamedTuple):
    """The part of a decoder that computes with frames alone.

    `model`: context_frames float32[1, rows, frame_size] → for each input of the cache, by its name, the
    float32[rows, numbers] of its layer's keys or values.
    """

    model: ov.Model
    numbers: int
    """How many numbers the keys and values of one encoder position are, of all layers."""


def split_cross_attention(model: ov.Model, attentions: list[ov.Node]) -> CrossAttentionModel:
    """Take what is computed of frames out of a decoder, which gains LAST_FRAME instead of the frames.

    `attentions` are its nodes that has cross-attention.
    """
    frames = next(port for port in model.get_parameters() if port.output(0).any_name == CONTEXT_FRAMES)
    computed = [node.input_value(at) for node in attentions for at in (1, 2)]
    readers = [list(port.get_target_inputs()) for port in computed]
    caches = [node.input_value(at).any_name for node in attentions for at in (3, 4)]
    widths = [port.get_partial_shape()[1].get_length() for port in computed]
    last = ops.parameter([-1, sum(widths)], np.float32, LAST_FRAME)
    last.output(0).set_names({LAST_FRAME})
    parts = ops.variadic_split(last, ops.constant(1), ops.constant(widths))
    for inputs, part in zip(readers, parts.outputs(), strict=True):
        for port in inputs:
            port.replace_source_output(part)
    model.remove_parameter(frames)
    model.add_parameters([last])
    for port, name in zip(computed, caches, strict=True):
        port.set_names({name})
    return CrossAttentionModel(
        ov.Model([ops.result(port) for port in computed], [frames], "frames"), sum(widths)
    )


def as_blocks(model: ov.Model, layout: OpenVINOCacheLayout) -> ov.Model:
    """The model of frames, whose rows fill whole blocks, with outputs in the layout and type of the cache,
    and as the last output LAST_FRAME of each block.
    """
    rows = {result.get_output_tensor(0).any_name: result.input_value(0) for result in model.get_results()}
    blocks = []
    for name, values in rows.items():
        heads, tokens, size = layout.row_shapes[name]
        split = ops.reshape(values, ops.constant([-1, tokens, heads, size]), False)
        by_head = ops.transpose(split, ops.constant(HEADS_FIRST))
        blocks.append(ops.convert(by_head, layout.types[name].get_type_name()))
        values.set_names(set())
        blocks[-1].output(0).set_names({name})
    chosen = ops.parameter([-1], np.int64, LAST_ROWS)
    chosen.output(0).set_names({LAST_ROWS})
    last = ops.gather(ops.concat(list(rows.values()), 1), chosen, ops.constant(0))
    results = [ops.result(result) for result in (*blocks, last)]
    return ov.Model(results, [*model.get_parameters(), chosen], "frames")


class CrossAttentionCache:
    """The compiled model of frames; `layout` is that of the cache that it writes to, `numbers` those of
    `CrossAttentionModel`.
    """

    def __init__(
        self, compiled: ov.CompiledModel, layout: OpenVINOCacheLayout, encoder_hidden_size: int, numbers: int
    ) -> None:
        self._request = compiled.create_infer_request()
        self._infer_request = inference_of(compiled)
        self._names = [port.any_name for port in compiled.outputs[:-1]]
        self.block_tokens, self.numbers = layout.block_tokens, numbers
        self._encoder_hidden_size = encoder_hidden_size
        self._compute(
            np.zeros((1, encoder_hidden_size), np.float32), np.zeros(1, np.int32)
        )  # weights are repacked

    def write(
        self, frames: NDArray[np.float32], slots: NDArray[np.int32], memory: OpenVINOCache
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Write keys and values of `frames` to their slots, whole contexts one after another; no other frames
        are in their blocks.  Return the blocks, and keys and values of the last frame in each.
        """
        blocks = self._compute(frames, slots)
        for at, name in enumerate(self._names):
            values = self._request.get_output_tensor(at).data
            memory.bytes[name][blocks] = values.reshape(len(blocks), -1).view(np.uint8)
        last: NDArray[np.float32] = self._request.get_output_tensor(len(self._names)).data
        return blocks, last

    def _compute(self, frames: NDArray[np.float32], slots: NDArray[np.int32]) -> NDArray[np.int32]:
        """The blocks of the frames, in order, each of which is one block of the outputs."""
        blocks, offsets = slots // self.block_tokens, slots % self.block_tokens
        begins = np.flatnonzero(np.append(True, np.diff(blocks) != 0))
        ends = np.append(begins[1:], len(slots))
        number = np.repeat(np.arange(len(begins)), ends - begins)
        rows = np.zeros((1, len(begins) * self.block_tokens, self._encoder_hidden_size), np.float32)
        places = number * self.block_tokens + offsets
        rows[0, places] = frames
        inputs = {CONTEXT_FRAMES: rows, LAST_ROWS: places[ends - 1].astype(np.int64)}
        for name, array in inputs.items():
            self._request.set_tensor(name, ov.Tensor(array, shared_memory=True))
        self._infer_request(self._request)
        written: NDArray[np.int32] = blocks[begins]
        return written
