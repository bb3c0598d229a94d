"""A disk that is full, fails or cannot be written to: what needs it says so, and nothing else notices."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from collections import namedtuple

import pytest
from batch_bodies import create, ended, form, line, lines
from patience import PATIENCE_S
from responses.responses_bodies import PATH, ask, events

from server.apis.batches.files.content_folder import ContentFolder
from server.apis.responses.database import ResponseDatabase
from server.sqlite.connection import connect, transaction

Usage = namedtuple("Usage", "total used free")
FULL = "the disk of the server has no room"
TABLES = "CREATE TABLE things (name TEXT PRIMARY KEY, data BLOB);"


@pytest.fixture
def rig(make_rig, tmp_path):
    return make_rig(files=tmp_path / "files", responses_file=tmp_path / "responses.sqlite")


@pytest.fixture
def disk(monkeypatch):
    """A disk of 1,000 MB; its free bytes are in a list."""
    free = [500 << 20]
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(1000 << 20, 0, free[0]))
    return free


def no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


async def upload(client, data=b"{}"):
    body, headers = form(data)
    return await client.ask("POST", "/v1/files", body, headers=headers)


@pytest.fixture
def nowhere(make_rig, tmp_path):
    """Stores below a file, where nothing can be made."""
    (tmp_path / "place").write_text("")
    return make_rig(files=tmp_path / "place" / "files", responses_file=tmp_path / "place" / "responses")


async def use_all(client):
    """The statuses of all that uses a store, by what it is."""
    reply = await client.post(PATH, ask())
    return {
        "chat": (await client.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]})),
        "response": reply,
        "read": await client.get(f"{PATH}/{reply.json['id']}"),
        "delete": await client.ask("DELETE", f"{PATH}/{reply.json['id']}"),
        "background": await client.post(PATH, ask(background=True)),
        "continued": await client.post(PATH, ask(previous_response_id="resp_x")),
        "upload": await upload(client),
        "files": await client.get("/v1/files"),
        "batches": await client.get("/v1/batches"),
        "create": await client.post(
            "/v1/batches",
            {"input_file_id": "file-1", "endpoint": "/v1/completions", "completion_window": "24h"},
        ),
    }


def test_stores_that_cannot_be_opened_are_503_on_their_own_paths_until_they_can(nowhere, tmp_path):
    async def scenario(client):
        before = await use_all(client)
        (tmp_path / "place").unlink()
        (tmp_path / "place").mkdir()
        return before, await use_all(client)

    before, after = nowhere.run(scenario)
    served = {"chat": 200, "response": 200}
    assert {name: answer.status for name, answer in before.items()} == dict.fromkeys(before, 503) | served
    assert before["response"].json["store"] is False
    assert "cannot be read or written" in before["response"].headers["x-braid-not-stored"]
    missing = {"continued": 404, "create": 400}
    assert {name: answer.status for name, answer in after.items()} == dict.fromkeys(after, 200) | missing
    assert after["response"].json["store"] is True
    assert "x-braid-not-stored" not in after["response"].headers


def test_the_reserve_of_the_disk_is_not_for_clients(rig, disk, tmp_path):
    async def scenario(client):
        first = await use_all(client)
        disk[0] = (50 << 20) - 1  # a twentieth of it
        return first, await use_all(client)

    first, second = rig.run(scenario)
    assert first["upload"].status == first["background"].status == 200
    statuses = {name: answer.status for name, answer in second.items()}
    assert statuses == {name: answer.status for name, answer in first.items()} | {
        "background": 507,
        "upload": 507,
        "read": 404,
        "delete": 404,
    }
    assert FULL in second["upload"].error["message"]
    assert (second["response"].json["store"], FULL in second["response"].headers["x-braid-not-stored"]) == (
        False,
        True,
    )
    assert len([*(tmp_path / "files" / "content").iterdir()]) == 1


def test_a_stream_says_in_its_last_event_that_it_is_not_stored(rig, disk):
    disk[0] = 0
    last = events(rig.post(PATH, ask(stream=True)).body)[-1]["response"]
    assert (last["status"], last["store"]) == ("completed", False)


def test_an_upload_ends_where_the_reserve_begins(rig, disk, monkeypatch, tmp_path):
    """Its length was not known, and others write to the disk too."""
    monkeypatch.setattr("server.apis.batches.files.upload.WRITE_BYTES", 1000)
    body, headers = form(b"x" * 100_000)

    class Pieces(list):
        def pop(self, at=0):
            disk[0] -= 100 << 20
            return super().pop(at)

    async def scenario(client):
        request = client.begin("POST", "/v1/files", [b""], headers)
        request._pieces = Pieces(body[start : start + 20_000] for start in range(0, len(body), 20_000))
        await asyncio.wait_for(request.task, PATIENCE_S)
        return request.answer

    answer = rig.run(scenario)
    assert (answer.status, [*(tmp_path / "files" / "content").iterdir()]) == (507, [])


@pytest.mark.parametrize(("fault", "status"), [(errno.ENOSPC, 507), (errno.EDQUOT, 507), (errno.EROFS, 503)])
@pytest.mark.parametrize("where", ["os.fsync", "server.apis.batches.files.content_folder.open"])
def test_an_upload_that_cannot_be_written_leaves_nothing(rig, monkeypatch, tmp_path, fault, status, where):
    def fail(*_, **__):
        raise OSError(fault, "of the disk")

    async def scenario(client):
        await client.get("/v1/files")
        monkeypatch.setattr(where, fail, raising=False)
        refused = await upload(client)
        monkeypatch.undo()
        return refused, await upload(client)

    refused, taken = rig.run(scenario)
    assert (refused.status, taken.status) == (status, 200)
    assert [path.name for path in (tmp_path / "files" / "content").iterdir()] == [taken.json["id"]]


def test_a_batch_waits_for_room_and_loses_nothing(rig, disk, monkeypatch):
    monkeypatch.setattr("server.apis.batches.batch_worker.AFTER_FAILURE_S", 0.01)
    monkeypatch.setattr("server.apis.batches.batch_worker.LOOK_S", 0.01)

    async def scenario(client):
        created = await create(client, lines(*[line(str(number)) for number in range(3)]))
        disk[0] = 0
        for _ in range(20):
            waiting = (await client.get(f"/v1/batches/{created.json['id']}")).json["status"]
        disk[0] = 500 << 20
        return waiting, await ended(client, created.json["id"])

    waiting, batch = rig.run(scenario)
    assert waiting in ("validating", "in_progress", "finalizing")
    assert (batch["status"], batch["request_counts"]["completed"]) == ("completed", 3)


def test_a_database_goes_on_after_a_transaction_that_found_no_room(tmp_path):
    """A real full file: SQLite itself ends the transaction, or leaves it open."""
    db = connect(tmp_path / "db", 1, lambda version: TABLES)
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages + 2}")
    for _ in range(3):
        with pytest.raises(sqlite3.OperationalError, match="full"), transaction(db):
            db.execute("INSERT INTO things VALUES ('a', zeroblob(100000))")
        assert not db.in_transaction
    with transaction(db):
        db.execute("INSERT INTO things VALUES ('b', x'00')")
    assert db.execute("SELECT name FROM things").fetchall() == [("b",)]
    db.close()


def test_a_commit_that_fails_leaves_no_transaction_open(tmp_path):
    db = connect(tmp_path / "db", 1, lambda version: TABLES)
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("CREATE TABLE parts (of TEXT REFERENCES things (name) DEFERRABLE INITIALLY DEFERRED)")
    with pytest.raises(sqlite3.IntegrityError), transaction(db):
        db.execute("INSERT INTO parts VALUES ('missing')")
    with transaction(db):
        db.execute("INSERT INTO things VALUES ('b', x'00')")
    db.close()


def test_a_full_database_is_507_and_the_next_request_is_served(rig):
    async def scenario(client):
        await client.get("/v1/files")
        store = rig.services.response_store
        await store.run(lambda database: database._db.execute("PRAGMA max_page_count = 1"))
        full = await client.post(PATH, ask(input="x" * 20_000, background=True))
        foreground = await client.post(PATH, ask(input="x" * 20_000))
        await store.run(lambda database: database._db.execute("PRAGMA max_page_count = 100000"))
        return full, foreground, await client.post(PATH, ask(background=True))

    full, foreground, after = rig.run(scenario)
    assert (full.status, full.error["type"], after.status) == (507, "InsufficientStorageError", 200)
    assert (foreground.status, foreground.json["store"]) == (200, False)
    assert "the disk of the server is full" in foreground.headers["x-braid-not-stored"]


def test_a_fault_is_logged_once(rig, monkeypatch, caplog):
    def broken(*_):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(ResponseDatabase, "get", broken)

    async def scenario(client):
        return [(await client.get(f"{PATH}/resp_x")).status for _ in range(5)]

    assert rig.run(scenario) == [503] * 5
    assert caplog.text.count("the response store failed") == 1


def test_a_file_whose_content_is_gone_can_be_deleted(rig):
    async def scenario(client):
        made = (await upload(client)).json
        folder: ContentFolder = rig.services.offline.folder
        folder.remove(made["id"])
        path = f"/v1/files/{made['id']}"
        return (await client.get(f"{path}/content")).status, (await client.ask("DELETE", path)).status

    assert rig.run(scenario) == (503, 200)
