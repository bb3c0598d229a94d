"""The text of an utterance while it grows: its window is read again and again, and agreed words are sent.

Each reading continues what was sent, so nothing is taken back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from pipelines.nodes.speech.window_text import joiner
from pipelines.nodes.speech.windows import (
    QUIET_SAMPLES,
    SAMPLES_PER_S,
    SEARCHED_SAMPLES,
    WINDOW_SAMPLES,
    Sound,
    quietest,
)
from server.apis.realtime.local_agreement import num_agreed, words
from server.apis.realtime.utterance import Utterance
from server.apis.realtime.window_reader import WindowReader

STEP_SAMPLES = SAMPLES_PER_S // 2
"""How much sound there must be more, at least, until a window is read again."""
LEAST_SAMPLES = SAMPLES_PER_S
"""A shorter window is read at the end of its utterance only."""
PAUSE_SAMPLES = SAMPLES_PER_S
"""After silence of this length a window ends."""
MARGIN_SAMPLES = SAMPLES_PER_S // 4
"""How much silence stays before the next sound."""


class GrowingText:
    """Samples are counted as in the utterance.  The window begins at `_start` and was read up to `_read_to`;
    `_sent` of its text was sent, `_next` are the words that the last reading had after it.
    """

    def __init__(self, utterance: Utterance, reader: WindowReader) -> None:
        self.text = ""
        self._utterance = utterance
        self._reader = reader
        self._language = reader.choice.language
        self._begin(0)

    def _begin(self, start: int) -> None:
        """A new window begins."""
        self._utterance.drop(start)
        self._start = self._read_to = start
        self._previous, self._sent = self.text, ""
        self._next: list[str] = []
        self._is_good = False

    async def deltas(self) -> AsyncIterator[str]:
        """The pieces of the text; together they are `text`, to the end of the utterance."""
        utterance = self._utterance
        while True:
            await utterance.grown(self._next_size)
            end = utterance.num_samples
            if end - self._start > WINDOW_SAMPLES:
                delta = await self._finish(self._cut())
            elif utterance.is_ended:
                if end > self._start and (delta := await self._finish(end)):
                    yield delta
                return
            else:
                delta = await self._attempt(end)
            if delta:
                yield delta

    @property
    def _next_size(self) -> int:
        """The number of samples at which the window is read again; near its longest it waits for its end."""
        step = max(STEP_SAMPLES, round(self._reader.cost.last_s * SAMPLES_PER_S))
        size = max(self._read_to + step, self._start + LEAST_SAMPLES)
        if size - self._start > WINDOW_SAMPLES - SEARCHED_SAMPLES:
            return self._start + WINDOW_SAMPLES + 1
        return size

    def _cut(self) -> int:
        """Where a window of full length ends: where it is quiet, after what was read.

        Sent words are before it, since a reading has the last word left.
        """
        last = self._start + WINDOW_SAMPLES
        first = max(self._read_to, last - SEARCHED_SAMPLES)
        if last - first < QUIET_SAMPLES:
            return last
        return first + quietest(self._utterance.sound(first, last))

    async def _attempt(self, end: int) -> str:
        """Read the window up to `end`: the words that this reading and the last one agree on."""
        is_settled = self._utterance.is_quiet(max(self._start, end - STEP_SAMPLES), end)
        if is_settled and not self._next and self._is_still(end):
            return ""
        text = await self._reader.attempt(*self._request(end))
        self._read_to = end
        if text is None:
            return ""
        self._is_good = text.is_good and not text.is_silence
        heard = words(text.text, text.language or self._language) if self._is_good else []
        num = num_agreed(self._next, heard, is_settled)
        self._next = heard[num:]
        return self._send("".join(heard[:num]), text.language)

    def _is_still(self, end: int) -> bool:
        """Whether there is nothing new to read in a window whose words were all sent; silence ends it."""
        utterance = self._utterance
        if utterance.is_silent(self._start, end):
            self._begin(max(self._start, end - MARGIN_SAMPLES))
        elif not self._sent or not utterance.is_quiet(self._read_to, end):
            return False
        elif utterance.is_silent(max(self._start, end - PAUSE_SAMPLES), end):
            self._begin(max(self._read_to, end - MARGIN_SAMPLES))
        self._read_to = end
        return True

    async def _finish(self, end: int) -> str:
        """The rest of the window's text, which ends at `end`."""
        utterance = self._utterance
        was_read = self._is_good and utterance.is_silent(self._read_to, end)
        if was_read or utterance.is_silent(self._start, end):
            rest = self._send("".join(self._next), self._language)
        else:
            text = await self._reader.finish(*self._request(end))
            rest = self._send(text.text.rstrip(), text.language)
        self._begin(end)
        return rest

    def _request(self, end: int) -> tuple[Sound, str, str, str | None]:
        """The window up to `end`, how its text begins, what was said before it, and in which language."""
        sound = self._utterance.sound(self._start, end)
        return sound, self._sent.strip(), self._previous, self._language

    def _send(self, text: str, language: str | None) -> str:
        """Note that words were sent; the language of the first ones is that of the utterance."""
        if not text.strip():
            return ""
        self._language = self._language or language
        shown = text if self._sent else text.lstrip()
        if self.text and not self._sent:
            shown = joiner(self._language or "") + shown
        self._sent += text
        self.text += shown
        return shown
