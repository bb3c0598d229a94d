"""Attention to the frames of an encoder: tokens of a mixed batch equal those of transformers for each alone."""

from __future__ import annotations

import json

import onnx_ir as ir
import pytest
from engine_invariants import snapshot, violations
from whisper_decoders import WIDTH, generate_from, some_frames, tiny_whisper, write_tiny_whisper

from pipelines.host.backends.device_errors import ModelError
from pipelines.host.backends.onnx.read_decoder import read_decoder
from pipelines.host.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.host.backends.onnxruntime.cuda.lowering import lower
from pipelines.host.backends.openvino.decoder_session import OpenVINOSession, OpenVINOSettings
from pipelines.host.engine.engine_contract import GenerationRequest
from pipelines.host.engine.generation_engine import EngineSettings, GenerationEngine
from pipelines.host.engine.step_context import Logits, StepContext
from pipelines.host.sampling.stages import sample
from pipelines.wire.sampling_params import Beams, SamplingParams

pytest.importorskip("transformers", reason="needs the export extra")

NUM_TOKENS = 16
CASES = [  # frames, prompt, beams, choices
    (50, [3, 7, 9], 1, 1),
    (37, [3, 50, 51, 52, 53, 54, 55, 1, 7, 9, 11, 60, 61], 1, 3),
    (64, [3, 9], 3, 3),
    (50, [3, 7, 9, 20], 1, 1),
    (1, [3], 1, 1),
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
    return {
        (key, choice): tokens
        for key, (num_frames, prompt, beams, n) in enumerate(CASES)
        for choice, tokens in enumerate(
            generate_from(whisper, some_frames(num_frames, key), prompt, NUM_TOKENS, beams) * (n // beams)
        )
    }


def engine_over(session):
    """With room for the largest request and little more, so that sequences are preempted."""

    def body(context: StepContext):
        return sample(Logits(session.run(context.step), context))

    num_blocks = 11 if session.block_tokens == 16 else 8
    settings = EngineSettings(max_sequences=6, max_step_tokens=11)
    session.reserve(settings.max_step_tokens, settings.max_sequences)
    session.allocate(num_blocks)
    return GenerationEngine(
        body,
        settings,
        num_blocks,
        session.block_tokens,
        session.vocab_size,
        session.max_context,
        frozenset(),
        frame_size=session.frame_size,
    )


def run_together(engine):
    """Requests join one by one, and now and then a sequence is set back."""
    found, arriving = {}, list(enumerate(CASES))
    while arriving or engine.has_work:
        if arriving:
            key, (num_frames, prompt, beams, n) = arriving.pop(0)
            search = Beams(beams) if beams > 1 else None
            params = SamplingParams(max_tokens=NUM_TOKENS, temperature=0.0, beams=search, ignore_eos=True)
            frames = [some_frames(num_frames, key)]
            engine.submit(key, GenerationRequest([prompt], params, n, frames=frames))
        if engine.scheduler.running and engine.counts().steps % 4 == 3:
            engine.scheduler._preempt(engine.scheduler.running[-1])
        for output in engine.step():
            assert output.error is None
            found.setdefault((output.key, output.choice), []).extend(output.piece.token_ids)
        assert violations(snapshot(engine)) == []
    return found


@pytest.mark.parametrize("name", ENGINES)
def test_tokens_equal_transformers(name, decoder, wanted):
    session = ENGINES[name](decoder)
    engine = engine_over(session)
    found, counts = run_together(engine), engine.counts()
    session.close()
    assert found == wanted
    assert (session.frame_size, session.max_frames) == (WIDTH, 50)
    assert counts.blocks_used == 0
    assert counts.preemptions > 5
    assert all(len(set(tokens)) > 3 for tokens in wanted.values()), "degenerate text proves nothing"
    assert len(set(map(tuple, wanted.values()))) > 5


def test_a_gpu_refuses_it_by_name(decoder):
    with pytest.raises(
        ModelError, match="attends to the frames of an encoder, which is not computed on cuda"
    ):
        lower(read_decoder(decoder))


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
    import numpy as np

    value.const_value = ir.tensor(np.zeros((1, 4, 1, 16), np.float32), name=value.name)
    return value
