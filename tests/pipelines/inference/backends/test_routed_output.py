"""The experts that replies name are those that transformers' router chooses, on each engine."""

from __future__ import annotations

import numpy as np
import pytest
import tiny_decoders
from breadth import after
from gguf_files import EXPERTS, LAYERS, vocabulary, write_llama_like
from gguf_files import EXPERTS_USED as USED
from greedy_batches import CHUNK_TOKENS, MAX_SEQUENCES, NUM_TOKENS
from small_onnx_decoders import write_small
from test_gguf_logits import FAMILIES as MIXTURES

from pipelines.base.errors import RequestError
from pipelines.base.prepared_models import PreparedModels
from pipelines.gguf.convert import FLOAT_SUMS, convert
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.prepared import prepared_decoder
from pipelines.inference.backends.openvino.prepared.prepared_decoder import open_prepared
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.step import Sampled
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.wire.sampling_params import SamplingParams

VOCABULARY = len(vocabulary()[0])


def exact(path):
    return OnnxCpuSession(path, OnnxCpuSettings(threads=1, routed_experts="counted"))


def by_openvino(path):
    settings = OpenVINOSettings(precision="f32", kv_cache="f32", routed_experts="counted")
    return OpenVINOSession(path, settings)


@pytest.fixture(scope="module", params=after(1, ["gguf", "export"]))
def mixture(request, tmp_path_factory):
    """(a mixture of transformers, the file that engines open)."""
    import torch
    from transformers import AutoModelForCausalLM

    if request.param == "export":
        source = request.getfixturevalue("source")("qwen3_moe")
        model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
        return model, request.getfixturevalue("exported_onnx")("qwen3_moe")
    folder, (config, written) = tmp_path_factory.mktemp("mixture"), MIXTURES["qwen3moe"]
    state = write_llama_like(folder / "tiny.gguf", **written)
    convert(folder / "tiny.gguf", folder / "model", FLOAT_SUMS)
    model = AutoModelForCausalLM.from_config(config()).eval()
    state = {name: torch.tensor(values) for name, values in state.items()}
    assert model.load_state_dict(state, strict=False) == ([], [])
    return model, folder / "model" / "model.onnx"


@pytest.fixture(scope="module", params=[exact, by_openvino])
def session(request, mixture):
    """Counts go on from test to test."""
    session = request.param(mixture[1])
    yield session
    session.close()


def prompts():
    return [[token % VOCABULARY for token in prompt] for prompt in tiny_decoders.prompts()]


def engine_of(session, num_blocks):
    session.reserve(CHUNK_TOKENS, MAX_SEQUENCES)
    session.allocate(num_blocks)
    body = StepBody(
        lambda context: Sampled(session.run(context.step).argmax(axis=1), []),
        routed_experts=session.routed_experts,
    )
    settings = EngineSettings(MAX_SEQUENCES, CHUNK_TOKENS)
    return GenerationEngine(body, settings, session.shape, CacheSize(num_blocks), frozenset())


def generate(engine, prompts, **params):
    """(tokens, choices int16[tokens, layers, used]) of each prompt; prompts join mid-way, some are preempted."""
    params = SamplingParams(max_tokens=NUM_TOKENS, temperature=0, return_routed_experts=True, **params)
    pieces, waiting = {}, list(enumerate(prompts))
    while waiting or engine.has_work:
        if waiting:
            number, prompt = waiting.pop(0)
            engine.submit(number, GenerationRequest([prompt], params))
        if engine.scheduler.running and engine.counts().steps % 7 == 6:
            engine.scheduler._preempt(engine.scheduler.running[-1])
        for _ in range(3):
            for output in engine.step():
                if output.key in pieces:
                    pieces[output.key].extend(output.piece)
                else:
                    pieces[output.key] = output.piece
    return [
        (
            pieces[number].token_ids,
            np.frombuffer(b"".join(pieces[number].experts.pieces), np.int16).reshape(-1, LAYERS, USED),
        )
        for number in range(len(prompts))
    ]


@pytest.fixture(scope="module")
def chosen_alone(mixture):
    """`chosen_alone(ids)` → int[tokens, layers, used]: what transformers' routers choose for all but the last."""
    import torch

    def choose(ids):
        with torch.no_grad():
            logits = mixture[0](torch.tensor([ids[:-1]]), output_router_logits=True).router_logits
        return np.stack([layer.topk(USED).indices.numpy() for layer in logits], axis=1)

    return choose


def test_choices_are_those_of_transformers_in_chunks_prefixes_and_after_preemption(session, chosen_alone):
    session.routed_experts.counts[:] = 0
    engine = engine_of(session, num_blocks=40)
    results = generate(engine, prompts())
    for prompt, (tokens, rows) in zip(prompts(), results, strict=True):
        np.testing.assert_array_equal(rows, chosen_alone([*prompt, *tokens]))
    assert engine.counts().prefix_hit_tokens >= 64
    counts = session.routed_experts.counts
    assert counts.shape == (LAYERS, EXPERTS)
    assert counts.sum() == engine.counts().step_tokens * LAYERS * USED
    assert engine.counts().routed_experts.choices == counts.sum()
    assert 1 <= engine.counts().routed_experts.busiest <= EXPERTS / USED
    assert session.routed_experts.use.startswith(f"{engine.counts().step_tokens} tokens, the busiest")


def test_a_reply_leaves_out_the_first_tokens_of_the_prompt_that_it_is_told_to(session, chosen_alone):
    prompt = prompts()[1]
    [(tokens, rows)] = generate(engine_of(session, 40), [prompt], routed_experts_prompt_start=50)
    np.testing.assert_array_equal(rows, chosen_alone([*prompt, *tokens])[50:])


def test_blocks_from_elsewhere_have_no_choices(session):
    engine = engine_of(session, 40)
    generate(engine, [prompts()[1]])
    session.write_block(0, session.read_block(0))
    assert (session.routed_experts.of([0], 0, 1) == -1).all()


def test_requests_that_cannot_be_answered_are_refused(session):
    engine = engine_of(session, 40)
    with pytest.raises(RequestError, match="less than the 5 tokens"):
        engine.submit(0, GenerationRequest([prompts()[0]], SamplingParams(routed_experts_prompt_start=5)))
    engine.routed_experts = None
    for params in ({"return_routed_experts": True}, {"routed_experts_prompt_start": 1}):
        with pytest.raises(RequestError, match="`routed_experts: counted`"):
            engine.submit(0, GenerationRequest([[1, 2]], SamplingParams(**params)))


def test_a_stored_graph_gives_the_same_choices(mixture, tmp_path, monkeypatch):
    settings = OpenVINOSettings(precision="f32", kv_cache="f32", routed_experts="counted")
    store, rows = PreparedModels(64 << 20, tmp_path), []
    for _ in range(2):
        session = open_prepared(mixture[1], settings, store)
        rows.append([each for _, each in generate(engine_of(session, 40), prompts()[:3])])
        session.close()
        monkeypatch.setattr(prepared_decoder, "read_decoder", None)  # the second time it is not read
    for first, second in zip(*rows, strict=True):
        np.testing.assert_array_equal(first, second)


def test_models_without_experts_are_refused(tmp_path):
    path = write_small(tmp_path, softcap=0.0)
    for opened in (exact, by_openvino):
        with pytest.raises(ModelError, match="no routed experts"):
            opened(path)
