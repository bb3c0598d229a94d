"""Writes a vision model that reads images of one size, and what makes embeddings of the states of patches."""

from __future__ import annotations

import onnx_ir as ir

from pipelines.gguf.linear_layers import F32, LinearLayers
from pipelines.gguf.vision_facts import TABLE, VisionFacts
from pipelines.gguf.vision_tower import EMBEDDING, EMBEDDING_BIAS, Seen, VisionTower
from pipelines.onnx_format.onnx_writer import OnnxWriter
from pipelines.onnx_format.patch_inputs import PIXELS, ROWS

CLASS = "v.class_embd"
SOFT_NORM, SOFT_PROJECTION = "mm.soft_emb_norm.weight", "mm.input_projection.weight"
EPSILON = 1e-5
"""Keeps the norm of a projector from dividing by 0, as in torch."""


class PixelGraph:
    """The input is pixel_values float32[images, 3, side, side], the output float32[images, tokens, size]."""

    num_deep = 0

    def __init__(self, facts: VisionFacts, linears: LinearLayers, writer: OnnxWriter) -> None:
        self._facts, self._linears, self._writer, self._op = facts, linears, writer, writer.op
        self._tower = VisionTower(facts, linears, writer)

    def write(self) -> None:
        facts = self._facts
        pixels = ir.val(PIXELS, F32, ["images", 3, facts.side, facts.side])
        state = self._tower.layers(self._embedded(pixels), lambda _: Seen())
        if self._linears.has(CLASS):
            _, state = self._writer.ops("Split", state, self._writer.ints(1, facts.along**2), count=2, axis=1)
        projected = {
            "gemma3": self._pooled,
            "idefics3": self._shuffled,
            "internvl": self._normed,
            "mlp": self._by_patch,
        }
        output = projected[facts.name](state)
        output.name, output.dtype = ROWS, F32
        output.shape = ir.Shape(["images", facts.tokens, facts.size])
        self._writer.save([pixels], [output], facts.name)

    def _embedded(self, pixels: ir.Value) -> ir.Value:
        """[images, patches, width], with a row before them where the file has one."""
        facts, op, ints = self._facts, self._op, self._writer.ints
        kernel = self._tower.floats(EMBEDDING, facts.width, 3, facts.patch, facts.patch)
        size = [facts.patch, facts.patch]
        places = op("Conv", pixels, self._writer.store(EMBEDDING, kernel), kernel_shape=size, strides=size)
        flat = op("Reshape", places, ints(0, facts.width, -1))
        state = self._tower.biased(op("Transpose", flat, perm=[0, 2, 1]), EMBEDDING_BIAS)
        rows = facts.along**2
        if self._linears.has(CLASS):
            rows += 1
            own = self._writer.store(CLASS, self._tower.floats(CLASS, 1, 1, facts.width))
            shape = op("Concat", op("Shape", pixels, end=1), ints(1, facts.width), axis=0)
            state = op("Concat", op("Expand", own, shape), state, axis=1)
        table = self._writer.store(TABLE, self._tower.floats(TABLE, 1, rows, facts.width))
        return op("Add", state, table)

    def _pooled(self, state: ir.Value) -> ir.Value:
        """Gemma 3: the mean of each square of patches, in a norm and a linear layer."""
        facts, op, ints = self._facts, self._op, self._writer.ints
        columns = op("Transpose", state, perm=[0, 2, 1])
        square = op("Reshape", columns, ints(0, facts.width, facts.along, facts.along))
        size = [facts.merge, facts.merge]
        means = op("AveragePool", square, kernel_shape=size, strides=size)
        rows = op("Transpose", op("Reshape", means, ints(0, facts.width, -1)), perm=[0, 2, 1])
        weight = self._tower.vector(SOFT_NORM, facts.width)
        normed = op("RMSNormalization", rows, weight, axis=-1, epsilon=facts.epsilon)
        projection = self._tower.floats(SOFT_PROJECTION, facts.width, facts.size)
        return op("MatMul", normed, self._writer.store(SOFT_PROJECTION, projection))

    def _shuffled(self, state: ir.Value) -> ir.Value:
        """Idefics 3: the patches of each square side by side, in a linear layer."""
        return self._linears.linear(self._squares(state), "mm.model.fc", self._facts.size, self._wide)

    def _normed(self, state: ir.Value) -> ir.Value:
        """InternVL: the patches of each square side by side, in a norm and two linear layers."""
        at = "mm.model.mlp."
        read = self._tower.layer_norm(self._squares(state), f"{at}0", self._wide, EPSILON)
        return self._tower.projected(read, f"{at}1", f"{at}3", self._wide)

    def _by_patch(self, state: ir.Value) -> ir.Value:
        """LLaVA: each patch of CLIP in two linear layers.  Raises `GgufError` where the row before patches is
        missing, by which CLIP differs from encoders that scale pixels otherwise.
        """
        facts = self._facts
        self._linears.tensor(CLASS, rows=1, width=facts.width)
        return self._tower.projected(state, "mm.0", "mm.2", facts.width)

    @property
    def _wide(self) -> int:
        return self._facts.width * self._facts.merge**2

    def _squares(self, state: ir.Value) -> ir.Value:
        """[images, tokens, numbers of all patches of a token]."""
        facts, op = self._facts, self._op
        along, merge = facts.along // facts.merge, facts.merge
        shape = self._writer.ints(0, along, merge, along, merge * facts.width)
        by_row = op("Transpose", op("Reshape", state, shape), perm=[0, 1, 3, 2, 4])
        return op("Reshape", by_row, self._writer.ints(0, facts.tokens, self._wide))
