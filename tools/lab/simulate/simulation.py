"""Sessions and engines under one clock."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pipelines.inference.engine.interface.outputs import Output
from tools.lab.simulate.engine import EngineSize, SimulatedEngine
from tools.lab.simulate.loads import Loads
from tools.lab.simulate.outcome import Outcome, TurnOutcome
from tools.lab.simulate.routes import Route
from tools.lab.simulate.step_cost import StepCost
from tools.lab.simulate.trace import Session, Turn


@dataclass
class _Running:
    """A turn on its way through an engine."""

    session: Session
    turn: Turn
    number: int
    engine: int
    sent_s: float
    outcome: TurnOutcome
    reply: list[int] = field(default_factory=list)


class Simulation:
    """Runs every session to its end on `num_engines` engines.  `around_s` is what a request takes outside
    of its engine, before its first token: HTTP, tokens, the wire.
    """

    def __init__(
        self, num_engines: int, size: EngineSize, cost: StepCost, route: Route, around_s: float = 0.0
    ) -> None:
        self._engines = [SimulatedEngine(size, cost) for _ in range(num_engines)]
        self._loads = Loads(num_engines)
        self._route = route
        self._around_s = around_s
        self._events: list[tuple[float, int, Any, Any]] = []
        self._order = count()
        self._keys = count()
        self._running: dict[int, _Running] = {}
        self._outcome = Outcome(num_engines)

    def run(self, sessions: Iterable[Session]) -> Outcome:
        for session in sessions:
            self._at(session.start_s, self._send, (session, 0))
        now_s = 0.0
        while self._events:
            now_s, _, action, given = heapq.heappop(self._events)
            action(now_s, *given)
        self._outcome.seconds = now_s
        self._outcome.busy_s = sum(engine.busy_s for engine in self._engines)
        return self._outcome

    def _at(self, at_s: float, action: Any, given: tuple[Any, ...]) -> None:
        heapq.heappush(self._events, (at_s, next(self._order), action, given))

    def _send(self, now_s: float, session: Session, number: int) -> None:
        turn = session.turns[number]
        session.history += turn.user
        index = self._route.choose(session, self._loads)
        self._loads.change(index, 1)
        outcome = TurnOutcome(number, len(session.history))
        self._outcome.turns.append(outcome)
        key = next(self._keys)
        self._running[key] = _Running(session, turn, number, index, now_s, outcome)
        self._engines[index].submit(now_s, key, [*session.history], turn.reply_tokens)
        self._step(now_s, index)

    def _step(self, now_s: float, index: int) -> None:
        """Begin a step, unless one is in progress: what came since is in the next."""
        engine = self._engines[index]
        if engine.end_s is None:
            engine.begin(now_s)
        if engine.end_s is not None:
            self._at(engine.end_s, self._stepped, (index,))

    def _stepped(self, now_s: float, index: int) -> None:
        """The steps in progress have ended, unless this was planned before a request cut them short."""
        engine = self._engines[index]
        if engine.end_s != now_s:
            return
        for output in engine.end():
            self._note(now_s, output)
        self._step(now_s, index)

    def _note(self, now_s: float, output: Output) -> None:
        running = self._running[output.key]  # type: ignore[index]  # an int here
        piece, outcome = output.piece, running.outcome
        if not running.reply and piece.token_ids:
            outcome.first_token_s = now_s - running.sent_s + self._around_s
            outcome.cached_tokens = piece.num_cached
        running.reply += piece.token_ids
        if piece.finish is None:
            return
        self._loads.change(running.engine, -1)
        outcome.reply_tokens = len(running.reply)
        outcome.seconds = now_s - running.sent_s + self._around_s
        session, following = running.session, running.number + 1
        session.history += running.reply
        if following < len(session.turns):
            self._at(now_s + session.turns[following].pause_s, self._send, (session, following))
        del self._running[output.key]  # type: ignore[arg-type]
