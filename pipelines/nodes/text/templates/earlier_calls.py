"""Brings the calls of a conversation, and their results, into what a chat template takes."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")
"""The only ids that Mistral's templates take."""


@dataclass(frozen=True)
class CallForms:
    """What a template needs of calls: an id, one of nine letters and digits, one call a message."""

    needs_ids: bool = False
    short_ids: bool = False
    one_by_one: bool = False


AS_GIVEN = CallForms()


def conform_calls(messages: list[Message], forms: CallForms) -> list[Message]:
    """The messages with calls in these forms."""
    if forms == AS_GIVEN:
        return messages
    messages = _with_ids(messages)
    if forms.short_ids:
        messages = [_renamed(message) for message in messages]
    return _one_by_one(messages) if forms.one_by_one else messages


def _with_ids(messages: list[Message]) -> list[Message]:
    """Calls without an id get one; results without one are of the calls before them, in their order."""
    out, waiting, count = [], [], 0
    for message in messages:
        if calls := message.get("tool_calls"):
            calls = [{**call, "id": call.get("id") or f"call{count + i:05}"} for i, call in enumerate(calls)]
            message, waiting, count = {**message, "tool_calls": calls}, calls[:], count + len(calls)
        elif message.get("role") == "tool":
            name = message.get("tool_call_id") or (waiting[0]["id"] if waiting else None)
            waiting = [call for call in waiting if call["id"] != name]
            message = message if name is None else {**message, "tool_call_id": name}
        out.append(message)
    return out


def _renamed(message: Message) -> Message:
    if calls := message.get("tool_calls"):
        return {**message, "tool_calls": [{**call, "id": _short(call["id"])} for call in calls]}
    if name := message.get("tool_call_id"):
        return {**message, "tool_call_id": _short(name)}
    return message


def _short(name: str) -> str:
    """The id itself where it is short; else of its digest, so that calls stay apart and prefixes the same."""
    return name if SHORT_ID.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()[:9]


def _one_by_one(messages: list[Message]) -> list[Message]:
    """A message of several calls as several messages, each followed by its own result."""
    out: list[Message] = []
    at = 0
    while at < len(messages):
        message, calls = messages[at], messages[at].get("tool_calls") or []
        at += 1
        if len(calls) < 2:
            out.append(message)
            continue
        end = next((i for i in range(at, len(messages)) if messages[i].get("role") != "tool"), len(messages))
        results, at = messages[at:end], end
        out += _single_calls(message, results)
    return out


def _single_calls(message: Message, results: list[Message]) -> list[Message]:
    """The calls of a message, each with its results; the first has its text and reasoning too."""
    out: list[Message] = []
    for i, call in enumerate(message["tool_calls"]):
        first = message if i == 0 else {"role": message["role"], "content": ""}
        out.append({**first, "tool_calls": [call]})
        out += [result for result in results if result.get("tool_call_id") == call["id"]]
    return out + [result for result in results if result not in out]
