"""Makes lowered CUDA graphs without weights on a machine that can export, for machines that cannot.

Tracing needs only shapes: parameters are views of one number, so that even an 8B decoder is exported in a
minute and a gigabyte.  The export names weights after the parameters they are, by which they are found.
Needs the extra `export`; what reads a pack (`packed.py`) needs nothing.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch
from transformers import AutoModelForCausalLM

from pipelines.inference.backends.onnx.decoder_model import DecoderModel
from pipelines.inference.backends.onnxruntime.cuda.lora_linears import add_adapter_pools
from pipelines.inference.backends.onnxruntime.cuda.lowering import block_tokens_for, lower_for_cuda
from pipelines.onnx_format import decoder_format
from pipelines.onnx_format.decoder_format import AttentionLayer
from tools.export.base.folder import ExportError
from tools.export.decoders.attention import NAME, Attention, installed
from tools.export.decoders.experts import route_experts
from tools.export.decoders.tracing import trace, watch
from tools.lab.gpu_check.packs.encoder_models import ENCODERS
from tools.lab.gpu_check.packs.models import SHAPES, WITH_ADAPTERS, Shape
from tools.lab.gpu_check.packs.node_graphs import cache_scales, cuda_graph
from tools.lab.gpu_check.packs.nodes import KINDS
from tools.lab.gpu_check.packs.pack_encoders import pack_encoder
from tools.lab.gpu_check.packs.pack_hybrids import pack_hybrid
from tools.lab.gpu_check.packs.packed import PackedModel, write_model, write_nodes
from tools.lab.gpu_check.packs.packed_encoders import write_encoder
from tools.lab.gpu_check.packs.packed_hybrids import HYBRIDS, WITH_SINKS, write_hybrid
from tools.lab.gpu_check.packs.weights import FILE, Place, aligned

ADAPTED = ("small", "qwen3-0.6b")
MODELS = (
    "small",
    "mixture",
    "qwen3-0.6b",
    "qwen3-8b",
    *(name + WITH_ADAPTERS for name in ADAPTED),
    *ENCODERS,
    *HYBRIDS,
    *WITH_SINKS,
)
ELEMENT = "f16"
PREFIX, TRANSPOSED = "model.", ".T"
"""Prefix of a parameter's name in the export, and its suffix when MatMul reads it transposed."""
EXPERT = re.compile(r"experts\.(gate|up|down)\.(\d+)$")
STEP = 2.0**-14
"""The distance between numbers that stand for parameters: small, so that their model runs in float16."""
INLINE_BYTES = 4096  # tables and shapes, which are no parameters


