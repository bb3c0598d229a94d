"""GGUF files of vision models, a decoder and the mmproj file beside it: conversations with images, from the
fields of HTTP to tokens, equal those of transformers' processor and model on the same weights.
"""

from __future__ import annotations

import asyncio
import warnings
from importlib.metadata import version

import pytest
from breadth import after
from call_outcomes import user
from gguf_vision import FAMILIES, MODEL, ONLY_IN_5, PROJECTOR, write_seeing
from patience import PATIENCE_S
from served_models import in_one_process
from tiny_vision import picture

from pipelines.gguf.convert import FLOAT_SUMS, convert
from pipelines.repository.new_graph import new_graph
from pipelines.requests.generation.chat import ChatRequest

NUM_TOKENS = 12
TALL, WIDE = picture(1, 60, 90), picture(2, 120, 31)
ENGINES = ("openvino", "onnxruntime")
FLOATS = {"openvino": ", precision: f32, kv_cache: f32", "onnxruntime": ""}


SAID = {"role": "assistant", "content": "yes"}
CONVERSATIONS = [
    ([user("hello")], []),
    ([user(TALL, "first")], [TALL]),
    ([user("last", WIDE)], [WIDE]),
    ([user("a", TALL, "between", WIDE), SAID, user("or", WIDE, "?")], [TALL, WIDE, WIDE]),
]


def prompt_of(family, messages, images):
    """The token ids that transformers' processor gives."""
    processor = family.processor()
    bare = [
        {
            **message,
            "content": [{"type": "image"} if "image_url" in part else part for part in message["content"]]
            if isinstance(message["content"], list)
            else [{"type": "text", "text": message["content"]}],
        }
        for message in messages
    ]
    tokenizer = processor.tokenizer
    text = tokenizer.apply_chat_template(
        bare, chat_template=processor.chat_template, add_generation_prompt=True, tokenize=False
    )
    special = not (tokenizer.bos_token and text.startswith(tokenizer.bos_token))
    return processor(images=images or None, text=[text], add_special_tokens=special)["input_ids"][0]


@pytest.fixture(scope="module", params=after(1, FAMILIES))
def files(request, tmp_path_factory):
    """(the family, Hugging Face's folder, that of the two files).  transformers 5 alone has some families."""
    if request.param in ONLY_IN_5 and version("transformers").startswith("4."):
        pytest.skip(f"transformers {version('transformers')} has no {request.param}")
    folder = tmp_path_factory.mktemp("gguf") / request.param
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FAMILIES[request.param], write_seeing(FAMILIES[request.param], folder), folder


@pytest.fixture(scope="module")
def wanted(files):
    """(the prompt, the tokens behind it) of each conversation."""
    family, source, _ = files
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prompts = [list(prompt_of(family, *each)) for each in CONVERSATIONS]
        return [
            (ids, family.answer(source, ids, images, NUM_TOKENS))
            for ids, (_, images) in zip(prompts, CONVERSATIONS, strict=True)
        ]


@pytest.fixture(scope="module", params=ENGINES)
def models(request, files, tmp_path_factory):
    """A folder of models with the converted files, computed in float32 by one engine."""
    engine, folder = request.param, tmp_path_factory.mktemp("served")
    _, _, place = files
    convert(place / MODEL, folder / "m", FLOAT_SUMS, place / PROJECTOR)
    text = new_graph(folder / "m")
    named = text.replace(
        "model.onnx, device: cpu", f"model.onnx, device: cpu, engine: {engine}{FLOATS[engine]}"
    )
    named = named.replace(".onnx, device: cpu}", f".onnx, device: cpu, engine: {engine}}}")
    assert named.count(engine) == 2
    (folder / "m" / "graph.yaml").write_text(named)
    return folder


async def answer(client, pipeline, messages):
    """(tokens of the prompt as its usage counts them, tokens of the reply, prompt tokens found again)."""
    body = {"messages": messages, "max_tokens": NUM_TOKENS, "temperature": 0, "ignore_eos": True}
    call = pipeline.open(ChatRequest.model_validate(body).generation(pipeline.max_context), client)
    counted, token_ids, cached = call.prompt_lengths, [], 0
    try:
        async for updates in call.updates():
            for _, update in updates:
                token_ids += update.piece.token_ids
                cached = max(cached, update.piece.num_cached)
    finally:
        call.close()
    return counted[0], token_ids, cached


def test_conversations_with_images_equal_transformers(models, wanted):
    async def scene(client, catalogue):
        pipeline = catalogue.get("m")
        together = asyncio.gather(*(answer(client, pipeline, messages) for messages, _ in CONVERSATIONS))
        answers = await asyncio.wait_for(together, PATIENCE_S)
        return answers, await answer(client, pipeline, CONVERSATIONS[3][0])

    answers, again = in_one_process(scene, models)
    assert [text_outcome[:2] for text_outcome in answers] == [(len(ids), tokens) for ids, tokens in wanted]
    assert again[1] == wanted[3][1]
    assert again[2] >= 16, "its beginning is found again, images included"
    assert wanted[1][1] != wanted[2][1], "images count"
