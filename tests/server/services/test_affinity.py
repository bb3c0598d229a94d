"""Which requests have one affinity key, and which have different ones."""

import re

import pytest
from openai.types.chat import ChatCompletionSystemMessageParam

from server.base.replica_ids import with_replica
from server.services.affinity import MAX_CHARS, affinity_key, response_id

SYSTEM = {"role": "system", "content": "You are a helpful assistant."}
HELLO = {"role": "user", "content": "Hello"}
REPLY = {"role": "assistant", "content": "Hi."}
OTHER = {"role": "user", "content": "Good morning"}
CHAT = {"messages": [SYSTEM, HELLO]}
LONG = "x" * MAX_CHARS


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


SAME = {
    "the header, whatever the body": (
        ({"X-Session-ID": "s1"}, CHAT | {"user": "ann"}),
        ({"x-session-id": "s1"}, {"prompt": "other", "prompt_cache_key": "k"}),
    ),
    "prompt_cache_key, before user": (
        ({}, CHAT | {"prompt_cache_key": "k", "user": "ann"}),
        ({}, {"input": "other", "prompt_cache_key": "k", "user": "bob"}),
    ),
    "user": (({}, CHAT | {"user": "ann"}), ({}, {"prompt": "other", "user": "ann"})),
    "user of another API": (
        ({}, CHAT | {"user": "ann"}),
        ({}, {"messages": [OTHER], "metadata": {"user_id": "ann"}}),
    ),
    "an empty header counts as none": (({"X-Session-ID": ""}, CHAT), ({}, CHAT)),
    "a later turn": (({}, CHAT), ({}, {"messages": [SYSTEM, HELLO, REPLY, OTHER]})),
    "values of other types": (({}, CHAT), ({}, CHAT | {"user": 5, "prompt_cache_key": None, "metadata": []})),
    "a text as parts": (({}, CHAT), ({}, {"messages": [SYSTEM, HELLO | {"content": parts("Hel", "lo")}]})),
    "a system message of each API": (
        ({}, CHAT),
        ({}, {"system": parts(SYSTEM["content"]), "messages": [HELLO]}),
        ({}, {"instructions": SYSTEM["content"], "input": "Hello"}),
        ({}, {"instructions": SYSTEM["content"], "input": [HELLO]}),
        ({}, {"messages": [SYSTEM | {"role": "developer"}, HELLO]}),
    ),
    "what follows the beginning": (({}, {"prompt": LONG}), ({}, {"prompt": LONG + "more"})),
    "a prompt in token ids": (({}, {"prompt": [1, 2, 3]}), ({}, {"prompt": [[1, 2, 3]]})),
    "one stored response": (
        ({}, {"input": "a", "previous_response_id": "resp_given"}),
        ({}, {"input": "b", "previous_response_id": "resp_given"}),
    ),
}
DIFFERENT = {
    "sessions": (({"X-Session-ID": "s1"}, CHAT), ({"X-Session-ID": "s2"}, CHAT)),
    "a session and a user of one name": (({"X-Session-ID": "ann"}, CHAT), ({}, CHAT | {"user": "ann"})),
    "first messages": (({}, CHAT), ({}, {"messages": [SYSTEM, OTHER]})),
    "system messages": (({}, CHAT), ({}, {"messages": [HELLO]})),
    "where a system message ends": (
        ({}, {"instructions": "ab", "input": "c"}),
        ({}, {"instructions": "a", "input": "bc"}),
    ),
    "first messages after one long system message": (
        ({}, {"system": LONG, "messages": [HELLO]}),
        ({}, {"system": LONG, "messages": [OTHER]}),
    ),
    "token ids": (({}, {"prompt": [1, 23]}), ({}, {"prompt": [12, 3]})),
}


@pytest.mark.parametrize("requests", SAME.values(), ids=SAME)
def test_requests_that_belong_together_have_one_key(requests):
    keys = {affinity_key(*each) for each in requests}
    assert len(keys) == 1
    assert re.fullmatch("[0-9a-f]{16}", keys.pop())


@pytest.mark.parametrize("requests", DIFFERENT.values(), ids=DIFFERENT)
def test_others_have_different_keys(requests):
    assert len({affinity_key(*each) for each in requests}) == len(requests)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": []},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        {"messages": "", "user": ""},
        {"messages": {"role": 1}},
        {"messages": [None, 2.5]},
    ],
)
def test_without_anything_to_go_by_there_is_none(body):
    assert affinity_key({}, body) is None


def test_half_a_character_does_no_harm():
    assert affinity_key({}, {"prompt": "\ud800"}) != affinity_key({}, {"prompt": "\ud801"})


def test_a_chain_of_responses_keeps_the_key_of_its_first_request():
    first = affinity_key({}, {"instructions": "Be brief.", "input": "Hello"})
    chained = response_id(first)
    for _ in range(3):
        key = affinity_key({}, {"input": "And then?", "previous_response_id": chained})
        assert key == first
        assert affinity_key({}, {"previous_response_id": with_replica(chained, "a")}) == first
        chained = response_id(key)


def test_response_ids_are_of_one_form_with_and_without_a_key():
    ids = [response_id(key) for key in (None, None, "0123456789abcdef", "0123456789abcdef")]
    assert len(set(ids)) == 4
    assert all(re.fullmatch("resp_[0-9a-f]{32}", each) for each in ids)


def test_the_key_is_the_same_in_every_process():
    """Workers, replicas and machines choose alike: the key does not depend on Python's own hashes."""
    assert affinity_key({"X-Session-ID": "s1"}, {}) == affinity_key({"X-SESSION-ID": "s1"}, {"user": "x"})
    assert affinity_key({"X-Session-ID": "s1"}, {}) == "7a56986c3e4f7234"


def test_a_message_of_the_openai_client_is_read():
    system = ChatCompletionSystemMessageParam(role="system", content=SYSTEM["content"])
    assert affinity_key({}, {"messages": [system, HELLO]}) == affinity_key({}, CHAT)
