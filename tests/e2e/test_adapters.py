"""Adapters in real processes, with two workers: names, OpenAI's client, loading and unloading, metrics."""

from __future__ import annotations

import asyncio
import signal

import httpx
import openai
import pytest
from patience import PATIENCE_S
from peft_adapters import write_adapter

FORBIDDEN = "BRAID_ALLOW_RUNTIME_LORA_UPDATING=1"
COUNTED = (
    "vllm:request_success_total{",
    "vllm:request_prompt_tokens_sum{",
    "vllm:request_prefill_kv_computed_tokens_sum{",
    "vllm:request_generation_tokens_sum{",
)


@pytest.fixture
def served(server):
    return server


@pytest.fixture
def client(served):
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="-", max_retries=0, timeout=PATIENCE_S) as client:
        yield client


def chat(client, model, **more):
    return client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "hi"}], max_tokens=8, temperature=0, **more
    )


def post(served, path, **body):
    return httpx.post(f"{served.url}{path}", json=body, timeout=PATIENCE_S)


def listed(served):
    return {
        model["id"]: model
        for model in httpx.get(f"{served.url}/v1/models", timeout=PATIENCE_S).json()["data"]
    }


def test_adapters_are_listed_after_their_base(served, client):
    assert [model.id for model in client.models.list()] == ["fake", "tuned", "named", "pirate", "poet"]
    poet = listed(served)["poet"]
    assert (poet["parent"], poet["root"]) == ("tuned", str(served.tuned / "adapters" / "poet"))
    assert client.models.retrieve("poet").id == "poet"
    assert listed(served)["tuned"]["parent"] is None


def test_an_unknown_model_is_told_of_models_and_adapters_on_every_path(served, client):
    with pytest.raises(openai.NotFoundError) as caught:
        chat(client, "zzzz")
    said = caught.value.body["message"]
    assert said.startswith("The model `zzzz` does not exist; models: fake, tuned, ")
    assert {"named", "pirate", "poet"} <= {*said.partition("models: ")[2].split(", ")}
    for path in ("models/zzzz", "models/zzzz/graph", "models/zzzz/profile", "status?model=zzzz"):
        reply = httpx.get(f"{served.url}/v1/{path}", timeout=PATIENCE_S)
        assert (reply.status_code, reply.json()["error"]["message"]) == (404, said)


