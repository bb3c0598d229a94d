"""One call and one reasoning reply of each family of models, as its own template writes them, over HTTP.

The parsers are those that are found for the template.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from breadth import after
from scripted_model import GRAPH, serving, write_scripted_model

from pipelines.nodes.text.parser_search.search import find_parsers
from pipelines.nodes.text.templates.trials import (
    ANSWER,
    CALLED,
    FUNCTION,
    OPTIONS,
    THOUGHT,
    TOOLS,
    USER,
    Trials,
)

TEMPLATES = Path(__file__).parents[3] / "pipelines" / "nodes" / "text" / "templates" / "public_templates"
FAMILIES = {
    "qwen35, qwen35moe": "Qwen3.5-4B",
    "gpt-oss": "openai-gpt-oss-120b",
    "gemma4": "google-gemma-4-31B-it",
    "lfm2, lfm2moe": "LFM2.5-8B-A1B",
    "qwen3": "Qwen-Qwen3-0.6B",
    "qwen3next": "Qwen3-Coder",
    "glm4moe": "GLM-4.6",
    "deepseek2, GLM": "GLM-4.7-Flash",
    "deepseek2": "deepseek-ai-DeepSeek-V3.1",
    "granitehybrid": "ibm-granite-granite-4.0",
    "nemotron_h": "NVIDIA-Nemotron-Nano-v2",
    "nemotron_h_moe": "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "mistral3": "mistralai-Ministral-3-14B-Reasoning-2512",
    "seed_oss": "ByteDance-Seed-OSS",
    "bailingmoe2": "inclusionai-ling-3.0-flash",
    "minimax-m2": "MiniMax-M2",
    "apertus": "Apertus-8B-Instruct",
}
"""Architectures of GGUF files → the template of a model of theirs."""


ENDS = ("<|call|>", "<|tool_response>", "\n<SPECIAL_12>", "<|END_OF_TURN_TOKEN|>", "[warm", "warm")
"""What families write behind a call, where it is not what ends an answer."""


def source_of(family):
    return (TEMPLATES / f"{FAMILIES[family]}.jinja").read_text(encoding="utf-8")


def end_of(source):
    """What the template writes behind an answer, up to where a line ends."""
    for options in OPTIONS:
        if (reply := Trials(source).answering("", options)) is not None:
            return reply.text.partition(ANSWER)[2].partition("\n")[0]
    return ""


def reasoned(source):
    """A reply that reasons and answers, and the options with which the template writes one; None without."""
    for options in OPTIONS[1:2] + OPTIONS[:1]:
        reply = Trials(source).answering(THOUGHT, options)
        if reply is not None and THOUGHT in reply.text:
            return reply.text.partition(ANSWER)[0] + ANSWER, options
    return None


def called(source):
    """A call as the template writes it, up to where its result begins."""
    begun = Trials(source).begun(tools=True)
    replies = (Trials(source).calling(1, "", options) for options in OPTIONS)
    reply = next(reply for reply in replies if reply is not None)
    assert begun.startswith(reply.prompt) or reply.prompt.startswith(begun)
    text = reply.text
    until = [at for mark in (end_of(source), *ENDS) if mark and (at := text.find(mark)) > 0]
    thought = "</think>\n\n" if begun.rstrip().endswith("<think>") else ""
    return thought + text[: min(until)]


def write(folder, source, reply, begun):
    """A model that replies so to the one question; `begun` is the prompt."""
    found = find_parsers(source)
    parsers = {"reasoning": found.reasoning, "tools": found.tools}
    line = ", ".join(f"{name}: {parser}" for name, parser in parsers.items() if parser)
    write_scripted_model(folder, [reply], graph=GRAPH.replace("reasoning: qwen3, tools: hermes", line))
    (folder / "chat_template.jinja").write_text(source, encoding="utf-8")
    script = json.loads((folder / "replies.script").read_text())
    script["opening"] = begun[begun.rfind(USER["content"]) :]
    (folder / "replies.script").write_text(json.dumps(script))


@pytest.mark.parametrize("family", after(4, FAMILIES))
def test_a_call_and_a_reasoning_reply(tmp_path, family):
    source = source_of(family)
    thoughtful = reasoned(source)
    write(tmp_path / "calls", source, called(source), Trials(source).begun(tools=True))
    if thoughtful is not None:
        write(tmp_path / "thinks", source, thoughtful[0], Trials(source).begun(thoughtful[1]))

    async def scene():
        body, choices = {"messages": [USER], "max_tokens": 400}, []
        asked = [{"model": "calls", "tools": TOOLS}]
        if thoughtful is not None:
            asked.append({"model": "thinks", "chat_template_kwargs": dict(thoughtful[1])})
        async with serving(tmp_path) as client:
            for more in asked:
                answer = await client.post("/v1/chat/completions", body | more)
                assert answer.status == 200, answer.body
                choices += answer.json["choices"]
        return choices

    calling, *thinking = asyncio.run(scene())
    tool_calls = calling["message"]["tool_calls"]
    assert [
        (tool_call["function"]["name"], json.loads(tool_call["function"]["arguments"]))
        for tool_call in tool_calls
    ] == [(FUNCTION, CALLED[0])]
    assert calling["finish_reason"] == "tool_calls"
    for choice in thinking:
        message = choice["message"]
        assert (message["reasoning"].strip(), message["content"].strip()) == (THOUGHT, ANSWER)
