"""What an engine generates with a mixture does not depend on how its steps are packed, whatever computes it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from greedy_batches import generate_together, greedy_engine
from lone_steps import step, together
from mixtures import Form
from small_onnx_decoders import VOCABULARY, write_small

from pipelines.base.prepared_models import PreparedModels
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.model.operator_library import find_kernels
from pipelines.inference.backends.openvino.prepared import prepared_decoder
from pipelines.inference.backends.openvino.prepared.prepared_decoder import open_prepared

NUM_ROWS = 64
MIXTURE = {"experts": 6, "used": 2, "forms": {"": Form(zeros="float32")}}
BY = {"kernels": "2 of 2 layers by braid kernels", "linears": "2 layers, a linear layer for each expert"}


@pytest.fixture(scope="module", params=BY)
def settings(request, kernel_folder):
    """How a session computes: by Braid's own kernels, or by OpenVINO in float32."""
    exact = OpenVINOSettings(precision="f32", kv_cache="f32")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRAID_KERNELS", str(kernel_folder))
        yield replace(exact, kernels=find_kernels(2)) if request.param == "kernels" else exact


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A decoder whose weights are in one file beside it."""
    path = write_small(tmp_path_factory.mktemp("mixture"), softcap=0.0, mixture=MIXTURE)
    ir.save(ir.load(path), path, external_data="model.onnx.data")
    return path


@pytest.fixture(scope="module")
def session(path, settings):
    session = OpenVINOSession(path, settings)
    by = "kernels" if settings.kernels else "linears"
    assert session.describe()["experts"].startswith(BY[by])
    yield session
    session.close()


def prompts():
    """Of 3 to 90 tokens; the last two begin alike."""
    rng = np.random.default_rng(3)
    lone = [rng.integers(0, VOCABULARY, size).tolist() for size in (3, 90, 40, 17, 64)]
    return [*lone, lone[1][:64] + lone[0], lone[1][:64] + lone[3]]


def test_logits_are_those_of_onnx_runtime(session, path):
    exact = OnnxCpuSession(path, OnnxCpuSettings(threads=1, block_tokens=session.shape.block_tokens))
    prompt = prompts()[4]
    for opened in (session, exact):
        opened.allocate(4)
    given = step(prompt, 0, [0, 1, 2, 3][: -(-len(prompt) // session.shape.block_tokens)], list(range(64)))
    np.testing.assert_allclose(session.run(given), exact.run(given), atol=5e-3, rtol=1e-3)


def test_text_in_a_batch_with_chunks_preemption_and_reuse_is_that_alone(session):
    alone = [generate_together(greedy_engine(session, num_blocks=64), [each])[0][0] for each in prompts()]
    for num_blocks in (64, 9):
        texts, num_cached = generate_together(greedy_engine(session, num_blocks), prompts())
        assert texts == alone
        assert num_blocks == 9 or num_cached >= 64
    assert len({tuple(text) for text in alone}) == len(alone)


def test_logits_of_a_token_are_those_among_64_sequences_to_the_last_bit(session):
    session.reserve(NUM_ROWS, NUM_ROWS)
    session.allocate(NUM_ROWS)
    ids = np.random.default_rng(4).integers(0, VOCABULARY, NUM_ROWS)
    steps = [step([token], 0, [number], [0]) for number, token in enumerate(ids)]
    all_at_once = session.run(together(steps)).copy()
    for number in (0, 1, 31, 63):
        np.testing.assert_array_equal(session.run(steps[number])[0], all_at_once[number])
    np.testing.assert_array_equal(session.run(together(steps[:5])), all_at_once[:5])


def test_choices_are_recorded_and_the_time_of_the_kernels_known(path, settings):
    session = OpenVINOSession(path, replace(settings, routed_experts="counted"))
    exact = OnnxCpuSession(path, OnnxCpuSettings(1, session.shape.block_tokens, routed_experts="counted"))
    before_s = session.experts_s
    for opened in (session, exact):
        opened.allocate(4)
        opened.run(step(prompts()[4], 0, [0, 1, 2, 3], [63]))
    rows = [opened.routed_experts.of([0, 1, 2, 3], 0, 64) for opened in (session, exact)]
    np.testing.assert_array_equal(*rows)
    assert rows[0].shape == (64, 2, 2)
    assert len(np.unique(rows[0])) > 4
    assert (session.experts_s > before_s) == (settings.kernels is not None)
    session.close()


def test_a_stored_graph_gives_the_same_logits(path, settings, tmp_path, monkeypatch):
    store = PreparedModels(64 << 20, tmp_path / "cache")
    facts, logits = [], []
    for _ in range(2):
        session = open_prepared(path, settings, store)
        session.allocate(8)
        logits.append(session.run(step(prompts()[3], 0, [0, 1], [0, 16])).copy())
        facts.append(session.describe())
        session.close()
        monkeypatch.setattr(prepared_decoder, "read_decoder", None)  # the second time it is not read
    np.testing.assert_array_equal(*logits)
    assert facts[0] == facts[1]
