"""Braid under Ray Serve on this machine: `make test-ray`, which has an environment of its own for it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import httpx
import psutil
import pytest
from openai import OpenAI
from server_process import ROOT, free_port

from server.ray_ingress import HEADER
from server.responses.replica_ids import replica_of

PATIENCE_S = 600.0
"""Ray's processes take a minute to start on a machine of two cores, and several on a busy one."""
LEFT_S = 1.0
"""Within which the blocks of a client that leaves are free."""
FACTS = " ".join(f"Fact {i}: the harbour of town {i} lies north of the river." for i in range(30))
NUM_REPLICAS = 2
NUM_DEATHS = 7
"""In a row: the supervisor then waits for 30 s before it starts another engine host."""
pytestmark = [
    pytest.mark.breadth,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs ray (`make test-ray` installs it)"),
]


class Cluster:
    """A Ray of this machine with the application of server/ray_app.py; all of its processes are children."""

    def __init__(self, root: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._config = root / "serve.yaml"
        self._log = root / "serve.log"
        (root / "models").mkdir()
        (root / "models" / "braid-demo").symlink_to(ROOT / "model_repo" / "braid-demo")
        (root / "tmp").mkdir()
        self.folders = root / "tmp"
        self.stats = root / "stats.json"
        self._env = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'fixtures'}",
            "SERVE_POLICY_FILE": str(root / "stats.json"),
            "RAY_SERVE_SESSION_ID_HEADER_KEY": HEADER.decode(),
            "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "server.ray_ingress:middlewares",
            "BRAID_MODELS": str(root / "models"),
            "BRAID_FIRST_RUN": "0",
            "TMPDIR": str(self.folders),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
            "RAY_SERVE_QUEUE_LENGTH_RESPONSE_DEADLINE_S": "10",
            "RAY_SERVE_MAX_QUEUE_LENGTH_RESPONSE_DEADLINE_S": "20",
            "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120",
            "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60",
        }

    def configure(
        self, args: dict[str, float], env: dict[str, str], num_replicas: int = NUM_REPLICAS
    ) -> None:
        bounds = {"min_replicas": num_replicas, "max_replicas": num_replicas}
        policy = {"policy_function": "serve_policy:write_down"}
        application = {
            "name": "braid",
            "route_prefix": "/",
            "import_path": "server.ray_app:app",
            "runtime_env": {"env_vars": env},
            "args": {**bounds, "num_cpus": 0.5, **args},
            "deployments": [{"name": "braid", "autoscaling_config": {**bounds, "policy": policy}}],
        }
        config = {
            "proxy_location": "HeadOnly",
            "http_options": {"host": "127.0.0.1", "port": self.port},
            "applications": [application],
        }
        self._config.write_text(json.dumps(config))

    def __enter__(self) -> Cluster:
        self.configure({}, {})
        serve = [str(Path(sys.executable).with_name("serve")), "run", str(self._config)]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                serve, stdout=log, stderr=log, env=self._env, cwd=self._config.parent
            )
        try:
            wait_for(lambda: status(f"{self.url}/v2/health/ready") == 200, self._log)
            self.all_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        family = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        for one in psutil.wait_procs(family, timeout=20)[1]:
            one.kill()

    def deploy(self, args: dict[str, float], env: dict[str, str], num_replicas: int = NUM_REPLICAS) -> None:
        """A rolling update to other arguments, or settings."""
        self.configure(args, env, num_replicas)
        serve = [str(Path(sys.executable).with_name("serve")), "deploy", str(self._config)]
        env = {**self._env, "RAY_AUTH_MODE": "token", "RAY_DASHBOARD_ADDRESS": self.dashboard()}
        subprocess.run(serve, env=env, check=True, capture_output=True, timeout=PATIENCE_S)

    def dashboard(self) -> str:
        """Its address, as Ray's first lines show it."""
        text = self._log.read_text()
        return (
            "http://127.0.0.1:" + text.partition("http://127.0.0.1:")[2].split(" ")[0].strip("\x1b[39m")[:4]
        )

    def processes(self, words: str) -> list[psutil.Process]:
        found = []
        for one in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if words in " ".join(one.cmdline()) and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(one)
            except psutil.Error:
                continue
        return found

    def family(self) -> list[psutil.Process]:
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def folder(self, host: psutil.Process) -> Path:
        """The private folder of an engine host's replica."""
        command = host.cmdline()
        return Path(command[command.index("--socket") + 1]).parent

    def hosts(self) -> list[psutil.Process]:
        return self.processes("-m pipelines.host")

    def running(self) -> float:
        """Sequences that run in the engines of all replicas."""
        return sum(self.engines().values())

    def all_ready(self) -> None:
        """Wait until each session's replica is ready, and there are as many as there shall be."""
        wait_for(lambda: len(self.engines()) == NUM_REPLICAS, self._log)
        wait_for(lambda: {status(f"{self.url}/v2/health/ready", i) for i in range(12)} == {200}, self._log)

    def engines(self) -> dict[str, float]:
        """The pid of each engine host → its sequences that run, by readings of sessions: each is of one replica."""
        seen = {}
        for session in range(12):
            headers = {"X-Session-ID": f"session {session}"}
            lines = httpx.get(
                f"{self.url}/metrics", headers=headers, timeout=20, verify=False
            ).text.splitlines()
            pids = [
                line for line in lines if line.startswith("process_open_fds") and 'process="host"' in line
            ]
            running = [line for line in lines if line.startswith("vllm:num_requests_running{")]
            for line in pids:
                seen[line.split('pid="')[1].split('"')[0]] = sum(float(each.split()[-1]) for each in running)
        return seen


