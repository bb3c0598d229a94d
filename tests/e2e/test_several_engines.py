"""Two engine hosts behind the workers of one server: sessions, deaths, administration, metrics."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal

import httpx
import openai
import pytest
from breadth import after
from closed_clients import closed_later
from paced_model import write_model
from patience import PATIENCE_S
from peft_adapters import write_adapted_model, write_adapter
from server_process import ROOT, Reply, ServerProcess, ask
from test_dashboards import ENGINE_QUERIES, check_query, series_of

SESSIONS = [f"session {number}" for number in range(8)]
CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="an engine needs a core of its own")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    models = tmp_path_factory.mktemp("engines") / "models"
    write_model(models / "fake")
    with ServerProcess(models, ENGINES="2", WORKERS="2", APIS="openai") as running:
        running.ready()
        running.wait_for(lambda: each_worker_has_both(running, "fake"))
        yield running


def each_worker_has_both(server, model):
    """Whether each worker knows the model in both engines: one that does not, sends all sessions to one."""
    with server.each_worker() as clients:
        profiles = [client.get(f"/v1/models/{model}/profile").json() for client in clients.values()]
    return all(len(profile.get("engines", ())) == 2 for profile in profiles)


def samples(server, name):
    """Labels → value of the samples of a metric, as they are written."""
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    return {
        line.rpartition(" ")[0].removeprefix(name): float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith((f"{name}{{", f"{name} "))
    }


async def session_streams(server, max_tokens):
    """A stream of each session, all of which have tokens already."""
    replies = [Reply() for _ in SESSIONS]
    streams = [
        asyncio.create_task(ask(server.url, max_tokens, reply=reply, session=session))
        for reply, session in zip(replies, SESSIONS, strict=True)
    ]
    async with asyncio.timeout(PATIENCE_S):
        while any(reply.num_chunks < 2 for reply in replies):
            await asyncio.sleep(0.02)
    return streams


def test_a_killed_engine_ends_its_own_streams_and_no_others(server):
    async def scene():
        streams = await session_streams(server, 600)
        victim = server.hosts()[0]
        victim.kill()
        await asyncio.wait(streams, return_when=asyncio.FIRST_COMPLETED)  # until its sockets are closed
        new = await asyncio.gather(*(ask(server.url, 3, session=session) for session in SESSIONS))
        ready = httpx.get(f"{server.url}/v2/health/ready").status_code
        return victim.pid, ready, new, await asyncio.gather(*streams)

    pid, ready, new, replies = asyncio.run(scene())
    died = [reply for reply in replies if reply.error]
    assert 0 < len(died) < len(replies)
    assert all("the engine died" in reply.error for reply in died), died
    assert all(reply.done and not reply.broken for reply in replies if not reply.error), replies
    assert [(reply.status, reply.done, reply.error) for reply in new] == [(200, True, "")] * len(SESSIONS)
    assert ready == 200
    server.wait_for(lambda: len(server.hosts()) == 2 and each_worker_has_both(server, "fake"))
    assert pid not in [host.pid for host in server.hosts()]
    before = samples(server, "braid:engine_prompt_tokens_total")
    asyncio.run(asyncio.wait_for(_ask_all(server), PATIENCE_S))
    server.wait_for(
        lambda: all(
            now > before[labels]
            for labels, now in samples(server, "braid:engine_prompt_tokens_total").items()
        )
    )


async def _ask_all(server):
    replies = await asyncio.gather(*(ask(server.url, 3, session=session) for session in SESSIONS))
    assert all(reply.done for reply in replies)


def are_sums(server, name):
    """Whether vLLM's counter is the sum of those of both engines, each of which has counted."""
    own, together = samples(server, f"braid:engine_{name}"), samples(server, f"vllm:{name}")
    assert set(own) == {f'{{engine="{engine}",model_name="fake"}}' for engine in (0, 1)}
    assert list(together) == ['{model_name="fake"}']
    return min(own.values()) > 0 and sum(own.values()) == sum(together.values())


