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

PATIENCE_S = 240.0
"""Ray's processes take a minute to start on a machine of two cores, and more on a busy one."""
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
        self._env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "BRAID_MODELS": str(root / "models"),
            "BRAID_FIRST_RUN": "0",
            "TMPDIR": str(self.folders),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120",
            "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60",
        }

    def configure(self, **args: float) -> None:
        config = {
            "proxy_location": "HeadOnly",
            "http_options": {"host": "127.0.0.1", "port": self.port},
            "applications": [
                {
                    "name": "braid",
                    "route_prefix": "/",
                    "import_path": "server.ray_app:app",
                    "args": {
                        "min_replicas": NUM_REPLICAS,
                        "max_replicas": NUM_REPLICAS,
                        "num_cpus": 0.5,
                        **args,
                    },
                }
            ],
        }
        self._config.write_text(json.dumps(config))

    def __enter__(self) -> Cluster:
        self.configure()
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

    def deploy(self, **args: float) -> None:
        """A rolling update to other arguments."""
        self.configure(**args)
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
        assert [model.id for model in client.models.list()] == ["braid-demo"]
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


def test_later_turns_of_sessions_are_cached(cluster):
    for session in range(100, 108):
        replies = [turn(cluster.url, session).json()["usage"] for _ in range(3)]
        cached = [reply["prompt_tokens_details"]["cached_tokens"] for reply in replies]
        assert min(cached[1:]) > 100, cached


def test_no_process_of_a_replica_listens_but_to_ray(cluster):
    def ports(processes: list[psutil.Process]) -> list[int]:
        sockets = [each for one in processes for each in one.net_connections("tcp")]
        return [each.laddr.port for each in sockets if each.status == psutil.CONN_LISTEN]

    assert ports(cluster.hosts()) == []
    assert len(ports(cluster.processes("ray::ServeReplica"))) == 2 * NUM_REPLICAS, "Ray's own"
    assert cluster.port in ports(cluster.processes("ray::ProxyActor"))


def test_a_client_that_leaves_frees_its_blocks(cluster):
    async def scene():
        for task in await start(cluster.url, 4, 4000):
            task.cancel()

    asyncio.run(scene())
    assert wait_for(lambda: cluster.running() == 0) < 5


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
    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(lambda session: turn(cluster.url, session).status_code, range(12)))
    assert hosts() == [], "the supervisor still waits before it starts another one"
    assert replies == [200] * 12
    wait_for(hosts)


def test_a_killed_replica_breaks_its_own_streams_and_leaves_nothing(cluster):
    cluster.all_ready()

    async def scene():
        streams = await start(cluster.url, 10, 400)
        replica = cluster.processes("ray::ServeReplica")[0]
        family = replica.children(recursive=True)
        replica.kill()
        statuses = [
            (await asyncio.to_thread(turn, cluster.url, session)).status_code for session in range(12)
        ]
        return family, statuses, await asyncio.gather(*streams)

    family, statuses, ends = asyncio.run(scene())
    assert statuses == [200] * 12
    assert set(ends) == {"done", "broken"}, ends
    assert psutil.wait_procs(family, timeout=20)[1] == []
    wait_for(lambda: len(cluster.hosts()) == NUM_REPLICAS)
    wait_for(lambda: len(list(cluster.folders.glob("braid-*"))) == NUM_REPLICAS)


def test_a_rolling_update_fails_no_request(cluster):
    cluster.all_ready()
    before = {each.pid for each in cluster.hosts()}

    async def scene():
        streams = await start(cluster.url, 6, 600)
        update = asyncio.create_task(asyncio.to_thread(cluster.deploy, num_cpus=0.4))
        statuses = []
        async with asyncio.timeout(PATIENCE_S):
            while not update.done() or before & {each.pid for each in cluster.hosts()}:
                statuses.append((await asyncio.to_thread(turn, cluster.url, len(statuses) % 9)).status_code)
        await update
        return statuses, await asyncio.gather(*streams)

    statuses, ends = asyncio.run(scene())
    assert ends == ["done"] * 6
    assert set(statuses) == {200}