def wait_for(
    condition: Callable[[], object], log: Path | None = None, timeout_s: float = PATIENCE_S
) -> float:
    start_s = time.monotonic()
    while not condition():
        assert time.monotonic() - start_s < timeout_s, log.read_text()[-4000:] if log else "too late"
        time.sleep(0.1)
    return time.monotonic() - start_s


def status(url: str, session: int = 0) -> int:
    headers = {"X-Session-ID": f"session {session}"}
    try:
        return httpx.get(url, headers=headers, timeout=20, verify=False).status_code
    except httpx.TransportError:
        return 0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("ray")) as running:
        yield running


def turn(url: str, session: int, max_tokens: int = 4) -> httpx.Response:
    messages = [{"role": "user", "content": f"{session} {FACTS} What is the capital of France?"}]
    body = {"model": "braid-demo", "messages": messages, "max_tokens": max_tokens}
    headers = {"X-Session-ID": f"session {session}"}
    return httpx.post(
        f"{url}/v1/chat/completions", json=body, headers=headers, timeout=PATIENCE_S, verify=False
    )


async def stream(url: str, session: int, max_tokens: int, events: list[str]) -> str:
    """How a stream ends: "done", "broken", or its error."""
    messages = [{"role": "user", "content": "Tell me about the sea."}]
    body = {
        "model": "braid-demo",
        "messages": messages,
        "max_tokens": max_tokens,
        "ignore_eos": True,
        "stream": True,
    }
    headers = {"X-Session-ID": f"session {session}"}
    try:
        async with (
            httpx.AsyncClient(timeout=PATIENCE_S, verify=False) as client,
            client.stream("POST", f"{url}/v1/chat/completions", json=body, headers=headers) as reply,
        ):
            async for line in reply.aiter_lines():
                if line.startswith("data: "):
                    events.append(line)
    except httpx.TransportError:
        return "broken"
    if events and events[-1] == "data: [DONE]":
        return next((event for event in events if '"error"' in event), "done")
    return "broken"


async def start(url: str, count: int, max_tokens: int) -> list[asyncio.Task[str]]:
    events: list[list[str]] = [[] for _ in range(count)]
    tasks = [asyncio.create_task(stream(url, i, max_tokens, events[i])) for i in range(count)]
    async with asyncio.timeout(PATIENCE_S):
        while any(len(each) < 2 and not task.done() for each, task in zip(events, tasks, strict=True)):
            await asyncio.sleep(0.05)
    return tasks


