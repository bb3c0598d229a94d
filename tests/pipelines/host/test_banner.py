from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from pipelines.host.announce import chat_model
from pipelines.host.banner import banner
from pipelines.wire.messages import ModelStatus, Status, TensorSpec

READY = ModelStatus("demo", 1, 7, "ready", max_context=2048, cache_tokens=65536)
FAILED = ModelStatus("bad", 1, 0, "failed", ["graph.yaml:3: no node type `tokenise`\nmore"])
CHATS = {"rows": "embed", "a": "chat", "b": "chat"}
URL = "http://127.0.0.1:8000"


def text(*models, needs_key=False, model="demo"):
    return banner(Status(1, "ready", list(models)), Path("/srv/my models"), URL, needs_key, model)


def curl(written):
    return shlex.split(written[written.index("curl") : written.index("from openai")].strip())


@pytest.mark.parametrize(
    ("default_model", "named"),
    [(None, "a"), ("b", "b"), ("unknown", "a"), ("rows", "a"), ("bad", "a")],
)
def test_the_first_call_is_to_the_default_model_where_it_chats(default_model, named):
    ready = [ModelStatus(name, 1, 7, "ready", task=task) for name, task in CHATS.items()]
    assert chat_model(Status(1, "ready", [FAILED, *ready]), default_model) == named


def test_says_where_it_is():
    assert f"Braid is ready at {URL}" in text(READY)


def test_ready_model_shows_its_sizes():
    assert "demo  ready   context 2,048 tokens, cache 65,536 tokens" in text(READY)


def test_model_without_a_cache_shows_none():
    assert "rows  ready   context 256 tokens\n" in text(ModelStatus("rows", 1, 7, "ready", max_context=256))


def test_model_of_tensors_shows_their_names():
    ports = [TensorSpec(name, "float32", None) for name in ("image", "size")]
    tensors = ModelStatus("seer", 1, 8, "ready", inputs=ports, outputs=ports[:1])
    assert "seer  ready   image, size → image" in text(tensors, model=None)


def test_failed_model_shows_its_first_problem_and_what_to_do():
    written = text(READY, FAILED)
    assert (
        "bad   failed  graph.yaml:3: no node type `tokenise`   (run: braid check '/srv/my models')" in written
    )
    assert "demo  ready" in written
    assert "more" not in written


def test_long_problem_is_cut():
    long = ModelStatus("bad", 1, 0, "failed", ["x" * 500])
    assert "x" * 119 + "…   (run" in text(READY, long)


def test_no_ready_model_is_not_called_ready():
    written = text(FAILED, model=None)
    assert "no model is ready" in written
    assert "curl" not in written


def test_empty_repository_says_so():
    assert "/srv/my models holds no model: put a GGUF file" in text(model=None)


def test_curl_line_is_one_shell_command():
    words = curl(text(READY))
    assert words[:2] == ["curl", f"{URL}/v1/chat/completions"]
    assert json.loads(words[words.index("-d") + 1])["model"] == "demo"
    assert "Authorization" not in " ".join(words)


def test_needed_key_has_a_placeholder_in_both_calls():
    written = text(READY, needs_key=True)
    assert "Authorization: Bearer YOUR_API_KEY" in curl(written)
    assert 'api_key="YOUR_API_KEY"' in written


def test_python_lines_are_a_program():
    written = text(READY)
    program = written[written.index("from openai") :]
    compile(program, "banner", "exec")
    assert re.search(r'base_url="http://127\.0\.0\.1:8000/v1"', program)
