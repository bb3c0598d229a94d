"""Every family's transcripts, whole and split at every character."""

import pytest
from breadth import after
from every_case import every_case
from newer_transcripts import THOUGHTS as NEWER
from patience import least_cpu_s

from pipelines.nodes.text.parsers.tables import IN_SPECIAL_TOKENS, REASONING, SPANS

pytestmark = pytest.mark.slow

HI = "<|start|>assistant<|channel|>final<|message|>hi"
BROKEN_HEADERS = [
    f"<|channel|>??<|end|><|start|>assistant<|channel|>analysis<|message|>think<|end|>{HI}",
    f"<|channel|>commentary?commentary?<|channel|>analysis<|message|>think<|end|>{HI}",
    f"<|channel|>{'commentary?' * 40}<|channel|>analysis<|message|>think<|end|>{HI}",
    f"<|channel|>analysis<|message|>think<|start|>assistant to=assistant<|channel|>?<|end|>{HI}",
    f"<|channel|>analysis<|message|>think{HI}",
    "<|channel|>analysis<|message|>think<|channel|>final<|message|>hi",
]
TRANSCRIPTS = [
    *NEWER,
    ("deepseek_r1", "", "Two and two.\n</think>\n\nFour.", "Two and two.", "Four."),
    ("deepseek_r1", "", "<think>\nTwo.\n</think>\n\nFour.", "Two.", "Four."),
    ("deepseek_r1", "<｜Assistant｜><think>\n", "Two <think> two.</think>Four.", "Two <think> two.", "Four."),
    ("deepseek_r1", "", "Two <think> two.</think>Four.", "Two <think> two.", "Four."),
    ("deepseek_r1", "<｜Assistant｜></think>", "Four </think> five.", "", "Four </think> five."),
    ("deepseek_r1", "", "never closed", "never closed", ""),
    ("deepseek_r1", "", "half </thi", "half </thi", ""),
    ("deepseek_v3", "<｜Assistant｜></think>", "Four.", "", "Four."),
    ("deepseek_v3", "<｜Assistant｜><think>", "Two.</think>Four.", "Two.", "Four."),
    ("minimax_m2", "]~b]ai\n<think>\n", "Two.\n</think>\n\nFour.", "Two.", "Four."),
    ("minimax_m2", "", "Two.\n</think>\n\n<minimax:tool_call>", "Two.", "<minimax:tool_call>"),
    ("qwen3", "", "<think>\nTwo.\n<tool_call>\n{", "Two.", "<tool_call>\n{"),
    ("glm45", "<|assistant|>\n<think></think>\n", "Four.", "", "Four."),
    ("glm45", "<|assistant|>", "\n<think>Two.</think>\nFour.", "Two.", "Four."),
    ("glm45", "<|assistant|>", "<think>Two.\n<tool_call>f", "Two.", "<tool_call>f"),
    ("kimi_k2", "", "<think>Two.</think>Four.", "Two.", "Four."),
    (
        "kimi_k2",
        "",
        "<think>Two.<|tool_calls_section_begin|>x",
        "Two.",
        "<|tool_calls_section_begin|>x",
    ),
    ("olmo3", "<|im_start|>assistant\n<think>", "Two.</think>Four.", "Two.", "Four."),
    ("seed_oss", "", "<seed:think>\nTwo.</seed:think>Four.", "Two.", "Four."),
    (
        "seed_oss",
        "",
        "<seed:think>\n<seed:cot_budget_reflect>x</seed:cot_budget_reflect>\ny</seed:think>z",
        "<seed:cot_budget_reflect>x</seed:cot_budget_reflect>\ny",
        "z",
    ),
    ("mistral", "[/INST]", "[THINK]Two.[/THINK]Four.", "Two.", "Four."),
    ("mistral", "[/INST]", "Four [THINK] x", "", "Four [THINK] x"),
    (
        "granite",
        "",
        "Here is my thought process:\nTwo.\n\nHere is my response:\nFour.",
        "Two.",
        "Four.",
    ),
    ("granite", "", "Here's my thought process: Two. Here's my response: Four.", " Two. ", " Four."),
    ("granite", "", "Here is my thought failure", "", "Here is my thought failure"),
    (
        "openai_gptoss",
        "<|start|>assistant",
        "<|channel|>analysis<|message|>Two.<|end|><|start|>assistant<|channel|>final<|message|>Four.<|return|>",
        "Two.",
        "Four.",
    ),
    (
        "openai_gptoss",
        "<|start|>assistant",
        "<|channel|>analysis<|message|>Two.<|end|><|start|>assistant<|channel|>commentary<|message|>Look:<|end|>"
        "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
        "Two.",
        "Look:<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
    ),
    ("openai_gptoss", "", "<|channel|>analysis<|message|>Two.", "Two.", ""),
    ("openai_gptoss", "", "<|channel|>final<|message|>2 <| 3", "", "2 <| 3"),
    ("openai_gptoss", "", "<|channel|>ana", "", ""),
    ("openai_gptoss", "", "plain " * 50, "", "plain " * 50),
    ("openai_gptoss", "", "plain " * 50 + "<|message|>a<|end|>b", "", "plain " * 50 + "ab"),
    *(("openai_gptoss", "", text, "think", "hi") for text in BROKEN_HEADERS),
    ("openai_gptoss", "", "<|start|>assistant", "", ""),
    ("openai_gptoss", "", "set x to=5", "", "set x to=5"),
    ("openai_gptoss", "", "set x to=5<|end|>", "", "set x to=5"),
    ("openai_gptoss", "", f"Hi <|channel|>analysis<|message|>think{HI}", "think", "Hihi"),
    ("openai_gptoss", "", f"<|channel|>analysis to=python code<|message|>think<|call|>{HI}", "think", "hi"),
    ("gemma4", "<|turn>model\n", "<|channel>thought\nTwo.\n<channel|>Four.", "Two.", "Four."),
    ("gemma4", "<|turn>model\n", "<|channel>thought\n<channel|>Four.", "", "Four."),
    ("gemma4", "<|channel>thought\n<channel|>", "Four.", "", "Four."),
    ("gemma4", "", "<|channel>thought\nTwo.<|tool_call>call:f{}", "Two.", "<|tool_call>call:f{}"),
    (
        "ernie45",
        "",
        "Two.\n</think>\n\n<response>\nFour.\n\nFive.\n</response>\n",
        "Two.",
        "Four.\n\nFive.",
    ),
    ("ernie45", "", "Two.</think>Four.\n", "Two.", "Four.\n"),
    ("ernie45", "", "Two.</think>\n\n<tool_call>\n{}", "Two.", "<tool_call>\n{}"),
    ("ernie45", "", "Two.</think>Four <response>.", "Two.", "Four <response>."),
    ("ernie45", "", "Two.</think><response>Four.</respo", "Two.", "Four.</respo"),
    ("hunyuan_a13b", "", "<think>\nTwo.\n</think>\n<answer>\nFour.\n</answer>", "Two.", "Four."),
    ("hunyuan_a13b", "", "<think>\n\n</think>\n<answer>\nFour.", "", "Four."),
    ("hunyuan_a13b", "", "Four.", "", "Four."),
]
NAMES = [f"{name}-{at}" for at, (name, *_) in enumerate(TRANSCRIPTS)]


