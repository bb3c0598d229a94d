"""Models of text with an encoder: tokens of a mixed batch equal those of transformers for each text alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
from engine_invariants import snapshot, violations
from later import missing
from tiny_text_models import END, SIZES, START, WIDTH, fields_of, generated, tiny_text_model, weights_of

from pipelines.inference.backends.onnx.read_decoder import read_decoder
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.backends.onnxruntime.cuda.lowering import lower
from pipelines.inference.backends.open_model import open_encoder
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import EncoderSettings
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.wire.sampling_params import Beams, SamplingParams
from tools.export.encoder_decoder.decoder import write_decoder
from tools.export.encoder_decoder.families import read_text_model
from tools.export.encoder_decoder.text_encoder import write_text_encoder

if missing("transformers"):
    pytest.skip("needs the export extra", allow_module_level=True)

NUM_TOKENS, PENALTY = 20, 2.0
"""Without a penalty of repetitions, texts of random weights repeat one token."""
CASES = [  # tokens of the text, beams, choices
    (5, 1, 1),
    (31, 1, 3),
    (17, 3, 3),
    (1, 1, 1),
    (40, 1, 1),
]
DECODERS = {
    "onnxruntime": lambda path: OnnxCpuSession(path, OnnxCpuSettings(threads=1)),
    "openvino": lambda path: OpenVINOSession(path, OpenVINOSettings(precision="f32", threads=1)),
}
IN_EVERY_RUN = [
    ("marian", "openvino"),
    ("t5", "onnxruntime"),
]
ALL = [(name, engine) for name in SIZES for engine in DECODERS if (name[:2], engine) != ("t5", "openvino")]


def text(key):
    """Ids of a text, with the end that tokenizers give it."""
    return [*np.random.default_rng(key).integers(0, 200, CASES[key][0] - 1).tolist(), END]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Tiny models by name: (transformers' model, folder)."""
    models_of_names = {}

    def write(name):
        if name not in models_of_names:
            model, folder = tiny_text_model(name), tmp_path_factory.mktemp(name)
            weights, encoder, decoder = read_text_model(weights_of(model), fields_of(model))
            write_text_encoder(weights, encoder, folder)
            write_decoder(weights, decoder, folder)
            (folder / "config.json").write_text(json.dumps(fields_of(model)))
            models_of_names[name] = model, folder
        return models_of_names[name]

    return write


def reference(model, key, beams):
    penalty = {} if beams > 1 else {"repetition_penalty": PENALTY}
    return generated(model, text(key), NUM_TOKENS, beams, **penalty)


def encoded(folder, engine):
    """The encoder's rows for all texts in one batch."""
    texts = [text(key) for key in range(len(CASES))]
    width = max(map(len, texts))
    ids = np.array([ids_of_text + [0] * (width - len(ids_of_text)) for ids_of_text in texts])
    lengths = np.array([len(ids_of_text) for ids_of_text in texts])
    precision = "f32" if engine == "openvino" else None
    session = open_encoder(folder / "encoder.onnx", EncoderSettings("cpu", engine, precision, 1))
    rows = session.run(TokenBatch(ids, lengths, np.zeros_like(ids), np.ones(len(ids), np.bool_)))
    rows_of_texts = [np.array(row[:length]) for row, length in zip(rows, lengths, strict=True)]
    session.close()
    return rows_of_texts


def run_together(session, frames):
    """Requests join one by one in a small cache, and now and then a sequence is set back."""

    def body(context: StepContext):
        return sample(Logits(session.run(context.step), context))

    num_blocks = 9 if session.shape.block_tokens == 16 else 6
    settings = EngineSettings(max_sequences=6, max_step_tokens=7)
    session.reserve(settings.max_step_tokens, settings.max_sequences)
    session.allocate(num_blocks)
    engine = GenerationEngine(StepBody(body), settings, session.shape, CacheSize(num_blocks), frozenset())
    texts, arriving = {}, list(enumerate(CASES))
    while arriving or engine.has_work:
        if arriving:
            key, (_, beams, n) = arriving.pop(0)
            search = {"beams": Beams(beams)} if beams > 1 else {"repetition_penalty": PENALTY}
            params = SamplingParams(max_tokens=NUM_TOKENS, temperature=0.0, ignore_eos=True, **search)
            engine.submit(key, GenerationRequest([[START]], params, n, encoder_states=[frames[key]]))
        if engine.scheduler.running and engine.counts().steps % 4 == 3:
            engine.scheduler._preempt(engine.scheduler.running[-1])
        for output in engine.step():
            assert output.error is None
            texts.setdefault((output.key, output.choice), []).extend(output.piece.token_ids)
        assert violations(snapshot(engine)) == []
    return texts, engine.counts()


@pytest.mark.parametrize(
    ("name", "engine"),
    [way if way in IN_EVERY_RUN else pytest.param(*way, marks=pytest.mark.breadth) for way in ALL],
)
def test_tokens_equal_transformers(name, engine, written):
    model, folder = written(name)
    wanted = {
        (key, choice): tokens
        for key, (_, beams, n) in enumerate(CASES)
        for choice, tokens in enumerate(reference(model, key, beams) * (n // beams))
    }
    session = DECODERS[engine](folder / "decoder.onnx")
    texts_found, counts = run_together(session, encoded(folder, engine))
    session.close()
    assert texts_found == wanted
    assert session.shape.encoder_hidden_size == WIDTH
    assert counts.blocks_used == 0
    assert counts.preemptions > 5
    texts = [tokens for (key, _), tokens in wanted.items() if CASES[key][1] == 1]
    assert all(len(set(tokens)) > 5 for tokens in texts), "degenerate text proves nothing"
    assert len(set(map(tuple, texts))) == len({key for key, (_, beams, _) in enumerate(CASES) if beams == 1})


def test_who_cannot_add_a_bias_by_distance_says_so(written):
    _, folder = written("t5")
    with pytest.raises(
        ModelError, match="adds a bias by distance to scores, as T5's, which OpenVINO's cannot"
    ):
        OpenVINOSession(folder / "decoder.onnx")
    decoder = read_decoder(folder / "decoder.onnx")
    with pytest.raises(
        ModelError, match="attends to the frames of an encoder, which is not computed on cuda"
    ):
        lower(decoder)
    decoder.encoder_hidden_size = 0
    with pytest.raises(ModelError, match="adds a bias by distance to scores, which is not computed on cuda"):
        lower(decoder)
