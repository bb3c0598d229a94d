"""A model that sees, as optimum-intel exports it: tokens of a mixed batch equal those of transformers."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from engine_invariants import snapshot, violations

pytest.importorskip("optimum.exporters.openvino", reason="needs the extra optimum")

from tiny_llava import IMAGE_ID, IMAGE_TOKENS, SIDE, generate_alone, llava_processor, picture

from pipelines.host.backends.encoder_contract import EncoderSettings
from pipelines.host.backends.encoder_io import blank_batch
from pipelines.host.backends.openvino.decoder_session import OpenVINOSession, OpenVINOSettings
from pipelines.host.backends.openvino.encoder_session import OpenVINOEncoder
from pipelines.host.engine.engine_contract import GenerationRequest
from pipelines.host.engine.generation_engine import EngineSettings, GenerationEngine
from pipelines.host.engine.prompt_rows import PromptRows
from pipelines.host.engine.step_context import Logits
from pipelines.host.sampling.stages import sample
from pipelines.wire.sampling_params import SamplingParams

NUM_TOKENS = 16
IMAGE = [IMAGE_ID] * IMAGE_TOKENS
SMALL, WIDE = (1, 40, 30), (2, 90, 31)
LONG = list(range(60, 100))
CASES = [  # ids, images
    ([5, 6, 7, 8, 9, 10, 11], []),
    ([*LONG, *IMAGE, 20, 21, 22], [SMALL]),
    ([40, *IMAGE, 41, 42, *IMAGE, 43, 44, 45], [SMALL, WIDE]),
    ([*LONG, *IMAGE, 20, 21, 22], [WIDE]),  # of equal ids
    ([50, 51, 52, *IMAGE], [WIDE]),
    ([*LONG, *IMAGE, 23], [SMALL]),  # found again: a block of 32 tokens
]


@pytest.fixture(scope="module")
def wanted(llava):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            generate_alone(llava[0], ids, [picture(*each) for each in images], NUM_TOKENS)
            for ids, images in CASES
        ]


def pixels_of(image):
    processor = llava_processor().image_processor
    return np.asarray(processor(picture(*image))["pixel_values"][0], np.float32)


@pytest.fixture(scope="module")
def rows(llava):
    """The rows of each image, of one batch of the vision encoder."""
    encoder = OpenVINOEncoder(
        llava[1] / "openvino_vision_embeddings_model.xml", EncoderSettings(precision="f32")
    )
    assert encoder.columns == (3, SIDE, SIDE)
    assert (encoder.per_token, encoder.max_tokens) == (True, IMAGE_TOKENS)
    pixels = np.stack([pixels_of(each) for each in (SMALL, WIDE)])
    values = encoder.run(replace(blank_batch(2, IMAGE_TOKENS), features=pixels)).copy()
    encoder.close()
    return {SMALL: values[0], WIDE: values[1]}


def prompt_rows(ids, images, rows):
    if not images:
        return None
    at = [place for place, token in enumerate(ids) if token == IMAGE_ID][::IMAGE_TOKENS]
    return PromptRows(at, [rows[each] for each in images], [str(each).encode() for each in images])


@pytest.fixture(scope="module")
def session(llava):
    settings = OpenVINOSettings(precision="f32", kv_cache="f32", threads=1)
    session = OpenVINOSession(llava[1] / "openvino_language_model.xml", settings)
    session.reserve(7, 4)
    session.allocate(8)
    yield session
    session.close()


def test_tokens_equal_transformers_in_chunks_after_preemption_and_with_reused_prefixes(session, rows, wanted):
    settings = EngineSettings(max_sequences=4, max_step_tokens=7)
    engine = GenerationEngine(
        lambda context: sample(Logits(session.run(context.step), context)),
        settings,
        8,
        session.block_tokens,
        session.vocab_size,
        session.max_context,
        frozenset(),
        row_size=session.row_size,
    )
    params = SamplingParams(max_tokens=NUM_TOKENS, temperature=0.0, ignore_eos=True)
    found = {key: [] for key in range(len(CASES))}
    arriving, num_steps, num_cached = list(enumerate(CASES)), 0, {}
    while arriving or engine.has_work:
        if arriving and num_steps % 3 == 0:
            key, (ids, images) = arriving.pop(0)
            given = [prompt_rows(ids, images, rows)]
            engine.submit(key, GenerationRequest([ids], params, images=given))
        if num_steps % 11 == 10 and len(engine.scheduler.running) > 1:
            engine.scheduler._preempt(engine.scheduler.running[-1])
        for output in engine.step():
            assert output.error is None
            found[output.key] += output.piece.token_ids
            num_cached[output.key] = max(num_cached.get(output.key, 0), output.piece.num_cached)
        assert violations(snapshot(engine)) == []
        num_steps += 1
    assert [found[key] for key in range(len(CASES))] == wanted
    assert engine.counts().preemptions > 2
    assert num_cached[5] == session.block_tokens
    assert all(len(set(tokens)) > 5 for tokens in wanted), "degenerate text proves nothing"
    assert wanted[1] != wanted[3], "the model does not look at the image"
