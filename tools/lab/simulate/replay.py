"""Sends the simulated sessions to a server: prompts are token ids, and replies are the server's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from tools.client.async_client import AsyncClient
from tools.lab.simulate.outcome import Outcome, TurnOutcome
from tools.lab.simulate.trace import Session, Turn

CLIENTS = ("session", "random")
"""Routes that a client can ask for."""


class Replay:
    """Sends each turn when its session says it."""

    def __init__(self, client: AsyncClient, model: str, route: str) -> None:
        self._client = client
        self._model = model
        self._route = route
        self._turns: list[TurnOutcome] = []

    async def run(self, sessions: Iterable[Session]) -> Outcome:
        begin_s = time.monotonic()
        await asyncio.gather(*(self._session(session, begin_s) for session in sessions))
        return Outcome(1, self._turns, time.monotonic() - begin_s)

    async def _session(self, session: Session, begin_s: float) -> None:
        await asyncio.sleep(begin_s + session.start_s - time.monotonic())
        for number, turn in enumerate(session.turns):
            await asyncio.sleep(turn.pause_s)
            await self._turn(session, number, turn)

    async def _turn(self, session: Session, number: int, turn: Turn) -> None:
        session.history += turn.user
        outcome = TurnOutcome(number, len(session.history))
        self._turns.append(outcome)
        sent_s, reply = time.monotonic(), []
        headers = {"X-Session-ID": _session_name(self._route, session, number)}
        async with self._client.events("/v1/completions", self._body(session, turn), headers) as events:
            async for event in events:
                tokens = [token for choice in event["choices"] for token in choice.get("token_ids") or ()]
                if tokens and not reply:
                    outcome.first_token_s = time.monotonic() - sent_s
                reply += tokens
                details = (event.get("usage") or {}).get("prompt_tokens_details") or {}
                outcome.cached_tokens = details.get("cached_tokens", outcome.cached_tokens)
        outcome.reply_tokens, outcome.seconds = len(reply), time.monotonic() - sent_s
        session.history += reply

    def _body(self, session: Session, turn: Turn) -> dict[str, Any]:
        return {
            "model": self._model,
            "prompt": session.history,
            "max_tokens": turn.reply_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        }


def _session_name(route: str, session: Session, number: int) -> str:
    """What a client sends: the name of its session, or with the route `random` one of this turn alone."""
    return f"session {session.number}" + (f" turn {number}" if route == "random" else "")


async def replayed(url: str, model: str | None, sessions: Iterable[Session], route: str) -> Outcome:
    """What a server makes of the sessions, from an empty cache.  Raises RequestFailed."""
    async with AsyncClient(url) as client:
        await client.post("/reset_prefix_cache")
        name = model or (await client.get("/v1/models"))["data"][0]["id"]
        return await Replay(client, name, route).run(sessions)
