"""Graphs of tensor models, with real engines, in one process and over a real socket."""

from __future__ import annotations

import asyncio
from threading import Event

import numpy as np
import pytest
from breadth import after
from fake_decoder import write_fake_model
from held_calls import held_calls
from patience import PATIENCE_S
from scripted_host import read, submit, until
from served_models import in_one_process, over_a_socket, socket_host
from tensor_models import ADDING, TWO, WAITING, write_one, write_onnx, write_two

from pipelines.base.errors import RequestError, Unavailable
from pipelines.inference.backends.fake_decoder import FakeSession
from pipelines.inference.backends.onnxruntime.tensor_session import OnnxTensors
from pipelines.values.node_values import Tensors
from pipelines.values.tasks import TensorInput
from pipelines.wire.messages import TensorSpec

IMAGE = np.arange(8, dtype=np.float32).reshape(2, 4)
LONG = 1000
"""From so many turns of the waiting model on, `held` holds a run."""


def write_models(folder):
    """Three models of tensors and one of text."""
    write_one(folder / "one", "model.xml")
    write_two(folder / "two")
    write_one(folder / "waiting", text=WAITING)
    write_fake_model(folder / "text", vocab_size=50, max_context=64)
    return folder


@pytest.fixture
def models(tmp_path):
    """Models that a test may change."""
    return write_models(tmp_path)


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """Runs a scene with a worker of its own and the one host that such scenes share."""
    with socket_host(write_models(tmp_path_factory.mktemp("host") / "models")) as over:
        yield over


@pytest.fixture(params=after(1, ["socket", "in process"]))
def over(request):
    if request.param == "socket":
        return request.getfixturevalue("host")
    models = request.getfixturevalue("models")
    return lambda scene: in_one_process(scene, models)


@pytest.fixture
def held(monkeypatch):
    """Holds each run of many turns until it is set; `began` is set by the first, `turns` are those of all runs."""
    turns = []

    def holds(inputs):
        turns.append(int(inputs.get("turns", 0)))
        return turns[-1] >= LONG

    with held_calls(monkeypatch, OnnxTensors, "run", holds) as gate:
        gate.turns = turns
        yield gate


async def ask(client, catalogue, model, inputs, outputs=None):
    call = catalogue.get(model).open(TensorInput(Tensors(inputs), outputs), client)
    try:
        return await asyncio.wait_for(call.answer(), PATIENCE_S)
    finally:
        call.close()


def wait(client, catalogue, turns):
    inputs = {"turns": np.array(turns), "x": np.ones(3, np.float32)}
    return ask(client, catalogue, "waiting", inputs)


def test_tensors_go_through_a_model_and_come_back(over):
    async def scene(client, catalogue):
        answer = await ask(client, catalogue, "one", {"image": IMAGE})
        return answer, client.num_in_flight

    answer, in_flight = over(scene)
    assert isinstance(answer, Tensors)
    np.testing.assert_array_equal(answer["doubled"], 2 * IMAGE)
    np.testing.assert_array_equal(answer["boxes"], 2 * IMAGE[:, :2])
    assert (list(answer), in_flight) == (["boxes", "doubled"], 0)


def test_one_model_s_output_feeds_the_next_beside_the_request(over):
    async def scene(client, catalogue):
        return await ask(client, catalogue, "two", {"image": IMAGE})

    answer = over(scene)
    np.testing.assert_array_equal(answer["label"], np.concatenate([2 * IMAGE[:, :2], IMAGE], 1))


def test_a_line_s_tensor_goes_before_the_request_s_of_the_same_name(models):
    bright = TWO.replace("path: detector.onnx,", "path: bright.onnx, inputs: {x: image},")
    write_two(models / "two", bright.replace("{region: boxes}", "{}"))
    write_onnx(
        models / "two" / "bright.onnx", "bright (float[n, 4] x) => (float[n, 4] image) { image = Neg (x) }"
    )

    async def scene(client, catalogue):
        return await ask(client, catalogue, "two", {"image": IMAGE, "region": IMAGE[:, :2]})

    np.testing.assert_array_equal(
        in_one_process(scene, models)["label"], np.concatenate([IMAGE[:, :2], -IMAGE], 1)
    )


def test_a_graph_of_tensor_models_is_a_node_of_another(models):
    (models / "alias").mkdir()
    alias = "version: 1\ntask: infer\nnodes:\n  reply: {type: graph, graph: two, from: request}\n"
    (models / "alias" / "graph.yaml").write_text(alias)

    async def scene(client, catalogue):
        return await ask(client, catalogue, "alias", {"image": IMAGE})

    assert in_one_process(scene, models)["label"].shape == (2, 6)


def test_only_the_outputs_that_are_asked_for_come_back(over):
    async def scene(client, catalogue):
        return await ask(client, catalogue, "one", {"image": IMAGE}, ["boxes"])

    assert list(over(scene)) == ["boxes"]


