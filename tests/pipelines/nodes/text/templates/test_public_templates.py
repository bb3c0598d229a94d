"""Public chat templates give the prompts that transformers' `apply_chat_template` gives.

A client writes a conversation in OpenAI's form: arguments as JSON text, content as text or parts, null beside
calls.  transformers passes messages on as they are, so its caller writes them as the template takes them, one call
after the other or with the system's text in the user's: of these ways the expected prompt is of the first that
loses the fewest words and writes the fewest Python values.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
from pathlib import Path

import pytest
import yaml
from later import Later

from pipelines.nodes.text.templates.jinja_template import ChatTemplateError, Template

chat_templates = Later("transformers.utils.chat_template_utils")

FOLDER = Path(__file__).parent / "public_templates"
QUICK = (
    "GLM-4.6",
    "Kimi-K2-Thinking",
    "MiniMax-M2",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
    "google-gemma-4-31B-it",
    "meetkai-functionary-medium-v3.2",
    "mistralai-Ministral-3-14B-Reasoning-2512",
    "openai-gpt-oss-120b",
    "command-a-reasoning",
    "lfm-2.5",
    "mistral-7b-v3",
)
"""Templates of each kind of form; the others are breadth."""
NEVER_RENDERED = ("fireworks-ai-llama-3-firefunction-v2", "refuses-all")
"""Templates that read variables which only their makers' own clients give, or that refuse all."""
SMALL = yaml.safe_load((FOLDER.parent / "small_templates.yaml").read_text(encoding="utf-8"))
"""Small templates of the forms of other families."""
NEVER_COMPILED = "never-compiles"
NAMES = [*sorted(path.stem for path in FOLDER.glob("*.jinja")), *sorted({*SMALL} - {NEVER_COMPILED})]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
REFUSED = "refused"
PYTHON_VALUE = re.compile(r"None|null|'city': 'Oslo'|'type': 'text'|\"type\": ?\"text\"")

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "description": "A city"}}}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather.",
            "parameters": {**PARAMETERS, "required": ["city"]},
        },
    }
]
NO_REASONING = {"enable_thinking": False}


def system(content):
    return {"role": "system", "content": content}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, *cities, reasoning=None):
    message = {"role": "assistant", "content": content}
    if reasoning:
        message |= {"reasoning": reasoning, "reasoning_content": reasoning}
    return message | ({"tool_calls": [call(*each) for each in enumerate(cities)]} if cities else {})


def call(i, city):
    arguments = json.dumps({"city": city, "days": [1, 2.5, True]})
    return {
        "id": f"call{i:05}",
        "type": "function",
        "function": {"name": "get_weather", "arguments": arguments},
    }


def result(content, i=0):
    return {"role": "tool", "content": content, "tool_call_id": f"call{i:05}", "name": "get_weather"}


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


ASKED, CALLED = user("How is the weather?"), assistant(None, "Oslo")
CONVERSATIONS = {
    "plain": ([user("Good day")], None, {}),
    "system": ([system("Be brief. "), user("Good day")], None, {}),
    "several turns": ([system("Be brief."), user("Good day"), assistant("Welcome!"), user("Bye ")], None, {}),
    "tools": ([system("Be brief."), user("How is the weather?")], TOOLS, {}),
    "tools without a system message": ([ASKED], TOOLS, {}),
    "a result": ([ASKED, CALLED, result('{"temp": 3}')], TOOLS, {}),
    "a turn after a result": (
        [ASKED, CALLED, result("cold"), assistant("3 degrees"), user("Thanks")],
        TOOLS,
        {},
    ),
    "parallel calls": (
        [ASKED, assistant(None, "Oslo", "Rome"), result("cold"), result("warm", 1)],
        TOOLS,
        {},
    ),
    "text beside a call": ([ASKED, assistant("Let me look.", "Oslo"), result("cold")], TOOLS, {}),
    "earlier reasoning": ([ASKED, assistant("Cold", reasoning="It is north"), user("Thanks")], None, {}),
    "reasoning before a call": (
        [ASKED, assistant(None, "Oslo", reasoning="It is north"), result("cold")],
        TOOLS,
        {},
    ),
    "no reasoning": ([system("Be brief."), user("Good day")], None, NO_REASONING),
    "parts of a system message": ([system(parts("Velvet", "quokka.")), user("Good day")], None, {}),
    "parts of a user's message": ([user(parts("Velvet", "quokka"))], None, {}),
    "parts beside tools": ([user(parts("Velvet", "quokka?"))], TOOLS, {}),
    "parts of a reply": ([user("Good day"), assistant(parts("Velvet", "quokka")), user("Bye")], None, {}),
    "parts of a result": ([ASKED, CALLED, result(parts("velvet", "quokka"))], TOOLS, {}),
}