def make_pack(folder: Path, models: Iterable[str] = MODELS) -> list[Path]:
    """Write all files for the checks to `folder`, and return them."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [write_nodes(folder, {kind.name: cuda_graph(kind) for kind in KINDS}, scales())]
    for name in models:
        if name in ENCODERS:
            with _silent():
                packed = pack_encoder(ENCODERS[name])
            files += write_encoder(folder, name, packed)
        elif name in (*HYBRIDS, *WITH_SINKS):
            try:
                files.append(write_hybrid(folder, name, pack_hybrid(name)))
            except ExportError as error:
                print(f"{name} is left out, which transformers 5 may export: {error}")
        else:
            shape = SHAPES[name.removesuffix(WITH_ADAPTERS)]
            files += write_model(folder, name, pack_model(shape, name.endswith(WITH_ADAPTERS)))
    return files


def scales() -> dict[str, tuple[float, float]]:
    return {kind.name: cache_scales(kind) for kind in KINDS}


def pack_model(shape: Shape, adapters: bool = False) -> PackedModel:
    """The shape's decoder in float16, lowered for CUDA, and where its weights come from.

    `adapters`: all its linear layers have room for adapters.
    """
    decoder = export_shape(shape, torch.float16, ELEMENT)
    adapted = add_adapter_pools(decoder.model.graph, frozenset()) if adapters else ()
    block_tokens = block_tokens_for(decoder.layers, ELEMENT)
    lowered = lower_for_cuda(decoder, block_tokens, ELEMENT)
    places = detach_weights(lowered, shape)
    return PackedModel(
        model=ir.to_proto(lowered).SerializeToString(),
        places=places,
        layers=[asdict(layer) for layer in decoder.layers],
        vocab_size=shape.vocab,
        max_context=shape.context,
        element_type=ELEMENT,
        cache=ELEMENT,
        block_tokens=block_tokens,
        adapted=[linear._asdict() for linear in adapted],
    )


def export_shape(shape: Shape, dtype: torch.dtype, element: str) -> DecoderModel:
    """The shape's decoder in Braid's format; its weights have shapes and no values."""
    with _silent():
        attention = _attention(shape)
        model = _weightless(shape, dtype)
        with installed(attention):
            model.set_attn_implementation(NAME)
        traced = trace(model, attention)
    layers = [
        AttentionLayer(**_uncalibrated(layer.attributes(at))) for at, layer in enumerate(attention.layers)
    ]
    return DecoderModel(traced, Path("."), layers, shape.vocab, shape.context, element)


def detach_weights(model: ir.Model, shape: Shape) -> list[Place]:
    """Turn every initializer that is a parameter into external data in `weights.FILE`; returns the places.

    Raises ValueError for a large initializer that is named after no parameter, and for a lost parameter.
    """
    places: list[Place] = []
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or not name.startswith(PREFIX):
            if tensor is not None and tensor.nbytes > INLINE_BYTES:
                raise ValueError(f"{name} {list(tensor.shape)} is no parameter of the model")
            continue
        offset = aligned(places[-1].offset + places[-1].length) if places else 0
        parameter = parameter_of(name)
        sizes = [int(size) for size in tensor.shape]
        transposed = name.endswith(TRANSPOSED)
        places.append(
            Place(name, parameter, transposed, tensor.dtype.name, sizes, offset, int(tensor.nbytes))
        )
        value.const_value = ir.ExternalTensor(
            FILE, offset, tensor.nbytes, tensor.dtype, shape=ir.Shape(sizes), name=name, base_dir=""
        )
    placed = {place.parameter for place in places}
    lost = [names[0] for names in _parameters(shape) if not placed & set(names)]
    if lost:
        raise ValueError(f"the graph has lost {', '.join(lost[:5])}")
    return places


def parameter_of(name: str) -> str:
    """The parameter that an initializer is, in the words of transformers 4, where each expert has its own."""
    return EXPERT.sub(r"experts.\2.\1_proj.weight", name.removeprefix(PREFIX).removesuffix(TRANSPOSED))


def _parameters(shape: Shape) -> list[list[str]]:
    """The names of every parameter: several where it is tied."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(shape.config())
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return list(names.values())


def _attention(shape: Shape) -> Attention:
    """The attributes of the layers' attention, observed in a narrow model with the same heads."""
    narrow = Shape(**{**asdict(shape), "vocab": 64, "hidden": 32, "intermediate": 32})
    model = AutoModelForCausalLM.from_config(narrow.config(), attn_implementation="eager")
    return watch(model.eval(), [torch.arange(48)[None]])


def _uncalibrated(attributes: dict[str, Any]) -> dict[str, Any]:
    """Remove calibration: random weights do not determine the size of keys and values."""
    return {name: value for name, value in attributes.items() if name not in decoder_format.CALIBRATION}


def _weightless(shape: Shape, dtype: torch.dtype) -> Any:
    """A model whose parameters take no memory; all differ, because the export merges equal ones."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(shape.config(), dtype=dtype, attn_implementation="eager")
    for number, (name, parameter) in enumerate(list(model.named_parameters()), start=2):
        owner, _, last = name.rpartition(".")
        values = torch.full((1,), number * STEP, dtype=dtype).expand(parameter.shape)
        model.get_submodule(owner)._parameters[last] = torch.nn.Parameter(values, requires_grad=False)
    rotary = model.model.rotary_emb  # its table is computed when it is made, which "meta" left out
    model.model.rotary_emb = type(rotary)(config=model.config)
    model.tie_weights()
    route_experts(model.eval())
    return model


@contextlib.contextmanager
def _silent() -> Any:
    from tools.export.base.folder import quiet

    with quiet(), contextlib.redirect_stdout(io.StringIO()):
        yield
