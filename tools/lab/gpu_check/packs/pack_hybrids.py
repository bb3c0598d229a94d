"""Makes the small decoders of a pack where exporting is installed, hybrids and gpt-oss: graphs, weights, and
what they give.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import torch
from numpy.typing import NDArray
from onnx.external_data_helper import load_external_data_for_model
from transformers import AutoConfig, AutoModelForCausalLM

from pipelines.gguf.convert import FLOAT_SUMS, convert
from pipelines.inference.backends.onnx.decoder_model import DecoderModel
from pipelines.inference.backends.onnx.read_decoder import read_decoder
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession
from pipelines.inference.backends.onnxruntime.cuda.lowered_decoder import LoweredDecoder
from pipelines.inference.backends.onnxruntime.cuda.lowering import lower
from tools.export.base.folder import quiet
from tools.export.decoders.experts import route_experts
from tools.export.decoders.tracing import trace, watch
from tools.export.graphs.fused_projections import fuse_projections
from tools.lab.gpu_check.packs.hybrid_files import FAMILIES, SIZES, TOKENS, write_gguf
from tools.lab.gpu_check.packs.packed_hybrids import PackedHybrid, Text
from tools.lab.gpu_check.packs.sink_files import ARCHITECTURE, SETTINGS, write_gpt_oss
from tools.paged_steps import Prompt, prompt_logits

LENGTHS, ROWS = (300, 90, 17), 16
"""Tokens of each prompt, and the last ones of them whose logits are packed."""
GPT_OSS = "gpt_oss"
"""transformers' name of it."""
Lower = Callable[[DecoderModel], LoweredDecoder]


def pack_hybrid(name: str, lengths: tuple[int, ...] = LENGTHS, lowering: Lower = lower) -> PackedHybrid:
    """The decoder of one of the names of `HYBRIDS` or `WITH_SINKS`."""
    form, _, family = name.partition(".")
    rng = np.random.default_rng(7)
    prompts = [rng.integers(0, TOKENS - 2, length) for length in lengths]
    with tempfile.TemporaryDirectory() as place, quiet():
        folder = Path(place)
        write = exported if form == "export" else converted
        path, logits = write(folder, family, prompts)
        lowered = lowering(read_decoder(path))
        model = with_weights(lowered.model, path.parent)
    texts = [Text(ids, rows) for ids, rows in zip(prompts, logits, strict=True)]
    return PackedHybrid(replace(lowered, model=model, folder=Path()), texts)


Made = tuple[Path, list[NDArray[np.float32]]]
"""A model.onnx in Braid's format, and the logits of the last rows of each prompt."""


def exported(folder: Path, family: str, prompts: list[NDArray[np.int64]]) -> Made:
    """A random model of transformers in float16, traced; the logits are transformers' in float32."""
    torch.manual_seed(5)
    settings = SETTINGS if family == GPT_OSS else SIZES | FAMILIES[family]
    config = AutoConfig.for_model(family, **settings)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    if family == GPT_OSS:
        draw_vectors(model)
    model = model.half().float().eval()
    with torch.inference_mode():
        logits = [model(torch.tensor(ids)[None]).logits[0, -ROWS:].numpy() for ids in prompts]
    model = model.half()
    route_experts(model)
    attention = watch(model, [torch.arange(48)[None]])
    graph = fuse_projections(trace(model, attention))
    config.save_pretrained(folder)
    ir.save(graph, folder / "model.onnx", external_data="model.onnx.data")
    return folder / "model.onnx", logits


def draw_vectors(model: torch.nn.Module) -> None:
    """Sinks and biases, which begin as zeros or unset."""
    for name, values in model.named_parameters():
        if name.endswith(("sinks", "bias")):
            torch.nn.init.normal_(values, std=0.3)


def converted(folder: Path, architecture: str, prompts: list[NDArray[np.int64]]) -> Made:
    """A GGUF file, converted; the logits are those of ONNX Runtime's CPU kernels in float32."""
    if architecture == ARCHITECTURE:
        write_gpt_oss(folder / "small.gguf")
    else:
        write_gguf(folder / "small.gguf", architecture)
    convert(folder / "small.gguf", folder / "model", FLOAT_SUMS)
    session = OnnxCpuSession(folder / "model" / "model.onnx")
    wanted = [Prompt(ids, np.arange(len(ids) - ROWS, len(ids))) for ids in prompts]
    logits = prompt_logits(session, wanted, max(map(len, prompts)))
    session.close()
    return folder / "model" / "model.onnx", logits


def with_weights(model: bytes, folder: Path) -> bytes:
    """A serialized model whose external data, in `folder`, lies in the model itself."""
    proto = onnx.load_from_string(model)
    load_external_data_for_model(proto, str(folder))
    return bytes(proto.SerializeToString())
