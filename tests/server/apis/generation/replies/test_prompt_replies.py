"""What replies tell of their prompts: echoes, token ids, log-probabilities of prompt tokens."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter

import pytest
from scripted import ABC, ScriptedPipeline, logprob, said, text

from pipelines.values.reply_values import Alternative, TextLogprob
from server.apis.generation.chat_endpoint import ChatCompletionsEndpoint
from server.apis.generation.replies import update_stages
from server.apis.generation.replies.chat_chunks import ChatChunks

PROMPT = [logprob("b", -1.0, ("x", -0.5)), logprob("c", -2.0)]


def script(*pieces):
    return [[(0, piece)] for piece in pieces]


def choice(answer):
    assert answer.status == 200, answer.body
    return answer.json["choices"][0]


def chunks(answer):
    assert answer.status == 200, answer.body
    return [event["choices"][0] for event in answer.events[:-1] if event["choices"]]


def test_an_echo_stands_before_the_text(rig):
    rig.pipeline.batches = script(said("!", "stop"))
    assert choice(rig.complete(prompt="hi", echo=True))["text"] == "hi!"


def test_an_echo_of_token_ids_is_their_text(rig):
    rig.pipeline.batches = script(said("!", "stop"))
    assert choice(rig.complete(prompt=ABC, echo=True))["text"] == "abc!"


def test_an_echo_with_logprobs_begins_with_null(rig):
    rig.pipeline.batches = script(said("d", "stop", logprobs=[logprob("d", -3.0)], prompt_logprobs=PROMPT))
    choice_there = choice(rig.complete(prompt="abc", echo=True, logprobs=1))
    assert choice_there["logprobs"] == {
        "text_offset": [0, 1, 2, 3],
        "token_logprobs": [None, -1.0, -2.0, -3.0],
        "tokens": ["a", "b", "c", "d"],
        "top_logprobs": [None, {"b": -1.0, "x": -0.5}, {"c": -2.0}, {"d": -3.0}],
    }
    assert choice_there["prompt_logprobs"][0] is None
    assert rig.pipeline.asked.sampling["prompt_logprobs"] == 1


def test_an_echo_of_a_chat_scores_its_prompt_with_and_without_logprobs(rig):
    rig.pipeline.batches = script(said("d", "stop", logprobs=[logprob("d")], prompt_logprobs=PROMPT))
    ids = [[*entry] if entry else None for entry in rig.chat(echo=True).json["prompt_logprobs"]]
    assert ids[0] is None
    assert len(ids) == len(ABC)
    assert rig.pipeline.asked.sampling["prompt_logprobs"] == 0
    assert rig.chat(echo=True, logprobs=True, top_logprobs=2).status == 200
    assert rig.pipeline.asked.sampling["prompt_logprobs"] == 2
    assert rig.chat(echo=True, stream=True).status == 200
    assert rig.pipeline.asked.sampling.get("prompt_logprobs") is None


def test_nothing_is_generated_when_only_the_prompt_is_wanted(rig):
    rig.pipeline.batches = script(
        said("d", "stop", logprobs=[logprob("d")], prompt_logprobs=PROMPT, token_ids=[9])
    )
    found = choice(rig.complete(prompt="abc", echo=True, logprobs=0, max_tokens=0, return_token_ids=True))
    assert (found["text"], found["finish_reason"]) == ("abc", "length")
    assert found["logprobs"]["token_logprobs"] == [None, -1.0, -2.0]
    assert (found["token_ids"], found["prompt_token_ids"]) == ([], ABC)
    assert rig.pipeline.asked.sampling["max_tokens"] == 1


def test_no_tokens_need_an_echo(rig):
    answer = rig.complete(max_tokens=0)
    assert (answer.status, answer.error["param"]) == (400, "max_tokens")


def test_a_stream_echoes_in_its_first_event(rig):
    rig.pipeline.batches = script(
        said("", logprobs=[logprob("d", -3.0)], prompt_logprobs=PROMPT),
        said("e", "stop", logprobs=[logprob("e", -4.0)]),
    )
    first, last = chunks(rig.complete(prompt="abc", echo=True, logprobs=1, stream=True))
    assert (first["text"], last["text"]) == ("abc", "e")
    assert first["logprobs"]["token_logprobs"] == [None, -1.0, -2.0, -3.0]
    assert (first["prompt_token_ids"], last["prompt_token_ids"]) == (ABC, None)
    assert last["logprobs"]["text_offset"] == [4]


def test_a_stream_of_the_prompt_alone(rig):
    rig.pipeline.batches = script(said("d", "stop"))
    (only,) = chunks(rig.complete(prompt="abc", echo=True, max_tokens=0, stream=True))
    assert (only["text"], only["finish_reason"]) == ("abc", "length")


def test_a_completion_graph_echoes_too(make_rig):
    rig = make_rig(ScriptedPipeline(task="completion"))
    rig.pipeline.batches = script(text("!", "stop"))
    assert choice(rig.complete(prompt="hi", echo=True))["text"] == "hi!"


def test_a_conversation_echoes_its_last_message_if_it_has_the_same_role(rig):
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Sure, "}]
    goes_on = {"messages": messages, "continue_final_message": True, "echo": True}
    assert choice(rig.chat(**goes_on))["message"]["content"] == "Sure, Hello"
    deltas = [event["delta"] for event in chunks(rig.chat(**goes_on, stream=True))]
    assert deltas[:3] == [{"role": "assistant", "content": ""}, {"content": "Sure, "}, {"content": "Hel"}]
    assert choice(rig.chat(echo=True))["message"]["content"] == "Hello"


def test_log_probabilities_of_a_prompt_are_by_token_id(rig):
    best = Alternative("x", b"x", -0.5, 3)
    own = Alternative("b", b"b", -1.0, 7)
    entry = TextLogprob("b", b"b", 7, -1.0, [best, own], rank=2)
    rig.pipeline.batches = script(said("d", "stop", prompt_logprobs=[entry]))
    expected = [
        None,
        {
            "7": {"logprob": -1.0, "rank": 2, "decoded_token": "b"},
            "3": {"logprob": -0.5, "rank": 1, "decoded_token": "x"},
        },
    ]
    assert rig.chat(prompt_logprobs=2).json["prompt_logprobs"] == expected
    assert choice(rig.complete(prompt_logprobs=2))["prompt_logprobs"] == expected
    assert rig.chat().json["prompt_logprobs"] is None


def test_log_probabilities_of_a_prompt_are_not_streamed(rig):
    answer = rig.complete(prompt_logprobs=1, stream=True)
    assert answer.error["message"] == "`prompt_logprobs` are not available when `stream=True`."


def test_token_ids_come_back_when_asked_for(rig):
    rig.pipeline.batches = script(said("a", token_ids=[5]), said("b", "stop", token_ids=[6, 7]))
    reply = rig.chat(return_token_ids=True, return_prompt_text=True).json
    assert (reply["prompt_token_ids"], reply["prompt_text"]) == (ABC, "<user>hi")
    assert reply["choices"][0]["token_ids"] == [5, 6, 7]
    message = reply["choices"][0]["message"]
    assert (message["prompt_token_ids"], message["completion_token_ids"]) == (ABC, [5, 6, 7])  # FastDeploy's
    assert "prompt_token_ids" not in choice(rig.chat())["message"]
    assert choice(rig.complete(return_token_ids=True))["token_ids"] == [5, 6, 7]
    assert choice(rig.complete())["token_ids"] is None


def test_token_ids_are_streamed_with_their_pieces(rig):
    rig.pipeline.batches = script(said("", token_ids=[4]), said("a", token_ids=[5]), said("", "stop"))
    answer = rig.chat(return_token_ids=True, return_prompt_text=True, stream=True)
    opening = answer.events[0]
    assert (opening["prompt_token_ids"], opening["prompt_text"]) == (ABC, "<user>hi")
    assert [chunk.get("token_ids") for chunk in chunks(answer)] == [None, [4], [5], []]
    deltas = [chunk["delta"] for chunk in chunks(answer)]
    assert [delta.get("prompt_token_ids") for delta in deltas] == [ABC, None, None, None]
    assert [delta.get("completion_token_ids") for delta in deltas] == [None, [4], [5], []]
    chunks_there = chunks(rig.complete(return_token_ids=True, stream=True))
    assert [chunk["token_ids"] for chunk in chunks_there] == [[4], [5], []]
    assert [chunk["prompt_token_ids"] for chunk in chunks_there] == [ABC, None, None]


def test_tokens_are_shown_as_ids(rig):
    entry = TextLogprob("a", b"a", 5, -0.5, [Alternative("b", b"b", -0.1, 6)])
    rig.pipeline.batches = script(said("a", "stop", logprobs=[entry]))
    found = choice(rig.complete(logprobs=1, return_tokens_as_token_ids=True))["logprobs"]
    assert found["tokens"] == ["token_id:5"]
    assert found["top_logprobs"] == [{"token_id:5": -0.5, "token_id:6": -0.1}]
    shown = choice(rig.chat(logprobs=True, include_logprobs_decode_token=False))["logprobs"]["content"][0]
    assert (shown["token"], shown["top_logprobs"][0]["token"]) == ("token_id:5", "token_id:6")


def test_listed_alternatives_follow_the_chosen_token(rig):
    entry = TextLogprob("a", b"a", 5, -0.5, [Alternative("b", b"b", -9.0, 6)])
    rig.pipeline.batches = script(said("a", "stop", logprobs=[entry]))
    shown = choice(rig.chat(logprobs=True, logprob_token_ids=[6]))["logprobs"]["content"][0]
    assert [other["token"] for other in shown["top_logprobs"]] == ["a", "b"]
    assert rig.pipeline.asked.sampling["logprob_token_ids"] == [6]


def test_hidden_reasoning_hides_its_tokens_too(rig):
    rig.pipeline.batches = script(
        said("", num_reasoning=0, is_reasoning=[True], token_ids=[3], logprobs=[logprob("<think>")]),
        said(
            "", reasoning="hm", num_reasoning=1, is_reasoning=[True], token_ids=[4], logprobs=[logprob("hm")]
        ),
        said("a", "stop", num_reasoning=0, token_ids=[5], logprobs=[logprob("a")]),
    )
    choice_there = choice(rig.chat(include_reasoning=False, return_token_ids=True, logprobs=True))
    assert (choice_there["message"]["reasoning"], choice_there["message"]["content"]) == (None, "a")
    assert choice_there["token_ids"] == [5]
    assert [entry["token"] for entry in choice_there["logprobs"]["content"]] == ["a"]


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_is_counted(rig, stream):
    rig.pipeline.batches = script(
        said("", reasoning="hm", num_reasoning=1), said("a", "stop", num_reasoning=0)
    )
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    answer = rig.chat(**options)
    usage = answer.events[-2]["usage"] if stream else answer.json["usage"]
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 1}


def test_the_best_of_several_samples_is_returned(rig):
    rig.pipeline.batches = [
        [
            (0, said("bad", "stop", logprobs=[logprob("bad", -3.0)])),
            (1, said("best", "stop", logprobs=[logprob("be", -0.1), logprob("st", -0.1)])),
            (2, said("good", "stop", logprobs=[logprob("good", -1.0)])),
        ]
    ]
    reply = rig.complete(n=2, best_of=3).json
    assert [(choice_of_reply["index"], choice_of_reply["text"]) for choice_of_reply in reply["choices"]] == [
        (0, "best"),
        (1, "good"),
    ]
    assert reply["choices"][0]["logprobs"] is None
    assert reply["usage"]["completion_tokens"] == 3
    assert (rig.pipeline.asked.n, rig.pipeline.asked.sampling["logprobs"]) == (3, 0)


def test_the_best_reply_to_a_conversation_too(rig):
    scores = enumerate([-2.0, -0.1, -1.0])
    rig.pipeline.batches = [
        [(i, said(str(i), "stop", logprobs=[logprob("a", score)])) for i, score in scores]
    ]
    found = choice(rig.chat(best_of=3))
    assert (found["index"], found["message"]["content"], found["logprobs"]) == (0, "1", None)


def test_a_greedy_sample_is_the_only_one(rig):
    assert len(rig.complete(temperature=0, best_of=2).json["choices"]) == 1
    assert rig.pipeline.asked.n == 1


def test_pieces_can_be_joined(rig):
    rig.pipeline.batches = script(*[said(char) for char in "abcd"], said("e", "stop"))
    texts = [event["text"] for event in chunks(rig.complete(stream=True, stream_interval=2))]
    assert texts == ["a", "bc", "de"]
    assert json.loads(rig.complete(stream_interval=2).body)["choices"][0]["text"] == "abcde"


def test_many_log_probabilities_are_written_off_the_event_loop(rig, monkeypatch):
    """A whole reply of 128 choices of 100 tokens with 20 alternatives each held others up for six seconds."""
    threads, replies, full_reply = [], [], ChatCompletionsEndpoint.full_reply

    def noted(*values):
        threads.append(threading.get_ident())
        return full_reply(*values)

    monkeypatch.setattr(ChatCompletionsEndpoint, "full_reply", noted)
    for most in (1, 0):
        monkeypatch.setattr(update_stages, "MANY_SCORES", most)
        rig.pipeline.batches = script(said("d", "stop", logprobs=[logprob("d")]))
        replies.append(rig.chat(logprobs=True).json["choices"])
    assert threads[0] != threads[1]
    assert replies[0] == replies[1]
    assert replies[0][0]["logprobs"]["content"][0]["token"] == "d"


def test_a_wide_stream_takes_little_of_each_turn_of_the_event_loop(rig, monkeypatch):
    """What one turn writes is bounded; a single event with more is written off the event loop."""
    monkeypatch.setattr(update_stages, "MANY_SCORES", 6)
    turns, owner, added = Counter(), threading.get_ident(), ChatChunks.piece
    now = [0]

    def noted(chunks, choice, update):
        place = now[0] if threading.get_ident() == owner else "thread"
        turns[place] += update_stages.num_scores(update)
        return added(chunks, choice, update)

    async def count_turns():
        while True:
            now[0] += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(ChatChunks, "piece", noted)
    narrow, wide = logprob("d", -1.0, ("x", -2.0)), logprob("d", -1.0, *[("x", -2.0)] * 9)
    first = [(choice, said("d", logprobs=[narrow])) for choice in range(7)]
    last = [(choice, said("e", "stop", logprobs=[narrow if choice else wide])) for choice in range(7)]
    rig.pipeline.batches = [first, last]
    body = {"model": "tiny", "messages": [{"role": "user", "content": "a"}], "stream": True, "n": 7}

    async def scene(client):
        counting = asyncio.create_task(count_turns())
        answer = await client.post("/v1/chat/completions", body | {"logprobs": True, "top_logprobs": 9})
        counting.cancel()
        return answer

    answer = rig.run(scene)
    texts = [
        choice["delta"].get("content", "") for event in answer.events[:-1] for choice in event["choices"]
    ]
    assert "".join(texts) == "d" * 7 + "e" * 7
    assert turns.pop("thread") == 10
    assert sum(turns.values()) == 13 * 2
    assert max(turns.values()) <= 6
