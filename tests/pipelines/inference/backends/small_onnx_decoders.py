"""Decoders in Braid's ONNX form written node by node: no trained weights, no exporter, any element type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
from mixtures import Mixture

from pipelines.inference.backends.onnx.decoder_model import DecoderModel
from pipelines.onnx_format import decoder_format
from pipelines.onnx_format.decoder_format import AttentionLayer
from pipelines.onnx_format.experts_format import EXPERTS

VOCABULARY, HIDDEN, CONTEXT = 96, 32, 512
ROUTER = "router"
TYPES: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def small_decoder(
    element_type: str = "f32",
    num_layers: int = 2,
    head_size: int = 16,
    rotary: bool = False,
    mixture: dict[str, Any] | None = None,
    **attributes: float,
) -> DecoderModel:
    """Two query heads over one key head per layer; the second layer has a window of 24 tokens.

    `rotary` turns half of each head by its position; without, positions are embedded.  `mixture`: how the
    routed experts behind each attention differ from those of `mixtures.Mixture`.
    """
    layers = [
        AttentionLayer(
            layer=number,
            head_size=head_size,
            scale=head_size**-0.5,
            **{"num_heads": 2, "num_kv_heads": 1, "softcap": 20.0, "window": 24 if number % 2 else -1}
            | attributes,
        )
        for number in range(num_layers)
    ]
    model = _Writer(element_type, layers, rotary, mixture).model()
    return DecoderModel(model, Path(), layers, VOCABULARY, CONTEXT, element_type)


def write_small(folder: Path, element_type: str = "f32", **changes: Any) -> Path:
    """The same as an export: the path of its model.onnx."""
    ir.save(small_decoder(element_type, **changes).model, folder / "model.onnx")
    config = {"max_position_embeddings": CONTEXT, "vocab_size": VOCABULARY}
    (folder / "config.json").write_text(json.dumps(config))
    return folder / "model.onnx"


def slopes_of(layer: AttentionLayer) -> np.ndarray:
    """float32[heads]: ALiBi's, of which the first is the steepest."""
    return np.exp2(-np.arange(1, layer.num_heads + 1), dtype=np.float32)


def sinks_of(layer: AttentionLayer, dtype: Any = np.float32) -> np.ndarray:
    """Another one for each head, some above the scores of tokens and some below."""
    return np.linspace(-1.5, 2.5, layer.num_heads).astype(dtype)