def test_metrics_are_of_each_engine_and_vllms_are_sums(server):
    asyncio.run(_ask_all(server))
    server.wait_for(lambda: samples(server, "vllm:num_requests_running") == {'{model_name="fake"}': 0})
    assert samples(server, "braid:engine_up") == {'{engine="0"}': 1, '{engine="1"}': 1}
    for name in ("prompt_tokens_total", "generation_tokens_total", "prefix_cache_queries_total"):
        server.wait_for(lambda name=name: are_sums(server, name))  # what was counted last is written
    assert samples(server, "ovms_graph_loaded") == {'{name="fake"}': 1}


def test_the_dashboard_finds_the_metrics_of_each_engine(server):
    asyncio.run(_ask_all(server))
    server.wait_for(lambda: "braid:engine_generation_tokens_total" in httpx.get(f"{server.url}/metrics").text)
    series = series_of(httpx.get(f"{server.url}/metrics").text)
    assert len(ENGINE_QUERIES) == 7
    for query in ENGINE_QUERIES.values():
        check_query(series, query)


def test_each_engine_keeps_to_cores_of_its_own(server):
    shares = [os.sched_getaffinity(host.pid) for host in server.hosts()]
    assert not shares[0] & shares[1]
    assert sorted(shares[0] | shares[1]) == CPUS
    for host, share in zip(server.hosts(), shares, strict=True):
        assert all(os.sched_getaffinity(thread.id) <= share for thread in host.threads())


def test_what_administers_models_reaches_both(server):
    with httpx.Client(base_url=server.url, timeout=PATIENCE_S) as client:
        profile = client.get("/v1/models/fake/profile").json()
        assert [engine["node"] for engine in profile["engines"]] == [
            "generated (engine 0)",
            "generated (engine 1)",
        ]
        assert client.post("/reset_prefix_cache").status_code == 200
        num_loads = server.log().count("] loaded fake")
        assert client.post("/models/unload", json={"model": "fake"}).is_success
        assert asyncio.run(ask(server.url, 1)).status == 404
        assert server.log().count("unloaded fake") == 2
        assert client.post("/models/load", json={"model": "fake"}).is_success
        assert server.log().count("] loaded fake") == num_loads + 2
    asyncio.run(_ask_all(server))


@pytest.mark.breadth
def test_a_reload_reaches_both_and_loses_no_request(models_dir):
    async def scene(server):
        streams = await session_streams(server, 300)
        write_model(models_dir / "fake", max_context=2048)
        server.process.send_signal(signal.SIGHUP)
        new = []
        while server.log().count("context 2048 tokens") < 2:
            new += [await ask(server.url, 3, session=session) for session in SESSIONS]
        return await asyncio.gather(*streams), new

    with ServerProcess(models_dir, ENGINES="2") as server:
        server.all_ready()
        old, new = asyncio.run(scene(server))
        assert all(reply.done and not reply.error for reply in [*old, *new])


TWICE = """\
version: 1
task: chat
nodes:
  first: {type: ask, graph: braid-demo, template: "{{ request }}", max_tokens: 12, temperature: 0}
  reply: {type: ask, graph: braid-demo, from: {said: first}, template: "{{ said }} And what is 2 plus 3?"}
"""


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    """The demo model, whose sums do not depend on what is computed beside, with one engine and with two."""
    models = tmp_path_factory.mktemp("demos") / "models"
    shutil.copytree(ROOT / "model_repo" / "braid-demo", models / "braid-demo")
    graph = models / "braid-demo" / "graph.yaml"
    graph.write_text(graph.read_text().replace("device: cpu}", "device: cpu, precision: f32}"))
    (models / "twice").mkdir()
    (models / "twice" / "graph.yaml").write_text(TWICE)
    with ServerProcess(models, ENGINES="1") as single, ServerProcess(models, ENGINES="2", WORKERS="2") as two:
        for started in (single, two):
            started.all_ready()
        two.wait_for(lambda: each_worker_has_both(two, "braid-demo"))
        yield single, two


