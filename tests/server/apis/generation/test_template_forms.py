"""Conversations of clients over HTTP, with templates that take less than the API does: /v1/chat/completions and
/v1/messages."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from asgi_client import AsgiClient
from fake_decoder import write_fake_model
from patience import PATIENCE_S

from pipelines.host.in_process import InProcessClient
from pipelines.host.models.loader import ModelSource
from server.app import create_app
from server.base.settings import Settings
from server.connect import make_services

TEMPLATES = Path(__file__).parents[3] / "pipelines/nodes/text/templates/public_templates"
NAMES = (
    "openai-gpt-oss-120b",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "Apertus-8B-Instruct",
    "google-gemma-2-2b-it",
)
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
USER = {"role": "user", "content": "hi"}
NOW = [{"type": "function", "function": {"name": "now"}}]
CALL = {"id": "toolu_01XYZ", "type": "function", "function": {"name": "now", "arguments": "{}"}}
CALLED = [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}]
RESULT = {"role": "tool", "tool_call_id": "toolu_01XYZ", "content": "noon"}
BLOCK = {"type": "tool_use", "id": "toolu_01XYZ", "name": "now", "input": {}}
BLOCKS = [USER, {"role": "assistant", "content": [BLOCK]}]
DONE = {"type": "tool_result", "tool_use_id": "toolu_01XYZ", "content": "noon"}
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
CASES = {
    "a tool without a description": ("openai-gpt-oss-120b", CHAT, {"messages": [USER], "tools": NOW}),
    "a result without content": (
        "openai-gpt-oss-120b",
        CHAT,
        {"messages": [*CALLED, {**RESULT, "content": None}], "tools": NOW},
    ),
    "the id of another provider": (
        "mistralai-Mistral-Nemo-Instruct-2407",
        CHAT,
        {"messages": [*CALLED, RESULT], "tools": NOW},
    ),
    "the id of a block": (
        "mistralai-Mistral-Nemo-Instruct-2407",
        MESSAGES,
        {"messages": [*BLOCKS, {"role": "user", "content": [DONE]}], "max_tokens": 4},
    ),
    "a developer": (
        "Apertus-8B-Instruct",
        CHAT,
        {"messages": [{"role": "developer", "content": "Be brief."}, USER]},
    ),
    "a system": (
        "google-gemma-2-2b-it",
        CHAT,
        {"messages": [{"role": "system", "content": "Be brief."}, USER]},
    ),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Case → status and text of its answer."""
    folder = tmp_path_factory.mktemp("models")
    for name in NAMES:
        shutil.copy(TEMPLATES / f"{name}.jinja", write_fake_model(folder / name) / "chat_template.jinja")
        (folder / name / "tokenizer_config.json").write_text(json.dumps(SPECIAL))

    async def scene():
        client = InProcessClient(ModelSource(folder))
        settings = Settings()
        services = make_services(settings, client)
        async with asyncio.timeout(PATIENCE_S), AsgiClient(create_app(services)) as asgi:
            while len([card for card in services.catalogue.cards() if card.state == "ready"]) < len(NAMES):
                await asyncio.sleep(0.02)
            answers = {
                case: await asgi.post(path, {"model": name, "max_tokens": 4, **body})
                for case, (name, path, body) in CASES.items()
            }
        return {case: (answer.status, answer.body) for case, answer in answers.items()}

    return asyncio.run(scene())


@pytest.mark.parametrize("case", CASES)
def test_a_template_is_given_what_it_takes(answers, case):
    status, body = answers[case]
    assert status == 200, body