class _Writer:
    def __init__(
        self, element_type: str, layers: list[AttentionLayer], rotary: bool, mixture: dict[str, Any] | None
    ) -> None:
        self.mixture = mixture
        self.random = np.random.default_rng(7)
        self.dtype = TYPES[element_type]
        self.layers = layers
        self.rotary = rotary
        self.tape = ir.tape.Tape()

    def model(self) -> ir.Model:
        int64 = ir.DataType.INT64
        tokens, positions = (ir.val(name, int64, [1, "num_tokens"]) for name in ("input_ids", "position_ids"))
        at = ir.val("logits_indices", int64, ["num_logits"])
        hidden = self.op("Gather", self.weights(VOCABULARY, HIDDEN), tokens)
        self.positions = positions
        if not self.rotary:
            hidden = self.op("Add", hidden, self.op("Gather", self.weights(CONTEXT, HIDDEN), positions))
        for layer in self.layers:
            hidden = self.op("Add", hidden, self.attention(hidden, layer))
            if self.mixture is not None:
                hidden = self.op("Add", hidden, self.experts(hidden, layer.layer))
        chosen = self.op("Gather", self.op("Squeeze", hidden, self.numbers(0)), at)
        logits = self.op("MatMul", chosen, self.weights(HIDDEN, VOCABULARY))
        logits = self.op("Cast", logits, to=ir.DataType.FLOAT)
        logits.name, logits.dtype, logits.shape = (
            "logits",
            ir.DataType.FLOAT,
            ir.Shape(["num_logits", VOCABULARY]),
        )
        graph = ir.Graph(
            [tokens, positions, at],
            [logits],
            nodes=self.tape.nodes,
            initializers=self.tape.initializers,
            opset_imports={"": decoder_format.OPSET, decoder_format.DOMAIN: decoder_format.VERSION},
            name="small",
        )
        return ir.Model(graph, ir_version=decoder_format.IR_VERSION)

    def attention(self, hidden: ir.Value, layer: AttentionLayer) -> ir.Value:
        queries = self.turned(self.heads(hidden, layer.num_heads, layer.head_size), layer.num_heads)
        keys = self.turned(self.heads(hidden, layer.num_kv_heads, layer.head_size), layer.num_kv_heads)
        values = self.heads(hidden, layer.num_kv_heads, layer.head_size)
        known = {name: value for name in decoder_format.ATTRIBUTES for value in (getattr(layer, name),)}
        known |= {name: getattr(layer, name) for name in decoder_format.CALIBRATION if getattr(layer, name)}
        more = [None, self.initializer(sinks_of(layer, self.dtype))] if layer.has_sinks else []
        more = [None, None, self.initializer(slopes_of(layer))] if layer.has_slopes else more
        attended = self.op(
            decoder_format.ATTENTION, queries, keys, values, *more, domain=decoder_format.DOMAIN, **known
        )
        rows = self.op("Transpose", attended, perm=[0, 2, 1, 3])
        rows = self.op("Reshape", rows, self.numbers(1, -1, layer.num_heads * layer.head_size))
        return self.op("MatMul", rows, self.weights(layer.num_heads * layer.head_size, HIDDEN))

    def experts(self, hidden: ir.Value, layer: int) -> ir.Value:
        """Routed experts, chosen by the softmax of a linear layer."""
        assert self.mixture is not None
        mixture = Mixture(width=HIDDEN, layer=layer, seed=layer, **self.mixture)
        scores = self.op("MatMul", hidden, self.weights(HIDDEN, mixture.experts))
        scores.producer().name = f"{ROUTER}.{layer}"
        best, chosen = self.tape.op_multi_out(
            "TopK", [scores, self.numbers(mixture.used)], num_outputs=2, attributes={"axis": -1}
        )
        inputs = mixture.operands(f"experts.{layer}.")
        for value in inputs:
            if value is not None:
                self.tape.initializer(value.const_value, name=value.name)
        initializers = {value.name: value for value in self.tape.initializers}
        inputs = [value and initializers[value.name] for value in inputs]
        weights = self.op("Softmax", best, axis=-1)
        hidden.dtype = weights.dtype = ir.DataType.from_numpy(np.dtype(self.dtype))
        return self.op(
            EXPERTS, hidden, chosen, weights, *inputs, domain=decoder_format.DOMAIN, **mixture.attributes
        )

    def heads(self, hidden: ir.Value, count: int, size: int) -> ir.Value:
        rows = self.op("MatMul", hidden, self.weights(HIDDEN, count * size))
        rows = self.op("Reshape", rows, self.numbers(1, -1, count, size))
        return self.typed(self.op("Transpose", rows, perm=[0, 2, 1, 3]), count, size)

    def turned(self, heads: ir.Value, count: int) -> ir.Value:
        if not self.rotary:
            return heads
        size = int(heads.shape[-1])
        positions = self.op(
            "Unsqueeze", self.op("Cast", self.positions, to=ir.DataType.FLOAT), self.numbers(2)
        )
        angles = self.op("Mul", positions, self.initializer(10.0 ** -np.arange(size // 4, dtype=np.float32)))
        tables = [
            self.op("Cast", self.op(name, angles), to=ir.DataType.from_numpy(np.dtype(self.dtype)))
            for name in ("Cos", "Sin")
        ]
        rotated = self.op("RotaryEmbedding", heads, *tables, rotary_embedding_dim=size // 2)
        return self.typed(rotated, count, size)

    def typed(self, heads: ir.Value, count: int, size: int) -> ir.Value:
        heads.dtype = ir.DataType.from_numpy(np.dtype(self.dtype))
        heads.shape = ir.Shape([1, count, "num_tokens", size])
        return heads

    def op(self, op_type: str, *inputs: ir.Value | None, domain: str = "", **attributes: Any) -> ir.Value:
        return self.tape.op(op_type, inputs, attributes, domain=domain)

    def weights(self, *shape: int) -> ir.Value:
        array = (self.random.standard_normal(shape) * shape[0] ** -0.5).astype(self.dtype)
        return self.initializer(array)

    def numbers(self, *numbers: int) -> ir.Value:
        return self.initializer(np.array(numbers, np.int64))

    def initializer(self, array: Any) -> ir.Value:
        name = f"w{len(self.tape.initializers)}"
        return self.tape.initializer(ir.tensor(array, name=name), name=name)
