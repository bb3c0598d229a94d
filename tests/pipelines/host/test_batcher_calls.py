"""Graphs with a batcher around the fake encoder, in one process and over a real socket."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import numpy as np
import pytest
from breadth import after
from fake_decoder import write_fake_model
from fake_encoder import FAKE_BATCHER, FakeEncoder, row_of, use_fake_encoders, write_fake_encoder
from held_calls import held_calls
from patience import PATIENCE_S
from scripted_host import read, submit, until
from served_models import in_one_process, over_a_socket
from tensor_models import write_onnx

from pipelines.base.errors import EngineError, Overloaded, RequestError, Unavailable
from pipelines.inference.contracts.device_errors import DeviceLost
from pipelines.telemetry import deferred
from pipelines.telemetry.exposition import render
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput
from pipelines.wire.address import EngineAddress
from pipelines.wire.requests import Origin, SubmitTensors
from pipelines.wire.tensor_codec import pack
from pipelines.wire.update_queue import PendingReply

TEXTS = [[1, 2, 3], [4], [5, 6, 7, 8], [9, 10], [11, 12, 13]]
PARALLEL = 8
DOUBLING = "doubling (float[n, 4] x) => (float[n, 4] probabilities) { probabilities = Add (x, x) }"
HEAD = """\
version: 1
task: classify
nodes:
  vectors: {type: graph, graph: rows, from: request}
  logits:
    type: infer
    from: vectors
    body:
      head: {type: tensor_model, from: batch, path: head.onnx, inputs: {x: embeddings}}
  classes: {type: label, from: logits, labels: labels.json}
