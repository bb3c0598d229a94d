"""What agents ask a server before their first request to a model."""

from __future__ import annotations

import asyncio

from scripted_model import serving, write_scripted_model

LEAST_VERSION = (0, 13, 4)
"""Codex wants this version of Ollama: it was the first with Responses."""


def test_codex_for_open_models_finds_what_it_asks_ollama_and_lm_studio(tmp_path):
    """`codex --oss` as it was recorded: the models, the version, the models again; what is listed is not pulled."""
    write_scripted_model(tmp_path / "gpt-oss:20b", [("", "Done.")])

    async def scene():
        async with serving(tmp_path) as client:
            return [await client.get(path) for path in ("/v1/models", "/api/version", "/api/tags")]

    models, version, tags = asyncio.run(scene())
    assert [model["id"] for model in models.json["data"]] == ["gpt-oss:20b"]
    assert tuple(map(int, version.json["version"].split("."))) >= LEAST_VERSION
    assert [model["name"] for model in tags.json["models"]] == ["gpt-oss:20b"]
