"""Measures every workload in rounds, in which the systems take turns, and computes the figures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tools.lab.bench.base.systems import SystemFailed
from tools.lab.bench.pooling.measuring import asleep
from tools.lab.bench.speech.load import Load, Timings
from tools.lab.bench.speech.systems import BRAID, SpeechSystem
from tools.lab.bench.speech.words import count_errors, words_of

Row = dict[str, float | str]


@dataclass(frozen=True)
class SpeechWorkload:
    """`clips`, at most `at_once` of them in flight."""

    clips: int
    at_once: int


WORKLOADS = {
    "1 clip at a time": SpeechWorkload(8, 1),
    "8 clips at once": SpeechWorkload(8, 8),
    "32 clips at once": SpeechWorkload(32, 32),
}
MOST_CLIPS = 32


def measure(
    systems: Mapping[str, SpeechSystem],
    workloads: Mapping[str, SpeechWorkload],
    clips: Sequence[tuple[str, float]],
    rounds: int,
    note: Callable[[str], None],
) -> list[Row]:
    """A row for each workload and system; `clips` are paths and seconds.

    A warm-up round is not counted.
    """
    rows: list[Row] = []
    for title, workload in workloads.items():
        chosen = clips[: workload.clips]
        load, audio_s = (
            Load([path for path, _ in chosen], workload.at_once),
            sum(seconds for _, seconds in chosen),
        )
        taken: dict[str, list[Timings]] = {name: [] for name in systems}
        for turn in range(rounds + 1):
            for name in systems:
                timings = _take(name, systems, load, note)
                if timings is not None and turn:
                    taken[name].append(timings)
                    note(f"{title}, round {turn}, {name}: {timings.wall_s / audio_s:.4f} of the sound's time")
        rows += _rows(
            title, audio_s, {name: results for name, results in taken.items() if len(results) == rounds}
        )
    return rows


def _take(
    name: str, systems: Mapping[str, SpeechSystem], load: Load, note: Callable[[str], None]
) -> Timings | None:
    others = [one for other, one in systems.items() if other != name]
    try:
        with asleep(others):
            return systems[name].take(load)
    except SystemFailed as error:
        note(f"{name}: {error}")
        return None


def _rows(title: str, audio_s: float, taken: Mapping[str, list[Timings]]) -> list[Row]:
    """Medians of the rounds; `ratio` is the median of the rounds' ratios of this one's time to Braid's."""
    rows: list[Row] = []
    for name, rounds in taken.items():
        row: Row = {"workload": title, "system": name}
        row["real_time_factor"] = statistics.median(result.wall_s for result in rounds) / audio_s
        row["clips_per_s"] = statistics.median(len(result.texts) / result.wall_s for result in rounds)
        if BRAID in taken:
            pairs = list(zip(taken[BRAID], rounds, strict=True))
            row["ratio"] = statistics.median(its.wall_s / own.wall_s for own, its in pairs)
            row["other_words"] = _other_words(taken[BRAID][0].texts, rounds[0].texts)
        rows.append(row)
    return rows


def _other_words(ours: Sequence[str], theirs: Sequence[str]) -> float:
    """Words that differ, of a hundred."""
    pairs = [(words_of(own), words_of(its)) for own, its in zip(ours, theirs, strict=True)]
    errors = sum(count_errors(own, its) for own, its in pairs)
    return 100 * errors / max(1, sum(len(own) for own, _ in pairs))
