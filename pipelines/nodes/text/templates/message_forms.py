"""Finds out which forms of messages a chat template takes, by rendering short conversations with it.

Some templates read a message's content as text, some as a list of parts, some both, and not the same in every
role; some read the arguments of calls as objects, some as JSON text.  A form is taken where its words are in
the prompt as they were written: not left out, not inside the Python or JSON text of a list.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pipelines.nodes.text.templates.chat_messages import (
    BOTH,
    OPENAI,
    STRING,
    MessageForms,
    conform,
)
from pipelines.nodes.text.templates.earlier_calls import AS_GIVEN, CallForms
from pipelines.nodes.text.templates.message_content import Content, Message
from pipelines.nodes.text.templates.system_messages import SYSTEM, SYSTEMS, SystemForms

Tools = list[dict[str, Any]]
Render = Callable[[list[Message], Tools | None], str]
"""(messages, tools) → the prompt; "" where the template refuses them."""

WORD, SECOND, ANSWER = "zephyrine", "quixotry", "vellichor"
"""Words that no template has."""
A_TEXT, SOME_PARTS = WORD, [{"type": "text", "text": WORD}, {"type": "text", "text": SECOND}]
NOT_A_TEXT = re.compile(rf"text\\*['\"]:\s*\\*['\"]{WORD}")
"""A part as the Python or JSON text of an object."""
NOT_AN_OBJECT = re.compile(rf"'city': '{WORD}'")
"""Arguments as the Python text of an object."""
NOTHING = re.compile("None|null")

CITY = {"type": "object", "properties": {"city": {"type": "string", "description": "A city"}}}
TOOLS: Tools = [
    {"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": CITY}}
]
CALL_ID, OTHER_ID = "call00001", "call00002"  # of Mistral's length
LONG_ID = "call_Sx7dJh2kq9_0"
USER: Message = {"role": "user", "content": "Hello"}


def _call(city: str, name: str | None = CALL_ID) -> dict[str, Any]:
    function = {"name": "weather", "arguments": {"city": city}}
    return {**({"id": name} if name else {}), "type": "function", "function": function}


def _result(name: str | None = CALL_ID) -> Message:
    return {"role": "tool", "name": "weather", **({"tool_call_id": name} if name else {}), "content": "warm"}


ANSWERED: Message = {"role": "assistant", "content": ANSWER}
CALLED: Message = {"role": "assistant", "content": None, "tool_calls": [_call("Oslo")]}
CALLING: Message = {"role": "assistant", "content": None, "tool_calls": [_call(WORD)]}
RESULT = _result()
BEFORE = {"assistant": [USER], "tool": [USER, CALLING]}
AFTER = {"system": [USER], "developer": [USER], "assistant": [USER]}
"""Role → the messages around one of that role."""


def find_forms(render: Render, names_developer: bool, content_format: str | None = None) -> MessageForms:
    """The forms that a template takes; `content_format` is that of every content, None to find it.

    `names_developer`: the word is in its text, which alone does not say that there is such a role.
    """
    known = _known_systems(render, names_developer)
    systems = SystemForms(known, known)
    forms = MessageForms(other_content=content_format or STRING, systems=systems)
    for role in [] if content_format else ["user", "system", *sorted(known - {SYSTEM}), "assistant"]:
        forms = _with_content(forms, role, render)
    forms = _with_calls(forms, render)
    later = frozenset(role for role in known if _shows_later(role, forms, render))
    forms = replace(forms, systems=SystemForms(known, later, _takes_user_after_results(forms, render)))
    forms = replace(forms, reads_thinking=_reads_thinking(forms, render), calls=_calls(forms, render))
    return forms if content_format else _with_content(forms, "tool", render)


def _known_systems(render: Render, names_developer: bool) -> frozenset[str]:
    """The roles of `SYSTEMS` that a template has; the system's where it refuses all."""
    asked = SYSTEMS if names_developer else (SYSTEM,)
    known = {role for role in asked if _shows_role(role, render)}
    return frozenset(known if render([USER], None) else {*known, SYSTEM})


def _shows_later(role: str, forms: MessageForms, render: Render) -> bool:
    """Whether a message of this role stands behind a question, or behind a result, as it was written."""
    later = {"role": role, "content": WORD}
    asked: Message = {"role": "user", "content": SECOND}
    for before in ([asked], [asked, CALLED, RESULT]):
        messages = [{"role": SYSTEM, "content": "Be brief"}, *before, later, ANSWERED, USER]
        for turns in (messages, messages[1:], messages[: len(before) + 2]):
            for tools in (None, TOOLS):
                prompt = render(conform(turns, forms), tools)
                if not in_order(prompt, SECOND, WORD, ANSWER if ANSWERED in turns else ""):
                    return False
    return True


