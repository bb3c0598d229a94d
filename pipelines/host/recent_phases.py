"""What the phases of an engine's steps took: since it was made, and in the last seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from pipelines.inference.engine.interface.engine_contract import Engine
from pipelines.telemetry.step_profile import KindSums
from pipelines.wire.engine_view import RECENT_S, PhaseTimes

NOTHING: KindSums = (0, {})


class RecentPhases:
    """Belongs to the host's main thread, which samples about once a second."""

    def __init__(self) -> None:
        self._samples: WeakKeyDictionary[Engine[Any], deque[tuple[float, dict[str, KindSums]]]] = (
            WeakKeyDictionary()
        )

    def sample(self, engines: Iterable[Engine[Any]], now_s: float) -> None:
        for engine in engines:
            samples = self._samples.setdefault(engine, deque())
            samples.append((now_s, engine.profile.sums()))
            while len(samples) > 1 and samples[1][0] <= now_s - RECENT_S:
                samples.popleft()

    def of(self, engine: Engine[Any], now_s: float) -> list[PhaseTimes]:
        """The phases of each kind of steps, in their order."""
        then = self._before(engine, now_s - RECENT_S)
        phases = []
        for kind, (steps, seconds) in engine.profile.sums().items():
            steps_then, seconds_then = then.get(kind, NOTHING)
            phases += [
                PhaseTimes(
                    kind,
                    phase,
                    engine.profile.nodes.get(phase, ""),
                    steps,
                    took_s,
                    steps - steps_then,
                    took_s - seconds_then.get(phase, 0.0),
                )
                for phase, took_s in seconds.items()
            ]
        return phases

    def _before(self, engine: Engine[Any], then_s: float) -> dict[str, KindSums]:
        """The last sample before a time; {} of an engine that was made after it."""
        older = [sums for at_s, sums in self._samples.get(engine, ()) if at_s <= then_s]
        return older[-1] if older else {}
