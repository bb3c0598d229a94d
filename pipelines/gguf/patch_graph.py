"""Writes a vision model that reads images of any shapes, as that of Qwen-VL, whose patches come by tokens."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from pipelines.gguf.linear_layers import F32, LinearLayers
from pipelines.gguf.tensor_types import Floats
from pipelines.gguf.vision_facts import TABLE, VisionFacts
from pipelines.gguf.vision_tower import EMBEDDING, EMBEDDING_BIAS, Seen, VisionTower
from pipelines.onnx_format.onnx_writer import OnnxWriter
from pipelines.onnx_format.patch_inputs import (
    CORNERS,
    ORDER,
    PATCHES,
    ROTATIONS,
    ROWS,
    SEEN,
    SHARES,
    SPREAD,
    TOKEN_ROWS,
    WINDOWS,
)

ROW_END, END = "v.token_embd.img_break", "[IMG_END]"
"""The tensor and the token at the end of each row of tokens, and at the end of an image."""
STD_BIAS, STD_SCALE = "v.std_bias", "v.std_scale"
TORCH_EPSILON = 1e-5
"""Keeps the norms of LFM2's projector and of a model without layers from dividing by 0."""
INPUT_NORM, MERGER = "mm.input_norm", "mm.patch_merger"
INT64 = ir.DataType.INT64
EmbeddingOf = Callable[[str], Floats]
"""The embedding of a token of the decoder, float32[width].  Raises `GgufError`."""


