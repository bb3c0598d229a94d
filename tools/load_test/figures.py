"""Rates and percentiles of a load test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from tools.load_test.outcome import Outcome

PERCENTILES = (50, 90, 99)


class Spread(msgspec.Struct):
    """Milliseconds."""

    mean_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread | None:
        """None where nothing was measured."""
        if not seconds:
            return None
        times_ms = np.array(seconds) * 1000
        spread = (times_ms.mean(), *np.percentile(times_ms, PERCENTILES), times_ms.max())
        return cls(*(round(float(each), 3) for each in spread))


class Figures(msgspec.Struct):
    """Figures of the requests that succeeded.  `seconds`: from the start to the end of the last reply.

    `first`: until the first token; `between`: between two events with tokens; `per_token`: the time after the
    first token, per further token; `whole`: until the end.
    """

    seconds: float
    succeeded: int
    failures: dict[str, int]
    requests_per_s: float
    output_tokens_per_s: float
    prompt_tokens_per_s: float
    prompt_tokens: int
    output_tokens: int
    most_in_flight: int
    first: Spread | None
    between: Spread | None
    per_token: Spread | None
    whole: Spread | None

    @property
    def tokens_per_s(self) -> float:
        return self.output_tokens_per_s + self.prompt_tokens_per_s


def figures(outcomes: Sequence[Outcome], seconds: float) -> Figures:
    good = [outcome for outcome in outcomes if outcome.ok]
    prompt_tokens = sum(outcome.prompt_tokens for outcome in good)
    output_tokens = sum(outcome.output_tokens for outcome in good)
    return Figures(
        seconds=seconds,
        succeeded=len(good),
        failures=dict(Counter(outcome.failure for outcome in outcomes if not outcome.ok).most_common()),
        requests_per_s=len(good) / seconds,
        output_tokens_per_s=output_tokens / seconds,
        prompt_tokens_per_s=prompt_tokens / seconds,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        most_in_flight=most_in_flight(outcomes),
        first=Spread.of([outcome.arrivals_s[0] for outcome in good]),
        between=Spread.of(between(good)),
        per_token=Spread.of([_per_token(outcome) for outcome in good if outcome.output_tokens > 1]),
        whole=Spread.of([outcome.end_s for outcome in good]),
    )


def between(outcomes: Iterable[Outcome]) -> list[float]:
    """Seconds between two events with tokens, of all requests."""
    return [later - earlier for each in outcomes for earlier, later in pairwise(each.arrivals_s)]


def _per_token(outcome: Outcome) -> float:
    return (outcome.arrivals_s[-1] - outcome.arrivals_s[0]) / (outcome.output_tokens - 1)


def most_in_flight(outcomes: Iterable[Outcome]) -> int:
    """The most requests that were sent and had not ended."""
    changes = [(each.sent_s, 1) for each in outcomes]
    changes += [(each.due_s + each.end_s, -1) for each in outcomes]
    in_flight = most = 0
    for _, change in sorted(changes):
        in_flight += change
        most = max(most, in_flight)
    return most


def tokens_over_time(outcomes: Iterable[Outcome], seconds: float, bins: int) -> list[float]:
    """Output tokens per second in each of `bins` equal parts of the time."""
    times, weights = [], []
    for each in outcomes:
        if each.ok and each.arrivals_s:
            times += [each.due_s + at_s for at_s in each.arrivals_s]
            weights += [each.output_tokens / len(each.arrivals_s)] * len(each.arrivals_s)
    counts, _ = np.histogram(times, bins=bins, range=(0.0, seconds), weights=weights)
    return [float(count) * bins / seconds for count in counts]
