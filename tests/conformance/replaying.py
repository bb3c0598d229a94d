"""Sends recorded requests to a server and reads its replies.

Every server makes its own ids: in later requests, ids of the recording are replaced by those of the server.
Does not depend on the expected replies.
"""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
from exchanges import Answer, Exchange

RUNNING = ("queued", "in_progress")
POLL_S, POLLS, TRIES = 0.05, 1000, 20

UNRECORDED = {
    "resp__046_cancel_bg": (
        "resp_a655cb67202025a8",
        {
            "model": "tiny",
            "input": "Say hi",
            "max_output_tokens": 480,
            "temperature": 0,
            "background": True,
            "ignore_eos": True,
        },
    )
}
"""Case → an id from a request that was not recorded, and that request."""


class Replay:
    """One run through a group, in order."""

    def __init__(self, url: str, timeout_s: float = 30) -> None:
        self._client = httpx.Client(base_url=url, timeout=timeout_s)
        self._ids: dict[str, str] = {}
        self._is_asleep = False

    def close(self) -> None:
        self._wake()
        self._client.close()

    def send(self, exchange: Exchange) -> Answer:
        """The server's reply to a recorded request; a server that was put to sleep wakes up for it."""
        if not exchange.path.startswith("/is_sleeping"):
            self._wake()
        answer = self._prepared(exchange) if exchange.case in UNRECORDED else self._ask(exchange)
        for _ in range(POLLS):
            if not _should_wait(exchange, answer):
                break
            time.sleep(POLL_S)
            answer = self._ask(exchange)
        if isinstance(exchange.answer.json, dict) and isinstance(answer.json, dict):
            self._learn(exchange.answer.json.get("id"), answer.json.get("id"))
        return answer

    def _wake(self) -> None:
        if self._is_asleep:
            self._client.post("/wake_up").raise_for_status()
            self._is_asleep = False

    def _prepared(self, exchange: Exchange) -> Answer:
        """The reply for an object made just before; repeated where the object had ended already."""
        known_as, body = UNRECORDED[exchange.case]
        for _ in range(TRIES):
            made = self._client.post("/v1/responses", json=body)
            self._learn(known_as, made.json().get("id"))
            answer = self._ask(exchange)
            if answer.status == exchange.answer.status:
                break
        return answer

    def _learn(self, recorded: Any, ours: Any) -> None:
        if isinstance(recorded, str) and isinstance(ours, str):
            self._ids[recorded] = ours

    def _ask(self, exchange: Exchange) -> Answer:
        body: dict[str, Any] = {}
        if exchange.raw_body is not None:
            body = {"content": exchange.raw_body.encode()}
        elif exchange.body is not None:
            body = {"json": json.loads(self._ours(json.dumps(exchange.body)))}
        response = self._client.request(
            exchange.method, self._ours(exchange.path), headers=exchange.headers, **body
        )
        self._is_asleep |= exchange.path.startswith("/sleep") and response.is_success
        return _answer(response)

    def _ours(self, text: str) -> str:
        for recorded, ours in self._ids.items():
            text = text.replace(recorded, ours)
        return text


def _should_wait(exchange: Exchange, answer: Answer) -> bool:
    """Whether the recorded answer is that of finished work, and ours still runs."""
    if exchange.method != "GET" or not isinstance(answer.json, dict):
        return False
    return answer.json.get("status") in RUNNING and exchange.answer.json.get("status") not in RUNNING


def _answer(response: httpx.Response) -> Answer:
    content_type = response.headers.get("content-type", "")
    if content_type.startswith("text/event-stream"):
        return Answer(response.status_code, content_type, events=_events(response.text))
    if content_type == "application/octet-stream":
        metadata = json.loads(response.headers.get("metadata", "null"))
        return Answer(response.status_code, content_type, data=response.content, metadata=metadata)
    try:
        return Answer(response.status_code, content_type, json=response.json())
    except ValueError:
        return Answer(response.status_code, content_type, text=response.text)


def _events(text: str) -> list[tuple[str | None, Any]]:
    """(name, data) of each event; comments left out."""
    found = []
    for block in filter(None, text.split("\n\n")):
        lines = [line.partition(": ") for line in block.splitlines() if not line.startswith(":")]
        fields = {name: value for name, _, value in lines}
        if "data" in fields:
            data = fields["data"]
            found.append((fields.get("event"), data if data == "[DONE]" else json.loads(data)))
    return found
