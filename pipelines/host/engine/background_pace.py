"""How much background a step has while other requests come, so that those wait little for its end."""

from __future__ import annotations

import time
from collections.abc import Callable

from pipelines.host.engine.step_plan import Plan
from pipelines.host.engine.tenant_shares import is_background

LATELY_S = 5.0
"""For so long after another request steps of background are short."""
PART = 0.3
"""They take this part of the time to another request's first token, which waits for half of one."""
OUTSIDE_S = 0.004
"""What a first token takes outside of the engine: HTTP, template, tokenizer, sockets."""
OLD_PART = 0.75
"""How much the known time of a prompt counts beside that of a new one."""
GROWTH = 8
"""After a step that was short enough the next one has an eighth more."""


class BackgroundPace:
    """Learns from the steps of one engine how many background tokens a short step has.

    That number is tried: it becomes smaller with each step that was too long, and larger with each other one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._came_s: float | None = None
        self._prompt_s: float | None = None
        self._short = 0.0  # tokens of a short step; 0: unknown

    def came(self) -> None:
        """Another request has come, or runs."""
        self._came_s = self._clock()

    def limit(self) -> int | None:
        """Most background tokens of a step; None while any number may be."""
        if self._came_s is None or not self._short or self._clock() - self._came_s > LATELY_S:
            return None
        return max(1, int(self._short))

    def ran(self, plan: Plan, seconds: float) -> None:
        """The model and the sampler took so long for a step while there was background."""
        prompts = plan.slices[plan.num_decoding :]
        if any(not is_background(slice.sequence) for slice in prompts):
            known = seconds if self._prompt_s is None else self._prompt_s
            self._prompt_s = OLD_PART * known + (1 - OLD_PART) * seconds
        elif self._prompt_s is not None and all(is_background(slice.sequence) for slice in plan.slices):
            num_tokens = sum(slice.num_tokens for slice in plan.slices)
            self._try(num_tokens, seconds / (PART * (self._prompt_s + OUTSIDE_S)))

    def _try(self, num_tokens: int, times_too_long: float) -> None:
        if times_too_long > 1:
            self._short = max(1.0, num_tokens / times_too_long)
        elif num_tokens >= int(self._short):
            self._short = num_tokens + max(1.0, num_tokens / GROWTH)
