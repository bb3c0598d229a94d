"""One call and one reasoning reply of each family of models, as its own template writes them, over HTTP.

The parsers are those that are found for the template.  Where a template only tells the model what to write,
as it does of most reasoning, the reply is in INSTRUCTED.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml
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

TEMPLATES = Path(__file__).parents[3] / "pipelines" / "nodes" / "text" / "templates"
SMALL = yaml.safe_load((TEMPLATES / "small_templates.yaml").read_text(encoding="utf-8"))
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
    "granite": "ibm-granite-granite-3.3-2B-Instruct",
    "granitemoe": "granite-3.1",
    "cohere2": "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
    "cohere2, Command A": "command-a-reasoning",
    "cohere2, a mixture": "Cohere2MoE",
    "deepseek2, Kimi": "moonshotai-Kimi-K2",
    "deepseek2, Kimi that reasons": "Kimi-K2-Thinking",
    "deepseek2, GigaChat": "GigaChat3.1-10B-A1.8B",
    "gemma3": "functiongemma",
    "exaone4": "exaone-4",
    "olmo2": "olmo-3-think",
    "hunyuan-moe": "hunyuan-a13b",
    "ernie4_5-moe": "ernie-4.5-thinking",
    "falcon-h1": "falcon-h1",
    "jamba": "jamba-1.5",
    "lfm2": "LFM2-8B-A1B",
    "llama, Mistral 7B": "mistral-7b-v3",
    "llama, Mistral Small": "Mistral-Small-3.2-24B-Instruct-2506",
    "llama4": "llama-4",
    "phi3": "phi-4-mini-functools",
    "llama, Apriel": "unsloth-Apriel-1.5",
}
"""Architectures of GGUF files → the template of a model of theirs."""
AS_JSON = json.dumps(CALLED[0])
TAGGED = f'<tool_call>\n{{"name": "{FUNCTION}", "arguments": {AS_JSON}}}\n</tool_call>'
LISTED = f'[{{"name": "{FUNCTION}", "arguments": {AS_JSON}}}]'
IN_PYTHON = f'[{FUNCTION}(city="{CALLED[0]["city"]}", days={CALLED[0]["days"]})]'
INSTRUCTED = {
    "granite": (f"<|tool_call|>{LISTED}", f"<think>{THOUGHT}</think>\n<response>{ANSWER}</response>"),
    "granitemoe": (f"<|tool_call|>{LISTED}", None),
    "cohere2": (
        None,
        f"<|START_THINKING|>{THOUGHT}<|END_THINKING|><|START_RESPONSE|>{ANSWER}<|END_RESPONSE|>",
    ),
    "deepseek2, Kimi that reasons": (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{FUNCTION}:0"
        f"<|tool_call_argument_begin|>{AS_JSON}<|tool_call_end|><|tool_calls_section_end|>",
        f"<think>{THOUGHT}</think>{ANSWER}",
    ),
    "exaone4": (None, f"{THOUGHT}\n</think>\n\n{ANSWER}"),
    "olmo2": (None, f"{THOUGHT}</think>{ANSWER}"),
    "hunyuan-moe": (None, f"<think>\n{THOUGHT}\n</think>\n<answer>\n{ANSWER}\n</answer>"),
    "falcon-h1": (TAGGED, None),
    "lfm2": (f"<|tool_call_start|>{IN_PYTHON}<|tool_call_end|>", None),
    "llama, Mistral 7B": (f"[TOOL_CALLS] {LISTED}", None),
    "phi3": (f"functools{LISTED}", None),
}
"""Architecture → a call and a reply that reasons, None where the template writes it or the family does not."""


ENDS = ("<|call|>", "<|tool_response>", "\n<SPECIAL_12>", "<|END_OF_TURN_TOKEN|>", "[warm", "warm")
"""What families write behind a call, where it is not what ends an answer."""


def source_of(family):
    name = FAMILIES[family]
    if name in SMALL:
        return SMALL[name]["template"]
    return (TEMPLATES / "public_templates" / f"{name}.jinja").read_text(encoding="utf-8")


def end_of(source):
    """What the template writes behind an answer, up to where a line ends."""
    for options in OPTIONS:
        if (reply := Trials(source).answering("", options)) is not None:
            return reply.text.partition(ANSWER)[2].partition("\n")[0]
    return ""


def reasoned(family, source):
    """A reply that reasons and answers, and the options with which the template writes one; None without."""
    if instructed := INSTRUCTED.get(family, (None, None))[1]:
        return instructed, OPTIONS[1]
    for options in OPTIONS[1:2] + OPTIONS[:1]:
        reply = Trials(source).answering(THOUGHT, options)
        if reply is not None and THOUGHT in reply.text:
            return reply.text.partition(ANSWER)[0] + ANSWER, options
    return None


def called(family, source):
    """A call as the template writes it, up to where its result begins."""
    if instructed := INSTRUCTED.get(family, (None, None))[0]:
        return instructed
    begun = Trials(source).begun(tools=True)
    replies = (Trials(source).calling(1, "", options) for options in OPTIONS)
    reply = next(reply for reply in replies if reply is not None)
    assert begun.startswith(reply.prompt) or reply.prompt.startswith(begun)
    text = reply.text
    until = [at for mark in (end_of(source), *ENDS) if mark and (at := text.find(mark)) > 0]
    thinks = begun.rstrip().endswith("<think>") and "</think>" not in text
    thought = "</think>\n\n" if thinks else ""
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
    thoughtful = reasoned(family, source)
    write(tmp_path / "calls", source, called(family, source), Trials(source).begun(tools=True))
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
