"""Templates take how much a model is to reason by their own names and levels; each level of a request is one of them."""

import pytest
from test_public_templates import FOLDER, NAMES, NEVER_RENDERED, SMALL, TOOLS

from pipelines.nodes.text.templates.jinja_template import Template
from pipelines.nodes.text.templates.thinking_forms import LEVELS

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
ASKED = [{"role": "user", "content": "Good day"}]

EFFORTS = {
    "tencent-Hy3": {"none": "no_think", "minimal": "low", "medium": "high", "xhigh": "high", "max": "high"},
    "Kimi-K3": {"none": None, "minimal": "low", "medium": "high", "xhigh": "max"},
    "openai-gpt-oss-120b": {"none": "low", "minimal": "low", "xhigh": "high", "max": "high"},
    "muse-glimmer": {"none": "low", "minimal": "low", "xhigh": "high", "max": "high"},
    "deepseek-ai-DeepSeek-V4": {"none": None},
    "deepseek-ai-DeepSeek-V4-Flash-0731": {"none": None, "xhigh": "max"},
    "upstage-Solar-Open-100B": {"none": "minimal"},
}
"""Template → the levels that it has not, and what stands for them; None: nothing, as reasoning is switched off."""
NAMES_OF_EFFORT = {"Kimi-K3": "thinking_effort", "muse-glimmer": "reasoning_strength"}
SWITCHES = {
    "MiniMax-M3": ({"thinking_mode": "disabled"}, {"thinking_mode": "enabled"}),
    "ByteDance-Seed-OSS": ({"thinking_budget": 0}, {}),
    "Kimi-K3": ({"thinking": False}, {"thinking": True}),
    "ibm-granite-granite-3.3-2B-Instruct": ({}, {"thinking": True}),
    "deepseek-ai-DeepSeek-V3.1": ({"thinking": False}, {"thinking": True}),
    "Qwen-Qwen3-0.6B": ({"enable_thinking": False}, {}),
    "Cohere2MoE": ({"reasoning": False}, {"reasoning": True}),
    "tencent-Hy3": ({"reasoning_effort": "no_think"}, {"reasoning_effort": "high"}),
}
"""Template → the variables of its own for no reasoning and for reasoning."""


def template_of(name):
    path = FOLDER / f"{name}.jinja"
    source = SMALL[name]["template"] if name in SMALL else path.read_text(encoding="utf-8")
    return Template(source, SPECIAL)


def rendered(template, given, tools=None):
    return template.render(ASKED, tools, True, continue_final_message=False, kwargs=given)


def as_it_is(template, given):
    """The prompt of variables that nothing changes."""
    return template._prompt(ASKED, None, add_generation_prompt=True, kwargs=given, end_s=1e9)


def of_level(level):
    return {"reasoning_effort": level, "enable_thinking": level != "none"}


@pytest.mark.parametrize("name", EFFORTS)
def test_a_level_is_the_nearest_that_the_template_has(name):
    template, variable = template_of(name), NAMES_OF_EFFORT.get(name, "reasoning_effort")
    for level in LEVELS:
        word = EFFORTS[name].get(level, level)
        thinks = level != "none"
        own = {"thinking": thinks, "enable_thinking": thinks, "reasoning": thinks}
        own |= {} if word is None else {variable: word}
        assert rendered(template, of_level(level)) == as_it_is(template, own), level
        assert template.thinking.efforts[variable][level] == word


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_has_the_name_that_the_template_reads(name):
    template = template_of(name)
    prompts = [as_it_is(template, own) for own in SWITCHES[name]]
    assert prompts[0] != prompts[1]
    for switch in ("enable_thinking", "thinking"):
        assert [rendered(template, {switch: thinks}) for thinks in (False, True)] == prompts


def test_without_a_switch_a_level_switches_reasoning():
    template = template_of("tencent-Hy3")
    off, low, high = (as_it_is(template, {"reasoning_effort": word}) for word in ("no_think", "low", "high"))
    assert rendered(template, {}) == off
    assert rendered(template, {"reasoning_effort": "low", "enable_thinking": True}) == low
    assert rendered(template, {"reasoning_effort": "high", "enable_thinking": False}) == off
    assert rendered(template, {"reasoning_effort": "none", "enable_thinking": True}) == high


def test_a_model_that_cannot_stop_reasoning_is_left_at_its_level():
    template = template_of("openai-gpt-oss-120b")
    assert rendered(template, {"enable_thinking": False}) == rendered(template, {})
    high = as_it_is(template, {"reasoning_effort": "high"})
    assert rendered(template, {"enable_thinking": False, "reasoning_effort": "high"}) == high


def test_words_of_the_template_and_of_no_level_stay_as_they_are():
    template = template_of("openai-gpt-oss-120b")
    assert "Reasoning: utmost\n" in rendered(template, {"reasoning_effort": "utmost"})
    template = template_of("tencent-Hy3")
    low = as_it_is(template, {"reasoning_effort": "low"})
    assert rendered(template, {"reasoning_effort": "low"}) == low
    off = as_it_is(template, {"reasoning_effort": "no_think"})
    assert rendered(template, {"reasoning_effort": "no_think"}) == off
    kimi = template_of("Kimi-K3")
    both = rendered(kimi, {"enable_thinking": False, "thinking": True})
    assert both == rendered(kimi, {"thinking": True})


@pytest.mark.breadth
@pytest.mark.parametrize("name", [name for name in NAMES if name not in NEVER_RENDERED])
def test_every_template_takes_every_level(name):
    template, tools = template_of(name), TOOLS if "tool_use" in name else None
    for level in LEVELS:
        for asked in (of_level(level), {"reasoning_effort": level}):
            assert rendered(template, asked, tools)
    for thinks in (False, True):
        prompts = {rendered(template, {name: thinks}, tools) for name in ("enable_thinking", "thinking")}
        assert len(prompts) == 1


def test_what_was_found_is_shown():
    notes = [*template_of("tencent-Hy3").thinking.notes()]
    assert notes == [
        "chat template: reasoning_effort none as no_think, minimal as low, low, medium as high, high, xhigh as high, "
        "max as high"
    ]
    assert [*template_of("Qwen-Qwen3-0.6B").thinking.notes()] == []
