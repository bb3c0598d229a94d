"""With draft tokens, right or wrong, a real model says what transformers says without."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from greedy_batches import generate_together
from openvino import opset13 as ops
from tiny_decoders import prompts

from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.contracts.step import Sampled
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.nodes.generation.body.draft import Draft
from pipelines.nodes.generation.body.lookup import Lookup

pytestmark = pytest.mark.slow

EXACT = OpenVINOSettings(kv_cache="f32", precision="f32")
NUM_BLOCKS = 64


def speculating_engine(
    session: OpenVINOSession, draft_token: Callable[[StepContext], StepContext]
) -> GenerationEngine:
    def body(context: StepContext) -> Sampled:
        context = draft_token(context)
        return sample(Logits(session.run(context.step), context))

    session.allocate(NUM_BLOCKS)
    settings = EngineSettings(max_sequences=8, max_step_tokens=64, reuse_prefixes=True, num_draft_tokens=4)
    return GenerationEngine(StepBody(body), settings, session.shape, CacheSize(NUM_BLOCKS), frozenset())


def draft(folder: Path) -> Draft:
    settings = {"path": "openvino_model.xml", "kv_cache": "f32", "precision": "f32", "adaptive": False}
    node = Draft(Draft.Config(**settings), folder)
    node.use_session(OpenVINOSession(folder / "openvino_model.xml", EXACT))
    node.session.allocate(NUM_BLOCKS)
    return node


@pytest.fixture
def wrong(exported, tmp_path) -> Path:
    """The target whose head has its rows in another order: it never gives the target's token."""
    folder = shutil.copytree(exported("mistral")[1], tmp_path / "wrong")
    model = ov.Core().read_model(folder / "openvino_model.xml")
    logits = next(node for node in reversed(model.get_ordered_ops()) if node.get_type_name() == "MatMul")
    weights = logits.input_value(1).get_node()
    logits.input(1).replace_source_output(ops.constant(np.roll(weights.data, 1, axis=0)).output(0))
    (tmp_path / "saved").mkdir()
    ov.save_model(model, tmp_path / "saved" / "openvino_model.xml", compress_to_fp16=False)
    shutil.copyfile(folder / "config.json", tmp_path / "saved" / "config.json")
    return tmp_path / "saved"


@pytest.fixture(scope="module")
def target(exported):
    """The session that verifies draft tokens; each engine allocates its cache anew."""
    session = OpenVINOSession(exported("mistral")[1] / "openvino_model.xml", EXACT)
    yield session
    session.close()


def test_a_draft_that_is_its_target_is_always_right(exported, generated, target):
    engine = speculating_engine(target, draft(exported("mistral")[1]).run)
    assert generate_together(engine, prompts())[0] == generated("mistral")
    counts = engine.counts()
    assert counts.accepted_tokens >= 0.95 * counts.draft_tokens > 50


def test_a_draft_that_is_wrong_changes_nothing(generated, target, wrong):
    engine = speculating_engine(target, draft(wrong).run)
    assert generate_together(engine, prompts())[0] == generated("mistral")
    counts = engine.counts()
    assert counts.accepted_tokens < 0.1 * counts.draft_tokens


def test_a_lookup_changes_nothing(generated, target):
    engine = speculating_engine(target, Lookup(Lookup.Config(adaptive=False), Path()).run)
    assert generate_together(engine, prompts())[0] == generated("mistral")
    assert engine.counts().draft_tokens > 10
