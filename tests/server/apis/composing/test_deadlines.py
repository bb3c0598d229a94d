"""Calls that have a deadline, which are those over gRPC and the lines of a batch: it ends what each line asks."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import numpy as np
import pytest
from batch_bodies import create, ended, line, lines, results
from graphs_of_lines import NUM_ASKED, STEPS, HeldAsks, chat_body, is_free, serving
from patience import until

from server.apis.batches import batch_run

BY_TEXT = [step for step in STEPS if step[0] != "hearing"]
"""KServe's requests have no sound."""


def test_a_deadline_of_grpc_ends_what_every_line_asks(every_line, monkeypatch):
    grpc = pytest.importorskip("grpc", reason="the extra grpc is not installed")
    from server.apis.kserve.grpc.listener import GrpcListener
    from server.apis.kserve.grpc.schema import SERVICE, TYPES

    async def held(channel, deadline_s, asks):
        """The codes of a request for each step, and the steps that were reached before the deadline."""
        call = channel.unary_unary(
            f"/{SERVICE}/ModelInfer", request_serializer=lambda message: message.SerializeToString()
        )

        async def code(model):
            try:
                await call(request(model), timeout=deadline_s)
            except grpc.aio.AioRpcError as error:
                return error.code().name
            return "OK"

        codes = await asyncio.gather(*(code(model) for model, _ in BY_TEXT))
        return set(codes), asks.reached

    def request(model):
        message = TYPES["ModelInferRequest"](model_name=model)
        message.inputs.add(name="text_input", datatype="BYTES", shape=np.zeros(1).shape)
        message.raw_input_contents.append(b"\x02\x00\x00\x00Hi")
        message.parameters["max_tokens"].int64_param = 60
        return message

    async def whole():
        async with serving(every_line, responses_store=False, grpc_port=1) as (services, _):
            listener = GrpcListener(services)
            listener._address = "127.0.0.1:0"
            port, deadline_s, reached = await listener.start(), 3.0, set()
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                while reached != set(BY_TEXT):  # a busy machine needs a later one
                    with monkeypatch.context() as patch:
                        codes, reached = await held(channel, deadline_s, HeldAsks(patch))
                    assert codes == {"DEADLINE_EXCEEDED"}
                    await until(lambda: is_free(services))
                    deadline_s *= 2
            await listener.stop()

    asyncio.run(whole())


def test_the_end_of_a_batch_s_window_ends_what_its_lines_ask(every_line, monkeypatch, tmp_path):
    """The window has as many seconds left as it needs for each request to be held."""
    left_s, day_s = [2.0], 24 * 3600
    clock = SimpleNamespace(monotonic=time.monotonic, time=lambda: time.time() + day_s - left_s[0])
    monkeypatch.setattr(batch_run, "time", clock)
    count = NUM_ASKED["passages"]
    asked = lines(*(line(str(at), **chat_body("passages")) for at in range(count)))

    async def whole():
        async with serving(every_line, files=tmp_path / "files") as (services, client):
            reached = set()
            while len(reached) < count:
                with monkeypatch.context() as patch:
                    asks = HeldAsks(patch)
                    batch = await ended(client, (await create(client, asked)).json["id"])
                assert batch["status"] == "expired"
                await until(lambda: is_free(services))
                failed = await results(client, batch["error_file_id"])
                assert [failure["error"]["code"] for failure in failed] == ["batch_expired"] * count
                left_s[0], reached = 2 * left_s[0], asks.reached

    asyncio.run(whole())
