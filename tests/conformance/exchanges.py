"""Recorded exchanges with vLLM: what was asked, and what came back.

Knows the files of `recordings/`; knows nothing of servers or of what may differ.
"""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parent / "recordings"


@dataclass(frozen=True)
class Answer:
    """A response: `json`, `text`, the `events` of a stream, each [event's name, data], or `data`.

    `metadata` is what a header says of the latter.
    """

    status: int
    content_type: str
    json: Any = None
    text: str | None = None
    events: list[tuple[str | None, Any]] | None = None
    data: bytes | None = None
    metadata: Any = None


@dataclass(frozen=True)
class Exchange:
    """One request, as it was sent, and vLLM's answer to it."""

    case: str
    method: str
    path: str
    headers: dict[str, str]
    body: Any
    raw_body: str | None
    answer: Answer

    @property
    def group(self) -> str:
        return self.case.partition("__")[0]

    @cached_property
    def is_sampled(self) -> bool:
        """Whether the text was drawn at random, so that it says nothing."""
        body = self.body if isinstance(self.body, dict) else {}
        asks_text = {"prompt", "messages", "input"} & set(body)
        return bool(asks_text) and "temperature" in body and body["temperature"] != 0


def read_exchanges(group: str) -> list[Exchange]:
    """A group's exchanges, in the order in which they were made."""
    lines = (RECORDINGS / f"{group}.jsonl").read_text(encoding="utf-8").splitlines()
    return [_exchange(json.loads(line)) for line in lines]


def _exchange(recorded: dict[str, Any]) -> Exchange:
    request, response = recorded["request"], recorded["response"]
    events = response.get("events")
    return Exchange(
        case=recorded["case"],
        method=request["method"],
        path=request["path"],
        headers=request.get("headers", {}),
        body=request.get("json"),
        raw_body=request.get("raw_body"),
        answer=Answer(
            status=response["status"],
            content_type=response["headers"].get("content-type", ""),
            json=response.get("json"),
            text=response.get("text"),
            events=None if events is None else [(event.get("event"), event["data"]) for event in events],
            data=b64decode(response["body_b64"]) if "body_b64" in response else None,
            metadata=json.loads(response["headers"].get("metadata", "null")),
        ),
    )