def test_the_openai_client_and_its_errors(cluster):
    with OpenAI(base_url=f"{cluster.url}/v1", api_key="none", timeout=PATIENCE_S) as client:
        assert next(iter(client.models.list())).id == "braid-demo"
        question = [{"role": "user", "content": "What is the capital of France?"}]
        reply = client.chat.completions.create(model="braid-demo", messages=question, temperature=0)
        assert "Paris" in reply.choices[0].message.content
        pieces = client.chat.completions.create(
            model="braid-demo", messages=question, temperature=0, stream=True
        )
        text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        assert text == reply.choices[0].message.content
        made = client.responses.create(
            model="braid-demo", input="Hello!", extra_headers={"X-Session-ID": "r"}
        )
        assert made.id.count("_") == 2, "it names its replica"
        again = client.responses.retrieve(made.id, extra_headers={"X-Session-ID": "r"})
        assert again.output_text == made.output_text
    assert turn(cluster.url, 0, max_tokens=-1).status_code == 400


@pytest.mark.parametrize("named_by", ["header", "prompt_cache_key", "user", "nothing"])
def test_later_turns_of_a_session_are_cached_however_it_is_named(cluster, named_by):
    served_by = set()
    for session in range(8):
        name = f"{named_by} {session}"
        headers = {"X-Session-ID": name} if named_by == "header" else {}
        more = {named_by: name} if named_by in ("prompt_cache_key", "user") else {}
        messages = [{"role": "user", "content": f"{name} {FACTS} What is the capital of France?"}]
        cached = []
        with OpenAI(base_url=f"{cluster.url}/v1", api_key="none", timeout=PATIENCE_S) as client:
            for _ in range(4):
                reply = client.chat.completions.create(
                    model="braid-demo", messages=messages, max_tokens=4, extra_headers=headers, **more
                )
                cached.append(reply.usage.prompt_tokens_details.cached_tokens)
            made = client.responses.create(
                model="braid-demo", input=messages[0]["content"], extra_headers=headers, **more
            )
            served_by.add(made.id.split("_")[1])
        assert cached[0] < 100 < min(cached[1:]), cached
    assert len(served_by) == NUM_REPLICAS, "each replica has sessions"


def test_a_stored_response_is_found_without_a_session(cluster):
    seen = set()
    with OpenAI(base_url=f"{cluster.url}/v1", api_key="none", timeout=PATIENCE_S) as client:
        for number in range(8):
            made = client.responses.create(model="braid-demo", input=f"Hello, I am number {number}!")
            seen.add(made.id.split("_")[1])
            assert client.responses.retrieve(made.id).output_text == made.output_text
            other = {"X-Session-ID": f"other {number}"}
            next_ = client.responses.create(
                model="braid-demo", input="And now?", previous_response_id=made.id, extra_headers=other
            )
            assert next_.id.split("_")[1] == made.id.split("_")[1]
            client.responses.delete(made.id)
    assert len(seen) == NUM_REPLICAS
    gone = httpx.get(f"{cluster.url}/v1/responses/resp_gone_{'0' * 32}", timeout=PATIENCE_S, verify=False)
    assert gone.status_code == 404
    assert "stored by the replica 'gone'" in gone.json()["error"]["message"]


def test_a_websocket_passes_both_ways(cluster):
    from websockets.sync.client import connect

    url = cluster.url.replace("http", "ws") + "/v1/realtime?intent=transcription"
    with connect(url, proxy=None, open_timeout=PATIENCE_S) as socket:
        assert json.loads(socket.recv(PATIENCE_S))["type"] == "session.created"
        sound = {"transcription": {"model": "none"}}
        update = {"type": "session.update", "session": {"type": "transcription", "audio": {"input": sound}}}
        socket.send(json.dumps(update))
        reply = json.loads(socket.recv(PATIENCE_S))
        assert reply["type"] == "error"
        assert "none" in reply["error"]["message"]


LISTENING = {
    "ray::ServeReplica": 2,
    "ray::ProxyActor": 2,
    "ray::ServeController": 1,
    "serve run": 1,
    "ray::DashboardAgent": 4,
    "ray::RuntimeEnvAgent": 1,
    "dashboard/dashboard.py": 2,
    "autoscaler/_private/monitor.py": 1,
    "raylet/raylet": 2,
    "gcs_server": 1,
}
"""Process → how many ports each one of it listens at: docs/scaling.md."""