def test_no_rows_are_an_answer_too(over):
    async def scene(client, catalogue):
        return await ask(client, catalogue, "two", {"image": IMAGE[:0]})

    assert over(scene)["label"].shape == (0, 6)


def test_arrays_in_any_order_of_memory_and_bytes(over):
    async def scene(client, catalogue):
        turned = np.asfortranarray(IMAGE[::-1]).astype(">f4")
        return await ask(client, catalogue, "one", {"image": turned}, ["doubled"])

    np.testing.assert_array_equal(over(scene)["doubled"], 2 * IMAGE[::-1])


@pytest.mark.parametrize(
    ("inputs", "outputs", "field", "said"),
    [
        ({}, None, "image", r"image is missing; it is float32\[\?, 4\]"),
        ({"image": IMAGE, "imag": IMAGE}, None, "imag", r"no input imag; did you mean image"),
        (
            {"image": IMAGE.astype(np.int64)},
            None,
            "image",
            r"must be float32\[\?, 4\], but its type is int64",
        ),
        ({"image": IMAGE[:, :3]}, None, "image", r"must be float32\[\?, 4\], but its shape is \[2, 3\]"),
        ({"image": np.array(["a"])}, None, "image", r"image holds str\d+, not numbers, booleans or bytes"),
        ({"image": IMAGE}, ["box"], "box", r"no output `box`"),
    ],
)
def test_a_request_that_does_not_fit_names_its_tensor(over, inputs, outputs, field, said):
    async def scene(client, catalogue):
        with pytest.raises(RequestError, match=said) as caught:
            await ask(client, catalogue, "one", inputs, outputs)
        assert caught.value.field == field
        return await ask(client, catalogue, "one", {"image": IMAGE}, ["boxes"]), client.num_in_flight

    answer, in_flight = over(scene)
    assert (answer["boxes"].shape, in_flight) == ((2, 2), 0)


def test_a_run_that_fails_fails_its_request_alone(models):
    write_one(models / "one", text=ADDING)

    async def scene(client, catalogue):
        good, bad = ({"image": np.ones(3, np.float32), "other": np.ones(n, np.float32)} for n in (3, 2))
        asked = (ask(client, catalogue, "one", inputs) for inputs in (good, bad, good))
        return await asyncio.gather(*asked, return_exceptions=True)

    first, failed, last = in_one_process(scene, models)
    assert isinstance(failed, RequestError)
    assert (first["sum"].tolist(), last["sum"].tolist()) == ([2, 2, 2], [2, 2, 2])


def test_requests_that_are_joined_get_what_they_get_alone(models):
    for name in ("one", "two"):
        graph = models / name / "graph.yaml"
        graph.write_text(
            graph.read_text().replace(
                "from: request", "from: request\n    max_batch: 8\n    max_wait_ms: 50", 1
            )
        )
    images = [IMAGE[:1] * number for number in range(12)] + [IMAGE, np.ones((20, 4), np.float32)]

    async def scene(client, catalogue):
        first_asked = (ask(client, catalogue, "one", {"image": image}, ["doubled"]) for image in images)
        two = (ask(client, catalogue, "two", {"image": image}) for image in images)
        answers = await asyncio.gather(*first_asked, *two)
        ((steps,),) = (await client.profile("one")).engines.values()
        return answers, steps

    answers, steps = in_one_process(scene, models)
    for image, first_output, two in zip(images, answers, answers[len(images) :], strict=False):
        np.testing.assert_array_equal(first_output["doubled"], 2 * image)
        np.testing.assert_array_equal(two["label"], np.concatenate([2 * image[:, :2], image], 1))
    assert steps.steps < steps.sequences == len(images)


def test_several_runs_of_a_model_take_place_at_once(models, held):
    graph = models / "waiting" / "graph.yaml"
    graph.write_text(graph.read_text().replace("from: request", "from: request\n    max_runs: 2", 1))

    async def scene(client, catalogue):
        long = asyncio.create_task(wait(client, catalogue, LONG))
        await until(held.began.is_set)
        await wait(client, catalogue, 1)
        unfinished = not long.done()
        held.set()
        await long
        return unfinished

    assert in_one_process(scene, models)


def test_more_than_a_frame_holds_is_the_request_s_fault(over, monkeypatch):
    monkeypatch.setattr("pipelines.wire.framing.MAX_FRAME_BYTES", (1 << 20) + 4000)

    async def scene(client, catalogue):
        with pytest.raises(RequestError, match=r"inputs take 4800 bytes; .* at most 4000. .* image") as asked:
            await ask(client, catalogue, "one", {"image": np.ones((300, 4), np.float32)})
        with pytest.raises(RequestError, match=r"outputs take 4800 bytes.* is doubled") as answered:
            await ask(client, catalogue, "one", {"image": np.ones((200, 4), np.float32)})
        assert (asked.value.field, answered.value.field) == ("image", "doubled")
        return await ask(client, catalogue, "one", {"image": np.ones((200, 4), np.float32)}, ["boxes"])

    assert over(scene)["boxes"].shape == (200, 2)


