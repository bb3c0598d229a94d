"""Texts with a gap over a server, by the paths and the bodies of editors; what is reused while one types."""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from closed_clients import closed_later
from openai import OpenAI

MOST_OF_A_BLOCK = 15
ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / ".venv-clients" / "bin" / "python"
CODE = "".join(f"def f{i}(x):\n    return x + {i}\n\n" for i in range(9))
AFTER = "\n\nprint(f0(1))\n"
SAMPLERS = ["top_k", "top_p", "infill"]
WRITTEN = "<|fim_prefix|>ab<|fim_suffix|>yz<|fim_middle|>"
TIMES = [
    f"{part}_{what}" for part in ("prompt", "predicted") for what in ("n", "ms", "per_token_ms", "per_second")
]


@pytest.fixture
def server(mixed):
    return mixed


def infill(server, **fields):
    body = {"model": "coder", "input_prefix": CODE, "input_suffix": AFTER, "n_predict": 4, **fields}
    return httpx.post(f"{server.url}/infill", content=json.dumps(body), timeout=60)


def test_the_middle_of_completions(server):
    client = closed_later(OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0))
    reply = client.completions.create(model="coder", prompt="ab", suffix="yz", max_tokens=4, temperature=0)
    assert reply.usage.prompt_tokens == 7  # the four letters, and three tokens
    assert reply.usage.completion_tokens <= 4
    streamed = client.completions.create(
        model="coder", prompt="ab", suffix="yz", max_tokens=4, temperature=0, stream=True
    )
    assert "".join(part.choices[0].text for part in streamed) == reply.choices[0].text


def test_mistrals_client(server):
    if not CLIENTS.exists():
        pytest.skip("needs .venv-clients")
    program = [CLIENTS, ROOT / "tests" / "clients" / "programs" / "mistral_fim.py", server.url, "coder"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/completions", {"prompt": "a", "suffix": "z"}, "suffix"),
        ("/v1/fim/completions", {"prompt": "a", "suffix": "z"}, "suffix"),
        ("/beta/completions", {"prompt": "a", "suffix": "z"}, "suffix"),
        ("/infill", {"input_prefix": "a", "input_suffix": "z"}, "infill"),
        ("/api/generate", {"prompt": "a", "suffix": "z"}, "insert"),
    ],
)
def test_a_model_without_the_tokens_is_named(server, path, body, field):
    reply = httpx.post(server.url + path, json={"model": "plain", **body}, timeout=60)
    assert (reply.status_code, field in reply.text) == (400, True), reply.text


def test_ollama_inserts(server):
    body = {"model": "coder", "prompt": "ab", "suffix": "yz", "stream": False, "options": {"num_predict": 4}}
    reply = httpx.post(f"{server.url}/api/generate", json=body, timeout=60).json()
    assert (reply["prompt_eval_count"], reply["done"]) == (7, True)
    shown = httpx.post(f"{server.url}/api/show", json={"model": "coder"}, timeout=60).json()
    assert "insert" in shown["capabilities"]


def test_what_is_typed_moves_the_middle_and_reuses_what_is_before(server):
    """Measured: all whole blocks of the prompt before, up to the place where one types."""
    extra = [{"filename": "x.py", "text": CODE, "time": 1}]
    first = infill(server, input_extra=extra, prompt="def g").json()
    assert first["timings"]["cache_n"] == 0
    typed = infill(server, input_extra=extra, prompt="def g(x").json()
    num_same = first["tokens_evaluated"] - len(AFTER) - 2  # without the suffix, its token and the last one
    assert num_same - MOST_OF_A_BLOCK <= typed["timings"]["cache_n"] <= num_same
    assert typed["timings"]["cache_n"] + typed["timings"]["prompt_n"] == typed["tokens_evaluated"]


def test_llama_vscode(server):
    """Its request of a completion, and the one that warms its ring of texts."""
    common = {"top_k": 40, "top_p": 0.99, "stream": False, "cache_prompt": True, "t_max_prompt_ms": 500}
    chunks = [{"text": CODE, "time": 1, "filename": "x.py"}]
    reply = infill(
        server,
        **common,
        samplers=SAMPLERS,
        prompt="de",
        input_extra=chunks,
        t_max_predict_ms=1000,
        n_indent=0,
    ).json()
    assert {"content", "timings", "tokens_cached", "truncated", "generation_settings"} <= reply.keys()
    warm = infill(
        server, **common, samplers=[], input_prefix="", input_suffix="", n_predict=0, input_extra=chunks
    )
    assert (warm.status_code, warm.json()["content"], warm.json()["tokens_predicted"]) == (200, "", 0)


def test_llama_vim_reads_chosen_members(server):
    fields = ["content", *(f"timings/{each}" for each in TIMES), "truncated", "tokens_cached"]
    body = {"n_indent": 4, "top_k": 40, "top_p": 0.9, "t_max_prompt_ms": 500, "t_max_predict_ms": 1000}
    body |= {"samplers": SAMPLERS, "stream": False, "cache_prompt": True, "response_fields": fields}
    body |= {"input_extra": [{"text": CODE.upper(), "time": [1, 2], "filename": "y.py"}], "prompt": ""}
    reply = infill(server, **body).json()
    assert [*reply] == fields
    assert all(isinstance(reply[f"timings/{each}"], int | float) for each in TIMES)
    assert infill(server, **body).json()["timings/prompt_n"] <= MOST_OF_A_BLOCK + 1


