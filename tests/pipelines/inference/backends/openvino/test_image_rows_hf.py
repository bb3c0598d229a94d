"""Vision models, as optimum-intel exports them: tokens of a mixed batch equal those of transformers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import openvino as ov
import pytest
from breadth import after
from engine_invariants import snapshot, violations
from later import Later, missing

if missing("optimum.exporters.openvino"):
    pytest.skip("needs the extra optimum", allow_module_level=True)

import tiny_gemma3
import tiny_llava
from openvino._offline_transformations import paged_attention_transformation
from tiny_vision import picture

from pipelines.adapters.linear_names import ENDS
from pipelines.adapters.weights import BASE, AdapterWeights, LoraFactors
from pipelines.inference.backends.encoder_io import blank_batch
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.decoder.embedded_tokens import Embedded, RowInputs
from pipelines.inference.backends.openvino.encoder.encoder_session import OpenVINOEncoder
from pipelines.inference.backends.openvino.paging.token_kinds import ATTENTION, KINDS_INPUT, connect_kinds
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_contract import EncoderSettings
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits
from pipelines.onnx_format.decoder_format import TOKEN_KINDS
from pipelines.telemetry.engine_counts import Counts
from pipelines.wire.sampling_params import SamplingParams

torch = Later("torch")

NUM_TOKENS = 16
SMALL, WIDE = (1, 40, 30), (2, 90, 31)
LONG = list(range(60, 100))
FAMILIES = {"llava": tiny_llava, "gemma3": tiny_gemma3}
STEP_TOKENS = {"llava": 7, "gemma3": 12}
"""Few, so that a step of LLaVA cuts images; one of Gemma 3 has room for a whole one."""


@pytest.fixture(scope="module", params=after(1, FAMILIES))
def model(request):
    """A family with its files, of a tiny model."""
    source, export = request.getfixturevalue(request.param)
    return Model(request.param, FAMILIES[request.param], source, export)


@dataclass(frozen=True)
class Model:
    name: str
    family: ModuleType
    source: Path
    export: Path

    @property
    def cases(self):
        """[(ids, images)]"""
        image = self.family.IMAGE
        before = 32 - image.index(self.family.IMAGE_ID) - 2
        return [
            ([5, 6, 7, 8, 9, 10, 11], []),
            ([*LONG, *image, 20, 21, 22], [SMALL]),
            ([40, *image, 41, 42, *image, 43, 44, 45], [SMALL, WIDE]),
            ([*LONG, *image, 20, 21, 22], [WIDE]),  # of equal ids
            ([50, 51, 52, *image], [WIDE]),
            ([*LONG, *image, 23], [SMALL]),  # found again: a block of 32 tokens
            ([*LONG[:before], *image, 24], [WIDE]),  # whose first block ends inside the image
            ([*LONG[:before], *image, 25], [WIDE]),
        ]

    def wanted(self, source=None):
        """What transformers makes of each case, with the weights of the folder `source`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [
                self.family.generate_alone(
                    source or self.source, ids, [picture(*each) for each in images], NUM_TOKENS
                )
                for ids, images in self.cases
            ]

    def rows(self):
        """The rows of each image, of one batch of the vision encoder."""
        family = self.family
        encoder = OpenVINOEncoder(
            self.export / "openvino_vision_embeddings_model.xml", EncoderSettings(precision="f32")
        )
        assert encoder.columns == (3, family.SIDE, family.SIDE)
        assert (encoder.per_token, encoder.max_tokens) == (True, family.IMAGE_TOKENS)
        read = family.processor().image_processor
        pixels = np.stack([read(picture(*shape))["pixel_values"][0] for shape in (SMALL, WIDE)])
        batch = replace(blank_batch(2, family.IMAGE_TOKENS), features=pixels.astype(np.float32))
        values = encoder.run(batch).copy()
        encoder.close()
        return {SMALL: values[0], WIDE: values[1]}

    def prompt_embeds(self, ids, images, rows):
        if not images:
            return None
        places = [place for place, token in enumerate(ids) if token == self.family.IMAGE_ID]
        digests = [str(each).encode() for each in images]
        return PromptEmbeds(places[:: self.family.IMAGE_TOKENS], [rows[each] for each in images], digests)

    def session(self, targets=None):
        settings = OpenVINOSettings(precision="f32", kv_cache="f32", threads=1, targets=targets)
        session = OpenVINOSession(self.export / "openvino_language_model.xml", settings)
        session.reserve(STEP_TOKENS[self.name], 4)
        session.allocate(8)
        return session


class Answers(NamedTuple):
    """The tokens of each case, how many of its prompt were found in the cache, and the engine's counts."""

    tokens: list[list[int]]
    num_cached: dict[int, int]
    counts: Counts