def test_names_longer_than_a_frame_are_refused(models, monkeypatch):
    monkeypatch.setattr("pipelines.wire.framing.MAX_FRAME_BYTES", (1 << 20) + 4000)

    async def scene(client, catalogue):
        with pytest.raises(RequestError, match="names of the tensors"):
            await ask(client, catalogue, "one", {"n" * (2 << 20): IMAGE})
        return client.num_in_flight

    assert over_a_socket(scene, models) == 0


def test_an_answer_does_not_wait_for_a_step_of_another_model(models, monkeypatch):
    steps, go_on, run = Event(), Event(), FakeSession.run

    def held(session, step):
        steps.set()
        assert go_on.wait(PATIENCE_S)
        return run(session, step)

    async def scene(client, catalogue):
        monkeypatch.setattr(FakeSession, "run", held)
        waiting = asyncio.create_task(wait(client, catalogue, LONG))
        await asyncio.sleep(0)
        assert client.num_in_flight == 1
        load = next(model.instance_id for model in client.status.models if model.name == "text")
        _, updates = submit(client, model="text", instance_id=load)
        await until(steps.is_set)
        answer = await asyncio.wait_for(waiting, PATIENCE_S)
        go_on.set()
        await read(updates)
        return answer

    assert in_one_process(scene, models) is not None


def test_requests_of_one_model_are_answered_in_the_order_of_arrival(over):
    async def scene(client, catalogue):
        order = []

        async def note(number, turns):
            await wait(client, catalogue, turns)
            order.append(number)

        await asyncio.gather(note(0, 100_000), *(note(number, 1) for number in range(1, 6)))
        return order

    assert over(scene) == [0, 1, 2, 3, 4, 5]


def test_other_models_step_while_one_infers(over, held):
    async def scene(client, catalogue):
        long = asyncio.create_task(wait(client, catalogue, LONG))
        await until(held.began.is_set)
        load = next(model.instance_id for model in client.status.models if model.name == "text")
        tokens, _ = await read(submit(client, model="text", instance_id=load, max_tokens=9)[1])
        label = await ask(client, catalogue, "two", {"image": IMAGE})
        unfinished = not long.done()
        held.set()
        await long
        return len(tokens[0]), label["label"].shape, unfinished

    assert over(scene) == (9, (2, 6), True)


def test_a_call_that_is_closed_leaves_the_queue_and_the_next_is_answered(over, held):
    async def scene(client, catalogue):
        long = asyncio.create_task(wait(client, catalogue, LONG))
        await until(held.began.is_set)
        inputs = Tensors(turns=np.array(100 * LONG), x=np.ones(3, np.float32))
        dropped = catalogue.get("waiting").open(TensorInput(inputs), client)
        waiting = asyncio.create_task(dropped.answer())
        await asyncio.sleep(0)
        dropped.close()
        assert await waiting is None
        last = asyncio.create_task(wait(client, catalogue, 1))
        await client.profile("waiting")  # whose answer comes after what was sent before
        held.set()
        await long
        return (await last)["y"].shape, client.num_in_flight

    assert over(scene) == ((3,), 0)
    assert held.turns == [LONG, 1]


def test_what_a_worker_that_hangs_up_had_waiting_is_dropped(models, held):
    async def scene(client, catalogue):
        tasks = [
            asyncio.create_task(wait(client, catalogue, turns)) for turns in (LONG, 100 * LONG, 100 * LONG)
        ]
        await until(held.began.is_set)
        client._link.close()
        for task in tasks:
            with pytest.raises(Unavailable):
                await task
        await until(lambda: client.status is not None)
        await client.profile("waiting")
        held.set()
        await wait(client, catalogue, 1)

    over_a_socket(scene, models)
    assert held.turns == [LONG, 1]


def test_what_a_model_takes_and_gives_is_told_to_the_worker(over):
    async def scene(client, catalogue):
        return {model.name: model for model in client.status.models}

    told = over(scene)
    image = TensorSpec("image", "float32", [None, 4])
    assert (told["two"].inputs, [out.name for out in told["two"].outputs]) == ([image], ["label"])
    assert told["one"].outputs[0] == TensorSpec("boxes", "float32", [None, 2])
    assert (told["text"].inputs, told["two"].max_context, told["two"].cache_tokens) == ([], None, 0)


def test_a_changed_model_is_swapped_while_the_old_one_works(models, held):
    async def scene(client, catalogue):
        old = catalogue.get("waiting")
        long = asyncio.create_task(wait(client, catalogue, LONG))
        await until(held.began.is_set)
        write_one(models / "waiting")
        client.host.rescan()
        await until(lambda: catalogue.get("waiting") is not old)
        answer = await ask(client, catalogue, "waiting", {"image": IMAGE}, ["boxes"])
        held.set()
        return (await long)["y"].shape, answer["boxes"].shape

    assert in_one_process(scene, models) == ((3,), (2, 2))
