"""A closing marker without an opening one: what came before it is reasoning, as in vLLM."""

import pytest
from every_case import every_case

from pipelines.nodes.text.parsers.tables import REASONING

ENDED = "<|im_start|>assistant\n"
CLOSED = ENDED + "<think>\n\n</think>\n\n"
THINK = ("qwen3", "glm45", "kimi_k2", "deepseek_v3", "olmo3")
OTHERS = ("mistral", "granite", "gemma4", "hunyuan_a13b")
CASES = {
    "closed": ("Two and two.\n</think>\n\nFour.", "Two and two.", "Four."),
    "opened": ("<think>\nTwo.\n</think>\n\nFour.", "Two.", "Four."),
    "opened, and a second closing marker": ("<think>Two.</think>Four </think>.", "Two.", "Four </think>."),
    "closed twice": ("Two.</think>Four </think> five.", "Two.", "Four </think> five."),
    "closed at once": ("\n</think>\n\nFour.", "", "Four."),
    "nothing but the marker": ("</think>", "", ""),
    "nothing after it": ("Two.</think>", "Two.", ""),
    "never closed": ("Four is <2> and </thin", "", "Four is <2> and </thin"),
    "blank": (" \n", "", " \n"),
    "an opening marker in content": ("Well. <think>x</think>y", "", "Well. <think>x</think>y"),
}
STREAMED = {
    "closed": "Two and two.\nFour.",
    "closed twice": "Two.Four </think> five.",
    "nothing after it": "Two.",
}
"""Content of a stream, where no text waits."""


def parse(name, prompt, pieces, unopened):
    parser = REASONING[name](prompt, unopened)
    out = [parser.push(piece) for piece in pieces] + [parser.push("", final=True)]
    return "".join(r for r, _ in out), "".join(c for _, c in out)


@every_case("name", THINK)
@every_case("case", CASES)
def test_text_that_waits_becomes_reasoning_or_content(name, case):
    text, reasoning, content = CASES[case]
    assert parse(name, ENDED, list(text), "held") == (reasoning, content)
    for at in range(len(text) + 1):
        assert parse(name, ENDED, [text[:at], text[at:]], "held") == (reasoning, content), at


@every_case("case", CASES)
def test_of_a_stream_the_marker_is_removed(case):
    """What was sent cannot be taken back; nothing that was opened differs."""
    text, reasoning, content = CASES[case]
    wanted = ("", STREAMED[case]) if case in STREAMED else (reasoning, content)
    assert parse("qwen3", ENDED, list(text), "shown") == wanted
    for at in range(len(text) + 1):
        assert parse("qwen3", ENDED, [text[:at], text[at:]], "shown") == wanted, at


def test_of_a_stream_text_is_content_at_once():
    parser = REASONING["qwen3"](ENDED, "shown")
    assert [parser.push(piece) for piece in ("Four", " is")] == [("", "Four"), ("", " is")]
    assert parser.over


def test_a_tool_call_settles_what_came_before_it():
    text = 'Look: <tool_call>\n{"text": "</think>"}'
    for unopened in ("held", "shown"):
        assert parse("qwen3", ENDED, list(text), unopened) == ("", text)


@pytest.mark.parametrize("unopened", ["held", "shown"])
def test_a_prompt_that_closed_the_reasoning_leaves_none(unopened):
    assert parse("qwen3", CLOSED, ["Four </think> five."], unopened) == ("", "Four </think> five.")


@every_case("name", OTHERS)
def test_other_families_open_what_they_close(name):
    markers = {"mistral": "[/THINK]", "granite": "Here is my response:", "gemma4": "<channel|>"}
    text = f"Two.{markers.get(name, '</think>')}Four."
    assert parse(name, "", list(text), "held") == ("", text)
