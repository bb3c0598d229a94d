"""Batches over the application: their states, their results, cancellation, isolation, bounds."""

from __future__ import annotations

import asyncio
import codecs

import pytest
from batch_bodies import CHAT, create, ended, form, line, lines, results, upload
from openai.types import Batch, FileDeleted, FileObject
from patience import PATIENCE_S, until
from scripted import HI

from pipelines.base.errors import Unavailable
from pipelines.wire.host_errors import lost_error
from pipelines.wire.sampling_params import BACKGROUND
from server.apis.batches import batch_worker
from server.apis.batches.batch_worker import MAX_RUNS, BatchWorker
from server.apis.batches.database import OfflineDatabase
from server.apis.batches.line_calls import LineCalls


@pytest.fixture
def batches(make_rig, tmp_path):
    """A rig with a folder for files."""
    return lambda **settings: make_rig(files=tmp_path / "files", **settings)


def test_a_batch_gives_the_replies_of_its_endpoint(batches):
    rig = batches()

    async def scenario(client):
        created = (await create(client, lines(line("a"), line("b", temperature=9), line("c")))).json
        batch = await ended(client, created["id"])
        return (
            created,
            batch,
            [await results(client, batch[name]) for name in ("output_file_id", "error_file_id")],
        )

    batch_made, batch, (good, bad) = rig.run(scenario)
    assert Batch.model_validate(batch_made).status == "validating"
    assert Batch.model_validate(batch).status == "completed"
    assert batch["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert batch["model"] == "tiny"
    assert [entry["custom_id"] for entry in good] == ["a", "c"]
    assert good[0]["response"]["body"]["choices"][0]["message"]["content"] == "Hello"
    assert {*good[0]} == {"id", "custom_id", "response", "error"}
    assert bad[0]["response"]["status_code"] == 400
    assert bad[0]["response"]["body"]["error"]["param"] == "temperature"


def test_a_byte_order_mark_before_the_first_line_is_left_out(batches):
    async def scenario(client):
        made = (await create(client, codecs.BOM_UTF8 + lines(line("a"), line("b")))).json
        return await ended(client, made["id"])

    assert batches().run(scenario)["request_counts"] == {"total": 2, "completed": 2, "failed": 0}


def test_its_requests_are_background_and_take_no_places(batches):
    rig = batches(max_concurrency=1)

    async def scenario(client):
        created = (await create(client, lines(*[line(str(i)) for i in range(5)]))).json
        release = rig.services.admission.enter()  # an interactive request has the only place
        async with asyncio.timeout(PATIENCE_S):
            while len(rig.pipeline.calls) < 5:
                await asyncio.sleep(0.01)
        release()
        return await ended(client, created["id"])

    batch = rig.run(scenario)
    assert batch["request_counts"]["completed"] == 5
    assert {call.generation.sampling["priority"] for call in rig.pipeline.calls} == {BACKGROUND}
    assert {call.tenant for call in rig.pipeline.calls} == {"batch:"}


def test_lines_begin_one_by_one_with_turns_of_other_requests_between(batches, monkeypatch):
    rig, post, begun, turns = batches(), LineCalls.post, [], [0]

    async def noting(self, *args):
        begun.append(turns[0])
        return await post(self, *args)

    async def others():
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    async def scenario(client):
        turning = asyncio.create_task(others())
        batch = await ended(
            client, (await create(client, lines(*[line(str(i)) for i in range(9)]))).json["id"]
        )
        turning.cancel()
        return batch

    monkeypatch.setattr(LineCalls, "post", noting)
    assert rig.run(scenario)["request_counts"]["completed"] == 9
    assert len(set(begun)) == 9


@pytest.mark.parametrize(
    ("data", "code", "number"),
    [
        (b"", "empty_file", None),
        (lines(line("a"), "{"), "invalid_json_line", 2),
        (lines(line("a"), line("a")), "duplicate_custom_id", 2),
        (lines(line("a"), "", line("b", url="/v1/embeddings")), "mismatched_endpoint", 3),
        (lines(line("a", stream=True)), "invalid_value", 1),
        (lines({**line("a"), "method": "GET"}), "invalid_method", 1),
        (lines({**line("a"), "body": [1]}), "invalid_request", 1),
        (lines({"custom_id": "a"}), "invalid_request", 1),
        (lines(*[line(str(i)) for i in range(4)]), "too_many_tasks", 4),
        (lines(line("a", stop="x" * (1 << 20))), "line_too_long", 1),
    ],
)
def test_an_invalid_file_fails_with_the_numbers_of_its_lines(data, code, number, batches):
    rig = batches(batch_lines=3, max_body_mb=1)

    async def scenario(client):
        return await ended(client, (await create(client, data)).json["id"])

    batch = rig.run(scenario)
    assert batch["status"] == "failed"
    assert (batch["errors"]["data"][0]["code"], batch["errors"]["data"][0]["line"]) == (code, number)
    assert Batch.model_validate(batch).errors.object == "list"
    assert rig.pipeline.calls == []


def test_a_reply_that_says_later_is_asked_for_again(batches, monkeypatch):
    monkeypatch.setattr("server.apis.batches.batch_run.AGAIN_S", 0.01)
    rig = batches()
    rig.pipeline.batches = [Unavailable("the engine is starting")]

    async def scenario(client):
        created = (await create(client, lines(line("a")))).json
        async with asyncio.timeout(PATIENCE_S):
            while len(rig.pipeline.calls) < 3:
                await asyncio.sleep(0.01)
        rig.pipeline.batches = HI
        return await ended(client, created["id"])

    assert rig.run(scenario)["request_counts"] == {"total": 1, "completed": 1, "failed": 0}


def test_a_line_that_the_engine_dies_of_twice_fails_alone(batches, monkeypatch):
    monkeypatch.setattr("server.apis.batches.batch_run.AGAIN_S", 0.01)
    rig = batches()
    prepare = rig.pipeline.prepare

    def deadly(generation, *rest, **more):
        if generation.messages[-1]["content"] == "die":
            raise lost_error()
        return prepare(generation, *rest, **more)

    monkeypatch.setattr(rig.pipeline, "prepare", deadly)

    async def scenario(client):
        deadly_line = line("b", messages=[{"role": "user", "content": "die"}])
        batch = await ended(
            client, (await create(client, lines(line("a"), deadly_line, line("c")))).json["id"]
        )
        return batch, await results(client, batch["error_file_id"])

    batch, (bad,) = rig.run(scenario)
    assert batch["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert (bad["custom_id"], bad["error"]["code"]) == ("b", "engine_died")


@pytest.mark.parametrize("method", ["heartbeat", "claim"])
def test_an_unforeseen_fault_does_not_end_the_look_for_batches(batches, method, monkeypatch):
    monkeypatch.setattr(batch_worker, "LOOK_S", 0.01)
    rig, call, faults = batches(), getattr(OfflineDatabase, method), [RuntimeError("unforeseen")]

    def fails_once(*args):
        if faults:
            raise faults.pop()
        return call(*args)

    post = LineCalls.post

    async def post_after_it(*args):
        await until(lambda: not faults)  # a batch that ends sooner has no heartbeat
        return await post(*args)

    monkeypatch.setattr(OfflineDatabase, method, fails_once)
    monkeypatch.setattr(LineCalls, "post", post_after_it)

    async def scenario(client):
        return [await ended(client, (await create(client, lines(line("a")))).json["id"]) for _ in range(2)]

    assert [entry["status"] for entry in rig.run(scenario)] == ["completed"] * 2
    assert not faults


def test_a_run_that_is_cancelled_before_its_first_step_leaves_its_place(batches, monkeypatch):
    monkeypatch.setattr(batch_worker, "LOOK_S", 0.01)
    claim, cancelled = BatchWorker._claim, []

    async def claim_and_lose(worker):
        await claim(worker)
        for running in [*worker._runs.values()]:
            if len(cancelled) < 2 * MAX_RUNS:
                cancelled.append(running.task.cancel())
                await worker._release(running.stored)

    monkeypatch.setattr(BatchWorker, "_claim", claim_and_lose)
    rig = batches()

    async def scenario(client):
        ids = [(await create(client, lines(line("a")))).json["id"] for _ in range(3)]
        return [await ended(client, entry) for entry in ids]

    assert [entry["status"] for entry in rig.run(scenario)] == ["completed"] * 3
    assert cancelled == [True] * 2 * MAX_RUNS


def test_a_cancelled_batch_ends_its_requests_and_has_its_results(batches):
    rig = batches()

    async def scenario(client):
        created = (await create(client, lines(line("a"), line("b")))).json
        batch = await ended(client, created["id"])
        late = await client.post(f"/v1/batches/{created['id']}/cancel", {})
        rig.pipeline.batches = ["forever"]
        created = (await create(client, lines(line("a"), line("b")))).json
        async with asyncio.timeout(PATIENCE_S):
            while len(rig.pipeline.calls) < 4:
                await asyncio.sleep(0.01)
        cancelling = (await client.post(f"/v1/batches/{created['id']}/cancel", {})).json
        return batch, late, cancelling, await ended(client, created["id"])

    batch, late, cancelling, cancelled = rig.run(scenario)
    assert batch["status"] == "completed"
    assert (late.status, late.error["message"]) == (400, "Cannot cancel a batch with status 'completed'.")
    assert cancelling["status"] == "cancelling"
    assert cancelled["status"] == "cancelled"
    assert cancelled["output_file_id"] is None
    assert all(call.closed for call in rig.pipeline.calls[-2:])


def test_lines_that_did_not_run_in_time_say_so(batches, monkeypatch):
    monkeypatch.setattr("server.apis.batches.endpoint.DAY_S", 0)
    rig = batches()

    async def scenario(client):
        batch = await ended(client, (await create(client, lines(line("a"), line("b")))).json["id"])
        return batch, await results(client, batch["error_file_id"])

    batch, errors = rig.run(scenario)
    assert batch["status"] == "expired"
    assert [(error["custom_id"], error["error"]["code"]) for error in errors] == [
        ("a", "batch_expired"),
        ("b", "batch_expired"),
    ]


def test_lists_have_pages(batches):
    rig = batches()

    async def scenario(client):
        ids = [(await create(client, lines(line("a")))).json["id"] for _ in range(3)]
        for entry in ids:
            await ended(client, entry)
        first = (await client.get("/v1/batches?limit=2")).json
        rest = (await client.get(f"/v1/batches?limit=2&after={first['last_id']}")).json
        inputs = (await client.get("/v1/files?purpose=batch&order=asc&limit=2")).json
        more = (await client.get(f"/v1/files?purpose=batch&order=asc&after={inputs['last_id']}")).json
        return ids, first, rest, inputs, more, await client.get("/v1/batches?after=batch_x")

    ids, first, rest, inputs, more, unknown = rig.run(scenario)
    assert [entry["id"] for entry in first["data"]] == [ids[2], ids[1]]
    assert (first["has_more"], rest["has_more"]) == (True, False)
    assert [entry["id"] for entry in rest["data"]] == [ids[0]]
    assert (len(inputs["data"]), len(more["data"]), inputs["has_more"], more["has_more"]) == (
        2,
        1,
        True,
        False,
    )
    assert (unknown.status, unknown.error["param"]) == (400, "after")


def test_a_key_sees_its_own_alone(batches):
    rig = batches(api_keys=("one", "two"))
    first_key, two = {"authorization": "Bearer one"}, {"authorization": "Bearer two"}

    async def scenario(client):
        file = (await upload(client, lines(line("a")), **first_key)).json
        body = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"}
        created = (await client.post("/v1/batches", body, **first_key)).json
        paths = [
            ("GET", f"/v1/files/{file['id']}"),
            ("GET", f"/v1/files/{file['id']}/content"),
            ("DELETE", f"/v1/files/{file['id']}"),
            ("GET", f"/v1/batches/{created['id']}"),
            ("POST", f"/v1/batches/{created['id']}/cancel"),
        ]
        others = [(await client.ask(method, path, headers=two)).status for method, path in paths]
        lists = [(await client.get(path, **two)).json["data"] for path in ("/v1/files", "/v1/batches")]
        refused = await client.post("/v1/batches", body, **two)
        own = (await client.get(f"/v1/batches/{created['id']}", **first_key)).status
        return others, lists, refused.status, own

    assert rig.run(scenario) == ([404] * 5, [[], []], 400, 200)


def test_files_are_stored_read_and_deleted(batches):
    rig = batches()

    async def scenario(client):
        body, headers = form(
            b"one\ntwo", **{"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
        )
        created = (await client.ask("POST", "/v1/files", body, headers=headers)).json
        path = f"/v1/files/{created['id']}"
        content = await client.get(path + "/content")
        deleted = (await client.ask("DELETE", path)).json
        return created, content, deleted, (await client.get(path)).status, await client.get(path + "/content")

    file, content, deleted, gone, no_content = rig.run(scenario)
    assert FileObject.model_validate(file).filename == "in.jsonl"
    assert (file["bytes"], file["expires_at"] - file["created_at"]) == (7, 3600)
    assert (content.body, content.headers["content-length"]) == (b"one\ntwo", "7")
    assert FileDeleted.model_validate(deleted).deleted
    assert (gone, no_content.status) == (404, 404)


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"purpose": "fine-tune"}, 400, "purpose"),
        ({"purpose": "vision"}, 400, "purpose"),
        ({"expires_after[anchor]": "created_at"}, 400, None),
        (
            {"expires_after[anchor]": "created_at", "expires_after[seconds]": "5"},
            400,
            "expires_after[seconds]",
        ),
    ],
)
def test_forms_that_are_refused_leave_nothing(fields, status, param, batches, tmp_path):
    body, headers = form(b"{}", **fields)
    answer = batches().ask("POST", "/v1/files", body=body, headers=headers)
    assert (answer.status, answer.error["param"]) == (status, param)
    assert [*(tmp_path / "files" / "content").iterdir()] == []


