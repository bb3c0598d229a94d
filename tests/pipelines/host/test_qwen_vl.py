"""Qwen-VL as optimum-intel exports it, whose positions are on three axes: conversations with images, from HTTP's
fields to tokens, and steps of any shape equal those of transformers' processor and model.
"""

from __future__ import annotations

import asyncio
import warnings

import numpy as np
import pytest
from breadth import after
from later import missing

if missing("optimum.exporters.openvino"):
    pytest.skip("needs the extra optimum", allow_module_level=True)

from call_outcomes import outcome, user
from engine_invariants import snapshot, violations
from images_by_name import with_names, with_names_alone
from patience import PATIENCE_S
from PIL import Image
from served_models import in_one_process
from tiny_qwen_vl import (
    BEGIN_ID,
    END_ID,
    FAMILIES,
    IMAGE_ID,
    VIDEO_ID,
    generate_alone,
    qwen_processor,
    write_qwen,
)
from tiny_vision import picture

from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.encoder.patch_encoder import PatchEncoder
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import EncoderSettings
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.engine.sequences import grid_positions
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits
from pipelines.nodes.images.families import read_family
from pipelines.repository.new_graph import new_graph
from pipelines.requests.generation.chat import ChatRequest
from pipelines.wire.sampling_params import SamplingParams
from pipelines.worker import encoding

NUM_TOKENS = 12
TALL, WIDE = picture(1, 60, 90), picture(2, 120, 31)  # of 3 × 2 and 1 × 4 tokens
WHITE, TURNED = (Image.new("RGB", size, "white") for size in ((84, 56), (56, 84)))  # of equal bytes


@pytest.fixture(scope="module", params=after(1, FAMILIES))
def exported(request, tmp_path_factory):
    """(Hugging Face's folder, that of its export)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return write_qwen(request.param, tmp_path_factory.mktemp("qwen"))


# Conversations


SAID = {"role": "assistant", "content": "yes"}
CONVERSATIONS = [
    ([user("hello")], []),
    ([user(TALL, "first")], [TALL]),
    ([user("last", WIDE)], [WIDE]),
    ([user("a", TALL, "between", WIDE, TALL), SAID, user("or", WIDE, "?")], [TALL, WIDE, TALL, WIDE]),
    ([user(WHITE, "white")], [WHITE]),
    ([user(TURNED, "white")], [TURNED]),
]


def prompt_of(family, messages, images):
    """The token ids that transformers' processor gives."""
    bare = [
        message
        if isinstance(message["content"], str)
        else {
            **message,
            "content": [{"type": "image"} if "image_url" in part else part for part in message["content"]],
        }
        for message in messages
    ]
    processor = qwen_processor(family)
    text = processor.tokenizer.apply_chat_template(bare, add_generation_prompt=True, tokenize=False)
    return processor(images=images or None, text=[text])["input_ids"][0]


@pytest.fixture(scope="module")
def models(exported):
    """A folder of models: the graph that is written for it, in float32, with draft tokens and short steps."""
    folder = exported[1]
    text = new_graph(folder).replace("device: cpu", "device: cpu, precision: f32")
    text = text.replace("openvino_language_model.xml,", "openvino_language_model.xml, kv_cache: f32,")
    text = text.replace("max_sequences: 64", "max_sequences: 8").replace(
        "step_tokens: 512", "step_tokens: 64"
    )
    text = text.replace(
        "      logits:", "      drafted: {type: lookup, from: step, num_draft_tokens: 3}\n      logits:", 1
    )
    text = text.replace("from: step, path:", "from: drafted, path:", 1)
    (folder / "graph.yaml").write_text(text)
    return folder.parent


def input_of(pipeline, messages):
    body = {"messages": messages, "max_tokens": NUM_TOKENS, "temperature": 0, "ignore_eos": True}
    return ChatRequest.model_validate(body).generation(pipeline.max_context)


async def answer(client, pipeline, messages):
    """(tokens of the prompt as its usage counts them, tokens of the reply, prompt tokens found again)."""
    return await outcome(client, pipeline, input_of(pipeline, messages))


def test_conversations_with_images_equal_transformers(exported, models):
    source, export = exported

    async def scene(client, catalogue):
        pipeline = catalogue.get(export.name)
        together = asyncio.gather(*(answer(client, pipeline, messages) for messages, _ in CONVERSATIONS))
        answers = await asyncio.wait_for(together, PATIENCE_S)
        again = await answer(client, pipeline, CONVERSATIONS[3][0])
        other = await answer(client, pipeline, [user("a", WIDE), *CONVERSATIONS[3][0][1:]])
        shown = input_of(pipeline, CONVERSATIONS[3][0])
        named = [await outcome(client, pipeline, with_names(shown))]
        alone = await with_names_alone(client, pipeline, shown)
        named.append(await outcome(client, pipeline, alone))
        counted = [
            encoding.chat_ids(pipeline, input_of(pipeline, conversation)) for conversation, _ in CONVERSATIONS
        ]
        typed = encoding.chat_ids(pipeline, input_of(pipeline, [user("<|image_pad|> <|video_pad|>")]))
        return answers, again, other, named, counted, typed, client.num_in_flight

    answers, again, other, named, counted, typed, in_flight = in_one_process(scene, models)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prompts = [prompt_of(export.name, *conversation) for conversation in CONVERSATIONS]
        wanted = [
            generate_alone(source, ids, images, NUM_TOKENS)
            for ids, (_, images) in zip(prompts, CONVERSATIONS, strict=True)
        ]
    assert counted == prompts
    assert not {IMAGE_ID, VIDEO_ID} & set(typed)
    assert [(lengths, tokens) for lengths, tokens, _ in answers] == [
        ([len(ids)], tokens) for ids, tokens in zip(prompts, wanted, strict=True)
    ]
    assert again[1] == wanted[3]
    assert again[2] >= 64
    assert [outcome_of[:2] for outcome_of in named] == [again[:2]] * 2
    assert other[2] < 64  # the same ids up to an image of another shape
    assert in_flight == 0


