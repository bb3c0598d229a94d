"""Exports encoders for a pack without their weights, on a machine that can export.

Needs the extra `export`; what reads them (`packed_encoders.py`) needs nothing.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx_ir as ir

from tools.export.encoders.whole_model import HIDDEN, LOGITS, WholeModel
from tools.export.encoders.whole_onnx import write_onnx
from tools.export.encoders.whole_tracing import trace
from tools.lab.gpu_check.packs.encoder_models import EncoderShape
from tools.lab.gpu_check.packs.packed_encoders import MODEL, PackedEncoder
from tools.lab.gpu_check.packs.weights import FILE, Place, aligned

INLINE_BYTES = 4096
"""Smaller initializers, such as norms and biases, stay in the graph."""
WEIGHTS = {"float32": "fp32", "float16": "fp16"}


def pack_encoder(shape: EncoderShape) -> PackedEncoder:
    """The encoder as `braid export` writes it, without the weights."""
    model = shape.model()
    whole = WholeModel(model, LOGITS if "Classification" in shape.family else HIDDEN)
    with tempfile.TemporaryDirectory() as folder:
        write_onnx(trace(whole), whole.inputs, whole.output, Path(folder), WEIGHTS[shape.dtype])
        graph = ir.load(Path(folder) / MODEL)
        places = _take_weights(graph)
        content = ir.to_proto(graph).SerializeToString()
    return PackedEncoder(content, places, _plain(model.config.to_dict()))


def _take_weights(model: ir.Model) -> list[Place]:
    """Turn every large initializer into external data in `weights.FILE`; returns the places."""
    places: list[Place] = []
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        assert tensor is not None, "an initializer has a value"
        if not _is_matrix(tensor):
            value.const_value = ir.tensor(tensor.numpy(), name=name, dtype=tensor.dtype)
            continue
        offset = aligned(places[-1].offset + places[-1].length) if places else 0
        sizes = [int(size) for size in tensor.shape]
        places.append(Place(name, name, False, tensor.dtype.name, sizes, offset, int(tensor.nbytes)))
        value.const_value = ir.ExternalTensor(
            FILE, offset, tensor.nbytes, tensor.dtype, shape=ir.Shape(sizes), name=name, base_dir=""
        )
    return places


def _is_matrix(tensor: ir.TensorProtocol) -> bool:
    large = tensor.nbytes > INLINE_BYTES and len(tensor.shape) > 1
    return large and tensor.dtype.is_floating_point()


def _plain(config: dict[str, object]) -> dict[str, object]:
    """The settings that a session reads from config.json."""
    return {name: config[name] for name in ("model_type", "vocab_size", "max_position_embeddings")}
