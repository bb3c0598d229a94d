"""Folders of vision models, served as optimum-intel writes them: conversations with images, from HTTP's
fields to tokens, equal those of transformers' processor and model.
"""

from __future__ import annotations

import asyncio
import base64
import io
import shutil
import warnings
from dataclasses import replace

import pytest
from breadth import after
from later import missing

if missing("optimum.exporters.openvino"):
    pytest.skip("needs the extra optimum", allow_module_level=True)

import tiny_gemma3
import tiny_idefics3
import tiny_internvl
import tiny_llava
import tiny_smolvlm
from call_outcomes import outcome
from images_by_name import with_names, with_names_alone
from patience import PATIENCE_S
from served_models import in_one_process
from tiny_vision import picture

from pipelines.base.errors import RequestError
from pipelines.repository.new_graph import new_graph
from pipelines.requests.generation.chat import ChatRequest
from pipelines.worker import encoding
from server.apis.messages.request import MessagesRequest
from server.apis.responses.input_items import read_items
from server.apis.responses.request import ResponseRequest
from server.apis.responses.translate import ChatTranslation

SMALL, WIDE = (1, 40, 30), (2, 90, 31)
NUM_TOKENS = 12


def url_of(image, kind="PNG"):
    out = io.BytesIO()
    picture(*image).save(out, kind)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(out.getvalue()).decode()}"


def user(text, *images):
    shown = [{"type": "image_url", "image_url": {"url": url_of(each), "detail": "low"}} for each in images]
    return {"role": "user", "content": [{"type": "text", "text": text}, *shown]}


CONVERSATIONS = [
    ([user("hello")], []),
    ([user("what is it", SMALL)], [SMALL]),
    ([user("what is it", WIDE)], [WIDE]),
    (
        [user("both", SMALL, WIDE), {"role": "assistant", "content": "yes"}, user("or", SMALL)],
        [SMALL, WIDE, SMALL],
    ),
    ([user("hello")], []),
]


def bare(message):
    """A message as transformers' processor takes it: with texts and places for images."""
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [{"type": "image"} if "image_url" in part else part for part in parts]}


def prompt_of(family, messages, images):
    """The token ids that transformers' processor gives."""
    processor = family.processor()
    text = processor.apply_chat_template([bare(each) for each in messages], add_generation_prompt=True)
    shown = [picture(*each) for each in images] or None
    begin = processor.tokenizer.bos_token
    special = not (begin and text.startswith(begin))
    return processor(images=shown, text=text, add_special_tokens=special)["input_ids"][0]


FAMILIES = {
    "llava": tiny_llava,
    "gemma3": tiny_gemma3,
    "idefics3": tiny_idefics3,
    "smolvlm": tiny_smolvlm,
    "internvl": tiny_internvl,
}
LOOKUP = (
    "      found: {type: lookup, from: step, num_draft_tokens: 3}\n      logits: {type: model, from: found"
)


@pytest.fixture(scope="module", params=after(1, FAMILIES))
def served(request, tmp_path_factory):
    """(the family, Hugging Face's folder, a folder with the served model); Gemma 3 looks drafts up."""
    name = request.param
    source, export = request.getfixturevalue(name)
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(export, folder / name)
    text = new_graph(folder / name).replace(
        "openvino_language_model.xml, device: cpu",
        "openvino_language_model.xml, device: cpu, precision: f32, kv_cache: f32",
    )
    text = text.replace(
        "embeddings_model.xml, device: cpu", "embeddings_model.xml, device: cpu, precision: f32"
    )
    if name == "gemma3":
        text = text.replace("      logits: {type: model, from: step", LOOKUP)
        assert LOOKUP in text
    (folder / name / "graph.yaml").write_text(text)
    return FAMILIES[name], source, folder


def input_of(pipeline, messages, **more):
    body = {"messages": messages, "max_tokens": NUM_TOKENS, "temperature": 0, "ignore_eos": True, **more}
    return ChatRequest.model_validate(body).generation(pipeline.max_context)