def openai_client(server, **headers):
    return closed_later(
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, default_headers=headers)
    )


@pytest.mark.breadth
def test_greedy_tokens_are_those_of_one_engine(demos):
    async def replies(server):
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(
                *(
                    client.chat.completions.create(
                        model="braid-demo",
                        messages=[{"role": "user", "content": f"What is {number} plus {number}?"}],
                        temperature=0,
                        max_tokens=40,
                        logprobs=True,
                    )
                    for number in range(16)
                )
            )

    single, two = (asyncio.run(replies(server)) for server in demos)
    tokens = [
        [[part.token for part in reply.choices[0].logprobs.content] for reply in all_]
        for all_ in (single, two)
    ]
    assert tokens[0] == tokens[1]
    assert min(samples(demos[1], "braid:engine_generation_tokens_total").values()) > 0


@pytest.mark.breadth
def test_all_that_the_lines_of_a_request_ask_is_computed_by_one_engine(demos):
    counted = "braid:engine_generation_tokens_total"

    def texts(server):
        client = openai_client(server)
        for session in SESSIONS:
            before = samples(server, counted)
            reply = client.chat.completions.create(
                model="twice",
                messages=[{"role": "user", "content": f"I am {session}."}],
                temperature=0,
                max_tokens=12,
            )
            after = samples(server, counted)
            yield (
                reply.choices[0].message.content,
                {name for name in after if after[name] != before.get(name)},
            )

    single, two = ([*texts(server)] for server in demos)
    assert [text for text, _ in two] == [text for text, _ in single]
    engines = [tuple(engines) for _, engines in two]
    assert {len(names) for names in engines} == {1}
    assert len(set(engines)) == 2


MARKS = {
    "header": lambda session: {"extra_headers": {"X-Session-ID": session}},
    "prompt_cache_key": lambda session: {"prompt_cache_key": session},
    "user": lambda session: {"user": session},
    "nothing": lambda session: {},
}


def cached_in_turns(server, mark, num_turns=3):
    """By session: the cached tokens of each turn; the sessions' turns come one after another."""
    client = openai_client(server)
    system = f"You answer briefly, as {mark} asks. " * 8
    histories = {
        session: [
            {"role": "system", "content": system},
            {"role": "user", "content": f"I am {session}. What is the weather in Oslo?"},
        ]
        for session in SESSIONS[:5]
    }
    cached = {session: [] for session in histories}
    for turn in range(num_turns):
        for session, messages in histories.items():
            reply = client.chat.completions.create(
                model="braid-demo", messages=messages, temperature=0, max_tokens=16, **MARKS[mark](session)
            )
            cached[session].append(reply.usage.prompt_tokens_details.cached_tokens)
            messages += [
                {"role": "assistant", "content": reply.choices[0].message.content},
                {"role": "user", "content": f"And on day {turn}?"},
            ]
    return cached


@pytest.mark.breadth
@pytest.mark.parametrize("mark", after(1, MARKS))
def test_later_turns_find_the_prefix_as_with_one_engine(demos, mark):
    one, two = (cached_in_turns(server, mark) for server in demos)
    assert [turns[1:] for turns in two.values()] == [turns[1:] for turns in one.values()]
    assert all(turns == sorted(turns) and turns[-1] > turns[0] for turns in two.values())
    firsts = [[turns[0] for turns in sessions.values()] for sessions in (one, two)]
    assert firsts[0].count(0) == 1
    assert firsts[1].count(0) == 2  # each engine computes the system message once


