"""What a judge reads of requests and replies: turns, and parts of long texts."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from pipelines.base.errors import RequestError
from pipelines.nodes.composing.client_texts import asked_texts, check_texts, conversation, with_reply
from pipelines.nodes.composing.text_parts import SPARE_TOKENS, parts_of
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput


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
    turns = conversation(request, ["user", "tool"])
    assert [(turn["role"], turn["content"]) for turn in turns] == [
        ("user", "U"),
        ("assistant", "A"),
        ("user", "T\n\nV"),
    ]
    begun = GenerationInput(messages=messages[1:3], continue_final_message=True)
    assert asked_texts(begun, ["user"]) == ["U", "A"]
    assert with_reply(conversation(begun, ["user"]), "A B", continues=True)[-1]["content"] == "A B"


@pytest.mark.parametrize("fields", [{"prompts": [Prompt(ids=[1])]}, {"completion_ids": [1]}])
def test_token_ids_are_refused(fields):
    with pytest.raises(RequestError, match="token ids are refused"):
        check_texts(GenerationInput(**fields))
