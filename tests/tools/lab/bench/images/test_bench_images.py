"""The load of `tools.lab.bench.images`: images of their own, prompts that begin differently, and times of a stream."""

from __future__ import annotations

import base64
import http.server
import io
import json
import threading
import time

import numpy as np
import pytest

pytest.importorskip("PIL", reason="needs the extra vision")

from PIL import Image

from tools.client.http_client import RequestFailed
from tools.lab.bench.images.load import Questions, ask_all, asked, body_of, pixels, question, shown

PAUSE_S = 0.2


class Streaming(http.server.BaseHTTPRequestHandler):
    """A stream whose first token comes after a pause, and its end after another one."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        self.send_response(200 if body["max_tokens"] < 100 else 400)
        self.end_headers()
        for text in ("", "a", "b"):
            self.wfile.write(b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % text.encode())
            time.sleep(PAUSE_S)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Streaming) as running:
        running.bodies = []
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def test_images_and_prompts_are_new_with_each_seed():
    assert (pixels(1) == pixels(1)).all()
    assert (pixels(1) != pixels(2)).any()
    assert question(1)[0] != question(2)[0]
    part = shown(1, "it")
    file = base64.b64decode(part["image_url"]["url"].partition(",")[2])
    difference = np.asarray(Image.open(io.BytesIO(file)), np.int16) - pixels(1)
    assert np.abs(difference).mean() < 20
    assert part["uuid"] == "it"
    assert "uuid" not in shown(1)


def test_the_first_token_is_the_first_text_of_a_stream(server):
    first_s, total_s = asked(server.server_port, body_of("a", shown(1), 5))
    assert PAUSE_S <= first_s < total_s
    with pytest.raises(RequestFailed):
        asked(server.server_port, body_of("a", shown(1), 100))


def test_questions_are_asked_at_once(server):
    assert ask_all(server.server_port, Questions([1, 2], 5)) >= 2 * PAUSE_S
    texts = [body["messages"][0]["content"][0]["text"] for body in server.bodies]
    assert sorted(texts) == [question(1), question(2)]
