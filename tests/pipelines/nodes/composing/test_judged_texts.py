"""What a judge reads of requests and replies: turns, and parts of long texts."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random
from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from pipelines.base.errors import RequestError
from pipelines.nodes.composing.client_texts import (
    Conversation,
    asked_texts,
    check_media,
    check_texts,
    conversation,
    with_reply,
)
from pipelines.nodes.composing.judge import Judge
from pipelines.nodes.composing.text_parts import SPARE_TOKENS, parts_of
from pipelines.values.composed_values import WholeReply
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput, ImageInput, SoundInput


def words_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def test_parts_hold_all_words_and_fit():
    tokenizer, random = words_tokenizer(), Random(1)
    for num_words in (0, 1, 55, 56, 57, 58, 112, 113, 1000, 20_000):
        words = [f"w{random.randrange(10**6)}" for _ in range(num_words)]
        text = " ".join(words)
        parts = parts_of([text], tokenizer, 56 + SPARE_TOKENS)
        assert {word for part in parts for word in part.split()} >= set(words)
        assert max(len(part.split()) for part in parts) <= 56
        assert (len(parts) == 1) == (num_words <= 56)
        pairs = {pair for part in parts for pair in pairwise(part.split())}
        assert pairs >= set(pairwise(words)), "neighbours stand in one part"


def test_roles_say_whose_texts_are_judged():
    messages = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "U"},
        {"role": "assistant", "content": "A"},
        {"role": "tool", "content": "T"},
        {"role": "User", "content": "V"},
    ]
    request = GenerationInput(messages=messages, template_kwargs={"documents": [{"text": "D"}]})
    assert asked_texts(request, ["user", "tool"]) == ["U", "T", "V"]
    assert asked_texts(request, ["system"]) == ["S", "D"]
    turns = conversation(request, ["user", "tool"]).messages
    assert [(turn["role"], turn["content"]) for turn in turns] == [
        ("user", "U"),
        ("assistant", "A"),
        ("user", "T\n\nV"),
    ]
    begun = GenerationInput(messages=messages[1:3], continue_final_message=True)
    assert asked_texts(begun, ["user"]) == ["U", "A"]
    whole = with_reply(conversation(begun, ["user"]), "A B", continues=True)
    assert whole.messages[-1]["content"] == "A B"


def image(place):
    return ImageInput("data:image/png;base64,", "image_url", f"messages[{place}].content[0]")


def test_a_judge_that_sees_reads_the_images_of_what_it_judges():
    shown = [{"type": "image"}, {"type": "text", "text": "U"}]
    messages = [{"role": "system", "content": [{"type": "image"}]}, {"role": "user", "content": shown}]
    request = GenerationInput(messages=messages, images=[image(0), image(1)])
    seen = conversation(request, ["user"], sees=True)
    assert seen == ([{"role": "user", "content": shown}], [image(1)])
    both = conversation(request, ["user", "system"], sees=True)
    assert both == ([{"role": "user", "content": [{"type": "image"}, *shown]}], request.images)
    assert conversation(request, ["user"]) == ([{"role": "user", "content": "\nU"}], [])
    check_media(request, sees=True)
    with pytest.raises(RequestError, match=r"`messages\[0\].content\[0\]`.* reads no `image_url` parts"):
        check_media(request, sees=False)
    sound = SoundInput("data:audio/wav;base64,", "input_audio", "messages[1].content[1]")
    with pytest.raises(RequestError, match="reads no `input_audio` parts"):
        check_media(GenerationInput(messages=messages, sounds=[sound]), sees=True)


def test_a_guard_model_that_sees_is_asked_with_the_images():
    asked = []

    async def ask(graph, request):
        asked.append(request)
        return SimpleNamespace(reply=reply)

    async def reply():
        return WholeReply("I cannot tell")

    nodes = [
        SimpleNamespace(config=SimpleNamespace(guard="llama_guard")),
        SimpleNamespace(config=SimpleNamespace(max_images=4)),
    ]
    graph = SimpleNamespace(answering=[SimpleNamespace(node=node) for node in nodes], max_context=100)
    judge = Judge(graph, None, 0.5)
    shown = Conversation([{"role": "user", "content": [{"type": "image"}]}], [image(0)])
    assert judge.sees
    assert asyncio.run(judge.fault(SimpleNamespace(ask=ask), [], shown)) == "no verdict"
    assert (asked[0].messages, asked[0].images, asked[0].constraint) == (*shown, None)


@pytest.mark.parametrize("fields", [{"prompts": [Prompt(ids=[1])]}, {"completion_ids": [1]}])
def test_token_ids_are_refused(fields):
    with pytest.raises(RequestError, match="token ids are refused"):
        check_texts(GenerationInput(**fields))
