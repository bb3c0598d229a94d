"""Two servers behind the shipped deploy/haproxy.cfg: sessions, stored responses, and servers that die or stop."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest
from openai import OpenAI
from paced_model import write_model
from patience import PATIENCE_S
from server_process import ROOT, ServerProcess, chat, free_port, start_streams

CONFIG = ROOT / "deploy" / "haproxy.cfg"
FACTS = " ".join(f"Fact {i}: the harbour of town {i} lies north of the river." for i in range(30))
NUM_TOKENS = 40
pytestmark = [
    pytest.mark.breadth,
    pytest.mark.skipif(shutil.which("haproxy") is None, reason="needs haproxy (apt-get install haproxy)"),
]


@contextmanager
def proxied(models: Path, root: Path, **env: str) -> Iterator[tuple[str, dict[str, ServerProcess]]]:
    """The proxy's URL, and the servers by their names; each file of `root` has the server's log."""
    with (
        ServerProcess(models, REPLICA="a", **env) as a,
        ServerProcess(models, REPLICA="b", **env) as b,
    ):
        port = free_port()
        text = CONFIG.read_text()
        for shipped, chosen in ((8000, port), (8001, a.port), (8002, b.port)):
            assert text.count(f"127.0.0.1:{shipped}\n") == 1
            text = text.replace(f"127.0.0.1:{shipped}\n", f"127.0.0.1:{chosen}\n")
        (root / "haproxy.cfg").write_text(text)
        a.all_ready()
        b.all_ready()
        with (root / "haproxy.log").open("wb") as log:
            proxy = subprocess.Popen(["haproxy", "-f", str(root / "haproxy.cfg")], stdout=log, stderr=log)
        try:
            a.wait_for(lambda: is_served(port))
            yield f"http://127.0.0.1:{port}", {"a": a, "b": b}
            assert listening(proxy.pid) == {port}
        finally:
            proxy.terminate()
            proxy.wait()


def is_served(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/v2/health/ready", verify=False).is_success
    except httpx.TransportError:
        return False


def listening(pid: int) -> set[int]:
    """Ports that a process or its children listen at."""
    process = psutil.Process(pid)
    sockets = [each for one in (process, *process.children()) for each in one.net_connections()]
    return {each.laddr.port for each in sockets if each.status == psutil.CONN_LISTEN}


@pytest.fixture(scope="module")
def demo_pair(tmp_path_factory):
    root = tmp_path_factory.mktemp("proxy")
    (root / "models").mkdir()
    (root / "models" / "braid-demo").symlink_to(ROOT / "model_repo" / "braid-demo")
    with proxied(root / "models", root) as pair:
        yield pair


@pytest.fixture
def fake_pair(tmp_path):
    write_model(tmp_path / "models" / "fake")
    with proxied(tmp_path / "models", tmp_path) as pair:
        yield pair


def turn(client: OpenAI, salt: str, **more: object) -> int:
    """Sends one turn of a long conversation; the number of its tokens that were cached."""
    messages = [{"role": "user", "content": f"{salt} {FACTS} What is the capital of France?"}]
    reply = client.chat.completions.create(model="braid-demo", messages=messages, max_tokens=4, **more)
    return reply.usage.prompt_tokens_details.cached_tokens


@pytest.mark.parametrize("named_by", ["header", "prompt_cache_key"])
def test_every_later_turn_of_a_session_is_cached(demo_pair, named_by):
    url, servers = demo_pair
    before = {name: prompts(server) for name, server in servers.items()}
    for session in range(8):
        name = f"{named_by} {session}"
        headers = {"X-Session-ID": name} if named_by == "header" else {}
        more = {} if headers else {"extra_body": {"prompt_cache_key": name}}
        with OpenAI(base_url=f"{url}/v1", api_key="none", default_headers=headers) as client:
            cached = [turn(client, name, **more) for _ in range(4)]
        assert cached[0] < 100 < min(cached[1:]), cached
    assert all(prompts(server) > before[name] for name, server in servers.items()), (
        "both servers have sessions"
    )


def prompts(server: ServerProcess) -> float:
    return server.metric("vllm:prompt_tokens_total", "braid-demo")


def test_a_stored_response_is_found_whatever_the_session(demo_pair):
    url, _ = demo_pair
    seen = set()
    with OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        for i in range(6):
            headers = {"X-Session-ID": f"first {i}"}
            response = client.responses.create(model="braid-demo", input="Hello!", extra_headers=headers)
            seen.add(response.id.split("_")[1])
            for other in range(4):
                headers = {"X-Session-ID": f"other {other}"}
                assert client.responses.retrieve(response.id, extra_headers=headers).id == response.id
            continued = client.responses.create(
                model="braid-demo", input="And now?", previous_response_id=response.id, extra_headers=headers
            )
            assert continued.id.split("_")[1] == response.id.split("_")[1]
            assert list(client.responses.input_items.list(response.id, extra_headers=headers))
            client.responses.delete(response.id, extra_headers=headers)
    assert seen == {"a", "b"}


def test_a_response_of_a_server_that_does_not_exist_is_a_404_that_names_it(demo_pair):
    reply = httpx.get(f"{demo_pair[0]}/v1/responses/resp_gone_{'0' * 32}", verify=False)
    assert reply.status_code == 404
    assert "stored by the replica 'gone'" in reply.json()["error"]["message"]


def test_a_large_body_and_a_stream_pass(demo_pair):
    body = {"model": "braid-demo", "messages": [{"role": "user", "content": "Hi!"}], "max_tokens": 40}
    body |= {"ignore_eos": True, "metadata": {f"key {i}": "x" * 500 for i in range(2000)}}
    url = f"{demo_pair[0]}/v1/chat/completions"
    whole = httpx.post(url, json=body, timeout=PATIENCE_S, verify=False)
    assert whole.is_success, whole.text
    with httpx.stream("POST", url, json={**body, "stream": True}, timeout=PATIENCE_S, verify=False) as reply:
        pieces = list(reply.iter_raw())
    assert len(pieces) > 10, "a stream arrives as it is generated"
    assert pieces[-1].endswith(b"data: [DONE]\n\n")


def test_tokens_pass_on_as_they_come(tmp_path):
    """Tokens come every 50 ms; without `option http-no-delay` HAProxy sends those of 200 ms together."""
    write_model(tmp_path / "models" / "fake", step_s=0.05)
    with proxied(tmp_path / "models", tmp_path) as (url, servers):
        tries = ((num_reads(url), num_reads(servers["a"].url)) for _ in range(3))
        assert any(passed > 0.7 * direct for passed, direct in tries)


def num_reads(url: str) -> int:
    """How many reads of a socket it takes to get a stream, whose tokens are sent one by one."""
    body = json.dumps(chat(NUM_TOKENS, stream=True))
    lines = ["POST /v1/chat/completions HTTP/1.1", "Host: braid", "Content-Type: application/json"]
    request = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", body])
    reads, end = 0, b""
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), PATIENCE_S) as client:
        client.sendall(request.encode())
        while b"[DONE]" not in end:
            end = end[-10:] + client.recv(1 << 16)
            reads += 1
    return reads


def test_a_websocket_passes(demo_pair):
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    url = demo_pair[0].replace("http", "ws") + "/v1/realtime?model=none"
    try:
        with connect(url) as socket:
            event = json.loads(socket.recv(timeout=PATIENCE_S))
    except InvalidStatus as refused:
        pytest.fail(f"the handshake was refused: {refused}")
    assert "type" in event


def test_a_killed_server_breaks_its_own_streams_and_no_later_turn(fake_pair):
    url, servers = fake_pair

    async def scene():
        streams = await start_streams(url, 1500, 9)
        running = {
            name: partial(server.metric, "vllm:num_requests_running") for name, server in servers.items()
        }
        await asyncio.to_thread(servers["a"].wait_for, lambda: sum(read() for read in running.values()) == 9)
        held = running["a"]()
        host, workers = servers["a"].children()
        for process in (servers["a"].process, *workers, host):
            process.kill()
        statuses = [turn_status(url, session) for session in range(20)]
        return held, statuses, await asyncio.gather(*streams)

    held, statuses, replies = asyncio.run(scene())
    assert statuses == [200] * 20
    broken = [reply for reply in replies if reply.broken]
    assert 0 < len(broken) == held < 9
    assert all(reply.done and not reply.error for reply in replies if not reply.broken), replies


def turn_status(url: str, session: int) -> int:
    body = {"model": "fake", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    headers = {"X-Session-ID": f"session {session}"}
    return httpx.post(
        f"{url}/v1/chat/completions", json=body, headers=headers, timeout=PATIENCE_S, verify=False
    ).status_code


def test_requests_go_elsewhere_while_an_engine_restarts(fake_pair):
    url, servers = fake_pair
    servers["b"].host().kill()
    assert [turn_status(url, session) for session in range(20)] == [200] * 20
    servers["b"].ready()


def test_a_server_that_stops_ends_its_streams_first(fake_pair):
    url, servers = fake_pair

    async def scene():
        streams = await start_streams(url, 1000, 8)
        servers["a"].process.terminate()
        statuses = [await asyncio.to_thread(turn_status, url, session) for session in range(20)]
        return statuses, await asyncio.gather(*streams)

    statuses, replies = asyncio.run(scene())
    assert statuses == [200] * 20
    assert all(reply.done and not reply.error for reply in replies), replies


def test_a_client_that_leaves_frees_its_request(fake_pair):
    url, servers = fake_pair

    async def scene():
        streams = await start_streams(url, 3000, 3)
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)

    asyncio.run(scene())
    assert sum(server.tokens_at_rest() for server in servers.values()) < 3 * 3000
