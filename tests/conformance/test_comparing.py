"""The comparison sees what differs, and nothing where nothing does."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from comparing import diffs
from exchanges import Answer, read_exchanges
from settings import GROUPS

EXCHANGES = {exchange.case: exchange for group in GROUPS for exchange in read_exchanges(group)}
WHOLE, STREAM = "gen__045_cmpl_logprobs5", "chat__087_stream_usage"
SAMPLED, RESPONSE = "chat__006_n2", "resp__020_stream"


def compared(case: str, **changes: object) -> list[tuple[str, str]]:
    exchange = EXCHANGES[case]
    return [(diff.path, diff.what) for diff in diffs(exchange, replace(exchange.answer, **changes))]


def edited(value: Any, *path: Any, to: Any) -> Any:
    """A copy of a value with something else at a path; `...` takes it away."""
    value = place = deepcopy(value)
    for key in path[:-1]:
        place = place[key]
    if to is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return value


def whole(case: str) -> Any:
    return EXCHANGES[case].answer.json


def events(case: str) -> list[list[Any]]:
    return [list(event) for event in EXCHANGES[case].answer.events]


@pytest.mark.parametrize("case", EXCHANGES)
def test_a_recording_equals_itself(case):
    exchange = EXCHANGES[case]
    assert diffs(exchange, exchange.answer) == []


@pytest.mark.parametrize(
    ("path", "to", "found"),
    [
        (("model",), ..., ("model", "missing")),
        (("more",), 1, ("more", "extra")),
        (("created",), "now", ("created", "type")),
        (("id",), "chatcmpl-1", ("id", "value")),
        (("choices", 0, "text"), "other", ("choices.0.text", "value")),
        (("choices", 0, "finish_reason"), "stop", ("choices.0.finish_reason", "value")),
        (
            ("choices", 0, "logprobs", "token_logprobs", 0),
            -9.0,
            ("choices.0.logprobs.token_logprobs.0", "value"),
        ),
        (("usage", "completion_tokens"), 9, ("usage.completion_tokens", "value")),
    ],
)
def test_another_value_is_seen(path, to, found):
    assert compared(WHOLE, json=edited(whole(WHOLE), *path, to=to)) == [found]


@pytest.mark.parametrize(
    ("path", "to"), [(("id",), "cmpl-1"), (("created",), 1), (("system_fingerprint",), "braid-1")]
)
def test_what_no_two_servers_have_alike_is_no_difference(path, to):
    assert compared(WHOLE, json=edited(whole(WHOLE), *path, to=to)) == []


def test_another_status_is_the_only_difference():
    assert compared(WHOLE, status=500, content_type="text/html") == [("status", "value")]


def test_another_content_type_is_seen():
    assert compared(WHOLE, content_type="text/html") == [("content-type", "value")]


def test_a_stream_may_be_cut_elsewhere():
    pieces = deepcopy(EXCHANGES[STREAM].answer.events)
    (_, one), (_, other) = pieces[1:3]
    one["choices"][0]["delta"]["content"] += other["choices"][0]["delta"]["content"]
    assert compared(STREAM, events=pieces[:2] + pieces[3:]) == []


@pytest.mark.parametrize(
    ("path", "to", "found"),
    [
        ((1, 1, "choices", 0, "delta", "content"), "x", "stream.choices.0.content"),
        ((3, 1, "choices", 0, "finish_reason"), "stop", "stream.choices.0.finish_reason"),
        ((4, 1, "usage", "total_tokens"), 1, "stream.usage.total_tokens"),
        ((0, 1, "choices", 0, "logprobs"), ..., "stream.fields.first.choice.logprobs"),
        ((5,), (None, {"choices": []}), "stream.done"),
    ],
)
def test_a_stream_with_other_content_is_seen(path, to, found):
    changed = [tuple(event) for event in edited(events(STREAM), *path, to=to)]
    assert found in [path for path, _ in compared(STREAM, events=changed)]


def test_events_in_another_order_are_seen():
    told = EXCHANGES[RESPONSE].answer.events
    swapped = [told[1], told[0], *told[2:]]
    assert ("stream.numbered", "value") in compared(RESPONSE, events=swapped)


def test_a_text_that_was_drawn_is_not_compared_but_its_shape_is():
    assert (
        compared(SAMPLED, json=edited(whole(SAMPLED), "choices", 0, "message", "content", to="other")) == []
    )
    found = compared(SAMPLED, json=edited(whole(SAMPLED), "choices", 0, "message", to=[]))
    assert found == [("choices.0.message", "type")]


def test_a_stream_that_cannot_be_read_is_a_difference():
    broken = Answer(200, EXCHANGES[STREAM].answer.content_type, events=[(None, {"choices": 5})])
    found = diffs(EXCHANGES[STREAM], broken)
    assert any("unreadable" in diff.path for diff in found)