def of_other_endpoints(pipeline, text, image):
    """The input of a question about an image, as Responses and as Messages have it."""
    url = url_of(image)
    seen = {"type": "base64", "media_type": "image/png", "data": url.partition(",")[2]}
    sampling = {"model": "llava", "temperature": 0, "max_tokens": NUM_TOKENS}
    parts = [{"type": "text", "text": text}, {"type": "image", "source": seen}]
    body = {**sampling, "messages": [{"role": "user", "content": parts}]}
    yield MessagesRequest.model_validate(body).chat().generation(pipeline.max_context)
    parts = [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": url}]
    sampling["max_output_tokens"] = sampling.pop("max_tokens")
    items = read_items([{"role": "user", "content": parts}], lambda *_: {})
    asked = ResponseRequest.model_validate({**sampling, "input": items})
    yield ChatTranslation(asked, [], items).generation(pipeline.max_context)


async def answer(client, pipeline, messages, **more):
    """(tokens of the prompt as its usage counts them, tokens of the reply, prompt tokens found again)."""
    return await outcome(client, pipeline, input_of(pipeline, messages, **more))


def with_typed(family, prompt):
    """The ids of a prompt with the family's mark, as letters, in the place of each "@"."""
    vocab = family.processor().tokenizer.get_vocab()
    letters = [vocab[letter] for letter in family.MARK]
    return [token for each in prompt for token in (letters if each == vocab["@"] else [each])]


def test_conversations_with_images_equal_transformers(served):
    family, source, models = served

    async def scene(client, catalogue):
        pipeline = catalogue.get(name)
        together = asyncio.gather(*(answer(client, pipeline, messages) for messages, _ in CONVERSATIONS))
        answers = await asyncio.wait_for(together, PATIENCE_S)
        again = await answer(client, pipeline, CONVERSATIONS[3][0])
        other = await answer(client, pipeline, [user("both", WIDE, SMALL), *CONVERSATIONS[3][0][1:]])
        others = [
            await outcome(
                client,
                pipeline,
                replace(other_endpoint, sampling=other_endpoint.sampling | {"ignore_eos": True}),
            )
            for other_endpoint in of_other_endpoints(pipeline, "what is it", SMALL)
        ]
        counted = [
            encoding.chat_ids(pipeline, input_of(pipeline, conversation)) for conversation, _ in CONVERSATIONS
        ]
        typing = [user(TYPED.replace("@", family.MARK), SMALL)]
        typed = (
            encoding.chat_ids(pipeline, input_of(pipeline, typing)),
            await answer(client, pipeline, typing),
        )
        shown = input_of(pipeline, CONVERSATIONS[3][0])
        named = [await outcome(client, pipeline, with_names(shown))]
        alone = await with_names_alone(client, pipeline, shown)
        named.append(await outcome(client, pipeline, alone))
        refused = []
        for part in REFUSED:
            message = {"role": "user", "content": [{"type": "text", "text": "hello"}, *part]}
            with pytest.raises(RequestError) as error:
                pipeline.prepare(input_of(pipeline, [message]), client)
            refused.append((error.value.message, error.value.field))
        return answers, again, other, others, counted, typed, named, refused, client.num_in_flight

    (name,) = (path.name for path in models.iterdir())
    answers, again, other, others, counted, typed, named, refused, in_flight = in_one_process(scene, models)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prompts = [prompt_of(family, *conversation) for conversation in CONVERSATIONS]
        typed_prompt = with_typed(family, prompt_of(family, [user(TYPED, SMALL)], [SMALL]))
        *wanted, typed_wanted = [
            family.generate_alone(source, ids, [picture(*image) for image in images], NUM_TOKENS)
            for ids, (_, images) in zip(
                [*prompts, typed_prompt], [*CONVERSATIONS, ([], [SMALL])], strict=True
            )
        ]
    assert counted == prompts
    assert [(lengths, tokens) for lengths, tokens, _ in answers] == [
        ([len(ids)], tokens) for ids, tokens in zip(prompts, wanted, strict=True)
    ]
    assert [outcome_of[:2] for outcome_of in others] == [answers[1][:2]] * 2
    assert again[1] == wanted[3]
    assert again[2] >= 32
    assert other[2] == 0  # the same ids, of other images
    assert [outcome_of[:2] for outcome_of in named] == [again[:2]] * 2
    assert wanted[1] != wanted[2]
    assert typed[0] == typed_prompt
    assert typed[1][1] == typed_wanted
    assert in_flight == 0
    assert refused == [
        ("At most 8 image(s) may be provided in one request.", "messages.0.content.9"),
        ("`messages.0.content.1`: this is no image; allowed: PNG, JPEG, WEBP, GIF", "messages.0.content.1"),
    ]


SHOWN = user("", SMALL)["content"][1:]
NO_IMAGE = [{"type": "image_url", "image_url": "data:image/png;base64,aGVsbG8="}]
REFUSED = [SHOWN * 9, NO_IMAGE]
TYPED = "the mark @@ is text"
