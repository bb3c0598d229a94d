"""Brings what the system and the user say into the places and roles in which a chat template takes it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from pipelines.nodes.text.templates.message_content import (
    BETWEEN_TEXTS,
    Message,
    joined,
    parts_of,
    text_of,
)

SYSTEM, DEVELOPER, USER = "system", "developer", "user"
SYSTEMS = (SYSTEM, DEVELOPER)


@dataclass(frozen=True)
class SystemForms:
    """Which of the roles `SYSTEMS` a template has, and which of them it shows behind other messages, where
    they stand; `user_after_results`: the user may speak between a result and the reply to it.
    """

    known: frozenset[str] = frozenset({SYSTEM})
    later: frozenset[str] = frozenset({SYSTEM})
    user_after_results: bool = True


def place_systems(messages: list[Message], forms: SystemForms) -> list[Message]:
    """The messages with system messages as the template takes them.

    Those at the start are one message where it takes no second one, and stand in front of what the user says
    first where it has no system role.  A later one that it does not take becomes a part of the user's turn
    beside it: it stays in its place, so that what stands in front of it is the same text in every request.
    """
    if not any(message.get("role") in SYSTEMS for message in messages):
        return messages
    start = len([*takewhile(lambda message: message.get("role") in SYSTEMS, messages)])
    first = _as_known(messages[:start], forms)
    rest = _in_turns(messages[start:], forms.later)
    if first and first[0]["role"] not in forms.known and any(message.get("role") == USER for message in rest):
        return _in_front_of_user(text_of(first[0].get("content")), rest)
    return [*first, *rest]


def with_results(messages: list[Message]) -> list[Message]:
    """The messages with what the user says behind a result at the end of that result."""
    out: list[Message] = []
    for message in messages:
        follows = bool(out) and out[-1].get("role") == "tool" and message.get("role") == USER
        if follows and all(part.get("type") == "text" for part in parts_of(message.get("content"))):
            content = joined(out[-1].get("content"), text_of(message.get("content")))
            out[-1] = {**out[-1], "content": content}
        else:
            out.append(message)
    return out


def _as_known(messages: list[Message], forms: SystemForms) -> list[Message]:
    """System messages at the start, in known roles; one where a role is not known, or not taken again."""
    named = [{**each, "role": each["role"] if each["role"] in forms.known else SYSTEM} for each in messages]
    if named == messages and all(each["role"] in forms.later for each in named[1:]):
        return messages
    texts = [text for each in named if (text := text_of(each.get("content")))]
    return [{**named[0], "content": BETWEEN_TEXTS.join(texts)}] if len(named) > 1 else named


def _in_turns(messages: list[Message], taken: frozenset[str]) -> list[Message]:
    """Later system messages in a role that is taken, or in the user's turn beside them."""
    out: list[Message] = []
    beside = False  # whether the last one is, or ends with, the text of a system message
    for message in messages:
        is_system = message.get("role") in SYSTEMS
        if is_system and (role := _later_role(message["role"], taken)):
            message, is_system = {**message, "role": role}, False
        elif is_system:
            message = {"role": USER, "content": text_of(message.get("content"))}
        if (is_system or beside) and out and out[-1].get("role") == message.get("role") == USER:
            out[-1] = {**out[-1], "content": joined(out[-1].get("content"), message.get("content"))}
        else:
            out.append(message)
        beside = is_system
    return out


def _later_role(role: str, taken: frozenset[str]) -> str | None:
    return role if role in taken else SYSTEM if SYSTEM in taken else None


def _in_front_of_user(text: str, messages: list[Message]) -> list[Message]:
    """The messages with a text in front of what the user says first."""
    at = next(i for i, each in enumerate(messages) if each.get("role") == USER)
    asked = {**messages[at], "content": joined(text, messages[at].get("content"))}
    return [*messages[:at], asked, *messages[at + 1 :]]