# Steps


def placed(*parts):
    """(ids, images, where these begin) of lists of ids and images in order."""
    ids, images, starts = [], [], []
    for part in parts:
        if isinstance(part, list):
            ids += part
            continue
        images.append(part)
        starts.append(len(ids) + 1)
        (rows, columns) = GRIDS[id(part)]
        ids += [BEGIN_ID, *[IMAGE_ID] * (rows * columns), END_ID]
    return ids, images, starts


GRIDS = {id(TALL): (3, 2), id(WIDE): (1, 4)}
LONG = list(range(60, 100))
CASES = [
    placed([5, 6, 7, 8, 9, 10, 11]),
    placed(LONG, TALL, [20, 21, 22]),
    placed([40], TALL, [41, 42], WIDE, [43, 44, 45]),
    placed([50], WIDE),
    placed(LONG, TALL, [23]),  # found again: a block of 32 tokens
]


@pytest.fixture(scope="module")
def wanted(exported):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [generate_alone(exported[0], ids, images, NUM_TOKENS) for ids, images, _ in CASES]


@pytest.fixture(scope="module")
def rows(exported):
    """The rows of each image, of one batch of the encoder."""
    family = read_family(exported[1] / "config.json", exported[1] / "preprocessor_config.json")
    read = [family.read(image) for image in (TALL, WIDE)]
    assert [patches.grids[0] for patches in read] == list(GRIDS.values())
    settings = EncoderSettings(precision="f32")
    encoder = PatchEncoder(exported[1] / "openvino_vision_embeddings_model.xml", settings)
    lengths = np.array([patches.num_tokens for patches in read])
    blank = np.zeros((2, lengths.max()), np.int64)
    values = encoder.run(
        TokenBatch(
            *(
                blank,
                lengths,
                blank,
                np.ones(2, np.bool_),
                np.concatenate([patches.pixels for patches in read]),
            ),
            np.array([patches.grids[0] for patches in read], np.int32),
        )
    ).copy()
    encoder.close()
    return {id(TALL): values[0, :6], id(WIDE): values[1, :4]}


@pytest.fixture(scope="module")
def session(exported):
    settings = OpenVINOSettings(precision="f32", kv_cache="f32", threads=1)
    session = OpenVINOSession(exported[1] / "openvino_language_model.xml", settings)
    assert session.shape.mrope_axes == grid_positions.AXES
    session.reserve(7, 4)
    session.allocate(8)
    yield session
    session.close()


def tokens_of(session, rows):
    """What all cases give together, in steps of 7 tokens, where some are preempted."""
    engine = GenerationEngine(
        StepBody(lambda context: sample(Logits(session.run(context.step), context))),
        EngineSettings(max_sequences=4, max_step_tokens=7),
        session.shape,
        CacheSize(8),
        frozenset(),
    )
    params = SamplingParams(max_tokens=NUM_TOKENS, temperature=0.0, ignore_eos=True)
    texts, arriving, num_steps = {key: [] for key in range(len(CASES))}, list(enumerate(CASES)), 0
    while arriving or engine.has_work:
        if arriving and num_steps % 3 == 0:
            key, (ids, images, starts) = arriving.pop(0)
            embeds = None
            if images:
                values, names = (
                    [rows[id(image)] for image in images],
                    [str(id(image)).encode() for image in images],
                )
                embeds = PromptEmbeds(starts, values, names, [GRIDS[id(image)] for image in images])
            engine.submit(key, GenerationRequest([ids], params, images=[embeds]))
        if num_steps % 11 == 10 and len(engine.scheduler.running) > 1:
            engine.scheduler._preempt(engine.scheduler.running[-1])
        for output in engine.step():
            assert output.error is None
            texts[output.key] += output.piece.token_ids
        assert violations(snapshot(engine)) == []
        num_steps += 1
    assert engine.counts().preemptions > 1
    assert engine.counts().prefix_hit_tokens >= session.shape.block_tokens
    return [texts[key] for key in range(len(CASES))]


def test_steps_of_any_shape_equal_transformers(session, rows, wanted):
    assert tokens_of(session, rows) == wanted
    assert all(len(set(tokens)) > 5 for tokens in wanted), "degenerate text proves nothing"


def test_positions_that_only_count_tokens_give_other_text(session, rows, wanted, monkeypatch):
    def counted(first, grid):
        return np.tile(first + np.arange(grid[0] * grid[1]), (grid_positions.AXES, 1))

    monkeypatch.setattr(grid_positions, "_axes", counted)
    found = tokens_of(session, rows)
    assert [one == other for one, other in zip(found, wanted, strict=True)] == [True, *[False] * 4]


def test_rows_that_are_added_after_the_first_layers_change_the_text(session, rows, wanted):
    """Those of Qwen3-VL, which follow what is read before them; other families have none."""
    size = 32 if session.shape.inputs_embeds_size == 96 else session.shape.inputs_embeds_size
    others = {key: np.concatenate([each[:, :size], 0 * each[:, size:]], axis=1) for key, each in rows.items()}
    found = tokens_of(session, others)
    assert found[0] == wanted[0]
    assert (found == wanted) == (size == session.shape.inputs_embeds_size)
