"""A host that builds real graphs: the fake decoder in a folder, as the repository finds it."""

from __future__ import annotations

import os

import pytest
from fake_decoder import write_fake_model
from gguf_files import write_llama_like
from scripted_host import in_process, read, submit

from pipelines.gguf.weight_writer import WeightWriter
from pipelines.host.announce import chat_model
from pipelines.host.models.loader import ModelSource


@pytest.fixture
def models(tmp_path):
    """One model that serves and one folder that cannot be read."""
    write_fake_model(tmp_path / "good", vocab_size=50, max_context=64)
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "graph.yaml").write_bytes(b"task: \xff")
    return tmp_path


def entry(client, name):
    return next(model for model in client.status.models if model.name == name)


def test_model_from_a_folder_generates(models):
    async def scene(client):
        return await read(
            submit(client, model="good", instance_id=entry(client, "good").instance_id, max_tokens=9)[1]
        )

    tokens, finish = in_process(scene, ModelSource(models))
    assert len(tokens[0]) == 9
    assert finish == {0: "length"}


def test_unreadable_folder_troubles_no_other(models):
    async def scene(client):
        return entry(client, "bad"), entry(client, "good")

    bad, good = in_process(scene, ModelSource(models))
    assert (bad.state, good.state) == ("failed", "ready")
    assert "not readable" in bad.problems[0]


def test_a_gguf_file_that_is_cut_while_it_is_converted_fails_alone(models, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("BRAID_CACHE", str(tmp_path_factory.mktemp("cache")))
    file, write = models / "cut.gguf", WeightWriter.write
    write_llama_like(file)

    def cut_and_write(weights):
        os.truncate(file, file.stat().st_size // 3)
        write(weights)

    monkeypatch.setattr(WeightWriter, "write", cut_and_write)

    async def scene(client):
        return entry(client, "cut"), entry(client, "good")

    cut, good = in_process(scene, ModelSource(models))
    assert (cut.state, good.state) == ("failed", "ready")
    assert "cut.gguf was cut short to " in cut.problems[0]


def test_chat_model_is_found_for_the_banner(models):
    async def scene(client):
        return chat_model(client.status)

    assert in_process(scene, ModelSource(models)) == "good"
