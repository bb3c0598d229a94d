"""Graphs that chain engines: a call submits to the second engine what it makes of the first one's reply."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
from patience import PATIENCE_S

from graphs.graph import Source
from graphs.node import Node
from pipelines.base.errors import BraidError, EngineError, RequestError, Unavailable
from pipelines.nodes.line import Line
from pipelines.values.node_values import Tensors, Tokens
from pipelines.values.stream_values import Deferred, Stream
from pipelines.values.tasks import GenerationInput, TensorInput
from pipelines.wire.address import EngineAddress
from pipelines.wire.client import EngineClient
from pipelines.wire.messages import Abort, Frame, Inferred, Status, TokenUpdate
from pipelines.wire.requests import Submit, SubmitTensors
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.tensor_codec import pack
from pipelines.wire.token_piece import TokenPiece
from pipelines.worker.pipeline import Pipeline

FIRST, SECOND = EngineAddress("m", 1, "first"), EngineAddress("m", 1, "second")


class Encode(Node):
    """The first engine of each chain."""

    def run(self, call, request):
        return call.infer(FIRST, Tensors(x=np.arange(3)))


class Infer2(Node):
    """Deferred → Deferred."""

    def run(self, call, first):
        return first.map(lambda reply: call.infer(SECOND, Tensors(x=reply["x"] * 2)))


class Decode(Node):
    """Deferred → Stream: the reply's numbers are the prompt."""

    def run(self, call, first):
        return first.stream(lambda reply: self.submitted(call, reply["x"].tolist()))

    def submitted(self, call, ids):
        if not ids:
            raise RequestError("nothing to decode", "x")
        return call.submit(SECOND, [Tokens(ids, prompt_text="heard")], SamplingParams(max_tokens=4))


class Marked(Node):
    """A stage after the stream: each update with the text of its prompt."""

    def run(self, call, stream):
        def make(choice):
            def push(update):
                text = f"{choice.prompt.prompt_text}{choice.index}:{update.piece.token_ids}"
                return SimpleNamespace(text=text, piece=update.piece)

            return SimpleNamespace(push=push)

        return stream.pipe(make)