def answers(model, session, rows, adapter=None):
    """All cases, which join a batch one after the other, in small steps and with preemptions; the last one
    comes alone.  Every second one has the adapter, if one is given.
    """
    settings = EngineSettings(max_sequences=4, max_step_tokens=STEP_TOKENS[model.name])
    engine = GenerationEngine(
        StepBody(lambda context: sample(Logits(session.run(context.step), context)), adapters=session),
        settings,
        session.shape,
        CacheSize(8),
        frozenset(),
    )
    if adapter is not None:
        engine.put_adapter(1, adapter)
    params = SamplingParams(max_tokens=NUM_TOKENS, temperature=0.0, ignore_eos=True)
    arriving, num_steps, num_cached = list(enumerate(model.cases)), 0, {}
    texts = [[] for _ in arriving]
    while arriving or engine.has_work:
        if arriving and (not engine.has_work or (num_steps % 3 == 0 and len(arriving) > 1)):
            key, (ids, images) = arriving.pop(0)
            embeds = [model.prompt_embeds(ids, images, rows)]
            number = BASE if adapter is None else key % 2
            engine.submit(key, GenerationRequest([ids], params, images=embeds, adapter=number))
        if num_steps % 11 == 10 and len(engine.scheduler.running) > 1:
            engine.scheduler._preempt(engine.scheduler.running[-1])
        for output in engine.step():
            assert output.error is None
            texts[output.key] += output.piece.token_ids
            num_cached[output.key] = max(num_cached.get(output.key, 0), output.piece.num_cached)
        assert violations(snapshot(engine)) == []
        num_steps += 1
    return Answers(texts, num_cached, engine.counts())


def test_tokens_equal_transformers_in_chunks_after_preemption_and_with_reused_prefixes(model):
    session, rows, wanted = model.session(), model.rows(), model.wanted()
    replied = answers(model, session, rows)
    assert replied.tokens == wanted
    assert replied.counts.preemptions > 2
    assert replied.num_cached[5] == session.shape.block_tokens
    assert replied.num_cached[7] == (0 if session.shape.whole_images else session.shape.block_tokens)
    assert all(len(set(tokens)) > 5 for tokens in wanted), "degenerate text proves nothing"
    assert wanted[1] != wanted[3], "the model does not look at the image"
    assert session.shape.whole_images == (model.name == "gemma3")
    if session.shape.whole_images:
        session._rows = RowInputs(Embedded(session.shape.inputs_embeds_size))
        session._rows.none[TOKEN_KINDS] = np.empty(0, np.int32)
        unwired = answers(model, session, rows).tokens
        differing = [tokens != other for tokens, other in zip(unwired, wanted, strict=True)]
        assert not differing[0]
        assert sum(differing) >= 3, "its images see one another, which this model does not need"
    session.close()


@pytest.mark.breadth
def test_adapters_beside_images_say_what_a_model_says_into_which_they_are_merged(llava, tmp_path):
    from transformers import AutoModelForImageTextToText

    model = Model("llava", tiny_llava, *llava)
    session = model.session(frozenset({"q_proj", "down_proj", *ENDS}))
    merged = AutoModelForImageTextToText.from_pretrained(model.source)
    weights = {
        name.rpartition("language_model.")[2]: parameter for name, parameter in merged.named_parameters()
    }
    rng, linears = np.random.default_rng(0), {}
    for linear, shape in session.linears.items():
        a, b = rng.normal(0, 0.1, (4, shape.size_in)), rng.normal(0, 0.1, (shape.size_out, 4))
        linears[linear] = LoraFactors(a.astype(np.float32), b.astype(np.float32))
        more = torch.tensor(b @ a, dtype=torch.float32)
        weights[f"{linear}.weight"].data += more.T if linear == "embed_tokens" else more
    assert {linear.rpartition(".")[2] for linear in linears} == {"q_proj", "down_proj", *ENDS}
    merged.save_pretrained(tmp_path)
    both = model.wanted(), model.wanted(tmp_path)
    assert all(tokens != other for tokens, other in zip(*both, strict=True))
    replied = answers(model, session, model.rows(), AdapterWeights(4, linears))
    assert replied.tokens == [both[place % 2][place] for place in range(len(model.cases))]
    session.close()


@pytest.mark.breadth
def test_openvino_pages_no_kinds_of_tokens_itself(gemma3):
    """Where a later OpenVINO does, `connect_kinds` has nothing left to do."""
    model = ov.Core().read_model(gemma3[1] / "openvino_language_model.xml")
    paged_attention_transformation(model)
    (kinds,) = (
        parameter for parameter in model.get_parameters() if parameter.get_friendly_name() == TOKEN_KINDS
    )
    assert not kinds.output(0).get_target_inputs()
    assert connect_kinds(model)
    readers = [node for node in model.get_ops() if node.get_type_name() == ATTENTION]
    assert len(readers) == 3
    assert {node.input_value(KINDS_INPUT).get_node().get_friendly_name() for node in readers} == {TOKEN_KINDS}
    with pytest.raises(ModelError, match=f"another input {KINDS_INPUT} of its attention"):
        connect_kinds(model)
