"""`braid agent`: the configuration of coding agents for a running server, which the documentation shows."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tools.agents.__main__ import chosen, main, text_of
from tools.agents.configurations import AGENTS, SHELL, filled
from tools.client.api_server import ApiServer
from tools.client.http_client import RequestFailed

DOCS = Path(__file__).parents[3] / "docs" / "agents.md"
MODELS = [
    {"id": "embed", "capabilities": {"completion_chat": False}, "max_model_len": 512},
    {"id": "qwen3-coder", "capabilities": {"completion_chat": True}, "max_model_len": 131072},
]
SERVER = ApiServer("http://127.0.0.1:8000")
READERS = {".toml": tomllib.loads, ".json": json.loads, ".yaml": yaml.safe_load}


def pieces(name):
    return filled(AGENTS[name], "http://127.0.0.1:8000", "none", "qwen3-coder", 131072)


@pytest.mark.parametrize("name", AGENTS)
def test_files_can_be_read_and_name_the_model(name):
    for where, text in pieces(name):
        if where != SHELL:
            assert READERS[Path(where).suffix](text)
        assert "$" not in text.replace('"$schema"', "")
    assert "qwen3-coder" in "".join(text for _, text in pieces(name))


@pytest.mark.parametrize("name", AGENTS)
def test_the_documentation_shows_it(name):
    page = DOCS.read_text()
    for _, text in pieces(name):
        assert text in page


def test_codex_knows_the_context():
    config = tomllib.loads(pieces("codex")[0].text)
    assert config["model_context_window"] == 131072
    assert config["model_auto_compact_token_limit"] < 131072
    assert config["model_providers"]["braid"]["wire_api"] == "responses"


def test_the_first_model_that_chats_is_taken():
    assert chosen(MODELS, None)["id"] == "qwen3-coder"
    assert chosen(MODELS, "embed")["id"] == "embed"
    with pytest.raises(RequestFailed, match="it has: embed, qwen3-coder"):
        chosen(MODELS, "gone")


def test_a_context_that_is_too_short_is_named():
    short = {"id": "small", "max_model_len": 32768}
    assert "too short" in text_of(AGENTS["claude"], SERVER, "none", short)
    assert "too short" not in text_of(AGENTS["pi"], SERVER, "none", short)


def test_it_asks_the_server(monkeypatch):
    monkeypatch.setattr(ApiServer, "get", lambda self, path: {"data": MODELS})
    done = CliRunner().invoke(main, ["claude", "--url", "http://box:9000", "--api-key", "secret"])
    assert done.exit_code == 0, done.output
    assert "ANTHROPIC_BASE_URL=http://box:9000\n" in done.output
    assert "ANTHROPIC_AUTH_TOKEN=secret\n" in done.output
    assert "ANTHROPIC_MODEL=qwen3-coder\n" in done.output
