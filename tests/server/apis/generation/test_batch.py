"""Several conversations in one request."""

from __future__ import annotations

import pytest
from scripted import said

from pipelines.base.errors import EngineError

PATH = "/v1/chat/completions/batch"
HI = [{"role": "user", "content": "hi"}]


def ask(rig, **fields):
    return rig.post(PATH, {"model": "tiny", "messages": [HI, HI], **fields})


def test_every_conversation_gets_a_choice_of_its_own(rig):
    other = [{"role": "user", "content": "ho"}]
    answer = ask(rig, messages=[HI, other], max_tokens=8)
    assert answer.status == 200, answer.body
    assert [choice["index"] for choice in answer.json["choices"]] == [0, 1]
    assert [choice["message"]["content"] for choice in answer.json["choices"]] == ["Hello", "Hello"]
    assert answer.json["usage"]["prompt_tokens"] == 6
    assert answer.json["usage"]["completion_tokens"] == 6
    asked = [call.generation.messages[0]["content"] for call in rig.pipeline.calls]
    assert asked == ["hi", "ho"]
    assert all(call.closed for call in rig.pipeline.calls)


def test_fields_hold_for_every_conversation(rig):
    assert ask(rig, temperature=0, structured_outputs={"choice": ["a"]}).status == 200
    for call in rig.pipeline.calls:
        assert call.generation.constraint.value == ["a"]
        assert call.generation.sampling["temperature"] == 0


BAD = [
    ({"messages": []}, "messages"),
    ({"messages": HI}, "messages.0"),
    ({"messages": [[]]}, "messages"),
    ({"n": 2}, "n"),
    ({"best_of": 2}, "best_of"),
    ({"stream": True}, "stream"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    ({"messages": [HI] * 129}, "messages"),
    ({"modalities": ["audio"]}, "modalities"),
    ({"functions": [{"name": "f"}]}, "functions"),
]


@pytest.mark.parametrize(("fields", "param"), BAD)
def test_what_a_batch_cannot_have_is_named(rig, fields, param):
    answer = ask(rig, **fields)
    assert (answer.status, answer.error["param"]) == (400, param)


def test_one_failure_fails_the_whole(rig):
    rig.pipeline.batches = [[(0, said("a"))], EngineError("a step failed")]
    assert ask(rig).status == 500
    assert all(call.closed for call in rig.pipeline.calls)