def _takes_user_after_results(forms: MessageForms, render: Render) -> bool:
    """Whether the user may speak behind a result; also where no result is taken."""
    messages = [USER, CALLED, RESULT, {"role": "user", "content": WORD}]
    joined = conform(messages, replace(forms, systems=replace(forms.systems, user_after_results=False)))
    return WORD in render(conform(messages, forms), TOOLS) or WORD not in render(joined, TOOLS)


def in_order(text: str, *words: str) -> bool:
    """Whether the text has each of the words behind the one before."""
    at = 0
    return all((at := text.find(word, at)) >= 0 for word in words)


def _shows_role(role: str, render: Render) -> bool:
    """Whether a message of this role is taken, as text or in parts."""
    given = ([{"role": role, "content": content}, USER] for content in (A_TEXT, SOME_PARTS))
    return any(WORD in render(messages, tools) for messages in given for tools in (None, TOOLS))


def _calls(forms: MessageForms, render: Render) -> CallForms:
    """What a template needs of calls that it takes otherwise."""

    def shows(*ids: str | None, **needed: bool) -> bool:
        """Whether the prompt has a call with WORD, and a second one with SECOND."""
        calls = [_call(word, call_id) for call_id, word in zip(ids, (WORD, SECOND), strict=False)]
        messages = [USER, {**CALLING, "tool_calls": calls}, *(_result(call_id) for call_id in ids)]
        prompt = render(conform(messages, replace(forms, calls=CallForms(**needed))), TOOLS)
        return all(call["function"]["arguments"]["city"] in prompt for call in calls)

    if not shows(CALL_ID):
        return AS_GIVEN
    both = (CALL_ID, OTHER_ID)
    return CallForms(
        needs_ids=not shows(None),
        short_ids=not shows(LONG_ID) and shows(LONG_ID, short_ids=True),
        one_by_one=not shows(*both) and shows(*both, one_by_one=True),
    )


def _with_content(forms: MessageForms, role: str, render: Render) -> MessageForms:
    """The forms with that of a role's content, which may depend on whether there are tools."""
    around = [conform(messages.get(role, []), forms) for messages in (BEFORE, AFTER)]

    def prompts(content: Content) -> list[str]:
        message = {**(RESULT if role == "tool" else {"role": role}), "content": content}
        messages = [*around[0], message, *around[1]]
        return [prompt for tools in (None, TOOLS) if (prompt := render(messages, tools))]

    texts, lists = prompts(A_TEXT), prompts(SOME_PARTS)
    takes_text = bool(texts) and all(WORD in prompt for prompt in texts)
    takes_parts = bool(lists) and all(_has_parts(prompt) for prompt in lists)
    form = (BOTH if takes_text else OPENAI) if takes_parts else STRING
    return replace(forms, content={**forms.content, role: form})


def _has_parts(prompt: str) -> bool:
    return WORD in prompt and SECOND in prompt and not NOT_A_TEXT.search(prompt)


def _with_calls(forms: MessageForms, render: Render) -> MessageForms:
    """The forms with those of calls: objects and null, as transformers has them, where they are taken."""
    for as_text, taken in ((False, _has_call), (True, _has_call), (False, bool)):
        ways = [replace(forms, arguments_as_text=as_text, without_content=each) for each in (None, "")]
        null, empty = (render(conform([USER, CALLING, RESULT], way), TOOLS) for way in ways)
        if taken(null) and (not taken(empty) or _num_nothings(null) == _num_nothings(empty)):
            return ways[0]
        if taken(empty):
            return ways[1]
    return forms


def _has_call(prompt: str) -> bool:
    """Whether the prompt has the call as it was written."""
    return WORD in prompt and not NOT_AN_OBJECT.search(prompt)


def _num_nothings(prompt: str) -> int:
    return len(NOTHING.findall(prompt))


def _reads_thinking(forms: MessageForms, render: Render) -> bool:
    """Whether reasoning is in the prompt only as `thinking`."""
    reasoned = {**CALLING, "reasoning": SECOND, "reasoning_content": SECOND}
    usual, thinking = (
        render(conform([USER, reasoned, RESULT], replace(forms, reads_thinking=reads)), TOOLS)
        for reads in (False, True)
    )
    return SECOND in thinking and SECOND not in usual