def parse(name, prompt, pieces):
    parser = REASONING[name](prompt)
    out = [parser.push(piece) for piece in pieces] + [parser.push("", final=True)]
    return "".join(r for r, _ in out), "".join(c for _, c in out)


@every_case(("name", "prompt", "text", "reasoning", "content"), TRANSCRIPTS)
def test_whole(name, prompt, text, reasoning, content):
    assert parse(name, prompt, [text]) == (reasoning, content)
    assert parse(name, prompt, list(text)) == (reasoning, content)


@every_case(("name", "prompt", "text", "reasoning", "content"), TRANSCRIPTS)
def test_split_at_every_character(name, prompt, text, reasoning, content):
    for at in range(len(text) + 1):
        assert parse(name, prompt, [text[:at], text[at:]]) == (reasoning, content), at


@pytest.mark.parametrize("step", after(1, [5, 1]))
@every_case(("name", "prompt", "text", "reasoning", "content"), TRANSCRIPTS)
def test_cut_at_every_character(name, prompt, text, reasoning, content, step):
    """What is given of the beginning of a text is what its characters give one by one, and no more than it."""
    for at in range(len(text), -1, -step):
        thought, said = parse(name, prompt, [text[:at]])
        assert parse(name, prompt, list(text[:at])) == (thought, said), at
        assert len(thought) + len(said) <= at


