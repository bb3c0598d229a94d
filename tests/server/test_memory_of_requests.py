"""A request that has ended leaves no memory, also where nothing collects garbage."""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from asgi_client import AsgiClient, Request
from breadth import after
from patience import PATIENCE_S
from speech_rig import form
from tensor_models import write_one

from server.app import create_app
from server.base.settings import Settings
from server.connect import connect

MODEL_REPO = Path(__file__).resolve().parents[2] / "model_repo"
MODELS = ("braid-demo", "braid-embed", "braid-rerank", "braid-sentiment")
SIZE = 2_000_000
PAD = "u" * SIZE
LEFT = SIZE // 10
"""Bytes that one request may leave: a tenth of its body, for counters and caches."""
MESSAGES = [{"role": "user", "content": "hi"}]
CHAT: dict[str, Any] = {"model": "braid-demo", "messages": MESSAGES, "max_tokens": 1}
TOOL = {"type": "function", "function": {"name": "f", "description": PAD}}
TEXT: dict[str, Any] = {"model": "braid-demo", "prompt": "hi", "max_tokens": 1}
JOINED: dict[str, Any] = {"model": "braid-rerank", "query": "hi", "documents": ["a", "b"]}
SAID: dict[str, Any] = {"model": "braid-demo", "input": "hi", "max_output_tokens": 16, "store": False}
SCHEMA = {"name": "x", "schema": {"type": "none", "description": PAD}}
IMAGE = {"name": "image", "shape": [SIZE // 16, 4], "datatype": "FP32"}
NUMBERS = {"name": "image", "shape": [SIZE // 64, 4], "datatype": "FP32", "data": [1] * (SIZE // 16)}
"""A tensor of a quarter of the size: to read its text takes longest."""
BINARY: dict[str, Any] = {"parameters": {"binary_data_output": True}}
"""No reply of this size is written as JSON, which takes a second."""
BINARY_HEAD = json.dumps(BINARY | {"inputs": [IMAGE | {"parameters": {"binary_data_size": SIZE}}]}).encode()


def upload(**fields: str) -> tuple[bytes, dict[str, str]]:
    body, headers = form(PAD.encode(), **fields)
    return body, {name.replace("_", "-"): value for name, value in headers.items()}


JSON: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", CHAT | {"user": PAD}),
    "chat stream": ("/v1/chat/completions", CHAT | {"user": PAD, "stream": True}),
    "chat tools": ("/v1/chat/completions", CHAT | {"tools": [TOOL]}),
    "chat long": ("/v1/chat/completions", CHAT | {"messages": [{"role": "user", "content": PAD}]}),
    "chat field": ("/v1/chat/completions", CHAT | {"max_tokens": -1, "user": PAD}),
    "chat type": ("/v1/chat/completions", CHAT | {"max_tokens": PAD}),
    "chat model": ("/v1/chat/completions", CHAT | {"model": "none", "user": PAD}),
    "chat schema": (
        "/v1/chat/completions",
        CHAT | {"response_format": {"type": "json_schema", "json_schema": SCHEMA}},
    ),
    "completion": ("/v1/completions", TEXT | {"user": PAD}),
    "completion long": ("/v1/completions", TEXT | {"prompt": PAD}),
    "response": ("/v1/responses", SAID | {"metadata": {"a": "b"}, "x": PAD}),
    "response stream": ("/v1/responses", SAID | {"x": PAD, "stream": True}),
    "response refused": ("/v1/responses", SAID | {"user": PAD}),
    "message": ("/v1/messages", CHAT | {"metadata": {"user_id": PAD}}),
    "message stream": ("/v1/messages", CHAT | {"metadata": {"user_id": PAD}, "stream": True}),
    "message refused": ("/v1/messages", CHAT | {"messages": [], "metadata": {"user_id": PAD}}),
    "count": ("/v1/messages/count_tokens", {"model": "braid-demo", "messages": MESSAGES, "x": PAD}),
    "tokenize": ("/tokenize", {"model": "braid-demo", "prompt": "hi", "x": PAD}),
    "embeddings": ("/v1/embeddings", {"model": "braid-embed", "input": "hi", "user": PAD}),
    "embeddings refused": ("/v1/embeddings", {"model": "braid-embed", "input": PAD}),
    "rerank": ("/v1/rerank", JOINED | {"user": PAD}),
    "score refused": ("/v1/score", {"model": "braid-rerank", "text_1": "hi", "text_2": ["a", PAD]}),
    "classify": ("/v1/classify", {"model": "braid-sentiment", "input": "hi", "user": PAD}),
    "infer": ("/v2/models/detector/infer", BINARY | {"inputs": [NUMBERS]}),
    "infer refused": ("/v2/models/detector/infer", {"inputs": [NUMBERS | {"name": "x"}]}),
    "generate": (
        "/v2/models/braid-demo/generate",
        {"text_input": "hi", "parameters": {"max_tokens": 1}, "x": PAD},
    ),
    "path": ("/v1/none", {"x": PAD}),
}
RAW: dict[str, tuple[str, bytes, dict[str, str]]] = {
    "no JSON": ("/v1/chat/completions", b"{" + PAD.encode(), {}),
    "binary": (
        "/v2/models/detector/infer",
        BINARY_HEAD + bytes(SIZE),
        {
            "inference-header-content-length": str(len(BINARY_HEAD)),
            "content-type": "application/octet-stream",
        },
    ),
    "file": ("/v1/files", *upload(purpose="batch")),
    "file refused": ("/v1/files", *upload(purpose="none")),
    "sound": ("/v1/audio/transcriptions", *upload(model="braid-demo")),
}
KINDS = (*JSON, *RAW)
CHECKED = ("chat", "chat stream", "embeddings", "infer", "binary", "file")
"""What `make test` sends; `make breadth` sends all kinds."""


def of_kind(name: str) -> tuple[str, bytes, dict[str, str]]:
    """Path, body and headers of a request."""
    if name in RAW:
        return RAW[name]
    path, body = JSON[name]
    return path, json.dumps(body).encode(), {"content-type": "application/json"}


class Served:
    """An application that runs as long as the tests of this file, and its client."""

    def __init__(self, app: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.client = loop, AsgiClient(app)

    def begin(self, path: str, body: bytes, headers: dict[str, str]) -> Request:
        """The body in the pieces that a server reads, the last of them copied, as from a socket."""
        pieces = [body[at : at + (1 << 18)] for at in range(0, len(body), 1 << 18)]
        return self.client.begin("POST", path, pieces, {"content-length": str(len(body)), **headers})

    def send(self, *asked: Any, leaves: bool = False) -> int:
        """The status of the reply; 0 for a client that leaves."""

        async def whole() -> int:
            request = self.begin(*asked)
            if leaves:
                request.hang_up()
            await asyncio.wait_for(request.task, PATIENCE_S)
            return request.answer.status

        return self.loop.run_until_complete(whole())

    def left(self, *asked: Any, leaves: bool = False, times: int = 3) -> int:
        """Bytes that so many requests leave when garbage is not collected, once no thread works on them."""
        tracemalloc.start()
        try:
            self.send(*asked, leaves=leaves)  # the last one may be known until the next one
            gc.collect()
            gc.disable()
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(times):
                self.send(*asked, leaves=leaves)
            return self.loop.run_until_complete(self.settled(before, times))
        finally:
            tracemalloc.stop()
            gc.enable()

    async def settled(self, before: int, times: int) -> int:
        until_s = time.monotonic() + PATIENCE_S
        while (left := tracemalloc.get_traced_memory()[0] - before) >= LEFT * times:
            if time.monotonic() > until_s:
                break
            await asyncio.sleep(0.02)
        return left


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    models = tmp_path_factory.mktemp("memory")
    for name in MODELS:
        shutil.copytree(MODEL_REPO / name, models / name)
    write_one(models / "detector")
    app = create_app(connect(Settings(models=models, in_process=True, responses_store=False)))
    with asyncio.Runner() as runner:
        served = Served(app, runner.get_loop())
        runner.run(served.client.__aenter__())

        async def ready() -> None:
            async with asyncio.timeout(PATIENCE_S):
                while (await served.client.get("/v2/health/ready")).status != 200:
                    await asyncio.sleep(0.02)

        runner.run(ready())
        yield served
        runner.run(served.client.__aexit__())


@pytest.mark.parametrize("name", after(6, sorted(KINDS, key=lambda name: name not in CHECKED)))
def test_a_request_leaves_nothing(served, name):
    """Replied to or refused."""
    assert served.left(*of_kind(name)) < 3 * LEFT


@pytest.mark.parametrize(
    "name", after(3, ["chat", "chat stream", "binary", "message", "response", "embeddings", "infer"])
)
def test_a_client_that_left_leaves_nothing(served, name):
    assert served.left(*of_kind(name), leaves=True) < 3 * LEFT


@pytest.mark.breadth
def test_many_requests_leave_nothing(served):
    """Of 400 MB less than 20 remain."""
    assert served.left(*of_kind("chat"), times=200) < 20_000_000
