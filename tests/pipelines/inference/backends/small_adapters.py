"""Small decoders whose weights have a checkpoint's names, and three random adapters of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from small_onnx_decoders import CONTEXT, ROUTER, VOCABULARY, small_decoder

from pipelines.adapters.weights import AdapterWeights, LinearShape, LoraFactors
from pipelines.onnx_format.decoder_format import ATTENTION

ALL: frozenset[str] = frozenset()
LAST = ("q_proj", "k_proj", "v_proj", "o_proj")
RANKS = {"a": (4, LAST), "b": (7, ("q_proj", "v_proj")), "c": (1, ("o_proj",))}
"""Name → rank and targets."""


def write(
    folder: Path,
    adapter: AdapterWeights | None = None,
    element_type: str = "f32",
    mixture: dict[str, Any] | None = None,
) -> Path:
    """A small decoder whose weights have a checkpoint's names, into which the adapter is merged; with a
    `mixture` behind each attention.
    """
    folder.mkdir()
    model = small_decoder(element_type, rotary=True, mixture=mixture).model
    linears = [
        node for node in model.graph if node.op_type == "MatMul" and not (node.name or "").startswith(ROUTER)
    ]
    linears = linears[: 2 * len(LAST)]
    for number, node in enumerate(linears):
        layer, place = divmod(number, len(LAST))
        name, weight = f"layers.{layer}.self_attn.{LAST[place]}", node.inputs[1]
        values = weight.const_value.numpy() * 2
        if adapter is not None and name in adapter.linears:
            own = adapter.linears[name]
            values = values + (own.b @ own.a).T
        weight.name = f"model.{name}.weight"
        weight.const_value = ir.tensor(values, name=weight.name)
    for node in model.graph:
        if node.op_type == ATTENTION:
            node.attributes["softcap"] = ir.AttrFloat32("softcap", 0.0)
    ir.save(model, folder / "model.onnx")
    config = {"max_position_embeddings": CONTEXT, "vocab_size": VOCABULARY}
    (folder / "config.json").write_text(json.dumps(config))
    return folder / "model.onnx"


def made_for(shapes: Mapping[str, LinearShape], name: str) -> AdapterWeights:
    rank, targets = RANKS[name]
    rng = np.random.default_rng(rank)
    linears = {
        linear: LoraFactors(
            rng.standard_normal((rank, shape.size_in)).astype(np.float32) * 0.4,
            rng.standard_normal((shape.size_out, rank)).astype(np.float32) * 0.4,
        )
        for linear, shape in shapes.items()
        if linear.endswith(targets)
    }
    return AdapterWeights(rank, linears)