@pytest.mark.breadth
def test_a_chain_of_responses_stays_at_its_engine(demos):
    def chain(server, session):
        client, cached, previous = openai_client(server), [], openai.omit
        for turn in range(3):
            reply = client.responses.create(
                model="braid-demo",
                instructions="You answer questions about the weather, briefly. " * 4,
                input=f"I am {session}. What is the weather on day {turn}?",
                previous_response_id=previous,
                max_output_tokens=16,
                temperature=0,
            )
            previous = reply.id
            cached.append(reply.usage.input_tokens_details.cached_tokens)
        return cached[1:]

    single, two = ([chain(server, session) for session in SESSIONS[:5]] for server in demos)
    assert two == single
    assert all(turns == sorted(turns) and turns[-1] > 0 for turns in two)


@pytest.fixture(scope="module")
def adapted(tmp_path_factory):
    """Two engines with a model of low-rank adapters, and a folder in it for one that is loaded later."""
    models = tmp_path_factory.mktemp("adapters") / "models"
    model = write_adapted_model(models / "base", "poet")
    with ServerProcess(models, ENGINES="2", WORKERS="2", ALLOW_RUNTIME_LORA_UPDATING="1") as running:
        running.ready("base")
        running.wait_for(lambda: each_worker_has_both(running, "base"))
        yield running, model / "adapters" / "late"


def say(server, model, session):
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
    return httpx.post(
        f"{server.url}/v1/chat/completions",
        json={**body, "temperature": 0},
        headers={"X-Session-ID": session},
        timeout=PATIENCE_S,
    )


def statuses(server, model):
    """Of requests to it from sessions of both engines."""
    return {say(server, model, session).status_code for session in SESSIONS * 2}


def change(server, verb, **body):
    return httpx.post(f"{server.url}/v1/{verb}_lora_adapter", json=body, timeout=PATIENCE_S)


def listed(server):
    return [model["id"] for model in httpx.get(f"{server.url}/v1/models").json()["data"]]


@pytest.mark.breadth
def test_an_adapter_that_a_client_loads_is_in_both_engines_when_the_reply_comes(adapted):
    server, path = adapted
    write_adapter(path, 11)
    before = samples(server, "braid:engine_generation_tokens_total")
    for _ in range(2):
        reply = change(server, "load", lora_name="late", lora_path=str(path))
        assert (reply.status_code, reply.text) == (200, "Success: LoRA adapter 'late' added successfully.")
        replies = [say(server, "late", session) for session in SESSIONS * 2]
        assert {reply.status_code for reply in replies} == {200}
        assert len({reply.json()["choices"][0]["message"]["content"] for reply in replies}) == 1
        assert listed(server) == ["base", "late", "poet"]
        again = change(server, "load", lora_name="late", lora_path=str(path))
        assert again.status_code == 400, "it is loaded already"
        reply = change(server, "unload", lora_name="late")
        assert (reply.status_code, reply.text) == (200, "Success: LoRA adapter 'late' removed successfully.")
        assert statuses(server, "late") == {404}
        assert listed(server) == ["base", "poet"]
    server.wait_for(
        lambda: all(
            value > before.get(labels, 0)
            for labels, value in samples(server, "braid:engine_generation_tokens_total").items()
        )
    )


@pytest.mark.breadth
def test_an_adapter_is_served_by_the_engine_that_still_has_it(adapted):
    server, path = adapted
    write_adapter(path, 11)
    assert change(server, "load", lora_name="late", lora_path=str(path)).is_success
    assert statuses(server, "late") == {200}
    shutil.rmtree(path)  # both have it in memory; an engine that starts again does not find it
    loads = server.log().count("] loaded base")
    server.hosts()[0].kill()
    server.wait_for(lambda: server.log().count("] loaded base") == loads + 1)
    server.wait_for(lambda: each_worker_has_both(server, "base"))
    assert statuses(server, "late") == {200}
    assert listed(server) == ["base", "late", "poet"]
    assert change(server, "unload", lora_name="late").is_success
    assert statuses(server, "late") == {404}
