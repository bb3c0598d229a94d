"""Chat templates get the parsers that read what they write, or none and a sentence that says so."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from pipelines.nodes.text.parser_search.search import Found, find_parsers
from pipelines.nodes.text.parsers.tables import REASONING, TOOLS
from pipelines.nodes.text.templates import trials
from pipelines.nodes.text.templates.trials import ANSWER, CALLED, CITIES, FUNCTION, OPTIONS, THOUGHT, Trials

HERE = Path(__file__).parents[1] / "templates"
PUBLIC = {
    "Apertus-8B-Instruct": ("apertus", "apertus"),
    "Apriel-1.6-15b-Thinker-fixed": ("apriel", "apriel"),
    "Bielik-11B-v3.0-Instruct": ("qwen3", "hermes"),
    "ByteDance-Seed-OSS": ("seed_oss", "seed_oss"),
    "Cohere2MoE": ("cohere_command4", "cohere_command4"),
    "CohereForAI-c4ai-command-r-plus-tool_use": (None, "command_r"),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": ("cohere_command3", "cohere_command3"),
    "GLM-4.6": ("glm45", "glm45"),
    "GLM-4.7-Flash": ("glm45", "glm45"),
    "GigaChat3-10B-A1.8B": (None, "gigachat3"),
    "GigaChat3.1-10B-A1.8B": (None, "gigachat31"),
    "HuggingFaceTB-SmolLM3-3B": ("qwen3", None),
    "Kimi-K2-Instruct": (None, "kimi_k2"),
    "Kimi-K2-Thinking": ("kimi_k2", "kimi_k2"),
    "Kimi-K3": (None, None),
    "LFM2-8B-A1B": (None, "lfm2"),
    "LFM2.5-8B-A1B": ("lfm2", "lfm2"),
    "LFM2.5-Instruct": ("lfm2", "lfm2"),
    "MiMo-VL": (None, "hermes"),
    "MiniMax-M1": (None, "minimax"),
    "MiniMax-M2": ("minimax_m2", "minimax_m2"),
    "MiniMax-M3": (None, None),
    "Mistral-Small-3.2-24B-Instruct-2506": (None, "mistral"),
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": ("qwen3", "qwen3_coder"),
    "NVIDIA-Nemotron-Nano-v2": ("qwen3", "nemotron_json"),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": (None, "hermes"),
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": (None, "hermes"),
    "Qwen-QwQ-32B": ("qwen3", "hermes"),
    "Qwen-Qwen2.5-7B-Instruct": (None, "hermes"),
    "Qwen-Qwen3-0.6B": ("qwen3", "hermes"),
    "Qwen3-Coder": (None, "qwen3_coder"),
    "Qwen3.5-4B": ("qwen3", "qwen3_coder"),
    "Reka-Edge": ("qwen3", "hermes"),
    "Spark2.5": ("glm45", "glm45"),
    "StepFun3.5-Flash": ("qwen3", "qwen3_coder"),
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": ("deepseek_v3", "deepseek_v3"),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": ("deepseek_v3", "deepseek_v3"),
    "deepseek-ai-DeepSeek-V3.1": ("deepseek_v3", "deepseek_v31"),
    "deepseek-ai-DeepSeek-V3.2": ("deepseek_v3", "deepseek_v32"),
    "deepseek-ai-DeepSeek-V4": ("deepseek_v3", "deepseek_v4"),
    "deepseek-ai-DeepSeek-V4-Flash-0731": ("deepseek_v3", "deepseek_v4"),
    "fireworks-ai-llama-3-firefunction-v2": (None, None),
    "google-gemma-2-2b-it": (None, None),
    "google-gemma-4-31B-it": ("gemma4", "gemma4"),
    "google-gemma-4-31B-it-interleaved": ("gemma4", "gemma4"),
    "ibm-granite-granite-3.3-2B-Instruct": ("granite33", "granite"),
    "ibm-granite-granite-4.0": (None, "hermes"),
    "ibm-granite-granite-4.1": (None, "hermes"),
    "inclusionai-ling-3.0-flash": ("glm45", "glm45"),
    "llama-cpp-deepseek-r1": ("deepseek_v3", "deepseek_v3"),
    "llama-cpp-rwkv-world": ("qwen3", None),
    "meetkai-functionary-medium-v3.1": (None, "functionary_v31"),
    "meetkai-functionary-medium-v3.2": (None, None),
    "meta-llama-Llama-3.1-8B-Instruct": (None, "llama3_json"),
    "meta-llama-Llama-3.2-3B-Instruct": (None, "llama3_json"),
    "meta-llama-Llama-3.3-70B-Instruct": (None, "llama3_json"),
    "microsoft-Phi-3.5-mini-instruct": (None, None),
    "mistralai-Ministral-3-14B-Reasoning-2512": ("mistral", "mistral"),
    "mistralai-Mistral-Nemo-Instruct-2407": (None, "mistral"),
    "moonshotai-Kimi-K2": (None, "kimi_k2"),
    "muse-glimmer": ("muse_glimmer", "muse_glimmer"),
    "openai-gpt-oss-120b": ("openai_gptoss", "openai"),
    "openbmb-MiniCPM5-1B": ("qwen3", "minicpm5"),
    "poolside-Laguna-S-2.1": ("glm45", "glm45"),
    "poolside-Laguna-XS-2.1": ("glm45", "glm45"),
    "poolside-Laguna-XS.2": ("glm45", "glm45"),
    "tencent-Hy3": (None, None),
    "unsloth-Apriel-1.5": ("apriel", "apriel"),
    "unsloth-mistral-Devstral-Small-2507": (None, "mistral"),
    "upstage-Solar-Open-100B": (None, None),
}
"""Template → its parsers of reasoning and of tool calls."""
UNREAD = {
    "Kimi-K3": ("tool calls", "reasoning"),
    "MiniMax-M3": ("tool calls", "reasoning"),
    "fireworks-ai-llama-3-firefunction-v2": ("refuses every conversation",),
    "meetkai-functionary-medium-v3.2": ("tool calls",),
    "tencent-Hy3": ("tool calls", "reasoning"),
    "upstage-Solar-Open-100B": ("tool calls", "reasoning"),
}
"""Template → words of its notes, for templates of which something has no parser."""
SMALL = yaml.safe_load((HERE / "small_templates.yaml").read_text(encoding="utf-8"))
QUICK = {
    "Apertus-8B-Instruct",
    "Apriel-1.6-15b-Thinker-fixed",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
    "GigaChat3-10B-A1.8B",
    "Kimi-K2-Thinking",
    "LFM2.5-Instruct",
    "deepseek-ai-DeepSeek-V3.2",
    "deepseek-ai-DeepSeek-V4",
    "google-gemma-4-31B-it",
    "ibm-granite-granite-3.3-2B-Instruct",
    "meetkai-functionary-medium-v3.1",
    "muse-glimmer",
    "openai-gpt-oss-120b",
    "openbmb-MiniCPM5-1B",
    "tencent-Hy3",
    "unsloth-Apriel-1.5",
}
"""Public templates of forms that need a parser of their own; the others are breadth."""


def cases(quick: Iterable[str]):
    return [
        name if name in quick else pytest.param(name, marks=pytest.mark.breadth) for name in [*PUBLIC, *SMALL]
    ]


def source_of(name: str) -> str:
    if name in SMALL:
        return str(SMALL[name]["template"])
    return (HERE / "public_templates" / f"{name}.jinja").read_text(encoding="utf-8")


def expected(name: str) -> tuple[str | None, str | None]:
    return PUBLIC.get(name) or (SMALL[name].get("reasoning"), SMALL[name].get("tools"))


def notes_of(name: str) -> tuple[str, ...]:
    return UNREAD.get(name, ()) if name in PUBLIC else tuple(filter(None, [SMALL[name].get("note")]))


def test_every_public_template_is_in_the_table():
    assert sorted(path.stem for path in (HERE / "public_templates").glob("*.jinja")) == sorted(PUBLIC)


@pytest.mark.parametrize("name", cases({*QUICK, *SMALL}))
def test_a_template_gets_its_parsers_or_a_sentence(name):
    found = find_parsers(source_of(name))
    assert (found.reasoning, found.tools) == expected(name)
    assert len(found.notes) == len(notes_of(name))
    for word, note in zip(notes_of(name), found.notes, strict=True):
        assert word in note
        assert len(note) < 300


def read(reasoning: str | None, tools: str | None, prompt: str, pieces: list[str]):
    """(reasoning, content, calls) of a reply that comes in pieces."""
    thinks = REASONING[reasoning](prompt, "held") if reasoning else None
    finds = TOOLS[tools](trials.TOOLS) if tools else None
    thought, said, calls = "", "", []
    for at, piece in enumerate([*pieces, ""]):
        final = at == len(pieces)
        part, content = thinks.push(piece, final=final) if thinks else ("", piece)
        content, called = finds.push(content, final=final) if finds else (content, [])
        thought, said = thought + part, said + content
        for piece_of_call in called:
            if piece_of_call.name is not None:
                calls.append([piece_of_call.name, ""])
            calls[-1][1] += piece_of_call.arguments
    return thought.strip(), said, [(called_tool, json.loads(arguments)) for called_tool, arguments in calls]


@pytest.mark.parametrize("name", cases(("LFM2.5-8B-A1B", "GLM-4.6", "muse-glimmer", "command-a-reasoning")))
def test_what_a_template_writes_is_read_whole_and_in_pieces(name):
    reasoning, tools = expected(name)
    if not (reasoning or tools):
        pytest.skip("it has no parsers")
    tried = Trials(source_of(name))
    for options in OPTIONS:
        for reply in (tried.calling(1, THOUGHT, options), tried.answering(THOUGHT, options)):
            if reply is None:
                continue
            whole = read(reasoning, tools, reply.prompt, [reply.text])
            assert whole == read(reasoning, tools, reply.prompt, list(reply.text))
            if reasoning and THOUGHT in reply.text:
                assert whole[0] == THOUGHT
                assert THOUGHT not in whole[1]
            if FUNCTION in reply.text and tools:
                assert whole[2] == [(FUNCTION, CALLED[0])]
                assert CITIES[0] not in whole[1]
            if ANSWER in reply.text and THOUGHT in reply.text:
                assert ANSWER in whole[1]


def test_an_answer_of_a_model_that_need_not_reason_is_content():
    """LFM2.5's template has `</think>`, to cut earlier replies, but begins no reply inside of reasoning."""
    parsers = find_parsers(source_of("LFM2.5-Instruct"))
    prompt = Trials(source_of("LFM2.5-Instruct")).begun()
    for text in ("Paris", "Paris.\n\nIt is in France."):
        assert read(parsers.reasoning, parsers.tools, prompt, list(text)) == ("", text, [])
    call = "<|tool_call_start|>[quokka_lookup(city='Oslo', days=2)]<|tool_call_end|>"
    arguments = {"city": "Oslo", "days": 2}
    assert read(parsers.reasoning, parsers.tools, prompt, [f"<think>Look.</think>{call}"]) == (
        "Look.",
        "",
        [(FUNCTION, arguments)],
    )


def test_a_template_for_tools_shows_the_calls():
    calls = source_of("Qwen-Qwen2.5-7B-Instruct")
    assert find_parsers(source_of("smollm2"), calls) == Found(None, "hermes")


def test_a_marker_in_a_comment_or_a_word_of_the_user_is_no_evidence():
    plain = source_of("smollm2")
    assert find_parsers("{# <tool_call> <think> </think> #}" + plain) == Found()
    assert find_parsers(plain + "{% if '<tool_call>' in messages[0].content %}x{% endif %}") == Found()
