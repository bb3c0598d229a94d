"""Encoders written node by node: a token's vector is of its id, type and position, and of all tokens of its text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from pipelines.inference.contracts.encoder_batch import TokenBatch

VOCABULARY, WIDTH, SIZE, PAD = 50, 40, 24, 3
TYPES = {
    "f32": TensorProto.FLOAT,
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "i64": TensorProto.INT64,
}


def write_encoder(
    folder: Path,
    *,
    element_type: str = "f32",
    per_token: bool = True,
    inputs: tuple[str, ...] = ("input_ids", "attention_mask", "token_type_ids"),
    integers: int = TensorProto.INT64,
) -> Path:
    """The same as an export: the path of its model.onnx.  Its second output is the one that counts."""
    nodes = [*_embedded(inputs), *_mixed(per_token)]
    output = "last_hidden_state" if per_token else "logits"
    nodes.append(helper.make_node("Cast", ["rows"], [output], to=TYPES[element_type]))
    shape = ["n", "w", SIZE] if per_token else ["n", SIZE]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info(name, integers, ["n", "w"]) for name in inputs],
        [
            helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["n", "w", SIZE]),
            helper.make_tensor_value_info(output, TYPES[element_type], shape),
        ],
        _weights(),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, folder / "model.onnx")
    config = {"max_position_embeddings": WIDTH, "vocab_size": VOCABULARY, "pad_token_id": PAD}
    (folder / "config.json").write_text(json.dumps(config))
    return folder / "model.onnx"


def random_batch(lengths: list[int], seed: int) -> TokenBatch:
    """Texts of these lengths, padded with 0 to the longest and two more."""
    random, width = np.random.default_rng(seed), max(lengths) + 2
    real = np.arange(width) < np.array(lengths)[:, None]
    ids = np.where(real, random.integers(0, VOCABULARY, real.shape), 0)
    types = np.where(real, random.integers(0, 2, real.shape), 0)
    return TokenBatch(ids, np.array(lengths), types, np.arange(len(lengths)) % 2 == 0)


def _embedded(inputs: tuple[str, ...]) -> list[onnx.NodeProto]:
    """Tables of all inputs but the mask, added up."""
    read = [name for name in inputs if name != "attention_mask"]
    nodes = [helper.make_node("Gather", [f"table.{name}", name], [f"of.{name}"]) for name in read]
    return [*nodes, helper.make_node("Sum", [f"of.{name}" for name in read], ["embedded"])]


def _mixed(per_token: bool) -> list[onnx.NodeProto]:
    """What the mask leaves of a text, in the middle, for each of its tokens or for the text."""
    make = helper.make_node
    nodes = [
        make("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        make("Unsqueeze", ["mask", "last"], ["column"]),
        make("Mul", ["embedded", "column"], ["kept"]),
        make("ReduceSum", ["kept", "middle"], ["sum"]),
        make("ReduceSum", ["column", "middle"], ["length"]),
        make("Div", ["sum", "length"], ["mean"]),
        make("Add", ["embedded", "mean"], ["hidden"]),
    ]
    if per_token:
        return [*nodes, make("Identity", ["hidden"], ["rows"])]
    return [*nodes, make("Squeeze", ["mean", "middle"], ["rows"])]


def _weights() -> list[TensorProto]:
    random = np.random.default_rng(5)
    sizes = {"input_ids": VOCABULARY, "token_type_ids": 2, "position_ids": WIDTH}
    tables = {
        f"table.{name}": random.standard_normal((rows, SIZE)).astype(np.float32)
        for name, rows in sizes.items()
    }
    axes = {"last": np.array([-1]), "middle": np.array([1])}
    return [numpy_helper.from_array(array, name) for name, array in {**tables, **axes}.items()]
