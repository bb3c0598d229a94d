"""Every process of a server dies, hangs or is told to leave, while clients wait."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import contextmanager, suppress

import httpx
import psutil
import pytest
from fake_decoder import write_engine_model
from paced_model import write_model
from patience import PATIENCE_S
from server_process import ServerProcess, ask, start_requests, start_streams

from server.process.private_folder import remove_left_over

CHATS = {"APIS": "openai"}
"""Workers of chats alone start soonest."""


@pytest.fixture(scope="module")
def temporary(tmp_path_factory):
    """Where `server` has its private folder."""
    return tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="module")
def server(tmp_path_factory, temporary):
    """One whose processes the tests kill."""
    models = tmp_path_factory.mktemp("deaths") / "models"
    write_model(models / "fake")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        running = ServerProcess(models, WORKERS="2", **CHATS)
    with running:
        running.ready()
        yield running


@contextmanager
def stopped(process):
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def test_killed_engine_fails_its_requests_at_once_and_comes_back(server):
    async def scene():
        streams = await start_streams(server.url, 3000, 8)
        plain = start_requests(server.url, 3000, 2, stream=False)
        running = "vllm:num_requests_running"
        await asyncio.to_thread(server.wait_for, lambda: server.metric(running) == 10)
        host = server.host()
        with stopped(server.process):  # it starts no other engine
            host.kill()
            replies = await asyncio.gather(*streams)
            refused = await asyncio.gather(*plain)
            return host.pid, replies, refused, await ask(server.url, 1)

    pid, replies, refused, meanwhile = asyncio.run(scene())
    assert all(reply.status == 200 and "engine" in reply.error for reply in replies), replies
    assert [reply.status for reply in refused] == [503, 503]
    assert meanwhile.status == 503
    assert int(meanwhile.retry_after or 0) > 0
    server.ready()
    assert server.host().pid != pid
    assert "SIGKILL" in server.log()


@pytest.mark.breadth
def test_crashed_engine_is_restarted(server):
    pid = server.host().pid
    os.kill(pid, signal.SIGSEGV)
    server.wait_for(lambda: "SIGSEGV" in server.log())
    server.ready()
    assert server.host().pid != pid


def test_killed_worker_breaks_only_its_own_streams(server):
    async def scene():
        streams = await start_streams(server.url, 300, 12)
        host, workers = server.children()
        workers[0].kill()
        return host.pid, workers[0].pid, await asyncio.gather(*streams)

    pid, dead, replies = asyncio.run(scene())
    assert all(reply.done != bool(reply.broken) for reply in replies), replies
    server.wait_for(lambda: server.metric("vllm:num_requests_running") == 0)
    server.wait_for(lambda: len(server.children()[1]) == 2)
    assert dead not in [worker.pid for worker in server.children()[1]]
    assert server.host().pid == pid


def test_client_that_leaves_frees_its_request_at_once(server):
    async def scene():
        streams = await start_streams(server.url, 3000, 3)
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)

    before = server.tokens_at_rest()
    asyncio.run(scene())
    assert server.tokens_at_rest() - before < 3 * 3000


@pytest.mark.breadth
def test_reload_loses_no_request(models_dir):
    async def scene(server):
        streams = await start_streams(server.url, 400, 8)
        write_model(models_dir / "fake", max_context=2048)
        server.process.send_signal(signal.SIGHUP)
        new = [await ask(server.url, 3) for _ in range(30)]
        return await asyncio.gather(*streams), new

    with ServerProcess(models_dir, **CHATS) as server:
        server.ready()
        old, new = asyncio.run(scene(server))
        assert all(reply.done and not reply.error for reply in old), old
        lost = [reply for reply in new if reply.error or not reply.done]
        assert not lost
        server.wait_for(lambda: "context 2048 tokens" in server.log())
        server.ready()


@pytest.mark.breadth
def test_a_connection_made_before_a_reload_may_still_send_its_request(models_dir):
    """In one of a few reloads: a leaving worker waits for a second, in which this process must have its turn."""
    with ServerProcess(models_dir, HEADER_TIMEOUT_S=str(PATIENCE_S), **CHATS) as server:
        server.ready()
        assert any(answer_across_a_reload(server).startswith(b"HTTP/1.1 200") for _ in range(4))


def answer_across_a_reload(server):
    """The reply to a request that is sent when its worker leaves; nothing where that was too late."""
    left = server.log().count("Shutting down")
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as connection:
        (worker,) = server.children()[1]
        server.wait_for(lambda: has_connection(worker, connection))
        server.process.send_signal(signal.SIGHUP)
        server.wait_for(lambda: server.log().count("Shutting down") > left)
        answer = b""
        with suppress(ConnectionError):
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: braid\r\n\r\n")
            while piece := connection.recv(4096):
                answer += piece
        return answer


def has_connection(worker, connection):
    """Whether a worker has accepted a connection."""
    port = connection.getsockname()[1]
    return any(each.raddr and each.raddr.port == port for each in worker.net_connections("tcp4"))


def at_the_end(server, max_tokens, count=8):
    """The replies of streams that run when the server is told to end, which it does."""

    async def scene():
        streams = await start_streams(server.url, max_tokens, count)
        server.process.terminate()
        return await asyncio.gather(*streams)

    replies = asyncio.run(scene())
    assert server.process.wait(PATIENCE_S) == 0
    return replies


def test_a_new_model_may_end_its_process_a_hung_engine_is_restarted_and_short_streams_finish(models_dir):
    write_engine_model(models_dir / "fatal", deadly=7)
    settings = {"FIRST_RUN": "1", "CACHE": str(models_dir.parent / "cache"), "ENGINE_TIMEOUT_S": "2"}
    with ServerProcess(models_dir, **settings, **CHATS) as server:
        server.ready()
        server.wait_for(lambda: "SIGABRT" in httpx.get(f"{server.url}/v1/models/fatal").text)
        assert asyncio.run(ask(server.url, 1)).status == 200
        assert "Current thread" in server.log(), "the stack of the process"
        assert "died after" not in server.log(), "the engine lives on"
        host = server.host()
        host.suspend()
        server.wait_for(lambda: "ENGINE TIMEOUT" in server.log())
        server.wait_for(lambda: not psutil.pid_exists(host.pid))
        server.ready()
        assert server.host().pid != host.pid
        replies = at_the_end(server, 200)
        assert all(reply.done and not reply.error for reply in replies), replies
        assert "drained" in server.log()


@pytest.mark.breadth
def test_engine_that_dies_while_the_server_drains_leaves_clean_errors(models_dir):
    async def scene(server):
        streams = await start_streams(server.url, 4000, 8)
        host = server.host()
        server.process.terminate()
        await asyncio.to_thread(server.wait_for, lambda: "Shutting down" in server.log())
        host.kill()
        return await asyncio.gather(*streams)

    with ServerProcess(models_dir, **CHATS) as server:
        server.ready()
        replies = asyncio.run(scene(server))
        assert all("engine died" in reply.error for reply in replies), replies
        assert server.process.wait(PATIENCE_S) == 0


def test_in_process_server_serves_and_ends_long_streams_with_an_error(models_dir):
    with ServerProcess(models_dir, IN_PROCESS="1", GRACE_S="4", **CHATS) as server:
        server.ready()
        assert server.children()[0] is None
        assert "Braid is ready at" in server.log()
        replies = at_the_end(server, 4000)
        assert all("shutting down" in reply.error for reply in replies), replies


@pytest.mark.breadth
def test_in_process_server_drains(models_dir):
    with ServerProcess(models_dir, IN_PROCESS="1", **CHATS) as server:
        server.ready()
        replies = at_the_end(server, 100, 4)
        assert all(reply.done and not reply.error for reply in replies), replies


@pytest.mark.breadth
def test_sigterm_ends_long_streams_of_an_engine_with_an_error(models_dir):
    with ServerProcess(models_dir, GRACE_S="4", **CHATS) as server:
        server.ready()
        replies = at_the_end(server, 4000)
        assert all("shutting down" in reply.error for reply in replies), replies


def num_waiting(server):
    return httpx.get(f"{server.url}/v1/status").json()["queues"][0]["waiting"]


@pytest.mark.breadth
def test_sigterm_of_a_paused_server_ends_at_once_what_waits(models_dir):
    """The grace of an hour is not waited for."""
    with ServerProcess(models_dir, GRACE_S="3600", WORKERS="2") as server:
        server.ready()
        assert httpx.post(f"{server.url}/pause?mode=keep").status_code == 200

        async def scene():
            streams = [asyncio.create_task(ask(server.url, 5)) for _ in range(4)]
            await asyncio.to_thread(server.wait_for, lambda: num_waiting(server) == 4)
            server.process.terminate()
            return await asyncio.gather(*streams)

        replies = asyncio.run(scene())
        assert all("was paused" in reply.error for reply in replies), replies
        assert server.process.wait(PATIENCE_S) == 0


@pytest.mark.breadth
def test_unready_server_answers_503(models_dir):
    write_model(models_dir / "broken", graph="version: 1\ntask: chat\nnodes: {}\n")
    (models_dir / "fake").rename(models_dir.parent / "away")
    with ServerProcess(models_dir, **CHATS) as server:
        server.wait_for(lambda: "no model is ready" in server.log())
        body = {"model": "broken", "messages": [{"role": "user", "content": "hi"}]}
        reply = httpx.post(f"{server.url}/v1/chat/completions", json=body)
        assert reply.status_code in (404, 503)


def test_killed_master_takes_everything_along(server, temporary, monkeypatch):
    """The last test that asks this server."""
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr("server.process.private_folder.FALLBACK", str(temporary))
    host, workers = server.children()
    server.process.kill()
    server.process.wait()
    _, alive = psutil.wait_procs([host, *workers], timeout=PATIENCE_S)
    assert alive == []
    (left,) = temporary.glob("braid-*")
    assert (left / "responses.sqlite").exists()
    assert remove_left_over() == [left]
