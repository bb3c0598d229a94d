"""Custom tools of models whose parameters are in tags: the text is held to its grammar, as it is written."""

from __future__ import annotations

import asyncio

import pytest
from codex_tools import APPLY_PATCH, EXEC
from scripted_model import GRAPH, serving, write_scripted_model

PATCH = "*** Begin Patch\n*** Add File: a.py\n+print(42)\n+</parameter>\n*** End Patch"
BROKEN = "*** Begin Patch\n+x\n*** End Patch"
FORMS = {
    "qwen3_coder": "<tool_call>\n<function=apply_patch>\n<parameter=input>\n{}\n</parameter>\n</function>\n"
    "</tool_call>",
    "glm45": "<tool_call>apply_patch\n<arg_key>input</arg_key>\n<arg_value>{}</arg_value>\n</tool_call>",
    "minimax_m2": '<minimax:tool_call>\n<invoke name="apply_patch">\n<parameter name="input">{}</parameter>\n'
    "</invoke>\n</minimax:tool_call>",
}
COMMAND = "<tool_call>\n<function=exec_command>\n<parameter=cmd>\nls\n</parameter>\n</function>\n</tool_call>"


def asked(folder, family, replies, *words):
    """The outputs of responses to these words."""
    graph = GRAPH.replace("tools: hermes", f"tools: {family}")
    write_scripted_model(folder / "m", replies, graph=graph)

    async def scene():
        async with serving(folder) as client:
            body = {"model": "m", "tools": [EXEC, APPLY_PATCH], "store": False, "max_output_tokens": 200}
            return [await client.post("/v1/responses", {**body, "input": word}) for word in words]

    return asyncio.run(scene())


@pytest.mark.parametrize("family", FORMS)
def test_a_patch_comes_as_it_is_and_a_broken_one_is_not_written(family, tmp_path):
    replies = [("Patch", "I will." + FORMS[family].format(PATCH)), ("Break", FORMS[family].format(BROKEN))]
    good, bad = asked(tmp_path, family, replies, "Patch it", "Break it")
    calls = [item for item in good.json["output"] if item["type"] == "custom_tool_call"]
    assert [(call["name"], call["input"]) for call in calls] == [("apply_patch", PATCH)]
    assert BROKEN not in str(bad.json["output"])
    assert "x-braid-ignored-fields" not in good.headers


def test_other_tools_are_not_held_and_a_family_without_a_form_is_named(tmp_path):
    (listed,) = asked(tmp_path, "qwen3_coder", [("List", COMMAND)], "List it")
    assert [item["name"] for item in listed.json["output"]] == ["exec_command"]
    (pythonic,) = asked(tmp_path, "pythonic", [("List", "Done.")], "List it")
    assert "format;tool=apply_patch" in pythonic.headers["x-braid-ignored-fields"]
