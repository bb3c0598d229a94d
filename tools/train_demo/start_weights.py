"""Reads the weights of an exported model, so that training can go on from what the repository holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from transformers import Qwen3Config, Qwen3ForCausalLM

MIDDLE = 128  # the zero of eight-bit weights
EMBEDDING = "lm_head.weight"


def load_start(folder: Path) -> Qwen3ForCausalLM:
    """The model of a trained folder, or of an exported one, in float32."""
    exported = folder / "model.onnx"
    if not exported.exists():
        return Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model = Qwen3ForCausalLM(Qwen3Config.from_pretrained(folder, dtype="float32"))
    weights = {name: torch.from_numpy(weight) for name, weight in read_weights(exported).items()}
    weights["model.embed_tokens.weight"] = weights[EMBEDDING]
    model.load_state_dict(weights)
    return model


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """float32 weights by their names in transformers; eight-bit blocks are multiplied out."""
    graph = onnx.load(str(path)).graph
    stored = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    weights = {}
    for name, value in stored.items():
        if name.endswith(".T.int8"):
            blocks = value.astype(np.float32) - MIDDLE
            scales = stored[name.replace(".T.int8", ".T.scales8")].astype(np.float32)
            value = (blocks * scales.reshape(*blocks.shape[:2], 1)).reshape(len(blocks), -1)
            name = name.removesuffix(".T.int8")
        elif not name.endswith((".weight", ".float16")):
            continue
        weights[name.removesuffix(".float16").removeprefix("model.")] = value.astype(np.float32)
    return weights
