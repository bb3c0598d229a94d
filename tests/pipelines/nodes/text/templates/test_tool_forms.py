"""Tools, calls and roles in what templates take: public templates, each with every way to leave something out."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_public_templates import NEVER_RENDERED, SPECIAL

from pipelines.nodes.text.templates.earlier_calls import CallForms, conform_calls
from pipelines.nodes.text.templates.jinja_template import Template
from pipelines.nodes.text.templates.tool_forms import conform_tools

FOLDER = Path(__file__).parent / "public_templates"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jinja"))
NEEDS = {
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": ("description", "parameters", "properties"),
    "Apertus-8B-Instruct": ("description",),
    "openai-gpt-oss-120b": ("description",),
    "ByteDance-Seed-OSS": ("parameters",),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": ("parameters",),
    "Qwen3.5-4B": (),
}
CALLS = {
    "mistralai-Mistral-Nemo-Instruct-2407": CallForms(needs_ids=True, short_ids=True),
    "unsloth-Apriel-1.5": CallForms(needs_ids=True),
    "meta-llama-Llama-3.1-8B-Instruct": CallForms(one_by_one=True),
    "openai-gpt-oss-120b": CallForms(one_by_one=True),
    "google-gemma-2-2b-it": CallForms(),
    "Qwen3.5-4B": CallForms(),
}
QUICK = sorted({*NEEDS, *CALLS})
"""Templates of each kind of need; the others are breadth."""
WITHOUT_TOOLS = ("google-gemma-2-2b-it", "llama-cpp-deepseek-r1", "Kimi-K2-Instruct", "Kimi-K2-Thinking")
"""Templates that refuse tools or calls of any form, of transformers too."""

WHOLE = {"type": "object", "properties": {"city": {"type": "string", "description": "A city"}}}
SCHEMAS = {
    "no type": {"description": "A city"},
    "no description": {"type": "string"},
    "several types": {"type": ["string", "null"]},
    "any of": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "values alone": {"enum": ["Oslo", "Rome"]},
    "nothing": {},
    "true": True,
}
FUNCTIONS = {
    "a name alone": {},
    "no description": {"parameters": WHOLE},
    "no parameters": {"description": "The weather"},
    "null": {"description": None, "parameters": None},
    "empty parameters": {"description": "The weather", "parameters": {}},
    "no properties": {"description": "The weather", "parameters": {"type": "object"}},
    **{
        name: {"description": "The weather", "parameters": {"type": "object", "properties": {"city": schema}}}
        for name, schema in SCHEMAS.items()
    },
}
USER = {"role": "user", "content": "Hello"}
IDS = [("call_abc123DEF456",), ("toolu_01XYZ",), ("functions.f:0",), (None,), ("call00001", "call_2")]


def tool(function):
    return {"type": "function", "function": {"name": "get_weather", **function}}


def called(ids):
    """A conversation with calls of these ids, their results and an answer."""
    calls = [
        {"type": "function", "function": {"name": "get_weather", "arguments": {"city": f"Oslo{i}"}}}
        for i, _ in enumerate(ids)
    ]
    results = [{"role": "tool", "name": "get_weather", "content": f"warm{i}"} for i, _ in enumerate(ids)]
    for call, result, name in zip(calls, results, ids, strict=True):
        call |= {"id": name} if name else {}
        result |= {"tool_call_id": name} if name else {}
    calling = {"role": "assistant", "content": None, "tool_calls": calls}
    return [USER, calling, *results, {"role": "assistant", "content": "It is warm"}, USER]


@pytest.fixture(scope="module")
def template():
    """`template(name)` → a public template."""
    return lambda name: Template((FOLDER / f"{name}.jinja").read_text(), SPECIAL)


def prompt(template, messages, tools=None):
    return template.render(messages, tools, True, False, {})


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.breadth)
        for name in NAMES
        if name not in NEVER_RENDERED
    ],
)
def test_templates_take_what_clients_send(template, name):
    forms = template(name)
    assert forms.fills == NEEDS.get(name, forms.fills)
    assert forms.forms.calls == CALLS.get(name, forms.forms.calls)
    always = [tool({"description": "x", "parameters": WHOLE})] if name.endswith("tool_use") else None
    for role in ("system", "developer"):
        assert "Be brief." in prompt(forms, [{"role": role, "content": "Be brief."}, USER], always)
    if name in WITHOUT_TOOLS:
        return
    shows = "get_weather" in prompt(forms, [USER], [tool({"description": "x", "parameters": WHOLE})])
    for function in FUNCTIONS.values():
        assert ("get_weather" in prompt(forms, [USER], [tool(function)])) == shows
    for ids in IDS:
        text = prompt(forms, called(ids), [tool({"description": "x", "parameters": WHOLE})])
        words = ["Oslo0"] if shows and "Oslo0" in text else []
        assert all(word.replace("0", f"{i}") in text for word in words for i in range(len(ids)))


def test_what_was_given_stays_as_it_is():
    declared = {
        "name": "f",
        "parameters": {"properties": {"a": {"type": "integer"}}},
        "description": "F",
        "strict": True,
    }
    (conformed,) = conform_tools([{"type": "function", "function": declared}], ("description", "parameters"))
    assert conformed["function"] == {**declared, "parameters": {"type": "object", **declared["parameters"]}}
    assert [*conformed["function"]] == [*declared]
    assert conform_tools(None, ("description",)) is None
    assert conform_tools("x", ("description",)) == ["x"]


def test_ids_stay_apart_and_are_those_of_their_results():
    calls = [{"id": name, "function": {}} for name in ("call_abc123DEF456", "call_abc123DEF457", "abc123DEF")]
    results = [{"role": "tool", "tool_call_id": call["id"]} for call in calls]
    found = conform_calls([{"role": "assistant", "tool_calls": calls}, *results], CallForms(short_ids=True))
    ids = [call["id"] for call in found[0]["tool_calls"]]
    assert ids[2] == "abc123DEF"
    assert len({*ids}) == 3
    assert all(len(each) == 9 and each.isalnum() for each in ids)
    assert [result["tool_call_id"] for result in found[1:]] == ids
    assert calls[0]["id"] == "call_abc123DEF456"


def test_calls_one_by_one_have_their_own_results_behind_them():
    calls = [{"id": name, "function": {}} for name in "ab"]
    message = {"role": "assistant", "content": "Well", "reasoning": "r", "tool_calls": calls}
    b, a, other = ({"role": "tool", "tool_call_id": name, "content": name} for name in ("b", "a", "z"))
    conformed_messages = conform_calls([USER, message, b, a, other, USER], CallForms(one_by_one=True))
    assert conformed_messages == [
        USER,
        {**message, "tool_calls": [calls[0]]},
        a,
        {"role": "assistant", "content": "", "tool_calls": [calls[1]]},
        b,
        other,
        USER,
    ]


def test_a_name_of_a_role_in_a_template_is_not_a_role():
    source = (
        "{% for m in messages %}{% if m.role in ('system', 'user') %}{{ m.role }}: {{ m.content }}{% else %}"
    )
    source += "{{ raise_exception('Invalid role') }}{% endif %}{% endfor %}{# developer #}"
    found = Template(source, {})
    assert found.forms.systems.known == {"system"}
    assert (
        prompt(found, [{"role": "developer", "content": "Be brief."}, USER]) == "system: Be brief.user: Hello"
    )


def test_a_template_without_a_system_role_has_its_text_in_the_users():
    source = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
    source += "{{ m.role }}: {% if m.content is string %}{{ m.content }}{% endif %}|{% endfor %}"
    found = Template(source, {})
    assert not found.forms.systems.known
    answer = {"role": "assistant", "content": "Yes"}
    given = [{"role": "system", "content": "Be brief."}, answer, USER, USER]
    assert prompt(found, given) == "assistant: Yes|user: Be brief.\n\nHello|user: Hello|"
    assert prompt(found, [answer, USER]) == "assistant: Yes|user: Hello|"
