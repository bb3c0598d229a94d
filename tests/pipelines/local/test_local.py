"""`Local`: chats, completions, streams and batches from Python, by the engine that serves."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from documents import ROOT
from fake_decoder import write_fake_model
from patience import PATIENCE_S, until

from pipelines import Local
from pipelines.base.errors import ModelNotFound, RequestError, Unavailable
from pipelines.local.options import (
    ChatOptions,
    ClassificationOptions,
    CompletionOptions,
    EmbeddingOptions,
    RankingOptions,
    TranscriptionOptions,
)
from pipelines.requests.generation.chat import ChatRequest
from pipelines.requests.generation.completion import CompletionRequest
from pipelines.requests.pooling.classification import ClassificationRequest
from pipelines.requests.pooling.embedding import EmbeddingRequest
from pipelines.requests.pooling.reranking import RerankRequest
from pipelines.requests.speech.request import TranscriptionRequest

GREEDY = {"temperature": 0, "ignore_eos": True}
ENDLESS = {**GREEDY, "max_tokens": 4000}


def chat(braid, text="hi", max_tokens=8, **options):
    return braid.chat(text, model="tiny", max_tokens=max_tokens, **GREEDY, **options)


def in_flight(braid):
    return braid._engine.client.num_in_flight


def num_steps(braid):
    profiled = braid._loop.wait(braid._engine.client.profile("tiny"))
    return sum(each.steps for each in profiled.engines["generated"])


def ended(braid, left=0):
    """Wait until so few requests are in flight."""
    asyncio.run(until(lambda: in_flight(braid) == left))


def test_a_text_is_a_message_of_the_user(braid):
    reply = chat(braid, "hello")
    assert reply.choices == chat(braid, [{"role": "user", "content": "hello"}]).choices
    assert (reply.model, reply.finish_reason, reply.usage.completion_tokens) == ("tiny", "length", 8)
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + 8


def test_a_stream_is_the_same_reply_in_pieces(braid):
    whole = chat(braid)
    stream = braid.chat_stream("hi", model="tiny", max_tokens=8, **GREEDY)
    pieces = list(stream)
    assert "".join(piece.text for piece in pieces) == whole.text
    assert [token for piece in pieces for token in piece.token_ids] == [*whole.choices[0].token_ids]
    assert [piece.finish_reason for piece in pieces if piece.finish_reason] == ["length"]
    assert stream.reply.choices == whole.choices
    assert list(stream) == []


def test_a_batch_gives_each_its_own_reply_in_shared_steps(braid):
    texts = [f"number {i}" for i in range(20)]
    begin = num_steps(braid)
    alone = [chat(braid, text, max_tokens=16) for text in texts]
    middle = num_steps(braid)
    together = braid.chat_batch(texts, model="tiny", max_tokens=16, **GREEDY)
    assert [reply.choices for reply in together] == [reply.choices for reply in alone]
    assert num_steps(braid) - middle < (middle - begin) / 4


def test_a_completion_takes_text_or_token_ids(braid):
    text = braid.complete("ab", model="tiny", max_tokens=4, **GREEDY)
    assert braid.complete([64, 65], model="tiny", max_tokens=4, **GREEDY).text is not None
    assert braid.complete_batch(["ab", "cd"], model="tiny", max_tokens=4, **GREEDY)[0].choices == text.choices
    stream = braid.complete_stream("ab", model="tiny", max_tokens=4, **GREEDY)
    assert "".join(piece.text for piece in stream) == text.text


def test_several_choices_and_log_probabilities(braid):
    reply = braid.chat(
        "hi", model="tiny", n=3, seed=1, max_tokens=5, ignore_eos=True, logprobs=True, top_logprobs=2
    )
    assert len(reply.choices) == 3
    assert reply.usage.completion_tokens == 15
    assert [len(choice.logprobs) for choice in reply.choices] == [5, 5, 5]
    assert all(len(entry.alternatives) == 2 for entry in reply.logprobs)
    scored = braid.complete("abc", model="tiny", prompt_logprobs=0, max_tokens=1)
    assert len(scored.choices[0].prompt_logprobs) == scored.usage.prompt_tokens - 1


def test_structured_output_is_held(braid):
    choice = {"structured_outputs": {"choice": ["yes", "no"]}}
    assert braid.chat("hi", model="held", **choice).text in ("yes", "no")
    with pytest.raises(RequestError, match="grammar"):
        braid.chat("hi", model="tiny", **choice)


def test_a_reply_goes_on_as_a_message(braid):
    conversation = [{"role": "user", "content": "hi"}]
    conversation += [chat(braid, conversation).message, {"role": "user", "content": "more"}]
    assert chat(braid, conversation).usage.prompt_tokens > chat(braid).usage.prompt_tokens


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"temperature": -1.0}, "temperature must be non-negative, got -1.0."),
        ({"temprature": 1}, "unknown field `temprature`; did you mean `temperature`?"),
        ({"stop": [""]}, "stop cannot contain an empty string."),
        ({"top_logprobs": 2}, "when using `top_logprobs`, `logprobs` must be set to true."),
        ({"model": "tyni"}, "The model `tyni` does not exist; models: held, tiny"),
    ],
)
def test_errors_have_the_texts_of_http(braid, options, text):
    with pytest.raises((RequestError, ModelNotFound)) as raised:
        braid.chat("hi", **{"model": "tiny", **options})
    assert raised.value.message == text


def test_the_first_error_of_a_batch_ends_the_others(braid):
    with pytest.raises(RequestError, match="longer than|maximum context|context"):
        braid.chat_batch(["hi", "x" * 100_000], model="tiny", **ENDLESS)
    ended(braid)


def test_a_stream_that_is_left_early_ends_its_request(braid):
    for _ in braid.chat_stream("hi", model="tiny", **ENDLESS):
        break
    gc.collect()
    ended(braid)
    with braid.chat_stream("hi", model="tiny", **ENDLESS) as stream:
        next(stream)
        assert in_flight(braid) == 1
    ended(braid)
    assert stream.reply.finish_reason == "abort"


INTERRUPTED = """
import signal, sys, threading, time
from pipelines import Local