class Engines:
    """A client whose engine host is the test: `sent` holds every message that the host was sent."""

    def __init__(self) -> None:
        self.sent = []
        self.closed = False
        self.client = EngineClient(None)
        self.client._link = self
        self.client.received(Status(1, "ready", []))

    def send(self, message):
        self.sent.append(message)

    def reply(self, request, **arrays):
        self.client.received(Inferred(request.request_id, pack("outputs", Tensors(arrays))))

    def fail(self, request, error="broken", status=500):
        self.client.received(Inferred(request.request_id, [], error, status))

    def tokens(self, request, choice, ids, finish=None):
        piece = TokenPiece(ids, len(ids), finish)
        self.client.received(Frame([TokenUpdate(request.request_id, choice, piece)]))

    @property
    def aborted(self):
        return [message.request_id for message in self.sent if isinstance(message, Abort)]

    async def next(self, kind, number=1):
        """The `number`-th message of a kind, once it was sent."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := [message for message in self.sent if isinstance(message, kind)]) < number:
                await asyncio.sleep(0)
        return found[number - 1]


@pytest.fixture
def engines():
    return Engines()


def pipeline(*nodes):
    names = ["request", *(f"line{i}" for i in range(len(nodes)))]
    ports = {Encode: "request", Infer2: "first", Decode: "first", Marked: "stream"}
    lines = [
        Line(names[i + 1], node(None, None), {ports[node]: Source(names[i])}) for i, node in enumerate(nodes)
    ]
    return Pipeline("m", 1, "infer", 0, lines)


def whole(engines):
    return pipeline(Encode, Infer2).open(TensorInput(Tensors()), engines.client)


def streamed(engines, n=1):
    return pipeline(Encode, Decode, Marked).open(GenerationInput(n=n), engines.client)


async def collected(call):
    return [(choice, out.text, out.piece.finish) async for batch in call.updates() for choice, out in batch]


def test_the_second_engine_gets_what_is_made_of_the_first_one_s_reply(engines):
    async def scene():
        answer = asyncio.create_task(whole(engines).answer())
        first = await engines.next(SubmitTensors)
        assert (first.address, len(engines.sent)) == (FIRST, 1)
        engines.reply(first, x=np.array([1, 2]))
        second = await engines.next(SubmitTensors, 2)
        assert second.address == SECOND
        engines.reply(second, y=np.array([7]))
        return await answer

    assert asyncio.run(scene())["y"].tolist() == [7]
    assert engines.client.num_in_flight == 0


def test_what_an_engine_gets_names_the_tenant(engines):
    async def scene():
        call = pipeline(Encode, Decode, Marked).prepare(GenerationInput(), engines.client, "ann")
        call.start()
        pieces = asyncio.create_task(collected(call))
        engines.reply(await engines.next(SubmitTensors), x=np.array([5]))
        submitted = await engines.next(Submit)
        engines.tokens(submitted, 0, [1], "stop")
        await pieces
        return submitted.origin.tenant

    assert asyncio.run(scene()) == "ann"


def test_a_stream_starts_when_the_first_engine_has_replied(engines):
    async def scene():
        call = streamed(engines, n=2)
        pieces = asyncio.create_task(collected(call))
        first = await engines.next(SubmitTensors)
        assert call.prompt_ids == []
        engines.reply(first, x=np.array([5, 6]))
        submitted = await engines.next(Submit)
        asked = submitted.request
        assert (submitted.address, asked.prompts, asked.n) == (SECOND, [[5, 6]], 2)
        assert (call.prompt_ids, call.prompt_lengths) == ([[5, 6]], [2])
        engines.tokens(submitted, 0, [1])
        engines.tokens(submitted, 1, [2], "length")
        engines.tokens(submitted, 0, [3], "stop")
        return await pieces

    pieces = asyncio.run(scene())
    assert {(choice, finish) for choice, _, finish in pieces if finish} == {(0, "stop"), (1, "length")}
    assert pieces[-1][1] in ("heard0:[3]", "heard0:[1, 3]", "heard1:[2]")
    assert engines.client.num_in_flight == 0


@pytest.mark.parametrize("opened", [whole, streamed])
def test_an_error_of_the_first_engine_is_the_call_s(engines, opened):
    async def scene():
        call = opened(engines)
        reading = asyncio.create_task(call.answer() if opened is whole else collected(call))
        engines.fail(await engines.next(SubmitTensors))
        with pytest.raises(EngineError, match="broken"):
            await reading
        return [message for message in engines.sent if not isinstance(message, Abort)]

    assert len(asyncio.run(scene())) == 1
    assert engines.client.num_in_flight == 0


def test_a_reply_that_is_no_prompt_fails_before_anything_is_submitted(engines):
    async def scene():
        reading = asyncio.create_task(collected(streamed(engines)))
        engines.reply(await engines.next(SubmitTensors), x=np.zeros(0, np.int64))
        with pytest.raises(RequestError, match="nothing to decode"):
            await reading

    asyncio.run(scene())
    assert not any(isinstance(message, Submit) for message in engines.sent)


@pytest.mark.parametrize("opened", [whole, streamed])
def test_a_second_engine_that_is_away_fails_the_call(engines, opened):
    async def scene():
        call = opened(engines)
        reading = asyncio.create_task(call.answer() if opened is whole else collected(call))
        engines.reply(await engines.next(SubmitTensors), x=np.array([1]))
        engines.client.received(Status(1, "draining", []))
        with pytest.raises(Unavailable):
            await reading

    asyncio.run(scene())
    assert engines.client.num_in_flight == 0


@pytest.mark.parametrize("opened", [whole, streamed])
def test_a_call_closed_while_the_first_engine_works_submits_no_more(engines, opened):
    async def scene():
        call = opened(engines)
        reading = asyncio.create_task(call.answer() if opened is whole else collected(call))
        first = await engines.next(SubmitTensors)
        await asyncio.sleep(0)
        call.close()
        call.close()
        engines.reply(first, x=np.array([1]))
        return await reading, first.request_id

    answer, first = asyncio.run(scene())
    assert not answer
    assert engines.aborted == [first]
    assert len(engines.sent) == 2


def test_a_call_closed_while_the_second_engine_works_aborts_it(engines):
    async def scene():
        call = whole(engines)
        answer = asyncio.create_task(call.answer())
        engines.reply(await engines.next(SubmitTensors), x=np.array([1]))
        second = await engines.next(SubmitTensors, 2)
        call.close()
        assert await answer is None
        return second.request_id

    second = asyncio.run(scene())
    assert engines.aborted == [second]


def test_a_stream_closed_in_the_middle_aborts_its_engine(engines):
    async def scene():
        call = streamed(engines)
        pieces = asyncio.create_task(collected(call))
        engines.reply(await engines.next(SubmitTensors), x=np.array([1]))
        submitted = await engines.next(Submit)
        engines.tokens(submitted, 0, [1])
        await asyncio.sleep(0)
        call.close()
        await pieces
        return submitted.request_id

    second = asyncio.run(scene())
    assert engines.aborted == [second]
    assert engines.client.num_in_flight == 0


class Both(Node):
    """Two engines side by side, of which the first one's reply is the graph's."""

    def run(self, call, request):
        first = call.infer(FIRST, Tensors(x=np.arange(3)))
        call.infer(SECOND, Tensors(x=np.arange(3)))
        return first


@pytest.fixture
def both(engines):
    ports = {"request": Source("request")}
    made = Pipeline("m", 1, "infer", 0, [Line("both", Both(None, None), ports)])
    return made.prepare(TensorInput(Tensors()), engines.client)


def test_what_is_ready_is_sent_at_once_and_closed_together(engines, both):
    async def scene():
        both.start()
        assert [message.address for message in engines.sent] == [FIRST, SECOND]
        both.close()

    asyncio.run(scene())
    assert sorted(engines.aborted) == [message.request_id for message in engines.sent[:2]]


def test_a_failure_of_one_aborts_the_other(engines, both):
    async def scene():
        both.start()
        engines.fail(await engines.next(SubmitTensors))
        with pytest.raises(BraidError):
            await both.answer()

    asyncio.run(scene())
    assert engines.aborted == [engines.sent[1].request_id]


def test_a_call_whose_second_submission_cannot_be_sent_leaves_nothing_running(engines, both):
    def send(message):
        if getattr(message, "address", None) == SECOND:
            raise ValueError("too long")
        engines.sent.append(message)

    async def scene():
        engines.client._link = SimpleNamespace(send=send)
        with pytest.raises(RequestError):
            both.start()

    asyncio.run(scene())
    assert engines.aborted == [engines.sent[0].request_id]
    assert engines.client.num_in_flight == 0


def test_types_of_chains():
    deferred = Deferred("engine")
    assert isinstance(deferred.stream(lambda value: Stream("engine")), Stream)
    assert deferred.makers == ()
