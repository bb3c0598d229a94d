"""Figures of a soak and their bounds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tools.lab.soak.attacks import BEFORE, UNDER
from tools.lab.soak.processes import Sample
from tools.lab.soak.sending import Outcome

STATED = ("503", "507")
"""What an attack may be refused with: its own place or its own room is full."""
ADMITTED = ("200", "101")
TIMES_QUIET = 3
"""How much longer a neighbour's small requests may take under attack than before, at the 99th percentile."""


GROUPS = 12
"""Into how many groups the samples of the second half are divided for the slope of memory."""
NORMAL_95 = 1.96
"""Standard deviations of a normal distribution, on both sides of its middle, between which 95 % of it is."""


@dataclass(frozen=True)
class Bounds:
    """What a soak may show at most; errors, and sequences or blocks left in use, are never allowed.

    `slope_kb`: growth of a process's memory in KB per 1,000 requests over the second half, which the upper
    limit of 95 % must not exceed: a soak that is too short to show that memory is flat fails; `worst_s`: the
    slowest reply; `descriptors` and `threads`: more at the end than at the start, and than in the first half.
    """

    slope_kb: float = 1000.0
    worst_s: float = 60.0
    descriptors: int = 16
    threads: int = 4


class Slope(NamedTuple):
    """KB per 1,000 requests: the slope that is likeliest, and the limits between which it is with 95 %."""

    middle_kb: float
    least_kb: float
    most_kb: float


class KindFigures(NamedTuple):
    requests: int
    errors: int
    p50_s: float
    p99_s: float
    worst_s: float


def kind_figures(outcomes: Sequence[Outcome]) -> dict[str, KindFigures]:
    """By kind, the most frequent first, and last of all kinds together."""
    by_kind: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_kind[outcome.kind].append(outcome)
    ordered = sorted(by_kind.items(), key=lambda each: -len(each[1]))
    return {kind: _kind_figures(each) for kind, each in [*ordered, ("all", list(outcomes))]}


def _kind_figures(outcomes: Sequence[Outcome]) -> KindFigures:
    seconds = [outcome.seconds for outcome in outcomes]
    p50_s, p99_s = np.percentile(seconds, [50, 99])
    errors = sum(bool(outcome.error) for outcome in outcomes)
    return KindFigures(len(outcomes), errors, float(p50_s), float(p99_s), max(seconds))


def error_counts(outcomes: Sequence[Outcome]) -> Counter[str]:
    """How often each error came, by kind and text."""
    return Counter(f"{outcome.kind}: {outcome.error}" for outcome in outcomes if outcome.error)


def memory_slope(samples: Sequence[Sample], process: str) -> Slope:
    """The growth of resident memory over the second half, in KB per 1,000 requests; 0 for one sample.

    It is the median of the slopes between all pairs of GROUPS groups of samples (Theil 1950, Sen 1968), with
    their limits of 95 % (Sen 1968).  Samples next to each other are not independent, since memory moves in
    steps that last, where a burst of large requests needs more than all before it.  So groups are compared,
    by their medians, which a large body in flight at one sample does not change.
    """
    half = _second_half(samples)
    groups = np.array_split(np.arange(len(half)), min(GROUPS, len(half)))
    requests = np.array([np.mean([half[place].requests for place in group]) for group in groups])
    rss_kb = np.array([np.median([half[place].usage[process].rss_kb for place in group]) for group in groups])
    first, second = np.triu_indices(len(groups), 1)
    apart = requests[second] - requests[first]
    slopes = np.sort((rss_kb[second] - rss_kb[first])[apart > 0] / apart[apart > 0]) * 1000
    if not slopes.size:
        return Slope(0.0, 0.0, 0.0)
    num = len(groups)
    inside = NORMAL_95 * np.sqrt(num * (num - 1) * (2 * num + 5) / 18)  # of Kendall's statistic
    least = max(0, int(np.floor((len(slopes) - inside) / 2)))
    return Slope(float(np.median(slopes)), float(slopes[least]), float(slopes[len(slopes) - 1 - least]))


def broken_bounds(
    outcomes: Sequence[Outcome], samples: Sequence[Sample], left: dict[str, float], bounds: Bounds
) -> list[str]:
    """A sentence for each bound that is broken.  `left`: gauges that are 0 in an idle server."""
    broken = [f"{count} × {error}" for error, count in error_counts(outcomes).most_common(10)]
    worst = max(outcomes, key=lambda outcome: outcome.seconds)
    if worst.seconds > bounds.worst_s:
        broken.append(f"{worst.kind} took {worst.seconds:.1f} s, more than {bounds.worst_s:g} s")
    broken += [f"{name} is {value:g} after the last request" for name, value in left.items() if value]
    for process in samples[0].usage:
        is_there = process in samples[-1].usage
        broken += _broken_by(process, samples, bounds) if is_there else [f"{process} has ended"]
    return broken


def broken_by_attacks(answers: Mapping[str, Counter[str]], neighbour: Sequence[Outcome]) -> list[str]:
    """A sentence for each kind of attack that the server failed at, and for what they cost a neighbour.

    `neighbour`: its small requests, of which the kind is the phase: before, under attack or after.
    """
    broken = [
        f"{kind}: {count} × {status}"
        for kind, counts in answers.items()
        for status, count in counts.items()
        if status[0] == "5" and status not in STATED
    ]
    broken += [f"neighbour, {count} × {error}" for error, count in error_counts(neighbour).most_common(10)]
    phases = kind_figures(neighbour)
    if UNDER in phases and BEFORE in phases and phases[UNDER].p99_s > TIMES_QUIET * phases[BEFORE].p99_s:
        broken.append(
            f"a neighbour's p99 is {phases[UNDER].p99_s:.2f} s under attack, more than {TIMES_QUIET} times "
            f"{phases[BEFORE].p99_s:.2f} s before"
        )
    return broken


def refused_to_neighbour(stored: Mapping[str, int]) -> list[str]:
    """A sentence for each use of a pool by a neighbour that was refused: `stored` counts "what: status"."""
    refused = {what: count for what, count in stored.items() if what.rpartition(": ")[2] not in ADMITTED}
    return [f"neighbour, {count} × {what}" for what, count in refused.items()]


def _broken_by(process: str, samples: Sequence[Sample], bounds: Bounds) -> list[str]:
    first, last = samples[0].usage[process], samples[-1].usage[process]
    early = samples[: (len(samples) + 1) // 2]
    threads = last.threads - max(sample.usage[process].threads for sample in early)
    figures = {
        "descriptors": (last.descriptors - first.descriptors, bounds.descriptors),
        "threads": (threads, bounds.threads),
    }
    return _broken_slope(process, memory_slope(samples, process), bounds.slope_kb) + [
        f"{process}: {value:+.0f} {what}, more than {bound:g}"
        for what, (value, bound) in figures.items()
        if value > bound
    ]


def _broken_slope(process: str, slope: Slope, most_kb: float) -> list[str]:
    if slope.most_kb <= most_kb:
        return []
    limits = f"{slope.least_kb:+.0f} to {slope.most_kb:+.0f} KB of memory per 1,000 requests"
    if slope.least_kb > most_kb:
        return [f"{process}: grows by {limits}, more than {most_kb:g}"]
    return [f"{process}: {limits}, which may be more than {most_kb:g}: a longer soak shows whether it is"]


def _second_half(samples: Sequence[Sample]) -> Sequence[Sample]:
    half = samples[-1].requests / 2
    return [sample for sample in samples if sample.requests >= half]