def test_an_upload_that_breaks_off_leaves_nothing(batches, tmp_path):
    rig = batches()
    body, headers = form(b"x" * 300_000)

    async def scenario(client):
        request = client.begin(
            "POST", "/v1/files", [body[:100_000], body[100_000:200_000]], headers, stalls=True
        )
        content = tmp_path / "files" / "content"
        async with asyncio.timeout(PATIENCE_S):
            while not [*content.iterdir()]:
                await asyncio.sleep(0.01)
        request.hang_up()
        await asyncio.wait_for(request.task, PATIENCE_S)
        return [*content.iterdir()], (await client.get("/v1/files")).json["data"]

    assert rig.run(scenario) == ([], [])


@pytest.mark.parametrize(
    ("settings", "data", "status"),
    [
        ({"file_mb": 1}, b"x" * (1 << 20), 200),
        ({"file_mb": 1}, b"x" * ((1 << 20) + 1), 413),
        ({"files_mb": 1}, b"x" * ((1 << 20) + 1), 429),
    ],
)
def test_bytes_of_files_are_bounded(settings, data, status, batches, tmp_path):
    body, headers = form(data)
    answer = batches(**settings).ask("POST", "/v1/files", body=body, headers=headers)
    assert answer.status == status, answer.body
    assert len([*(tmp_path / "files" / "content").iterdir()]) == (status == 200)


