"""What became of all turns, whether they were simulated or sent to a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil


@dataclass
class TurnOutcome:
    """`number` is 0 for a session's first; `cached_tokens` of its prompt were found again."""

    number: int
    prompt_tokens: int
    cached_tokens: int = 0
    reply_tokens: int = 0
    first_token_s: float = 0.0
    seconds: float = 0.0


@dataclass
class Outcome:
    """All turns, and the time from the first to the end of the last; `busy_s` is that of all engines."""

    num_engines: int
    turns: list[TurnOutcome] = field(default_factory=list)
    seconds: float = 0.0
    busy_s: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        """Tokens of replies."""
        return sum(turn.reply_tokens for turn in self.turns) / self.seconds

    @property
    def cached_share(self) -> float:
        """The part of all prompt tokens that was found in a cache."""
        cached = sum(turn.cached_tokens for turn in self.turns)
        return cached / sum(turn.prompt_tokens for turn in self.turns)

    @property
    def busy_share(self) -> float:
        return self.busy_s / (self.seconds * self.num_engines)

    def first_token_s(self, share: float) -> float:
        """The least time within which this share of all turns had their first token."""
        times = sorted(turn.first_token_s for turn in self.turns)
        return times[ceil(share * len(times)) - 1]
