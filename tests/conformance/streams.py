"""Events of a stream → what they say together, whatever pieces it came in.

Two servers cut a text into pieces where their clocks say so; they must agree on the text, on the kinds of
pieces in their order, and on the fields of each kind.  Knows nothing of requests.
"""

from __future__ import annotations

from typing import Any

Events = list[tuple[str | None, Any]]

DELTA_KINDS = ("role", "content", "reasoning", "tool_calls", "text")
PIECES = ("content", "reasoning", "text")
LISTS = ("content", "tokens", "token_logprobs", "top_logprobs", "text_offset")


def joined(events: Events) -> Any:
    """The stream as one value that can be compared."""
    named = any(name is not None for name, _ in events)
    try:
        return _joined_events(events) if named else _joined_chunks([data for _, data in events])
    except (AttributeError, KeyError, TypeError) as error:
        return {"unreadable": repr(error)}


def _joined_chunks(chunks: list[Any]) -> dict[str, Any]:
    """Chunks of chat/completions and completions."""
    choices: dict[str, dict[str, Any]] = {}
    whole: dict[str, Any] = {"fields": {}, "choices": choices, "done": chunks[-1:] == ["[DONE]"]}
    for chunk in (chunk for chunk in chunks if isinstance(chunk, dict)):
        if "error" in chunk:
            whole["error"] = chunk["error"]
            continue
        for choice in chunk["choices"]:
            state = choices.setdefault(str(choice["index"]), {"kinds": []})
            _add_choice(state, choice)
        whole["fields"].setdefault(_place(chunk, choices), _fields(chunk))
        whole |= {key: chunk[key] for key in ("id", "object", "model", "usage") if chunk.get(key) is not None}
    for state in choices.values():
        del state["num_chunks"]
    return whole


def _place(chunk: dict[str, Any], choices: dict[str, Any]) -> str:
    """Which of a stream's kinds of chunk this is."""
    if not chunk["choices"]:
        return "usage"
    choice = chunk["choices"][0]
    if choice.get("finish_reason") is not None:
        return "last"
    return "first" if choices[str(choice["index"])]["num_chunks"] == 1 else "middle"


def _fields(chunk: dict[str, Any]) -> dict[str, Any]:
    """The fields of a chunk with values that every chunk of its kind has."""
    outer = {key: None for key in chunk if key != "choices"}
    inner = {key: None for choice in chunk["choices"] for key in choice}
    return {"chunk": outer, "choice": inner}


def _add_choice(state: dict[str, Any], choice: dict[str, Any]) -> None:
    state["num_chunks"] = state.get("num_chunks", 0) + 1
    delta = choice.get("delta", {"text": choice.get("text")})
    kinds = [kind for kind in DELTA_KINDS if delta.get(kind) not in (None, "", [])]
    if choice.get("finish_reason") is not None:
        kinds.append("finish")
        state |= {key: choice.get(key) for key in ("finish_reason", "stop_reason")}
    state["kinds"] += [kind for kind in kinds if state["kinds"][-1:] != [kind]]
    for key in PIECES:
        if delta.get(key):
            state[key] = state.get(key, "") + delta[key]
    if delta.get("role"):
        state["role"] = delta["role"]
    _add_calls(state, delta.get("tool_calls") or [])
    for key in ("token_ids", "prompt_token_ids", "prompt_logprobs"):
        if choice.get(key) is not None:
            state[key] = state.get(key, []) + choice[key]
    _add_logprobs(state, choice.get("logprobs"))


def _add_calls(state: dict[str, Any], pieces: list[Any]) -> None:
    for piece in pieces:
        call = state.setdefault("tool_calls", {}).setdefault(str(piece["index"]), {"arguments": ""})
        call |= {key: piece[key] for key in ("id", "type") if piece.get(key) is not None}
        function = piece.get("function") or {}
        if function.get("name"):
            call["name"] = function["name"]
        call["arguments"] += function.get("arguments") or ""


def _add_logprobs(state: dict[str, Any], logprobs: Any) -> None:
    if not logprobs:
        return
    lists = state.setdefault("logprobs", {})
    for key in (key for key in LISTS if logprobs.get(key) is not None):
        lists[key] = lists.get(key, []) + logprobs[key]


def _joined_events(events: Events) -> dict[str, Any]:
    """Named events of a response; deltas that follow one another are one."""
    merged: list[dict[str, Any]] = []
    done = events[-1:] == [(None, "[DONE]")]
    events = events[:-1] if done else events
    for _, data in events:
        event = {key: value for key, value in data.items() if key != "sequence_number"}
        if merged and event["type"].endswith(".delta") and merged[-1]["type"] == event["type"]:
            merged[-1] |= {key: merged[-1][key] + event[key] for key in ("delta", "logprobs") if key in event}
        else:
            merged.append(event)
    by_kind: dict[str, list[Any]] = {}
    for event in merged:
        by_kind.setdefault(event["type"], []).append(event)
    return {
        "done": done,
        "kinds": [event["type"] for event in merged],
        "names": all(name == data["type"] for name, data in events),
        "numbered": [data.get("sequence_number") for _, data in events] == list(range(len(events))),
        "events": {kind: dict(enumerate(events_of_kind)) for kind, events_of_kind in by_kind.items()},
    }