class PatchGraph:
    """The inputs are those of `patch_inputs`; the output has a row for each token, and behind it what is
    added after the first layers of the decoder.
    """

    def __init__(
        self, facts: VisionFacts, linears: LinearLayers, writer: OnnxWriter, embedding_of: EmbeddingOf
    ) -> None:
        self._facts, self._linears, self._writer, self._op = facts, linears, writer, writer.op
        self._embedding_of = embedding_of
        self._tower = VisionTower(facts, linears, writer)
        self._inputs: list[ir.Value] = []
        self._deep: list[ir.Value] = []
        self._masks: dict[str, ir.Value] = {}

    def write(self) -> None:
        facts, op = self._facts, self._op
        state = self._embedded()
        if facts.windowed_every:
            self._order = self._input(ORDER, INT64, "tokens")
            state = self._reordered(state)
        self._angles = self._turned() if facts.kind.base else None
        state = self._tower.layers(op("Unsqueeze", state, self._writer.ints(0)), self._seen, self._after)
        rows = self._projected(op("Squeeze", state, self._writer.ints(0)))
        if facts.windowed_every:
            rows = op("ScatterND", rows, op("Unsqueeze", self._order, self._writer.ints(1)), rows)
        if facts.kind.ends_rows:
            places = self._input(TOKEN_ROWS, INT64, "tokens")
            rows = op("Gather", op("Concat", rows, self._ends(), axis=0), places)
        output = op("Concat", rows, *self._deep, axis=-1) if self._deep else op("Identity", rows)
        output.name, output.dtype = ROWS, F32
        output.shape = ir.Shape(["tokens", facts.size * (1 + len(self._deep))])
        self._writer.save(self._inputs, [output], facts.name)

    @property
    def num_deep(self) -> int:
        return len(self._deep)

    def _input(self, name: str, dtype: ir.DataType, *shape: int | str) -> ir.Value:
        self._inputs.append(ir.val(name, dtype, list(shape)))
        return self._inputs[-1]

    def _turned(self) -> tuple[ir.Value, ir.Value]:
        """Cosines and sines of the angles of patches."""
        facts, op = self._facts, self._op
        angles = self._input(ROTATIONS, F32, "patches", facts.width // facts.heads // 2)
        if facts.windowed_every:
            angles = self._reordered(angles)
        row = op("Unsqueeze", angles, self._writer.ints(0))
        return op("Cos", row), op("Sin", row)

    def _embedded(self) -> ir.Value:
        """[patches, width] of patches, each with as many numbers as it has colours of the images in it."""
        facts, op = self._facts, self._op
        colours = facts.width, 3, facts.patch, facts.patch
        names = (EMBEDDING, f"{EMBEDDING}.1") if facts.kind.has_axes else (EMBEDDING,)
        frames = [self._tower.floats(name, *colours) for name in names]
        weight = np.stack(frames, axis=2).reshape(facts.width, -1)
        patches = self._input(PATCHES, F32, "patches", weight.shape[1])
        if facts.kind.is_centred:
            patches = op("Mul", op("Sub", patches, self._writer.number(0.5)), self._writer.number(2.0))
        if not facts.kind.has_layers:
            patches = self._patch_norm(1, patches, weight.shape[1])
        state = op("MatMul", patches, self._writer.store(EMBEDDING, np.ascontiguousarray(weight.T)))
        state = self._tower.biased(state, EMBEDDING_BIAS)
        if not facts.kind.has_layers:
            placed = op("Add", self._patch_norm(2, state, facts.width), self._positions())
            return self._patch_norm(3, placed, facts.width)
        return op("Add", state, self._positions()) if self._linears.has(TABLE) else state

    def _patch_norm(self, number: int, state: ir.Value, width: int) -> ir.Value:
        """One of the norms around the patches of a model without layers."""
        return self._tower.layer_norm(state, f"v.patch_norm.{number}", width, TORCH_EPSILON)

    def _positions(self) -> ir.Value:
        """[patches, width]: what each patch has of the table (`Table`)."""
        facts, op, kind = self._facts, self._op, self._facts.kind.table
        rows = 2 * facts.axis_rows if kind == "by axis" else facts.along**2
        table = self._writer.store(TABLE, self._tower.floats(TABLE, rows, facts.width))
        if kind == "resized":
            return op("MatMul", self._input(SPREAD, F32, "patches", rows), table)
        if kind == "by axis":
            corners = self._input(CORNERS, INT64, 2, "patches")
            return op("ReduceSum", op("Gather", table, corners), self._writer.ints(0), keepdims=0)
        corners, shares = self._input(CORNERS, INT64, 4, "patches"), self._input(SHARES, F32, 4, "patches")
        shared = op("Mul", op("Gather", table, corners), op("Unsqueeze", shares, self._writer.ints(2)))
        return op("ReduceSum", shared, self._writer.ints(0), keepdims=0)

    def _reordered(self, of_patches: ir.Value) -> ir.Value:
        """The rows of patches, window by window."""
        op, ints = self._op, self._writer.ints
        by_token = op("Reshape", of_patches, op("Concat", ints(-1), self._per_token(of_patches), axis=0))
        moved = op("Gather", by_token, self._order)
        return op("Reshape", moved, op("Shape", of_patches))

    def _per_token(self, of_patches: ir.Value) -> ir.Value:
        """int64[1]: the numbers of a token's patches."""
        return self._op(
            "Mul", self._op("Shape", of_patches, start=1), self._writer.ints(self._facts.merge**2)
        )

    def _seen(self, layer: int) -> Seen:
        every = self._facts.windowed_every
        is_windowed = bool(every) and (layer + 1) % every != 0
        return Seen(self._angles, self._mask(WINDOWS if is_windowed else SEEN))

    def _mask(self, name: str) -> ir.Value:
        if name not in self._masks:
            mask = self._input(name, F32, 1, "patches", "patches")
            self._masks[name] = self._op("Unsqueeze", mask, self._writer.ints(0))
        return self._masks[name]

    def _after(self, layer: int, state: ir.Value) -> None:
        at = f"v.deepstack.{layer}."
        if not self._linears.has(f"{at}fc1.weight"):
            return
        wide = self._facts.width * self._facts.merge**2
        flat = self._op("Reshape", state, self._writer.ints(-1, wide))
        normed = self._tower.norm(flat, f"{at}norm", wide)
        self._deep.append(self._tower.projected(normed, f"{at}fc1", f"{at}fc2", wide))

    def _ends(self) -> ir.Value:
        """[2, size]: what ends a row of an image, and an image."""
        rows = [self._tower.floats(ROW_END, self._facts.size), self._embedding_of(END)]
        return self._writer.store("ends", np.stack(rows))

    def _merged(self, state: ir.Value) -> ir.Value:
        """[tokens, width]: the patches of a token in a norm and a linear layer, where the file has them."""
        facts, op, ints = self._facts, self._op, self._writer.ints
        state = self._tower.norm_where_given(state, INPUT_NORM)
        if not self._linears.has(f"{MERGER}.weight"):
            return state
        squares = op("Reshape", state, ints(-1, facts.merge**2, facts.width))
        wide = facts.width * facts.merge**2
        flat = op("Reshape", op("Transpose", squares, perm=[0, 2, 1]), ints(-1, wide))
        return self._linears.linear(flat, MERGER, facts.width, wide)

    def _projected(self, state: ir.Value) -> ir.Value:
        if self._facts.kind.family == "gemma4":
            return self._pooled(state)
        if self._facts.kind.ends_rows:
            return self._tower.projected(self._merged(state), "mm.1", "mm.2", self._facts.width)
        wide = self._facts.width * self._facts.merge**2
        squares = self._op("Reshape", state, self._writer.ints(-1, wide))
        if self._facts.name != "lfm2":
            return self._tower.projected(squares, "mm.0", "mm.2", wide)
        if self._linears.has(f"{INPUT_NORM}.weight"):
            squares = self._tower.layer_norm(squares, INPUT_NORM, wide, TORCH_EPSILON)
        return self._tower.projected(squares, "mm.1", "mm.2", wide)

    def _pooled(self, state: ir.Value) -> ir.Value:
        """Gemma 4: the mean of the patches of a token, in a norm without a weight and a linear layer."""
        facts, op, number = self._facts, self._op, self._writer.number
        squares = op("Reshape", state, self._writer.ints(-1, facts.merge**2, facts.width))
        means = op("ReduceMean", squares, self._writer.ints(1), keepdims=0)
        rows = op("Mul", means, number(math.sqrt(facts.width))) if facts.kind.has_layers else means
        if self._linears.has(STD_BIAS):
            rows = op("Sub", rows, self._tower.vector(STD_BIAS, facts.width))
            rows = op("Mul", rows, self._tower.vector(STD_SCALE, facts.width))
        normed = self._tower.plain_norm(rows, facts.width)
        return self._tower.linear(normed, "mm.input_projection", facts.size, facts.width)
