"""The ceiling's client against scripted streams, its engine, and its model in a whole server."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from pipelines.nodes.text.tokenizing.tokenizer import open_tokenizer
from tools.lab.bench.ceiling.client import PROMPT, StreamBroken, count
from tools.lab.bench.ceiling.engine import Decoding
from tools.lab.bench.ceiling.model import NUM_WORDS, write_model
from tools.lab.bench.ceiling.serving import Server

TEXT = b'data: {"choices":[{"delta":{"content":" ab"}}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":5}}\n\n'
DONE = b"data: [DONE]\n\n"
HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


@pytest.fixture
def serve():
    """`serve(pieces)` → a port where every request is answered by these pieces, each in its own time."""
    listeners = []

    def start(pieces):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=accept, args=(listener, pieces), daemon=True).start()
        return listener.getsockname()[1]

    yield start
    for listener in listeners:
        listener.close()


def accept(listener, pieces):
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection, pieces), daemon=True).start()


def answer(connection, pieces):
    with connection, contextlib.suppress(OSError):
        connection.recv(65536)
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(0.01)


@pytest.mark.parametrize("pieces", [[TEXT, TEXT + USAGE, DONE], [TEXT * 2 + USAGE[:-20], USAGE[-20:] + DONE]])
def test_streams_are_counted(serve, pieces):
    counted = count(serve([HEAD, *pieces]), "chat", "fake", streams=3, tokens=5)
    assert (counted.num_tokens, counted.num_events) == (15, 9)
    assert counted.wall_s > 0


def test_a_stream_that_breaks_says_how(serve):
    with pytest.raises(StreamBroken, match="Bad Request"):
        count(serve([b"HTTP/1.1 400 Bad Request\r\n\r\n"]), "completions", "fake", streams=1, tokens=5)


def test_every_sequence_gets_a_token_a_step():
    decoding = Decoding(num_seqs=3, context=20, max_tokens=10)
    before = decoding._engine.counts().output_tokens
    parts = decoding.step()
    assert decoding._engine.counts().output_tokens == before + 3
    assert all(seconds >= 0 for seconds in parts)
    assert sum(parts) > 0


def test_each_token_of_the_model_is_a_word(tmp_path):
    write_model(tmp_path / "fake", max_sequences=4, step_s=0)
    tokenizer = open_tokenizer(tmp_path / "fake" / "tokenizer.json")
    assert len(tokenizer.encode(PROMPT, add_special_tokens=False).ids) == 1
    assert {len(tokenizer.decode([word])) for word in range(NUM_WORDS)} == {3}


@pytest.mark.breadth
def test_a_whole_server_is_asked(tmp_path):
    server = Server(tmp_path, workers=1, step_s=0, max_sequences=4)
    try:
        for endpoint in ("chat", "completions"):
            counted, spent = server.run(endpoint, streams=2, tokens=20)
            assert counted.num_tokens == 40
            assert 0 < counted.num_events <= 2 * 20 + 6  # and those that open, end and count
            assert min(spent) >= 0
    finally:
        server.stop()
