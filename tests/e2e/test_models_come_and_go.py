"""Four models where two fit, in real processes: every request of every client is answered, whoever's turn it is."""

from __future__ import annotations

import asyncio

import httpx
import openai
import pytest
from paced_model import GRAPH, write_model
from patience import PATIENCE_S
from server_process import ServerProcess

NAMES = ("a", "b", "c", "d")
SMALL = GRAPH.replace("memory_gb: 0.01", "memory_gb: 0.001")
ADMIN = {"Authorization": "Bearer sesame"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    models = tmp_path_factory.mktemp("lifecycle") / "models"
    for name in NAMES:
        write_model(models / name, step_s=0.002, graph=SMALL)
        with (models / name / "weights.bin").open("wb") as weights:
            weights.truncate(10 << 20)
    (models / "a" / "graph.yaml").write_text("pinned: true\n" + SMALL)
    with ServerProcess(
        models,
        WORKERS="2",
        MAX_LOADED_GB="0.022",
        ADMIN_KEYS="sesame",
        IDLE_UNLOAD_S="600",
        APIS="openai,kserve,ovms",
    ) as server:
        server.ready("a")
        yield server


def states(server):
    listed = httpx.get(f"{server.url}/models", timeout=PATIENCE_S).json()["data"]
    return {model["id"]: model["status"]["value"] for model in listed}


def admin(server, path, **body):
    return httpx.post(f"{server.url}{path}", headers=ADMIN, json=body, timeout=PATIENCE_S)


def test_clients_of_four_models_are_all_answered(served):
    async def ask(client, model, stream):
        reply = await client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "hi"}], max_tokens=12, stream=stream
        )
        if not stream:
            return reply.choices[0].finish_reason
        return [chunk.choices[0].finish_reason async for chunk in reply if chunk.choices][-1]

    async def scene():
        async with openai.AsyncOpenAI(
            base_url=f"{served.url}/v1", api_key="-", timeout=PATIENCE_S, max_retries=0
        ) as client:
            return await asyncio.gather(*[ask(client, NAMES[i % 4], i % 3 == 0) for i in range(24)])

    assert set(asyncio.run(scene())) <= {"stop", "length"}
    loaded = [name for name, state in states(served).items() if state == "loaded"]
    assert "a" in loaded  # it is pinned
    assert len(loaded) <= 2


def test_clients_with_the_admin_key_load_and_unload(served):
    assert admin(served, "/models/load", model="b").json() == {"success": True}
    assert admin(served, "/models/unload", model="c").status_code == 200
    assert admin(served, "/v2/repository/models/c/unload").status_code == 200
    refused = httpx.post(
        f"{served.url}/v1/completions",
        json={"model": "c", "prompt": "a", "max_tokens": 1},
        timeout=PATIENCE_S,
    )
    assert (refused.status_code, refused.json()["error"]["param"]) == (404, "model")
    assert httpx.post(f"{served.url}/models/load", json={"model": "c"}, timeout=PATIENCE_S).status_code == 401
    assert admin(served, "/models/load", model="c").status_code == 200
    index = admin(served, "/v2/repository/index", ready=True).json()
    assert [entry["name"] for entry in index] == ["a", "c"]
    assert states(served)["b"] == "unloaded"
    wrong = admin(served, "/models/load", model="c", keep_alive="soon")
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "keep_alive")
    assert admin(served, "/models/load", model="c", keep_alive=0).status_code == 200
    served.wait_for(lambda: states(served)["c"] == "unloaded")
    config = httpx.get(f"{served.url}/v1/config", timeout=PATIENCE_S).json()
    assert config["b"]["model_version_status"][0]["state"] == "AVAILABLE"


def test_waiting_requests_are_answered_when_the_engine_host_dies(served):
    async def scene():
        async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
            body = {"model": "d", "prompt": "a", "max_tokens": 2}
            asks = [client.post(f"{served.url}/v1/completions", json=body) for _ in range(8)]
            waiting = asyncio.gather(*asks)
            host, _ = served.children()
            await asyncio.sleep(0.05)
            host.kill()
            return [reply.status_code for reply in await waiting]

    assert set(asyncio.run(scene())) <= {200, 500, 503}
    served.ready("a")
    reply = httpx.post(
        f"{served.url}/v1/completions",
        json={"model": "d", "prompt": "a", "max_tokens": 2},
        timeout=PATIENCE_S,
    )
    assert reply.status_code == 200