def test_every_path_that_generates_takes_the_name_of_an_adapter(served, client):
    replies = {name: chat(client, name) for name in ("tuned", "poet", "pirate", "named")}
    texts = {name: reply.choices[0].message.content for name, reply in replies.items()}
    assert len({*texts.values()}) == 4
    assert {name: reply.model for name, reply in replies.items()} == {name: name for name in texts}
    stream = chat(client, "tuned:poet", stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == texts["poet"]
    assert client.responses.create(model="poet", input="hi", max_output_tokens=8, temperature=0).status
    conversation, most = [{"role": "user", "content": "hi"}], {"model": "poet", "max_tokens": 4}
    bodies = {
        "/v3/chat/completions": {"messages": conversation, **most},
        "/v1/chat/completions/batch": {"messages": [conversation], **most},
        "/v1/completions": {"prompt": "hi", **most},
        "/v1/messages": {"messages": conversation, **most},
        "/v2/models/poet/generate": {"text_input": "hi", "max_tokens": 4},
        "/tokenize": {"prompt": "hi", "model": "poet"},
    }
    for path, body in bodies.items():
        reply = post(served, path, **body)
        assert reply.status_code == 200, f"{path}: {reply.text}"


def test_clients_load_and_unload_in_the_words_of_vllm(served, client):
    path = str(write_adapter(served.tuned / "adapters" / "late", 11))
    for prefix in ("/v1", "/v3"):
        load, unload = f"{prefix}/load_lora_adapter", f"{prefix}/unload_lora_adapter"
        reply = post(served, load, lora_name="late", lora_path=path)
        assert (reply.status_code, reply.text) == (200, "Success: LoRA adapter 'late' added successfully.")
        for _ in range(8):  # both workers know it
            assert chat(client, "late").model == "late"
        again = post(served, load, lora_name="late", lora_path=path)
        assert again.status_code == 400
        assert "'late' has already been loaded. If you want to load the adapter in place" in again.text
        placed = post(
            served, load, lora_name="late", lora_path=path, load_inplace=True, is_3d=False, lora_pth=1
        )
        assert (placed.status_code, placed.headers["x-braid-ignored-fields"]) == (
            200,
            "lora_pth;nearest=lora_path",
        )
        reply = post(served, unload, lora_name="late", lora_int_id=3)
        assert (reply.status_code, reply.text) == (200, "Success: LoRA adapter 'late' removed successfully.")
        for _ in range(8):
            with pytest.raises(openai.NotFoundError, match="The model `late` does not exist"):
                chat(client, "late")
    error = post(served, "/v1/load_lora_adapter", lora_name="x").json()["error"]
    assert error["message"] == "Both 'lora_name' and 'lora_path' must be provided."
    assert error["type"] == "InvalidUserInput"
    taken = post(served, "/v1/load_lora_adapter", lora_name="tuned", lora_path="/x")
    assert (taken.status_code, taken.json()["error"]["type"]) == (400, "InvalidUserInput")
    assert taken.json()["error"]["message"] == "The lora adapter 'tuned' conflicts with a served base model."
    missing = post(served, "/v1/unload_lora_adapter", lora_name="x")
    assert (missing.status_code, missing.json()["error"]["type"]) == (404, "NotFoundError")
    assert missing.json()["error"]["message"] == "The lora adapter 'x' cannot be found."
    assert post(served, "/v1/load_lora_adapter", lora_name="x", lora_path="/etc").status_code == 400


def test_a_reload_finds_new_folders(served):
    write_adapter(served.tuned / "adapters" / "after", 12)
    assert httpx.post(f"{served.url}/v1/config/reload", timeout=PATIENCE_S).status_code == 201
    assert "after" in listed(served)
    write_adapter(served.tuned / "adapters" / "hung-up", 13)
    served.process.send_signal(signal.SIGHUP)
    served.wait_for(lambda: "hung-up" in listed(served))


def test_metrics_name_the_adapters(served):
    async def scene():
        async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="-", timeout=PATIENCE_S) as client:
            await asyncio.gather(*[chat(client, name) for name in ("poet", "pirate", "tuned")])

    asyncio.run(scene())

    def metrics():
        return httpx.get(f"{served.url}/metrics", timeout=PATIENCE_S).text.splitlines()

    served.wait_for(lambda: any(line.startswith("vllm:lora_requests_info{") for line in metrics()))
    infos = [line for line in metrics() if line.startswith("vllm:lora_requests_info{")]
    assert all('max_lora="3"' in line and 'model_name="tuned"' in line for line in infos)
    assert any(
        line.startswith("vllm:request_success_total{") and 'model_name="poet"' in line for line in metrics()
    )


def test_requests_tokens_and_cache_hits_are_counted_by_the_name_of_the_adapter(served, client):
    def counted(name):
        """Requests, tokens of prompts, those of them that were computed, and generated tokens."""
        text = httpx.get(f"{served.url}/metrics", timeout=PATIENCE_S).text
        of_name = [line for line in text.splitlines() if f'model_name="{name}"' in line]
        return [
            sum(float(line.split()[-1]) for line in of_name if line.startswith(prefix)) for prefix in COUNTED
        ]

    names = ("tuned", "poet", "pirate")
    before = {name: counted(name) for name in names}
    messages = [{"role": "user", "content": f"Say it again: {'sea ' * 100}"}]
    usages = {name: [] for name in names}
    for name in ("poet", "pirate", "tuned", "poet"):
        reply = client.chat.completions.create(model=name, messages=messages, max_tokens=5, temperature=0)
        usages[name].append(reply.usage)
    others = usages["pirate"] + usages["tuned"]
    assert all(usage.prompt_tokens_details.cached_tokens < 20 for usage in others)  # the chat template's
    assert usages["poet"][1].prompt_tokens_details.cached_tokens > 50
    for name, told in usages.items():
        num_prompt = sum(usage.prompt_tokens for usage in told)
        num_cached = sum(usage.prompt_tokens_details.cached_tokens for usage in told)
        num_generated = sum(usage.completion_tokens for usage in told)
        gained = [len(told), num_prompt, num_prompt - num_cached, num_generated]
        expected = [old + new for old, new in zip(before[name], gained, strict=True)]
        served.wait_for(lambda name=name, expected=expected: counted(name) == expected)


def test_without_the_setting_the_paths_do_not_exist(demo):
    for path in ("/v1/load_lora_adapter", "/v3/unload_lora_adapter"):
        reply = post(demo, path, lora_name="x", lora_path="y")
        assert reply.status_code == 404
        assert FORBIDDEN in reply.text
