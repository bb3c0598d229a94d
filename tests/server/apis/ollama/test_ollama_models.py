"""Ollama's lists of models, and what is told of one, over a server of the demo models' form."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipelines.base.errors import ModelNotFound, Unavailable
from pipelines.wire.messages import ModelStatus
from server.apis.ollama.details import read_facts
from server.apis.ollama.names import served_name

ADAPTER = SimpleNamespace(name="pirate")
CARDS = [SimpleNamespace(name="Qwen3-8B", adapters=()), SimpleNamespace(name="tiny:q4", adapters=(ADAPTER,))]


def catalogue(error=None):
    error = error or ModelNotFound("there is no such model")
    return SimpleNamespace(cards=lambda: CARDS, unknown=lambda name: error)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("Qwen3-8B", "Qwen3-8B"),
        ("Qwen3-8B:latest", "Qwen3-8B"),
        ("qwen3-8b", "Qwen3-8B"),
        ("qwen3-8b:LATEST", "Qwen3-8B"),
        ("registry.ollama.ai/library/qwen3-8b:latest", "Qwen3-8B"),
        ("tiny:q4", "tiny:q4"),
        ("pirate:latest", "pirate"),
    ],
)
def test_a_name_is_found_with_and_without_its_tag(given, name):
    assert served_name(catalogue(), given) == name


@pytest.mark.parametrize("given", ["qwen3", "tiny", "tiny:latest", "Qwen3-8B:q4", ""])
def test_a_name_that_nothing_has(given):
    with pytest.raises(ModelNotFound, match=f"model '{given}' not found"):
        served_name(catalogue(), given)


def test_without_an_engine_no_model_is_missing():
    with pytest.raises(Unavailable):
        served_name(catalogue(Unavailable("the engine is starting")), "none")


def status(tmp_path, config):
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "config.json").write_text(config)
    (tmp_path / "models" / "m").mkdir(parents=True)
    (tmp_path / "models" / "m" / "model.onnx").write_bytes(b"x" * 100)
    return ModelStatus("m", 1, 1, "ready", snapshot=str(snapshot), fingerprint="f", max_context=64)


def test_what_is_told_of_a_model_comes_from_its_files(tmp_path):
    config = '{"model_type": "gemma3", "text_config": {"hidden_size": 8, "num_hidden_layers": 2}}'
    facts = read_facts(status(tmp_path, config), tmp_path / "models")
    assert (facts.size, len(facts.digest)) == (100, 64)
    assert facts.model_info("m") == {
        "general.architecture": "gemma3",
        "general.basename": "m",
        "gemma3.context_length": 64,
        "gemma3.embedding_length": 8,
        "gemma3.block_count": 2,
    }
    assert facts.details().model_dump(exclude_unset=True)["context_length"] == 64


def test_a_version_is_three_plain_numbers(rig):
    assert [int(number) for number in rig.get("/api/version").json["version"].split(".")] >= [0, 6, 4]
    assert rig.ask("HEAD", "/api/version").status == 200


def test_an_unknown_model_is_not_shown(rig):
    for body in ({"model": "none"}, {"name": "none:latest"}):
        reply = rig.post("/api/show", body)
        assert (reply.status, "not found" in reply.json["error"]) == (404, True)
    assert rig.post("/api/show", {}).json == {"error": "model is required"}


def test_a_tag_is_taken_on_other_paths(rig):
    assert rig.chat(model="tiny:latest").status == 200
    assert rig.chat(model="none:latest").status == 404