def test_files_and_batches_are_bounded_in_number(batches):
    rig = batches(files_count=1, batches_per_key=1)
    rig.pipeline.batches = ["forever"]

    async def scenario(client):
        created = await create(client, lines(line("a")))
        body = {
            "input_file_id": created.json["input_file_id"],
            "endpoint": CHAT,
            "completion_window": "24h",
        }
        second = await client.post("/v1/batches", body)
        file = await upload(client, b"{}")
        busy = await client.ask("DELETE", f"/v1/files/{created.json['input_file_id']}")
        return created.status, second.status, file.status, busy.status

    assert rig.run(scenario) == (200, 429, 429, 400)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"endpoint": "/v1/audio/speech"}, "endpoint"),
        ({"completion_window": "1h"}, "completion_window"),
        ({"metadata": {"a": "x" * 513}}, "metadata.a"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 1}}, "output_expires_after.seconds"),
        ({"input_file_id": "file-x"}, "input_file_id"),
    ],
)
def test_batches_that_are_refused(fields, param, batches):
    answer = batches().run(lambda client: create(client, lines(line("a")), **fields))
    assert (answer.status, answer.error["param"]) == (400, param)


def test_results_that_have_no_room_end_the_batch(batches, monkeypatch):
    rig = batches()
    monkeypatch.setattr("server.apis.batches.database.OfflineDatabase.is_full", lambda self: True)

    async def scenario(client):
        rig.pipeline.batches = ["forever"]
        created = (await create(client, lines(line("a", temperature=9), line("b")))).json
        batch = await ended(client, created["id"])
        return batch, await results(client, batch["error_file_id"])

    batch, results_written = rig.run(scenario)
    assert (batch["status"], batch["errors"]["data"][0]["code"]) == ("failed", "storage_full")
    assert [entry["custom_id"] for entry in results_written] == ["a"]


def test_responses_of_a_batch_are_background_too(batches):
    rig = batches()
    given = {**line("a", url="/v1/responses"), "body": {"model": "tiny", "input": "hi"}}

    async def scenario(client):
        made = (await create(client, lines(given), endpoint="/v1/responses")).json
        return await ended(client, made["id"])

    assert rig.run(scenario)["request_counts"] == {"total": 1, "completed": 1, "failed": 0}
    assert rig.pipeline.asked.sampling["priority"] == BACKGROUND
