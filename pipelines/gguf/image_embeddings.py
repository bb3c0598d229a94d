"""A decoder's inputs for images: rows in the place of embeddings, and positions on several axes."""

from __future__ import annotations

import onnx_ir as ir

from pipelines.gguf.decoder_facts import DecoderFacts
from pipelines.gguf.linear_layers import F32
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.rotary import NUM_AXES, SECTIONS, read_axes
from pipelines.gguf.vision_inputs import Layers, VisionInputs
from pipelines.onnx_format.decoder_format import GIVEN_EMBEDDINGS, GIVEN_PLACES, GIVEN_POSITIONS, TOKEN_KINDS
from pipelines.onnx_format.onnx_writer import OnnxWriter

GIVEN = "num_given"
PADDING = "tokenizer.ggml.padding_token_id"


class ImageEmbeddings:
    """Writes what a decoder does with embeddings of images; nothing without `vision_inputs`."""

    def __init__(
        self, facts: DecoderFacts, metadata: Metadata, vision_inputs: VisionInputs | None, writer: OnnxWriter
    ) -> None:
        self._facts, self._vision_inputs, self._writer, self._op = facts, vision_inputs, writer, writer.op
        self.inputs: list[ir.Value] = []
        self.whole_images: Layers = vision_inputs.layers_of(facts.layer_size) if vision_inputs else ""
        metadata.array(f"{facts.name}.{SECTIONS}")  # text has the same position on each axis
        if vision_inputs is None:
            return
        self._axis_of = read_axes(metadata, facts)
        self._padding = int(metadata.number(PADDING, 0))
        int64 = ir.DataType.INT64
        self._rows = ir.val(GIVEN_EMBEDDINGS, F32, [GIVEN, facts.width * (1 + vision_inputs.deep)])
        self._places = ir.val(GIVEN_PLACES, int64, [GIVEN])
        self.inputs += [self._rows, self._places]
        if self._axis_of is not None:
            self._positions = ir.val(GIVEN_POSITIONS, int64, [NUM_AXES, GIVEN])
            self.inputs.append(self._positions)
        if self.whole_images:
            self.inputs.append(ir.val(TOKEN_KINDS, ir.DataType.INT32, ["num_kinds"]))
        self._at = self._op("Unsqueeze", self._places, writer.ints(1))
        widths = [facts.width] * (1 + vision_inputs.deep)
        self._parts = writer.split(self._rows, *widths) if vision_inputs.deep else [self._rows]

    def words(self, ids: ir.Value) -> ir.Value:
        """The ids [1, tokens] with that of padding in the places of images, for tables that have none."""
        if self._vision_inputs is None:
            return ids
        op, ints = self._op, self._writer.ints
        padding = op("Expand", ints(self._padding), op("Shape", self._places))
        written = op("ScatterND", op("Reshape", ids, ints(-1)), self._at, padding)
        return op("Reshape", written, ints(1, -1))

    def place(self, state: ir.Value) -> ir.Value:
        """The embeddings [1, tokens, width] with the rows in the place of those of images."""
        return state if self._vision_inputs is None else self._written(state, self._parts[0], "none")

    def add(self, layer: int, state: ir.Value) -> ir.Value:
        """The state [1, tokens, width] after a layer, with what is added to that of images."""
        if self._vision_inputs is None or layer >= self._vision_inputs.deep:
            return state
        return self._written(state, self._parts[1 + layer], "add")

    def columns(self, positions: ir.Value) -> ir.Value:
        """float32[1, tokens, pairs] or [1, tokens, 1]: the position by which each pair of a head's numbers is
        turned, of int64[1, tokens].
        """
        op, ints = self._op, self._writer.ints
        if self._vision_inputs is None or self._axis_of is None:
            return op("Cast", op("Unsqueeze", positions, ints(2)), to=F32)
        spread = op("Tile", op("Reshape", positions, ints(-1, 1)), ints(1, NUM_AXES))
        own = op("Transpose", self._positions, perm=[1, 0])
        by_axis = op("Cast", op("ScatterND", spread, self._at, own), to=F32)
        axis_of = self._writer.store("rope.axes", self._axis_of)
        return op("Unsqueeze", op("Gather", by_axis, axis_of, axis=1), ints(0))

    def _written(self, state: ir.Value, rows: ir.Value, reduction: str) -> ir.Value:
        op, width = self._op, self._facts.width
        flat = op("Reshape", state, self._writer.ints(-1, width))
        written = op("ScatterND", flat, self._at, rows, reduction=reduction)
        whole = op("Reshape", written, self._writer.ints(1, -1, width))
        whole.dtype, whole.shape = F32, ir.Shape([1, "num_tokens", width])
        return whole
