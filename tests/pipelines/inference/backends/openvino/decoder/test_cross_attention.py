"""Attention to the frames of an encoder: tokens of a mixed batch equal those of transformers for each alone."""

from __future__ import annotations

import json

import numpy as np
import onnx_ir as ir
import pytest
from frame_requests import Case, engine_over, generated, run_together
from later import missing
from whisper_decoders import WIDTH, some_frames, tiny_whisper, write_tiny_whisper

from pipelines.inference.backends.onnx.read_decoder import read_decoder
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.backends.onnxruntime.cuda.open_decoder import open_decoder
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.device_errors import ModelError
from tools.paged_steps import Prompt, prompt_logits

if missing("transformers"):
    pytest.skip("needs the export extra", allow_module_level=True)

CASES = [
    Case(some_frames(50, 0), [3, 7, 9]),
    Case(some_frames(37, 1), [3, 50, 51, 52, 53, 54, 55, 1, 7, 9, 11, 60, 61], n=3),
    Case(some_frames(64, 2), [3, 9], beams=3, n=3),
    Case(some_frames(50, 3), [3, 7, 9, 20]),
    Case(some_frames(1, 4), [3]),
]
ENGINES = {
    "onnxruntime": lambda path: OnnxCpuSession(path, OnnxCpuSettings(threads=1)),
    "openvino": lambda path: OpenVINOSession(path, OpenVINOSettings(precision="f32", threads=1)),
}


@pytest.fixture(scope="module")
def whisper():
    return tiny_whisper()


@pytest.fixture(scope="module")
def decoder(whisper, tmp_path_factory):
    return write_tiny_whisper(whisper, tmp_path_factory.mktemp("whisper"))


@pytest.fixture(scope="module")
def wanted(whisper):
    return generated(whisper, CASES)


@pytest.mark.parametrize("name", ENGINES)
def test_tokens_equal_transformers(name, decoder, wanted):
    session = ENGINES[name](decoder)
    engine = engine_over(session, 11 if session.shape.block_tokens == 16 else 8)
    texts, counts = run_together(engine, CASES), engine.counts()
    session.close()
    assert texts == wanted
    assert (session.shape.encoder_hidden_size, session.shape.max_encoder_states) == (WIDTH, 50)
    assert counts.blocks_used == 0
    assert counts.preemptions > 5
    assert all(len(set(tokens)) > 3 for tokens in wanted.values()), "degenerate text proves nothing"
    assert len(set(map(tuple, wanted.values()))) > 5


def test_chunks_of_prompts_over_the_same_frames_are_those_of_whole_ones(decoder):
    """As `braid check --run` computes them."""
    prompts = [
        Prompt(np.random.default_rng(size).integers(0, 150, size), np.arange(size)) for size in (7, 30)
    ]
    session = ENGINES["onnxruntime"](decoder)
    whole = [prompt_logits(session, [prompt], len(prompt.ids))[0] for prompt in prompts]
    for own, chunks in zip(whole, prompt_logits(session, prompts, 5), strict=True):
        np.testing.assert_allclose(own, chunks, atol=1e-4)
    session.close()


def test_a_gpu_refuses_it_by_name_whatever_is_installed(decoder):
    with pytest.raises(
        ModelError, match="attends to the frames of an encoder, which is not computed on cuda yet; write"
    ):
        open_decoder(decoder, DecoderSettings("cuda:0"))


def test_a_quantized_cache_is_refused(decoder):
    with pytest.raises(ModelError, match="kv_cache u8: a decoder that attends to the frames"):
        OpenVINOSession(decoder, OpenVINOSettings(kv_cache="u8"))


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("layer", 7, r"attentions to frames are of the layers \[7\] of 1"),
        ("num_kv_heads", 2, "layer 0 has other heads for frames than for tokens"),
        ("window", 3, "that this version of Braid"),
    ],
)
def test_a_wrong_attention_to_frames_is_refused(attribute, value, message, tmp_path):
    heads = [1, 4, None, 16]
    query, key = (ir.val(name, ir.DataType.FLOAT, heads) for name in ("query", "key"))
    own = {"layer": 0, "num_heads": 4, "num_kv_heads": 4, "head_size": 16, "scale": 0.25}
    nodes = [
        ir.node("PagedAttention", [query] * 3, own | {"window": -1, "softcap": 0.0}, domain="braid"),
        ir.node("ContextAttention", [query, key, key], own | {attribute: value}, domain="braid"),
    ]
    inputs = [ir.val(name, ir.DataType.INT64, [1, None]) for name in ("input_ids", "position_ids")]
    rows = ir.val("logits_indices", ir.DataType.INT64, [None])
    frames = ir.val("context_frames", ir.DataType.FLOAT, [1, None, 64])
    logits = nodes[-1].outputs[0]
    logits.name, logits.dtype, logits.shape = "logits", ir.DataType.FLOAT, ir.Shape([None, 9])
    graph = ir.Graph(
        [*inputs, rows, frames], [logits], nodes=nodes, opset_imports={"": 23, "braid": 1}, name="one"
    )
    for value_ in (query, key):
        graph.register_initializer(_constant(value_))
    ir.save(ir.Model(graph, ir_version=10), tmp_path / "model.onnx")
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 8, "vocab_size": 9}))
    with pytest.raises(ModelError, match=message):
        read_decoder(tmp_path / "model.onnx")


def _constant(value):
    value.const_value = ir.tensor(np.zeros((1, 4, 1, 16), np.float32), name=value.name)
    return value
