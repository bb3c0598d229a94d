"""Inputs of requests for vectors as prompts: an instruction, the message of a user, and where a reply begins."""

from __future__ import annotations

import json

import pytest
from fake_decoder import CHAT_TEMPLATE
from prompt_nodes import call_of, loaded

from pipelines.nodes.text.templates.embed_template import EmbedTemplate
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput

USER = {"role": "user", "content": "Hello"}
BEGIN, END = "<|im_start|>", "<|im_end|>\n"
WHOLE = f"{BEGIN}system\nDescribe.{END}{BEGIN}user\nHello{END}{BEGIN}assistant\n"


def prompts_of(folder, request, **settings):
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    (folder / "prompts.json").write_text(json.dumps({"prompts": {"query": "Find."}}))
    given = {"template": "chat_template.jinja", "instruction": "Describe.", "add_special_tokens": True}
    return loaded(EmbedTemplate, folder, **given, **settings).run(call_of(request), request)


@pytest.mark.parametrize(
    ("request_fields", "text"),
    [
        ({}, WHOLE),
        ({"add_generation_prompt": False}, WHOLE.removesuffix(f"{BEGIN}assistant\n")),
        ({"purpose": "search_query"}, WHOLE.replace("Describe.", "Find.")),
        ({"purpose": "search_document"}, WHOLE),
    ],
)
def test_a_text_is_the_message_of_a_user(tmp_path, request_fields, text):
    fields = {"add_generation_prompt": None} | request_fields
    request = PoolingInput(prompts=[Prompt("Hello", add_special_tokens=True), Prompt(ids=[1, 2])], **fields)
    assert prompts_of(tmp_path, request, prompts="prompts.json") == [
        Prompt(text, add_special_tokens=True, is_rendered=True),
        Prompt(ids=[1, 2]),
    ]


def test_a_conversation_has_an_instruction_of_its_own(tmp_path):
    own = [{"role": "system", "content": "Own."}, USER]
    going_on = [USER, {"role": "assistant", "content": ""}]
    request = PoolingInput(conversations=[[USER], own], add_generation_prompt=None)
    whole, said = (prompt.text for prompt in prompts_of(tmp_path, request))
    assert (whole, said) == (WHOLE, WHOLE.replace("Describe.", "Own."))
    continued = PoolingInput(
        conversations=[going_on], add_generation_prompt=None, continue_final_message=True
    )
    assert [prompt.text for prompt in prompts_of(tmp_path, continued)] == [WHOLE]


@pytest.mark.parametrize(("given", "special"), [(None, True), (False, False), (True, True)])
def test_special_tokens_are_those_of_the_tokenizer_unless_a_request_says(tmp_path, given, special):
    request = PoolingInput(conversations=[[USER]], add_special_tokens=given)
    assert prompts_of(tmp_path, request)[0].add_special_tokens is special