def test_tabby_streams_a_prompt_of_its_own(server):
    body = {"seed": 1, "prompt": "<|fim_prefix|>a", "n_predict": 4, "temperature": 0.1, "stream": True}
    body |= {"model": "coder", "penalty_last_n": 0, "presence_penalty": 0.0}
    text = httpx.post(f"{server.url}/completion", json=body, timeout=60).text
    events = [
        json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data")
    ]
    assert [event["stop"] for event in events] == [False] * (len(events) - 1) + [True]
    assert "[DONE]" not in text
    assert events[-1]["tokens_evaluated"] == 2  # what is written as a token in the prompt is one


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/v1/completions",
            {"prompt": "# language: python\nab", "suffix": "yz", "stream": True, "top_p": 0.9},
        ),
        ("/v1/fim/completions", {"prompt": "ab", "suffix": "yz", "stream": True, "stop": ["\n\n"]}),
        ("/api/generate", {"prompt": "ab", "suffix": "yz", "raw": True, "options": {"num_predict": 4}}),
        (
            "/completion",
            {"prompt": WRITTEN, "n_predict": 4, "stop": ["\n"], "stream": True},
        ),
        (
            "/api/generate",
            {
                "prompt": WRITTEN,
                "raw": True,
                "stream": True,
                "keep_alive": "5m",
                "options": {"num_predict": 4},
            },
        ),
        (
            "/completion",
            {"prompt": WRITTEN, "stream": True, "temperature": 0.2, "n_predict": 4, "top_p": 1, "top_k": 40},
        ),
        (
            "/v1/completions",
            {"prompt": WRITTEN, "stream": True, "temperature": 0.2, "stop": ["<|endoftext|>"]},
        ),
        ("/v1/completions", {"prompt": WRITTEN, "stream": False, "temperature": 0.1}),
        (
            "/v1/completions",
            {"prompt": "ab", "suffix": "yz", "stream": True, "temperature": 0.1, "presence_penalty": 0.0},
        ),
        ("/v1/fim/completions", {"prompt": "ab", "suffix": "yz", "stream": True, "random_seed": 1}),
        (
            "/beta/completions",
            {"prompt": "ab", "suffix": "yz", "temperature": 0.01, "presence_penalty": 0, "stream": True},
        ),
        ("/v1/beta/completions", {"prompt": "ab", "suffix": "yz", "stop": ["\n\n"], "stream": True}),
        (
            "/api/generate",
            {
                "prompt": WRITTEN,
                "raw": True,
                "options": {"num_predict": 4, "seed": 1, "temperature": 0.1, "repeat_penalty": 1.1},
            },
        ),
    ],
    ids=[
        "minuet",
        "minuet codestral",
        "Continue and Zed on Ollama",
        "Continue on llama.cpp",
        "Twinny",
        "Twinny on llama.cpp",
        "Twinny on oobabooga",
        "llama.vscode on OpenAI's path",
        "Tabby legacy_completion_fim",
        "Tabby mistral fim",
        "Continue on DeepSeek",
        "Continue on DeepSeek below a prefix",
        "Tabby ollama completion",
    ],
)
def test_requests_of_editors(server, path, body):
    body = {"model": "coder", "max_tokens": 4, **body}
    reply = httpx.post(server.url + path, json=body, headers={"accept": "application/json"}, timeout=60)
    assert reply.status_code == 200, reply.text
    assert '"error"' not in reply.text


def test_minuet_asks_for_several_at_once_and_leaves_those_that_run(server):
    """minuet sends one prompt three times, and kills the requests that run at the next key."""
    body = {"model": "coder", "prompt": CODE.lower(), "suffix": AFTER, "stream": True, "max_tokens": 1000}
    url, headers = f"{server.url}/v1/completions", {"accept": "application/json"}
    with ExitStack() as running:
        for _ in range(3):
            asked = httpx.stream("POST", url, json={**body, "ignore_eos": True}, headers=headers, timeout=60)
            reply = running.enter_context(asked)
            assert reply.headers["content-type"].startswith("text/event-stream")
            assert next(line for line in reply.iter_lines() if line.startswith("data: "))
    typed = {**body, "prompt": f"{CODE}d", "stream": False, "max_tokens": 4}
    usage = httpx.post(url, json=typed, headers=headers, timeout=60).json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] >= len(CODE) - MOST_OF_A_BLOCK
    server.wait_for(lambda: httpx.get(f"{server.url}/load", timeout=60).json()["server_load"] == 0)


def test_a_suffix_is_no_use_beside_ids_or_an_echo(server):
    for wrong in (
        {"prompt": [1, 2]},
        {"prompt": "a", "echo": True},
        {"prompt": "a", "truncate_prompt_tokens": 4},
    ):
        body = {"model": "coder", "suffix": "z", **wrong}
        assert httpx.post(f"{server.url}/v1/completions", json=body, timeout=60).status_code == 400, wrong