def test_no_port_opens_beyond_those_documented(cluster):
    found = {}
    for one in cluster.family():
        try:
            sockets, command = one.net_connections("tcp"), " ".join(one.cmdline())
        except psutil.Error:
            continue
        ports = sorted(each.laddr.port for each in sockets if each.status == psutil.CONN_LISTEN)
        if ports:
            name = next((name for name in LISTENING if name in command), command)
            found.setdefault(name, []).append(ports)
    too_many = {
        name: ports for name, ports in found.items() if len(max(ports, key=len)) > LISTENING.get(name, 0)
    }
    assert too_many == {}
    assert any(cluster.port in ports for ports in found["ray::ProxyActor"])
    assert len(found["ray::ServeReplica"]) == NUM_REPLICAS
    page = (ROOT / "docs" / "scaling.md").read_text()
    assert [name for name in LISTENING if name.split("/")[-1].removeprefix("ray::") not in page] == []


def test_a_client_that_leaves_frees_its_blocks(cluster):
    def running(session: int) -> float:
        headers = {"X-Session-ID": f"session {session}"}
        text = httpx.get(f"{cluster.url}/metrics", headers=headers, timeout=20, verify=False).text
        lines = [line for line in text.splitlines() if line.startswith("vllm:num_requests_running{")]
        return sum(float(line.split()[-1]) for line in lines)

    async def left_after_s(session: int) -> float:
        events: list[str] = []
        task = asyncio.create_task(stream(cluster.url, session, 1500, events))
        async with asyncio.timeout(PATIENCE_S):
            while len(events) < 5 or not await asyncio.to_thread(running, session):
                await asyncio.sleep(0.05)
        task.cancel()
        return await asyncio.to_thread(wait_for, lambda: running(session) == 0)

    taken_s = [asyncio.run(left_after_s(session)) for session in range(4)]
    print("a client that left was gone after", ", ".join(f"{each:.2f} s" for each in taken_s))
    assert min(taken_s) < LEFT_S, taken_s
    assert max(taken_s) < 5 * LEFT_S, taken_s


def test_what_runs_and_waits_is_recorded_for_autoscaling(cluster):
    def recorded(name: str) -> list[float]:
        try:
            return list(json.loads(cluster.stats.read_text()).get(name, {}).values())
        except FileNotFoundError:
            return []

    async def scene():
        streams = await start(cluster.url, 8, 1500)
        await asyncio.to_thread(wait_for, lambda: sum(recorded("running")) > 0)
        numbers = {name: recorded(name) for name in ("running", "waiting", "cache_use")}
        for task in streams:
            task.cancel()
        return numbers

    numbers = asyncio.run(scene())
    assert {len(values) for values in numbers.values()} == {NUM_REPLICAS}, numbers
    assert 0 < sum(numbers["running"]) <= 8
    assert 0 < max(numbers["cache_use"]) <= 1
    assert sum(numbers["waiting"]) >= 0
    wait_for(lambda: sum(recorded("running")) == 0)


def test_a_killed_engine_host_ends_its_own_streams_with_an_error(cluster):
    cluster.all_ready()

    async def scene():
        streams = await start(cluster.url, 10, 400)
        victim = cluster.hosts()[0]
        replica = victim.ppid()
        victim.kill()
        return replica, await asyncio.gather(*streams)

    replica, ends = asyncio.run(scene())
    assert "broken" not in ends
    died = [end for end in ends if end != "done"]
    assert 0 < len(died) < len(ends), ends
    assert all("the engine died" in end for end in died), died
    wait_for(lambda: len(cluster.hosts()) == NUM_REPLICAS)
    assert replica in {each.ppid() for each in cluster.hosts()}, (
        "Serve's check of health is the supervisor's turn"
    )


