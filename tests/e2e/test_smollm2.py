"""A real server with SmolLM2-135M-Instruct from its GGUF file answers a chat request."""

from __future__ import annotations

import os
from pathlib import Path

import openai
import pytest
from server_process import ROOT, ServerProcess

NAME = "SmolLM2-135M-Instruct.Q4_1"
FILE = Path(os.environ.get("SMOLLM2", ROOT / "model_repo" / "smollm2" / f"{NAME}.gguf"))
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]
pytestmark = [
    pytest.mark.skipif(not FILE.exists(), reason=f"{FILE} is missing: `make demo-chat` fetches it"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smollm2")
    file = folder / f"{NAME}.gguf"
    file.symlink_to(FILE)
    with ServerProcess(file, WORKERS="1", CACHE=str(folder / "cache")) as running:
        running.ready(NAME)
        yield openai.OpenAI(base_url=f"{running.url}/v1", api_key="none")


def test_it_knows_the_capital_of_france(client):
    reply = client.chat.completions.create(model=NAME, messages=MESSAGES, temperature=0, max_tokens=20)
    assert "Paris" in reply.choices[0].message.content
    assert reply.choices[0].finish_reason == "stop"


def test_a_stream_is_the_same_text(client):
    fields = {"model": NAME, "messages": MESSAGES, "temperature": 0, "max_tokens": 20}
    whole = client.chat.completions.create(**fields).choices[0].message.content
    parts = [
        chunk.choices[0].delta.content or ""
        for chunk in client.chat.completions.create(**fields, stream=True)
    ]
    assert "".join(parts) == whole
