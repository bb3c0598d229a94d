"""Sessions that people and agents might have: who sends which prompt, and when."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache


@dataclass(frozen=True)
class TraceSettings:
    """`sessions` begin at `rate` a second, at random times.  Each has one of `systems` system prompts of
    `system_tokens` tokens, and `turns` turns of about `user_tokens` tokens; replies have about
    `reply_tokens`.  The next turn is sent about `pause_s` seconds after a reply.
    """

    sessions: int
    rate: float
    turns: int = 5
    systems: int = 8
    system_tokens: int = 512
    user_tokens: int = 64
    reply_tokens: int = 96
    pause_s: float = 5.0
    vocab_size: int = 2000
    seed: int = 0

    def times(self, number: int) -> TraceSettings:
        """The settings for `number` engines: as many sessions and system prompts for each."""
        return replace(
            self,
            sessions=self.sessions * number,
            rate=self.rate * number,
            systems=self.systems * number,
        )


@dataclass(frozen=True)
class Turn:
    """What a session says next: its new tokens, the length of the reply, and the pause before it."""

    user: list[int]
    reply_tokens: int
    pause_s: float


@dataclass
class Session:
    """One conversation; `history` grows by each turn and its reply."""

    number: int
    start_s: float
    system: int
    history: list[int]
    turns: list[Turn] = field(default_factory=list)


def sessions_of(settings: TraceSettings) -> Iterator[Session]:
    """Sessions in the order in which they begin; the same ones for the same settings."""
    system_prompt = cache(lambda number: _tokens(settings, f"system {number}", settings.system_tokens))
    begin_s = 0.0
    for number in range(settings.sessions):
        chance = random.Random(f"{settings.seed} session {number}")
        begin_s += chance.expovariate(settings.rate)
        system = chance.randrange(settings.systems)
        session = Session(number, begin_s, system, [*system_prompt(system)])
        for turn in range(settings.turns):
            length = _about(chance, settings.user_tokens)
            said = _tokens(settings, f"session {number} turn {turn}", length)
            pause_s = chance.expovariate(1 / settings.pause_s) if turn and settings.pause_s else 0.0
            session.turns.append(Turn(said, _about(chance, settings.reply_tokens), pause_s))
        yield session


def _about(chance: random.Random, mean: int) -> int:
    return max(1, round(chance.uniform(0.5, 1.5) * mean))


def _tokens(settings: TraceSettings, name: str, length: int) -> list[int]:
    chance = random.Random(f"{settings.seed} {name}")
    return [chance.randrange(settings.vocab_size) for _ in range(length)]