"""


@pytest.fixture
def encoders(monkeypatch):
    return use_fake_encoders(monkeypatch)


@pytest.fixture
def models(tmp_path, encoders):
    """Two models of rows and one of text."""
    write_fake_encoder(tmp_path / "rows")
    write_fake_encoder(
        tmp_path / "tokens", FAKE_BATCHER.replace("task: embed", "task: token_embed"), per_token=True
    )
    write_fake_model(tmp_path / "text", vocab_size=50, max_context=64)
    return tmp_path


@pytest.fixture(params=after(1, [over_a_socket, in_one_process]), ids=["socket", "in process"])
def over(request, models):
    return lambda scene: request.param(scene, models)


@pytest.fixture
def held(encoders, monkeypatch):
    """Holds every run until it is set; `began` is set by the first."""
    with held_calls(monkeypatch, FakeEncoder, "run") as gate:
        yield gate


def pooling(texts, **more):
    return PoolingInput(prompts=[Prompt(ids=ids) for ids in texts], **more)


def opened(client, catalogue, texts, model="rows", **more):
    return catalogue.get(model).open(pooling(texts, **more), client)


async def ask(client, catalogue, texts, model="rows", **more):
    call = opened(client, catalogue, texts, model, **more)
    try:
        return await asyncio.wait_for(call.answer(), PATIENCE_S)
    finally:
        call.close()


def rows_of(texts, **more):
    return np.array([row_of(ids, **more) for ids in texts])


def rendered():
    """The rows of all metrics, which take a while where a process has served many models."""
    deferred.catch_up()
    return render().decode().splitlines()


def number(model, name, *parts, rows=None):
    rows = [row for row in rows or rendered() if row.startswith(name + "{")]
    wanted = [f'model_name="{model}"', *parts]
    return sum(float(row.rsplit(" ", 1)[1]) for row in rows if all(part in row for part in wanted))


def test_rows_come_back_in_the_order_of_the_texts(over):
    async def scene(client, catalogue):
        return await ask(client, catalogue, TEXTS), client.num_in_flight

    rows, in_flight = over(scene)
    np.testing.assert_array_equal(rows.values, rows_of(TEXTS))
    assert (rows.per_token, in_flight) == (False, 0)


def test_rows_of_tokens_come_text_by_text(over):
    async def scene(client, catalogue):
        return await ask(client, catalogue, TEXTS, "tokens")

    rows = over(scene)
    assert [len(text) for text in rows.values] == [3, 1, 4, 2, 3]
    np.testing.assert_array_equal(rows.values[3], [row_of([9]), row_of([9, 10])])


def test_many_requests_each_have_their_own_rows(over):
    async def scene(client, catalogue):
        asked = [[[one, *text] for text in TEXTS] for one in range(PARALLEL)]
        answers = await asyncio.gather(*(ask(client, catalogue, texts) for texts in asked))
        return list(zip(asked, answers, strict=True))

    for texts, rows in over(scene):
        np.testing.assert_array_equal(rows.values, rows_of(texts))


def test_what_a_request_wants_reaches_the_encoder(models):
    async def scene(client, catalogue):
        return await ask(client, catalogue, TEXTS, activate=False)

    np.testing.assert_array_equal(in_one_process(scene, models).values, rows_of(TEXTS, activate=False))


def test_large_rows_are_cut_off_the_event_loop(models, monkeypatch):
    monkeypatch.setattr("pipelines.worker.replies.LARGE_REPLY_BYTES", 79)  # of 5 rows of 4 numbers
    threads = []

    async def scene(client, catalogue):
        for texts in (TEXTS, TEXTS[:4]):
            call = opened(client, catalogue, texts)
            call.result = call.result.map(lambda rows: threads.append(threading.current_thread()) or rows)
            np.testing.assert_array_equal((await call.answer()).values, rows_of(texts))

    in_one_process(scene, models)
    assert [thread is threading.main_thread() for thread in threads] == [False, True]


def test_a_call_that_is_closed_while_rows_are_cut_has_no_answer(models, monkeypatch):
    monkeypatch.setattr("pipelines.worker.replies.LARGE_REPLY_BYTES", 0)

    async def scene(client, catalogue):
        call, loop, closed = opened(client, catalogue, TEXTS), asyncio.get_running_loop(), threading.Event()

        def close(rows):
            loop.call_soon_threadsafe(lambda: (call.close(), closed.set()))
            assert closed.wait(PATIENCE_S)
            return rows

        call.result = call.result.map(close)
        return await call.answer(), client.num_in_flight

    assert in_one_process(scene, models) == (None, 0)


def test_the_worker_knows_the_longest_text_and_the_call_its_lengths(over):
    async def scene(client, catalogue):
        call = opened(client, catalogue, TEXTS)
        await call.answer()
        cards = {card.name: card.max_context for card in catalogue.cards()}
        return call.prompt_lengths, cards

    lengths, cards = over(scene)
    assert lengths == [3, 1, 4, 2, 3]
    assert (cards["rows"], cards["text"]) == (64, 64)


@pytest.mark.parametrize(
    ("texts", "said", "field"),
    [
        (
            [[1] * 65],
            "maximum context length is 64 tokens. However, your prompt contains 65 inp",
            "input_tokens",
        ),
        ([[1], []], "The decoder prompt cannot be empty", None),
        ([[1], [999999]], "Token id 999999 is out of vocabulary", None),
        ([[-1]], "Token id -1 is out of vocabulary", None),
        ([[1 << 40]], f"Token id {1 << 40} is out of vocabulary", None),
    ],
)
def test_a_text_that_the_model_cannot_read(over, texts, said, field):
    async def scene(client, catalogue):
        with pytest.raises(RequestError, match=said) as caught:
            await ask(client, catalogue, texts)
        error = caught.value
        return (error.field, error.word), await ask(client, catalogue, TEXTS), client.num_in_flight

    told, rows, in_flight = over(scene)
    word = "context_length_exceeded" if "context length" in said else None
    assert (told, len(rows.values), in_flight) == ((field, word), 5, 0)


def test_a_graph_may_take_shorter_texts_than_its_model(models):
    graph = FAKE_BATCHER.replace("max_batch_tokens: 256", "max_tokens: 3")
    write_fake_encoder(models / "rows", graph)

    async def scene(client, catalogue):
        with pytest.raises(RequestError, match="length is 3 tokens"):
            await ask(client, catalogue, TEXTS)

    in_one_process(scene, models)


def test_too_many_tokens_are_refused(models, held):
    write_fake_encoder(
        models / "rows", FAKE_BATCHER.replace("max_batch_tokens: 256", "max_waiting_tokens: 9")
    )

    async def scene(client, catalogue):
        running = asyncio.create_task(ask(client, catalogue, [[1]]))
        await until(held.began.is_set)
        waiting = asyncio.create_task(ask(client, catalogue, TEXTS))
        await asyncio.sleep(0)  # it is sent before the next
        with pytest.raises(Overloaded, match="texts of 13 tokens wait"):
            await ask(client, catalogue, [[1]])
        held.set()
        return len((await waiting).values), len((await running).values)

    assert in_one_process(scene, models) == (5, 1)


def test_other_models_step_while_one_reads(over, held):
    async def scene(client, catalogue):
        reading = asyncio.create_task(ask(client, catalogue, TEXTS))
        await until(held.began.is_set)
        load = next(model.instance_id for model in client.status.models if model.name == "text")
        tokens, _ = await read(submit(client, model="text", instance_id=load, max_tokens=9)[1])
        unfinished = not reading.done()
        held.set()
        return len(tokens[0]), unfinished, len((await reading).values)

    assert over(scene) == (9, True, 5)


def test_a_call_that_is_closed_leaves_the_queue(over, held, encoders):
    async def scene(client, catalogue):
        running = asyncio.create_task(ask(client, catalogue, [[1]]))
        await until(held.began.is_set)
        dropped = opened(client, catalogue, [[77] * 20] * 50)
        waiting = asyncio.create_task(dropped.answer())
        await client.profile("rows")  # whose answer comes after what was sent before
        dropped.close()
        assert await waiting is None
        await client.profile("rows")
        held.set()
        await running
        last = await ask(client, catalogue, [[2]])
        return len(last.values), client.num_in_flight

    assert over(scene) == (1, 0)
    assert all(77 not in batch.ids for encoder in encoders for batch in encoder.batches)


def test_what_ran_for_who_left_is_counted_when_it_is_over(tmp_path, held, request):
    name = f"left-{id(request)}"
    write_fake_encoder(tmp_path / name)

    async def scene(client, catalogue):
        call = opened(client, catalogue, TEXTS, name)
        asking = asyncio.create_task(call.answer())
        await until(lambda: number(name, "vllm:num_requests_running") == len(TEXTS))
        call.close()
        await asking
        await asyncio.sleep(0.1)
        held.set()
        await until(lambda: number(name, "vllm:num_requests_running") == 0)

    in_one_process(scene, tmp_path)
    assert number(name, "vllm:prompt_tokens_total") == 13


def test_what_a_worker_that_hangs_up_had_waiting_is_dropped(models, held, encoders):
    async def scene(client, catalogue):
        tasks = [asyncio.create_task(ask(client, catalogue, [[77] * 20] * 50)) for _ in range(3)]
        await until(held.began.is_set)
        client._link.close()
        for task in tasks:
            with pytest.raises(Unavailable):
                await task
        await until(lambda: client.status is not None)
        await client.profile("rows")
        held.set()
        return len((await ask(client, catalogue, TEXTS)).values)

    assert over_a_socket(scene, models) == 5
    assert sum(77 in batch.ids for encoder in encoders for batch in encoder.batches) == 1


def test_a_batch_that_fails_fails_its_requests_alone(models, encoders):
    async def scene(client, catalogue):
        (encoder,) = [one for one in encoders if not one.per_token]
        encoder.trouble = RuntimeError("no memory")
        with pytest.raises(EngineError, match="see the server's log"):
            await ask(client, catalogue, TEXTS)
        return await ask(client, catalogue, TEXTS)

    assert len(in_one_process(scene, models).values) == 5


def test_a_lost_device_ends_the_host(models, encoders):
    async def scene(client, catalogue):
        for encoder in encoders:
            encoder.trouble = DeviceLost("it fell off the bus")
        with pytest.raises(Unavailable):
            await ask(client, catalogue, TEXTS)
        return client.host.state

    in_one_process(scene, models)


def test_where_the_time_goes_is_told_as_batches(over):
    async def scene(client, catalogue):
        await ask(client, catalogue, TEXTS)
        return (await client.profile("rows")).engines["rows"]

    (steps,) = over(scene)
    assert (steps.kind, steps.steps, steps.tokens, steps.sequences) == ("batches", 1, 13, 5)
    assert ("body.hidden", "encoder") in {(phase.name, phase.node) for phase in steps.phases}


def test_texts_are_counted_as_requests(tmp_path, encoders, request):
    name = f"counted-{id(request)}"
    write_fake_encoder(tmp_path / name)

    async def scene(client, catalogue):
        await ask(client, catalogue, TEXTS, name)
        opened(client, catalogue, [[1], [2]], name).close()
        await until(lambda: number(name, "vllm:iteration_tokens_total_count"))

    in_one_process(scene, tmp_path)
    count = partial(number, name, rows=rendered())
    assert count("vllm:request_success_total", 'finished_reason="stop"') == 5
    assert count("vllm:request_success_total", 'finished_reason="abort"') == 2
    assert count("vllm:e2e_request_latency_seconds_count") == 7
    assert count("vllm:request_prompt_tokens_count") == 7
    assert count("vllm:request_prompt_tokens_sum") == 15
    assert count("vllm:iteration_tokens_total_sum") in (13, 15)
    assert count("vllm:prompt_tokens_total") in (13, 15)
    assert count("braid:padding_tokens_total") == 7
    assert count("braid:steps_total", 'kind="batches"') in (1, 2)
    assert count("vllm:num_requests_waiting") == 0
    for phase in ("queue", "prefill", "inference"):
        assert count(f"vllm:request_{phase}_time_seconds_count") in (5, 7)


def test_texts_of_a_head_over_another_model_s_rows_are_counted_too(tmp_path, encoders, request):
    name = f"head-{id(request)}"
    write_fake_encoder(tmp_path / "rows")
    (tmp_path / name).mkdir()
    (tmp_path / name / "graph.yaml").write_text(HEAD)
    (tmp_path / name / "labels.json").write_text('["a", "b", "c", "d"]')
    write_onnx(tmp_path / name / "head.onnx", DOUBLING)

    async def scene(client, catalogue):
        return await ask(client, catalogue, TEXTS, name), client.num_in_flight

    classes, in_flight = in_one_process(scene, tmp_path)
    np.testing.assert_array_equal(classes.values, 2 * rows_of(TEXTS))
    assert (classes.labels, in_flight) == (["a", "b", "c", "d"], 0)
    assert number(name, "vllm:request_success_total", 'finished_reason="stop"') == 5
    assert number(name, "vllm:e2e_request_latency_seconds_count") == 5
    assert number(name, "vllm:request_prompt_tokens_count") == 5


def test_an_encoder_is_warmed_when_nothing_is_asked(tmp_path, encoders):
    write_fake_encoder(tmp_path / "rows", warm=3)

    async def scene(client, catalogue):
        await until(lambda: encoders[0].left_to_warm == 0)

    in_one_process(scene, tmp_path)
    asyncio.run(until(lambda: encoders[0].closed))  # by its thread, after its last run


def inputs(*texts):
    lengths = np.array([len(text) for text in texts], np.int32)
    return {"ids": np.array([one for text in texts for one in text], np.int32), "lengths": lengths}


def test_texts_in_flight_are_shown_and_can_be_cancelled_by_name(over, held):
    async def scene(client, catalogue):
        slots = [PendingReply() for _ in range(3)]
        instance = next(model.instance_id for model in client.status.models if model.name == "rows")
        for name, slot in zip(("mine", "yours", "mine"), slots, strict=True):
            packed = pack("inputs", inputs([1, 2, 3], [4]))
            client.submit(
                SubmitTensors(EngineAddress("rows", instance, "rows"), packed, origin=Origin(name)), slot
            )
        await until(held.began.is_set)
        (view,) = await client.inspect("rows")
        num_cancelled = await client.cancel("mine")
        for slot in slots[::2]:
            with pytest.raises(RequestError, match=r"^The request was cancelled\.$"):
                await asyncio.wait_for(slot.get(), PATIENCE_S)
        held.set()
        answer = await asyncio.wait_for(slots[1].get(), PATIENCE_S)
        return view, num_cancelled, answer, client.num_in_flight

    view, num_cancelled, answer, in_flight = over(scene)
    (node,) = view.nodes
    assert (node.node, node.kind, node.blocks, node.block_map) == ("rows", "pooling", None, None)
    assert [sequence_view.name for sequence_view in node.sequences] == ["mine", "yours", "mine"]
    assert {
        (sequence_view.prompt_tokens, sequence_view.output_tokens) for sequence_view in node.sequences
    } == {(4, 0)}
    assert "running" in {sequence_view.state for sequence_view in node.sequences}
    assert (num_cancelled, in_flight) == (2, 0)
    np.testing.assert_array_equal(answer["embeddings"], rows_of([[1, 2, 3], [4]]))