def test_sessions_go_elsewhere_while_an_engine_host_is_down(cluster):
    cluster.all_ready()
    replica = cluster.hosts()[0].ppid()

    def hosts() -> list[psutil.Process]:
        return [each for each in cluster.hosts() if each.ppid() == replica]

    for _ in range(NUM_DEATHS):
        wait_for(hosts)
        hosts()[0].kill()
        wait_for(lambda: not hosts())
    time.sleep(5)  # looks of the replica and of Serve's controller
    assert hosts() == [], "the supervisor waits before it starts another one"
    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(lambda session: turn(cluster.url, session).status_code, range(12)))
    assert replies == [200] * 12
    wait_for(hosts)


@pytest.mark.parametrize("whole", [False, True], ids=["actor", "actor and engine host"])
def test_a_killed_replica_breaks_its_own_streams_and_leaves_nothing(cluster, whole):
    cluster.all_ready()

    async def scene():
        streams = await start(cluster.url, 10, 400)
        replica = cluster.processes("ray::ServeReplica")[0]
        family = replica.children(recursive=True)
        for one in [replica, *(family if whole else ())]:
            one.kill()
        statuses = [
            (await asyncio.to_thread(turn, cluster.url, session)).status_code for session in range(12)
        ]
        return family, statuses, await asyncio.gather(*streams)

    folders = {cluster.folder(host): host.ppid() for host in cluster.hosts()}
    family, statuses, ends = asyncio.run(scene())
    assert statuses == [200] * 12
    assert set(ends) == {"done", "broken"}, ends
    assert psutil.wait_procs(family, timeout=20)[1] == []
    wait_for(lambda: len(cluster.hosts()) == NUM_REPLICAS)
    wait_for(lambda: len(list(cluster.folders.glob("braid-*"))) == NUM_REPLICAS)
    (gone,) = set(folders) - {cluster.folder(host) for host in cluster.hosts()}
    assert not gone.exists()
    assert str(gone) not in Path("/proc/net/unix").read_text()


def test_a_rolling_update_fails_no_request(cluster):
    cluster.all_ready()
    before = {each.pid for each in cluster.hosts()}

    async def scene():
        streams = await start(cluster.url, 6, 600)
        update = asyncio.create_task(asyncio.to_thread(cluster.deploy, {"num_cpus": 0.4}, {}))
        statuses = []
        async with asyncio.timeout(PATIENCE_S):
            while not update.done() or before & {each.pid for each in cluster.hosts()}:
                statuses.append((await asyncio.to_thread(turn, cluster.url, len(statuses) % 9)).status_code)
        await update
        return statuses, await asyncio.gather(*streams)

    statuses, ends = asyncio.run(scene())
    assert ends == ["done"] * 6
    assert set(statuses) == {200}


def test_recorded_exchanges_have_the_same_replies(cluster, tmp_path, monkeypatch):
    """Those of text generation: one server's settings, and a replica with them."""
    monkeypatch.syspath_prepend(ROOT / "tests" / "conformance")
    from comparing import Diff, diffs
    from differences import reason_for
    from exchanges import read_exchanges
    from replaying import Replay
    from serving import export, write_repository
    from settings import GROUPS, SETTINGS

    def names_replica(diff: Diff) -> bool:
        return bool(diff.path.endswith("id") and replica_of(str(diff.got)))

    setting = SETTINGS["neutral"]
    exported = export("onnxruntime", setting, tmp_path / "exported" / "model")
    models = write_repository(tmp_path / "models", exported, "onnxruntime", setting)
    before = {each.pid for each in cluster.hosts()}
    env = {"BRAID_MODELS": str(models), "BRAID_ALLOW_RUNTIME_LORA_UPDATING": "1"}
    cluster.deploy({}, env, num_replicas=1)
    wait_for(lambda: not before & {each.pid for each in cluster.hosts()})
    wait_for(lambda: status(f"{cluster.url}/v2/health/ready") == 200)
    replay, found, count = Replay(cluster.url), [], 0
    for group in (group for group, settings in GROUPS.items() if settings == "neutral"):
        for exchange in read_exchanges(group):
            count += 1
            differences = [diff for diff in diffs(exchange, replay.send(exchange)) if not names_replica(diff)]
            found += [
                (exchange.case, diff) for diff in differences if reason_for(exchange.case, diff) is None
            ]
    replay.close()
    print(f"{count} recorded exchanges over Serve, {len(found)} differ")
    assert found == []
    assert count > 200
