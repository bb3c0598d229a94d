"""What is served while model folders change, workers die and the server is reloaded.

Every answer comes from what the engine host loaded, in every worker, and no request of a loaded model fails.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openai
import pytest
from paced_model import write_model
from patience import PATIENCE_S
from server_process import NO_LIMITS, ROOT, ServerProcess, ask, chat, start_streams

BROKEN = "version: 1\ntask: chat\nnodes: ["
ALIAS = "version: 1\ntask: chat\nnodes:\n  reply: {{type: graph, graph: {}, from: request}}\n"
CHANGED = ("edited", "half", "emptied")
PAUSE_S = 0.5
STARTED = "Application startup complete"
LEAVING = "Shutting down"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server of a copy of the code, with `fake`, models whose folders the tests change, and two whose graphs name
    one of those.
    """
    folder = tmp_path_factory.mktemp("reload")
    root, models = folder / "checkout", folder / "models"
    for package in ("graphs", "ops", "pipelines", "server"):
        shutil.copytree(ROOT / package, root / package)  # with what Python compiled
    write_model(models / "fake")
    for name in (*CHANGED, "gone"):
        write_model(models / name, step_s=0.0)
    for name, named in (("alias", "edited"), ("orphan", "gone")):
        (models / name).mkdir()
        (models / name / "graph.yaml").write_text(ALIAS.format(named))
    with ServerProcess(models, root, WORKERS="2", APIS="openai") as server:
        server.models, server.root = models, root
        server.all_ready()
        yield server


def content(server, model):
    """Status and text of one short chat request on a connection of its own."""
    try:
        with httpx.Client(base_url=server.url, timeout=PATIENCE_S) as client:
            return reply_of(client, model)
    except httpx.TransportError as error:
        return type(error).__name__, ""


def reply_of(client, model):
    reply = client.post("/v1/chat/completions", json={**chat(12, model=model), "temperature": 0})
    if reply.status_code != 200:
        return reply.status_code, reply.text
    return reply.status_code, reply.json()["choices"][0]["message"]["content"]


def of_each_worker(server, look):
    """What `look` finds with a client of each worker: one value where they agree."""
    with server.each_worker() as clients:
        return {look(client) for client in clients.values()}


def contents(server, *models):
    """(model, status, text) of a chat request to each of the models, in every worker."""

    def look(client):
        return tuple((model, *reply_of(client, model)) for model in models)

    return {reply for replies in of_each_worker(server, look) for reply in replies}


def agreed(server, *models):
    """What list, card, request and readiness report of the models in every worker: one set if they agree."""

    def look(client):
        states = {card["id"]: card["status"]["value"] for card in client.get("/v1/models").json()["data"]}
        ready = client.get("/v2/health/ready").status_code
        return tuple(
            (
                states.get(model) == "loaded",
                client.get(f"/v1/models/{model}").status_code,
                reply_of(client, model)[0],
                ready,
            )
            for model in models
        )

    return {report for reports in of_each_worker(server, look) for report in reports}


class Clients:
    """Threads that request an answer over and over; `replies` holds all that came.

    They pause in between, so that new workers start as fast as on a server that is not overloaded.
    """

    def __init__(self, server, models, count=3):
        self.replies = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(server, models[number % len(models)]))
            for number in range(count)
        ]

    def _run(self, server, model):
        while not self._stop.wait(PAUSE_S):
            self.replies.append((model, *content(server, model)))

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()


def kill_worker(server):
    """kill -9 one worker, and wait until its successor serves."""
    started = server.log().count(STARTED)
    server.children()[1][0].kill()
    server.wait_for(lambda: server.log().count(STARTED) > started)


def change_template(folder):
    template = folder / "chat_template.jinja"
    template.write_text("Changed. " + template.read_text())


def half_write_a_version(folder):
    (folder / "2").mkdir()
    shutil.copy(folder / "graph.yaml", folder / "2")
    (folder / "2" / "tokenizer.json").write_text('{"version": "1.0", "trunc')


def test_folders_that_are_no_model_any_more_change_nothing_that_is_served(served):
    """Changed and broken, half-written, emptied or removed, while a worker dies and the server is reloaded.

    The reload removes the model whose folder is gone, and finds the new one, which is broken.
    """
    names = (*CHANGED, "alias")
    expected = contents(served, *names)
    assert len(expected) == len(names)
    assert {status for _, status, _ in expected} == {200}
    saved = served.models.parent / "saved"
    shutil.copytree(served.models, saved)
    with Clients(served, names, count=4) as clients:
        change_template(served.models / "edited")
        (served.models / "edited" / "graph.yaml").write_text(BROKEN)
        half_write_a_version(served.models / "half")
        for file in (served.models / "emptied").iterdir():
            file.unlink()
        shutil.rmtree(served.models / "gone")
        write_model(served.models / "never", graph=BROKEN)
        kill_worker(served)
        assert agreed(served, "gone", "orphan") == {(True, 200, 200, 200)}
        served.reload()
        served.wait_for(lambda: "holds no model any more" in served.log())
        served.wait_for(lambda: agreed(served, "gone") == {(False, 404, 404, 200)})
    answers = {reply for reply in clients.replies if isinstance(reply[1], int)}
    assert answers == expected
    num_broken = sum(isinstance(reply[1], str) for reply in clients.replies)
    assert num_broken <= 2 * 4  # those that a killed worker had
    assert agreed(served, *names) == {(True, 200, 200, 200)}
    assert agreed(served, "never", "orphan") == {(False, 503, 503, 200)}  # its graph names what is gone
    served.models.rename(served.models.parent / "away")
    saved.rename(served.models)  # as it was, to the last date
    served.expected = expected


