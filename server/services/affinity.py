"""Which requests belong together: the key that keeps a session, or a conversation, at one engine or server.

The prefix cache of an engine holds what earlier turns have computed, so later turns should reach the same
one.  A pure function of headers and body, for whatever chooses an engine, a replica or a server.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, TypeGuard
from uuid import uuid4

import msgspec

from server.base.replica_ids import NAME

SESSION = "x-session-id"
MAX_CHARS = 1024
"""Characters of the system message and of the first user message that are compared."""
SYSTEM_ROLES = ("system", "developer")
OWN_RESPONSE = re.compile(rf"resp_(?:{NAME}_)?([0-9a-f]{{16}})[0-9a-f]{{16}}")
"""The id of a response; its first digits are the key of the request that it replies to."""


def affinity_key(headers: Mapping[str, str], body: Mapping[str, Any]) -> str | None:
    """16 hexadecimal digits, equal for requests that belong together; None where there is nothing to go by.

    The first of these counts that a request has: the header `X-Session-ID`; `prompt_cache_key`,
    `previous_response_id`, `user` and `metadata.user_id` of the body; else the beginnings of its system
    message and of its first user message.  Bodies are those of chat completions, completions, responses and
    messages.  Values of other types than these APIs have are passed over.
    """
    session = next((value for name, value in headers.items() if name.lower() == SESSION), None)
    if _is_word(session):
        return _digest("session", session)
    if _is_word(key := body.get("prompt_cache_key")):
        return _digest("cache", key)
    if _is_word(previous := body.get("previous_response_id")):
        own = OWN_RESPONSE.fullmatch(previous)
        return own[1] if own else _digest("response", previous)
    for user in (body.get("user"), _field(body.get("metadata"), "user_id")):
        if _is_word(user):
            return _digest("user", user)
    opening = _opening(body)
    return _digest("opening", *opening) if any(opening) else None


def fields_of(body: bytes) -> dict[str, Any]:
    """The fields of a JSON body; {} where it is no object."""
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def response_id(key: str | None) -> str:
    """A new id of a response, from which `affinity_key` finds the key again."""
    return f"resp_{((key or '') + uuid4().hex)[:32]}"


def _opening(body: Mapping[str, Any]) -> tuple[str, str]:
    """The beginnings of the system message and of the first user message."""
    messages = body.get("messages") or body.get("input") or body.get("prompt")
    system = body.get("system") or body.get("instructions")
    if not isinstance(messages, list) or not any(map(_role, messages)):
        return _beginning(system), _beginning(messages)
    if not system:
        system = _first(messages, SYSTEM_ROLES)
    return _beginning(system), _beginning(_first(messages, ("user",)))


def _first(messages: list[Any], roles: tuple[str, ...]) -> Any:
    return next((each.get("content") for each in messages if _role(each) in roles), None)


def _role(message: Any) -> Any:
    return _field(message, "role")


def _beginning(content: Any) -> str:
    """The first characters of a content: a text, parts of which some are texts, or token ids."""
    return "".join(islice(_characters(content), MAX_CHARS))


def _characters(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield from content
    elif isinstance(content, list):
        for part in content:
            yield from _characters(part)
    elif isinstance(content, dict):
        yield from _characters(content.get("text"))
    elif isinstance(content, int):
        yield from f"{content},"


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _is_word(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value)


def _digest(kind: str, *parts: str) -> str:
    """`kind` keeps a user apart from a session of the same name."""
    text = "\0".join((kind, *parts)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=8, person=b"braid affinity").hexdigest()
