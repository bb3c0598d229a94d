"""What a step of so many tokens takes, learnt from the steps that ran.

Knows seconds and numbers of tokens; knows nothing of steps, models or guesses.
"""

from __future__ import annotations


class StepCost:
    """Seconds of a step by its number of tokens, as steps are seen."""

    def learn(self, num_tokens: int, seconds: float) -> None:
        """A step that computed `num_tokens` took so long."""

    def seconds(self, num_tokens: int) -> float | None:
        """What a step of `num_tokens` would take; None while nothing is known."""
        return None
