"""A reply that is judged while it grows gives each call whole, however its updates are merged on the way."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from line_counts import lines_run

from pipelines.nodes.composing.guarded_reply import GuardedReply, LookSettings
from pipelines.nodes.composing.passed_reply import HeldReply, StreamedReply
from pipelines.values.reply_values import ReplyUpdate, ToolCallPiece
from pipelines.wire.token_piece import TokenPiece

CALLS = ['{"a": "milk"}', '{"b": "bread"}', '{"c": "poison"}', '{"d": "salt"}']


class Written(StreamedReply):
    """A reply of one choice that is written down."""

    num_choices = 1

    def __init__(self, updates):
        self._updates = updates

    def choice(self, index):
        raise AssertionError("no stage needs it")

    def end_choice(self, index):
        self._updates.clear()

    def hand_on(self):
        raise AssertionError("nothing counts here")

    async def updates(self):
        while self._updates:
            yield [(0, self._updates.pop(0))]


def pieces_of(index, arguments, random):
    """A call in pieces of a few characters, each a token."""
    yield ToolCallPiece(index, "", f"call_{index}", "note")
    while arguments:
        length = random.randrange(1, 4)
        yield ToolCallPiece(index, arguments[:length])
        arguments = arguments[length:]


def written(random, share_merged=0.6):
    """The updates of a reply: reasoning, text, two calls, text, two calls; merged as those that wait are."""

    def update(content="", **fields):
        return ReplyUpdate(TokenPiece([7], 1), content, **fields)

    single = [update(reasoning="Hm"), update("One "), update("moment.")]
    for index, arguments in enumerate(CALLS):
        single += [update(tool_calls=[piece]) for piece in pieces_of(index, arguments, random)]
        single += [update("\n")] if index == 1 else [update()]
    single += [ReplyUpdate(TokenPiece([8], 1, "stop"), "")]
    single[0].piece.prefill_s = 0.5
    merged = single[:1]
    for later in single[1:]:
        is_text_after_call = merged[-1].tool_calls and later.content
        if random.random() < share_merged and not is_text_after_call:
            merged[-1].extend(later)
        else:
            merged.append(later)
    return merged, len(single)


def read(updates, looks, word):
    async def judged(text, num_judged):
        return "poison" if word in text else None

    async def whole():
        reply = GuardedReply(Written(updates), looks, judged, lambda decision: None)
        return [update async for batch in reply.updates() for _, update in batch]

    return asyncio.run(whole())


def calls_of(updates):
    calls = {}
    for update in updates:
        for piece in update.tool_calls:
            calls[piece.index] = calls.get(piece.index, "") + piece.arguments
    return [*calls.values()]


@pytest.mark.parametrize("window", [0, 3])
def test_calls_are_whole_and_a_refused_one_never_begins(window):
    for seed in range(200):
        random = Random(seed)
        for word in ("poison", "never said"):
            updates, num_tokens = written(random)
            sent = read(updates, LookSettings(random.randrange(1, 9), window, None), word)
            calls = calls_of(sent)
            assert calls == CALLS[: len(calls)], seed
            assert sum(len(update.piece.token_ids) for update in sent) <= num_tokens
            if word == "poison":
                assert len(calls) <= 2, seed
                assert sent[-1].piece.finish == "content_filter"
            else:
                assert calls == CALLS
                assert sent[-1].piece.finish == "stop"
                assert "".join(update.reasoning + update.content for update in sent) == "HmOne moment.\n"
                assert sum(update.piece.num_tokens for update in sent) == num_tokens
            assert next(update.piece.prefill_s for update in sent if update.piece.prefill_s) == 0.5


def test_calls_before_a_refused_one_are_sent_where_each_token_is_judged():
    for seed in range(50):
        updates, _ = written(Random(seed), share_merged=0)
        assert calls_of(read(updates, LookSettings(1, 0, None), "poi")) == CALLS[:2], seed


@pytest.mark.breadth  # the tracing of CPython 3.11 looped in a process that had run many tests
def test_a_long_call_that_waits_is_not_read_again_at_each_look():
    def read_call(num_pieces):
        pieces = [ToolCallPiece(0, "", "call_0", "note"), *[ToolCallPiece(0, "x")] * num_pieces]
        single = [ReplyUpdate(TokenPiece([7], 1), "", tool_calls=[piece]) for piece in pieces]
        read([*single, ReplyUpdate(TokenPiece([8], 1, "stop"), "")], LookSettings(1, 0, None), "never said")

    assert lines_run(lambda: read_call(2000)) < 12 * lines_run(lambda: read_call(250))


@pytest.mark.breadth  # the tracing of CPython 3.11 looped in a process that had run many tests
def test_the_choices_of_a_held_reply_are_found_in_one_pass():
    def choices_of(num_choices):
        reply = Written([])
        reply.num_choices = num_choices
        batches = [
            [(choice, ReplyUpdate(TokenPiece([7], 1), f"{choice}")) for choice in range(num_choices)],
            [(choice, ReplyUpdate(TokenPiece([8], 1, "stop"), ".")) for choice in range(num_choices)],
        ]
        return [choice.text for choice in HeldReply(reply, batches).choices]

    assert choices_of(3) == ["0.", "1.", "2."]
    assert lines_run(lambda: choices_of(320)) < 12 * lines_run(lambda: choices_of(40))