def forms(messages):
    """The conversation as callers of transformers may write it, the most usual way first."""
    for joined, as_text, content, thinking in itertools.product((0, 1), (0, 1), (None, ""), (0, 1)):
        conversation = copy.deepcopy(messages)
        for message in conversation:
            if joined and isinstance(message["content"], list):
                message["content"] = "\n".join(part["text"] for part in message["content"])
            if thinking and "reasoning" in message:
                message["thinking"] = message["reasoning"]
            message["content"] = content if message["content"] is None else message["content"]
            for tool_call in message.get("tool_calls", []) if not as_text else []:
                tool_call["function"]["arguments"] = json.loads(tool_call["function"]["arguments"])
        yield conversation


def one_by_one(messages):
    """Two calls of a message as two messages, each before its result."""
    at = next((i for i, each in enumerate(messages) if len(each.get("tool_calls", [])) == 2), None)
    if at is None:
        return messages
    first, second = ({**messages[at], "tool_calls": [each]} for each in messages[at]["tool_calls"])
    given = [*messages[:at], first, messages[at + 1], second, messages[at + 2], *messages[at + 3 :]]
    return [{**each, "content": each["content"] or ""} for each in given]


def without_system(messages):
    """What a first system message says in front of what the user says."""
    if messages[0]["role"] != "system":
        return messages
    given = messages[0]["content"]
    told = given if isinstance(given, str) else "\n".join(part["text"] for part in given)
    text = f"{told}\n\n{messages[1]['content']}"
    return [{**messages[1], "content": text}, *messages[2:]]


def prompt_of_transformers(source, messages, tools, kwargs):
    try:
        prompts, _ = chat_templates.render_jinja_template(
            [copy.deepcopy(messages)],
            tools=tools,
            chat_template=source,
            add_generation_prompt=True,
            **SPECIAL,
            **kwargs,
        )
    except Exception:
        return REFUSED
    return prompts[0]


def words(messages):
    """What the prompt should have of the messages."""
    for message in messages:
        content = message["content"]
        yield from content.split() if isinstance(content, str) else [part["text"] for part in content or []]
        yield from re.findall("Oslo|Rome", json.dumps(message.get("tool_calls", [])))
        yield from message.get("reasoning", "").split()


def expected(source, messages, tools, kwargs):
    def faults(prompt):
        lost = sum(word not in prompt for word in words(messages))
        return (prompt == REFUSED, lost + len(PYTHON_VALUE.findall(prompt)))

    changed = [messages, one_by_one(messages), without_system(messages)]
    ways = [way for i, given in enumerate(changed) if given not in changed[:i] for way in forms(given)]
    different = [given for i, given in enumerate(ways) if given not in ways[:i]]
    return min((prompt_of_transformers(source, given, tools, kwargs) for given in different), key=faults)


def rendered(template, messages, tools, kwargs):
    try:
        return template.render(messages, tools, True, False, kwargs)
    except ChatTemplateError:
        return REFUSED


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.breadth) for name in NAMES]
)
def test_prompts_are_those_of_transformers(name):
    source = SMALL[name]["template"] if name in SMALL else (FOLDER / f"{name}.jinja").read_text()
    template = Template(source, SPECIAL)
    prompts = {kind: rendered(template, *given) for kind, given in CONVERSATIONS.items()}
    taken = template.thinking.variables  # transformers' caller writes the names that the template reads
    assert prompts == {
        kind: expected(source, messages, tools, taken(kwargs))
        for kind, (messages, tools, kwargs) in CONVERSATIONS.items()
    }
    assert set(prompts.values()) != {REFUSED} or name in NEVER_RENDERED
