"""The last minutes of a model, of one engine or of several together."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.wire.engine_view import HISTORY_SAMPLES, History, Series
from server.status.reply_models import HistoryPart, HistorySeries


def history_part(histories: Sequence[History]) -> HistoryPart:
    """Sums over engines, instant by instant; an engine that has no point of an instant adds nothing."""
    if not histories:
        return HistoryPart()
    end, period_s = max(history.end for history in histories), histories[0].period_s
    length = min(HISTORY_SAMPLES, max(_behind(history, end) + _length(history) for history in histories))

    def total(name: Series) -> list[float]:
        sums = [0.0] * length
        for history in histories:
            last = length - 1 - _behind(history, end)
            for back, value in enumerate(reversed(history.series.get(name, []))):
                if last - back >= 0:
                    sums[last - back] += value
        return sums

    return HistoryPart(
        period_s=period_s,
        end=end,
        series=HistorySeries(
            running=total("running"),
            waiting=total("waiting"),
            prompt_tokens_per_s=[tokens / period_s for tokens in total("prompt_tokens")],
            output_tokens_per_s=[tokens / period_s for tokens in total("output_tokens")],
            blocks_used=total("blocks_used"),
            blocks_reusable=total("blocks_reusable"),
            prefix_hit_rate=_rates(total("prefix_hits"), total("prefix_queries")),
            draft_accept_rate=_rates(total("accepted_tokens"), total("draft_tokens")),
            preemptions=total("preemptions"),
            resident_bytes=total("resident_bytes"),
        ),
    )


def _length(history: History) -> int:
    return max(map(len, history.series.values()), default=0)


def _behind(history: History, end: float) -> int:
    """How many periods a history ended before `end`."""
    return round((end - history.end) / history.period_s)


def _rates(parts: Sequence[float], wholes: Sequence[float]) -> list[float | None]:
    return [part / whole if whole else None for part, whole in zip(parts, wholes, strict=True)]