braid = Local(sys.argv[1])

def until(number):
    while braid._engine.client.num_in_flight != number:
        time.sleep(0.002)

def interrupt():
    until(1)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    braid.chat("hi", temperature=0, ignore_eos=True, max_tokens=4000)
except KeyboardInterrupt:
    until(0)
    print("ended")
"""


def test_an_interrupted_wait_ends_its_request(tmp_path):
    """Control-C while a reply is waited for, in a program of its own."""
    write_fake_model(tmp_path / "tiny")
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout == "ended\n", done.stderr


def test_threads_share_it(braid):
    with ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(lambda i: chat(braid, f"number {i}"), range(16)))
    assert [reply.choices for reply in replies] == [chat(braid, f"number {i}").choices for i in range(16)]


def test_an_only_model_needs_no_name_and_closing_ends_what_runs(tmp_path):
    local = Local(write_fake_model(tmp_path / "alone"))
    assert [(card.name, card.state) for card in local.models()] == [("alone", "ready")]
    stream = local.chat_stream("hi", **ENDLESS)
    next(stream)
    local.close()
    with pytest.raises(Unavailable, match="closed"):
        for _ in stream:
            pass
    with pytest.raises(Unavailable, match="the models are closed"):
        local.chat("hi")
    local.close()


def test_a_model_that_cannot_be_loaded_says_so_at_once(tmp_path):
    folder = write_fake_model(tmp_path / "broken")
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(Unavailable, match=r"could not be loaded.*tokenizer\.json"):
        Local(folder)


def test_what_is_not_there(tmp_path, folder):
    with pytest.raises(FileNotFoundError):
        Local(tmp_path / "nowhere")
    with pytest.raises(ModelNotFound, match="holds no models"):
        Local(tmp_path)
    with pytest.raises(ModelNotFound, match="`other` does not exist"):
        Local(folder, names=["tiny", "other"])


def test_only_named_models(folder):
    with Local(folder, names=["tiny"]) as braid:
        assert braid.chat("hi", max_tokens=1).model == "tiny"


@pytest.mark.parametrize(
    ("options", "request_model"),
    [
        (ChatOptions, ChatRequest),
        (CompletionOptions, CompletionRequest),
        (EmbeddingOptions, EmbeddingRequest),
        (ClassificationOptions, ClassificationRequest),
        (RankingOptions, RerankRequest),
        (TranscriptionOptions, TranscriptionRequest),
    ],
)
def test_options_are_fields_of_requests(options, request_model):
    assert options.__annotations__.keys() <= request_model.model_fields.keys()


def test_the_package_is_cheap_to_import():
    code = "import sys, pipelines; print([name for name in ('numpy', 'pydantic', 'msgspec') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_program_may_end_without_closing(tmp_path):
    write_fake_model(tmp_path / "tiny")
    code = (
        "from pipelines import Local\n"
        f"braid = Local({str(tmp_path)!r})\n"
        "stream = braid.chat_stream('hi', temperature=0, ignore_eos=True, max_tokens=4000)\n"
        "print(len(next(stream).token_ids))\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_no_thread_of_an_engine_outlives_it():
    """One that is inside a library when the program ends aborts it."""
    before = set(threading.enumerate())
    with Local(ROOT / "model_repo", names=["braid-embed"]) as braid:
        braid.embed("a", model="braid-embed")
        (thread,) = [each for each in set(threading.enumerate()) - before if each.name == "BatchEngine"]
    assert not thread.is_alive()
