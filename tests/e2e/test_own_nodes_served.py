"""Models with Python code of their own behind a server: served, changed, failing alone, and ended at a limit."""

from __future__ import annotations

import shutil

import httpx
import pytest
from fake_decoder import write_fake_model
from own_node_model import HIDE_NUMBERS, write_own_model
from patience import PATIENCE_S

LOOP = HIDE_NUMBERS.replace(
    "        return [", "        while prompts[0].text.find('loop') > 0: pass\n        return ["
)
NAMING = "version: 1\ntask: chat\nnodes:\n  reply: {type: graph, graph: own, from: request}\n"


BODY = {"max_tokens": 4, "temperature": 0}
ADDED = ("own", "bad", "plain", "naming")


@pytest.fixture(scope="module")
def served(server):
    """The server of the fake model, for a time with those of `ADDED`."""
    models = server.models
    write_own_model(models / "own", LOOP)
    write_own_model(models / "bad", "raise ValueError('no')")
    write_fake_model(models / "plain")
    (models / "naming").mkdir()
    (models / "naming" / "graph.yaml").write_text(NAMING)
    assert reload(server).status_code == 503
    for model in ("own", "naming", "plain"):
        server.ready(model)
    yield server
    for name in ADDED:
        shutil.rmtree(models / name)
    assert reload(server).is_success


def ask(server, model, text):
    body = {**BODY, "model": model, "messages": [{"role": "user", "content": text}]}
    return httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=PATIENCE_S)


def content(server, model, text):
    reply = ask(server, model, text)
    assert reply.status_code == 200, reply.text
    return reply.json()["choices"][0]["message"]["content"]


def contents(server, model, text):
    """The replies of all workers to a text."""
    body = {**BODY, "model": model, "messages": [{"role": "user", "content": text}]}
    with server.each_worker() as clients:
        replies = [client.post("/v1/chat/completions", json=body) for client in clients.values()]
    return {
        reply.json()["choices"][0]["message"]["content"] if reply.is_success else reply.text
        for reply in replies
    }


def test_prompts_pass_the_node(served):
    hidden = content(served, "plain", "from [number] to [number]")
    assert content(served, "own", "from 12345678 to 987654321") == hidden
    assert content(served, "naming", "from 12345678 to 987654321") == hidden


def test_a_folder_that_cannot_be_read_fails_alone(served):
    reply = ask(served, "bad", "hi")
    assert reply.status_code == 503
    assert "bad/nodes.py:1: its import raised ValueError: no" in reply.text


def test_a_run_without_end_fails_its_request_alone(served):
    reply = ask(served, "own", "loop")
    assert reply.status_code == 500
    assert "`HideNumbers` did not end within 0.5 s; it was at own/nodes.py:" in reply.text
    assert ask(served, "own", "hi").status_code == 200


def reload(server):
    return httpx.post(f"{server.url}/v1/config/reload", timeout=PATIENCE_S)


def test_a_changed_file_is_served_after_a_reload(served):
    write_own_model(served.models / "own", HIDE_NUMBERS.replace("[number]", "<hidden>"))
    assert content(served, "own", "to 12345678") == content(served, "plain", "to [number]")
    reply = reload(served)
    assert reply.status_code == 503
    assert "bad/nodes.py:1: its import raised ValueError: no" in reply.text
    hidden = content(served, "plain", "to <hidden>")
    served.wait_for(lambda: contents(served, "own", "to 12345678") == {hidden})


def test_a_mended_file_is_served_after_a_reload(served):
    write_own_model(served.models / "bad")
    assert reload(served).status_code == 201
    hidden = content(served, "plain", "to [number]")
    served.wait_for(lambda: contents(served, "bad", "to 12345678") == {hidden})