@every_case(("name", "prompt", "text", "reasoning", "content"), TRANSCRIPTS)
def test_nothing_is_reasoning_once_it_is_over(name, prompt, text, reasoning, content):
    parser = REASONING[name](prompt)
    for char in text:
        over = parser.over
        thought, _ = parser.push(char)
        assert not over or (parser.over and not parser.inside and not thought)


@every_case(("name", "prompt", "text", "reasoning", "content"), TRANSCRIPTS)
def test_reasoning_grows_only_where_the_parser_is_inside(name, prompt, text, reasoning, content):
    parser = REASONING[name](prompt)
    for char in text:
        before = parser.inside
        thought, _ = parser.push(char)
        assert not thought or before or parser.inside


@every_case("name", SPANS)
def test_a_span_s_marks_open_and_close_what_the_parser_calls_reasoning(name):
    span = SPANS[name]("")
    parser = REASONING[name]("")
    assert parser.inside is span.opened
    parser.push(span.start + "\nTwo.")
    assert parser.inside
    parser.push(span.end)
    assert not parser.inside


def test_a_prompt_says_whether_reasoning_stands_open():
    assert SPANS["qwen3"]("<think>\n").opened
    assert not SPANS["qwen3"]("assistant\n").opened
    assert SPANS["qwen3"]("<think>\n\n</think>\n\n") is None
    assert SPANS["ernie45"]("").opened


def test_every_family_has_a_transcript():
    assert {name for name, *_ in TRANSCRIPTS} == set(REASONING)


@every_case("name", REASONING)
def test_long_texts_in_single_characters_take_linear_time(name):
    def read(prompt):
        parser = REASONING[name](prompt)
        for _ in range(4_000):
            parser.push("x")
        parser.push("", final=True)

    for prompt in ("", "<think>"):
        assert least_cpu_s(lambda prompt=prompt: read(prompt), 0.2) < 0.2


def test_names_whose_marks_are_special_tokens_are_names_of_parsers():
    assert set(REASONING) > IN_SPECIAL_TOKENS
    assert {"mistral", "gemma4", "openai_gptoss"} <= IN_SPECIAL_TOKENS
    assert "qwen3" not in IN_SPECIAL_TOKENS


LINES = "\n" * 250
LATE_HEADERS = [
    ("openai_gptoss", f"{LINES}<|channel|>analysis<|message|>think<|end|>{HI}", "think", "hi"),
    ("openai_gptoss", f"<|channel|>analysis<|message|>think<|end|>{LINES}{HI}", "think", "hi"),
    ("openai_gptoss", f"<|channel|>{LINES}analysis{LINES}<|message|>think<|end|>{HI}", "think", "hi"),
    ("openai_gptoss", f"{'x' * 195}<|channel|>final<|message|>hi", "", "x" * 195 + "hi"),
    ("muse_glimmer", f"{LINES} to=self<|message|>think<|eom|>", "think", ""),
]


@every_case(("name", "text", "reasoning", "content"), LATE_HEADERS)
@every_case("size", [1, 3, 64, 1000])
def test_a_header_may_come_late(name, text, reasoning, content, size):
    """White space before it is no text, and half a marker is no plain text."""
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert parse(name, "", pieces) == (reasoning, content)
