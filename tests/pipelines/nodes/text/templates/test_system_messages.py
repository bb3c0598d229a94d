"""System messages that come later: where a template takes them, else in the user's turn beside them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import yaml

from pipelines.nodes.text.templates.jinja_template import Template
from pipelines.nodes.text.templates.system_messages import SystemForms, place_systems

FOLDER = Path(__file__).parent / "public_templates"
SMALL = yaml.safe_load((FOLDER.parent / "small_templates.yaml").read_text(encoding="utf-8"))
QUICK = (
    "Qwen3.5-4B",
    "Qwen-Qwen2.5-7B-Instruct",
    "Mistral-Small-3.2-24B-Instruct-2506",
    "meta-llama-Llama-3.1-8B-Instruct",
    "openai-gpt-oss-120b",
    "deepseek-ai-DeepSeek-V3.1",
    "gemma-3",
)
"""Templates that raise, that write the message in its place, in the first place, and not at all."""
REFUSING = (
    "Kimi-K2-Instruct",
    "Kimi-K2-Thinking",
    "fireworks-ai-llama-3-firefunction-v2",
    "google-gemma-2-2b-it",
    "llama-cpp-deepseek-r1",
    "never-compiles",
    "refuses-all",
)
"""Templates that take no conversation with calls."""
MOVING = ("mistralai-Mistral-Nemo-Instruct-2407",)
"""Templates that write the first system message at the end."""
OF_CALLS = ("vellichor", "zephyrine")
"""The words of a call and its result, which templates without tools leave out."""
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
NONE_LATER = SystemForms(frozenset({"system"}), frozenset())
NO_SYSTEM = SystemForms(frozenset(), frozenset())


def said(role, content, **more):
    return {"role": role, "content": content, **more}


def roles(messages, forms):
    return [(each["role"], each["content"]) for each in place_systems(messages, forms)]


def test_a_later_system_message_joins_the_question_before_it():
    messages = [said("system", "s"), said("user", "a"), said("system", "b"), said("assistant", "c")]
    assert roles(messages, NONE_LATER) == [("system", "s"), ("user", "a\n\nb"), ("assistant", "c")]


def test_behind_a_reply_it_joins_the_next_question():
    messages = [said("user", "a"), said("assistant", "b"), said("developer", "c"), said("user", "d")]
    assert roles(messages, NONE_LATER)[2:] == [("user", "c\n\nd")]


def test_beside_no_question_it_is_one():
    messages = [said("user", "a"), said("assistant", "b"), said("tool", "c"), said("system", "d")]
    assert roles(messages, NONE_LATER)[2:] == [("tool", "c"), ("user", "d")]


def test_it_is_a_part_beside_parts():
    image = {"type": "image"}
    messages = [said("user", [image]), said("system", [{"type": "text", "text": "b"}])]
    assert roles(messages, NONE_LATER) == [("user", [image, {"type": "text", "text": "b"}])]


def test_without_a_system_role_only_the_first_stands_in_front():
    messages = [said("system", "s"), said("user", "a"), said("assistant", "b"), said("system", "c")]
    assert roles(messages, NO_SYSTEM) == [("user", "s\n\na"), ("assistant", "b"), ("user", "c")]


def test_two_at_the_start_are_one_where_no_second_is_taken():
    messages = [said("system", "a"), said("system", "b"), said("user", "c")]
    assert roles(messages, NONE_LATER) == [("system", "a\n\nb"), ("user", "c")]
    assert roles(messages, SystemForms()) == [("system", "a"), ("system", "b"), ("user", "c")]


def test_a_later_developer_s_message_is_the_system_s_where_that_is_taken():
    messages = [said("user", "a"), said("developer", "b")]
    assert roles(messages, SystemForms()) == [("user", "a"), ("system", "b")]


WORDS = ["brieflet", "quotidian", "sabulous", "vellichor", "zephyrine", "gossamer", "marmoreal", "halcyon"]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "description": "A city"}}}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "look", "description": "Looks", "parameters": PARAMETERS},
    }
]


def call(city):
    return {
        "id": "call00001",
        "type": "function",
        "function": {"name": "look", "arguments": {"city": city}},
    }


def conversations():
    """The prompts of an agent's session: each is the one before, and more."""
    words = iter(WORDS)
    turns = [
        [said("system", next(words)), said("user", next(words)), said("system", next(words))],
        [
            said("assistant", None, tool_calls=[call(next(words))]),
            said("tool", next(words), tool_call_id="call00001", name="look"),
            said("system", next(words)),
        ],
        [said("assistant", next(words)), said("user", next(words))],
    ]
    return list(itertools.accumulate(turns))


def prompts(template, tools):
    return [template.render(messages, tools, False, False, {}) for messages in conversations()]


NAMES = sorted(({path.stem for path in FOLDER.glob("*.jinja")} | {*SMALL}) - {*REFUSING, *MOVING})


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.breadth) for name in NAMES]
)
def test_public_templates_write_every_message_in_its_place(name):
    source = SMALL[name]["template"] if name in SMALL else (FOLDER / f"{name}.jinja").read_text()
    written = prompts(Template(source, SPECIAL), TOOLS)[-1]
    messages = [word for word in WORDS if word not in OF_CALLS or word in written]
    places = [written.find(word) for word in messages]
    assert -1 not in places
    assert places == sorted(places)


def test_what_the_user_says_behind_a_result_ends_it_where_a_template_refuses_it():
    source = (FOLDER / "mistralai-Mistral-Nemo-Instruct-2407.jinja").read_text()
    template = Template(source, SPECIAL)
    assert not template.forms.systems.user_after_results
    assert not template.forms.systems.later
    messages = [said("user", "a"), said("assistant", "", tool_calls=[call("Oslo")])]
    messages += [
        said("tool", "cold", tool_call_id="call00001"),
        said("user", [{"type": "text", "text": "b"}]),
    ]
    assert "cold\n\nb" in template.render(messages, TOOLS, True, False, {})
