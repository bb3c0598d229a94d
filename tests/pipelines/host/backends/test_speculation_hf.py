"""With draft tokens, right or wrong, a real model says what transformers says without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from greedy_batches import generate_together
from tiny_decoders import prompts, write_decoder

from pipelines.host.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.host.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.host.contracts.step import Sampled
from pipelines.host.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.host.engine.kv_cache.cache_size import CacheSize
from pipelines.host.sampling.stages import sample
from pipelines.host.sampling.step_context import Logits, StepContext
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


@pytest.fixture(scope="module")
def shallow(tmp_path_factory) -> Path:
    """A decoder of one layer, which agrees with nobody."""
    from tools.export.decoders.decoder import export_decoder

    folder = tmp_path_factory.mktemp("shallow")
    write_decoder("llama", folder / "hf", num_hidden_layers=1)
    export_decoder(str(folder / "hf"), folder / "openvino", "fp32", form="openvino")
    return folder / "openvino"


def test_a_draft_that_is_its_target_is_always_right(exported, generated):
    folder = exported("llama")[1]
    engine = speculating_engine(OpenVINOSession(folder / "openvino_model.xml", EXACT), draft(folder).run)
    assert generate_together(engine, prompts())[0] == generated("llama")
    counts = engine.counts()
    assert counts.accepted_tokens >= 0.95 * counts.draft_tokens > 50


@pytest.mark.filterwarnings("default")
def test_a_draft_that_is_wrong_changes_nothing(exported, generated, shallow):
    session = OpenVINOSession(exported("llama")[1] / "openvino_model.xml", EXACT)
    engine = speculating_engine(session, draft(shallow).run)
    assert generate_together(engine, prompts())[0] == generated("llama")
    counts = engine.counts()
    assert counts.accepted_tokens < 0.5 * counts.draft_tokens


def test_a_lookup_changes_nothing(exported, generated):
    session = OpenVINOSession(exported("llama")[1] / "openvino_model.xml", EXACT)
    engine = speculating_engine(session, Lookup(Lookup.Config(adaptive=False), Path()).run)
    assert generate_together(engine, prompts())[0] == generated("llama")
    assert engine.counts().draft_tokens > 10
