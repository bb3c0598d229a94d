"""A host that builds real graphs: the fake decoder in a folder, as the repository finds it."""

from __future__ import annotations

import pytest
from fake_decoder import write_fake_model
from scripted_host import in_process, read, submit

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


def test_chat_model_is_found_for_the_banner(models):
    async def scene(client):
        return chat_model(client.status)

    assert in_process(scene, ModelSource(models)) == "good"
