"""A real server with SmolLM2-135M-Instruct from its GGUF file answers a chat request."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import openai
import pytest
from breadth import after
from closed_clients import closed_later
from server_process import ROOT, ServerProcess
from tokenizers import Tokenizer

from pipelines.gguf.convert import convert
from pipelines.inference.backends.openvino.model.inference_type import inference_type
from tools.lab.first_tokens.__main__ import WAYS
from tools.paged_steps import Prompt, prompt_logits

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
        yield closed_later(openai.OpenAI(base_url=f"{running.url}/v1", api_key="none"))


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


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("converted")
    convert(FILE, folder / "model")
    return folder / "model"


@pytest.mark.parametrize(
    "way", after(1, ["bf16", "default", "f32", "f32-u8", "bf16-u8", "kernels", "onnxruntime"])
)
def test_it_knows_it_in_every_type_that_loses_few_first_tokens(converted, way):
    """In bfloat16 too, which some processors compute in, and others with AVX-512 can be asked for."""
    if way.startswith("bf16") and inference_type("bf16").to_string() != "bf16":
        pytest.skip("OpenVINO computes in bfloat16 only with AVX-512")
    tokenizer = Tokenizer.from_file(str(converted / "tokenizer.json"))
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    said = [("system", system), ("user", MESSAGES[0]["content"])]
    text = "".join(f"<|im_start|>{role}\n{words}<|im_end|>\n" for role, words in said)
    ids = tokenizer.encode(f"{text}<|im_start|>assistant\n").ids
    session = WAYS[way](converted / "model.onnx")
    for _ in range(8):
        (logits,) = prompt_logits(session, [Prompt(np.array(ids), np.array([len(ids) - 1]))], len(ids))
        ids.append(int(logits[0].argmax()))
    assert "Paris" in tokenizer.decode(ids[-8:])