async def ping(url, stopped):
    """GET /health on a new connection each time."""
    async with httpx.AsyncClient(limits=NO_LIMITS, timeout=PATIENCE_S) as client:
        while not stopped.is_set():
            assert (await client.get(f"{url}/health")).status_code == 200
            await asyncio.sleep(0.02)


def test_a_reload_under_streams_has_no_gap_and_only_it_changes_answers(served):
    """The folders are those of the start again, but for one template.

    Every request is answered, and no worker leaves before the ones that follow it have started.
    """
    begin = len(served.log())
    (before,) = contents(served, "edited")

    async def scene():
        stopped = asyncio.Event()
        pingers = [asyncio.create_task(ping(served.url, stopped)) for _ in range(2)]
        streams = await start_streams(served.url, 600, 8)
        await asyncio.to_thread(served.reload)
        later = [await ask(served.url, 3) for _ in range(8)]
        replies = await asyncio.gather(*streams)
        stopped.set()
        await asyncio.gather(*pingers)
        return replies + later

    with Clients(served, ["edited", "alias"]) as clients:
        change_template(served.models / "edited")
        assert contents(served, "edited") == {before}
        replies = asyncio.run(scene())
        served.wait_for(lambda: before not in contents(served, "edited"))
    assert {reply[1] for reply in clients.replies} == {200}
    assert len({(status, text) for _, status, text in contents(served, "edited", "alias")}) == 1
    assert all(reply.done and not reply.error for reply in replies), replies
    served.wait_for(lambda: LEAVING in served.log()[begin:])
    assert served.log()[begin:].partition(LEAVING)[0].count(STARTED) == served.num_workers

    served.wait_for(lambda: agreed(served, "never") == {(False, 404, 404, 200)})
    served.wait_for(lambda: agreed(served, "gone", "orphan") == {(True, 200, 200, 200)})
    unchanged = ("half", "emptied")
    assert contents(served, *unchanged) == {reply for reply in served.expected if reply[0] in unchanged}
    assert "changed while" not in served.log()


@pytest.mark.breadth
def test_the_openai_client_works_through_a_reload(served):
    ended, texts = threading.Event(), []

    def work():
        with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none") as client:
            message = {"role": "user", "content": "hi"}
            while not ended.is_set():
                assert "fake" in [model.id for model in client.models.list()]
                options = {"model": "fake", "messages": [message], "max_tokens": 8, "temperature": 0}
                whole = client.chat.completions.create(**options).choices[0].message.content
                pieces = client.chat.completions.create(stream=True, **options)
                texts.append((whole, "".join(piece.choices[0].delta.content or "" for piece in pieces)))

    with ThreadPoolExecutor() as threads:
        running = [threads.submit(work) for _ in range(2)]
        try:
            served.reload()
        finally:
            ended.set()
        for future in running:
            future.result()
    assert len(set(texts)) == 1
    assert texts[0][0] == texts[0][1]


@pytest.mark.breadth
def test_reloads_in_a_row_lose_nothing_and_end(served):
    most = 0
    with Clients(served, ["fake", "half"]) as clients:
        for _ in range(5):
            served.process.send_signal(signal.SIGHUP)
            time.sleep(0.5)
            most = max(most, len(served.children()[1]))
        served.wait_for(lambda: "another one follows" in served.log())
        served.wait_for(lambda: len(served.children()[1]) == 2)
    assert {reply[1] for reply in clients.replies} == {200}
    assert most <= 4 * served.num_workers


def test_the_host_is_replaced_with_the_code_and_broken_code_replaces_nothing(served):
    """The wire gets another message under a running server."""
    app, messages = served.root / "server" / "app.py", served.root / "pipelines" / "wire" / "messages.py"
    host, good = served.host().pid, app.read_text()
    app.write_text("this is no Python\n")
    with Clients(served, ["fake"]) as clients:
        served.process.send_signal(signal.SIGHUP)
        served.wait_for(lambda: "The reload failed" in served.log())
        num_replies = len(clients.replies)
        served.wait_for(lambda: len(clients.replies) > num_replies)
    assert {reply[1] for reply in clients.replies} == {200}
    app.write_text(good)
    add_message_field(messages)
    served.reload()
    served.wait_for(lambda: served.children()[0] is not None and served.host().pid != host)
    served.ready()
    assert "runs another version of Braid" in served.log()
    assert {status for _, status, _ in contents(served, "fake")} == {200}
    assert len(served.children()[1]) == served.num_workers


def add_message_field(messages: Path) -> None:
    old = "    models: list[ModelStatus] = []\n"
    text = messages.read_text()
    assert text.count(old) == 1
    messages.write_text(text.replace(old, f"{old}    added: int = 0\n"))
