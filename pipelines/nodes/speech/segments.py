"""The segments node: the text of a window of sound, divided by the times that the model writes."""

from __future__ import annotations

import math

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.nodes.interface import Loading, Running
from pipelines.nodes.speech.whisper_tokens import WhisperTokens, read_whisper_tokens
from pipelines.nodes.text.replies.incremental_decoder import REPLACEMENT
from pipelines.values.reply_values import Segment, SpeechUpdate, TextLogprob, TextUpdate
from pipelines.values.stream_values import Stream, StreamChoice

SAMPLES_PER_S = 16_000


class Segments(Node):
    """Takes the times, and the tokens of the opening, out of the text, and makes segments of the text
    between times.
    """

    class Config(NodeConfig):
        settings: FilePath = Field(description="a generation_config.json with Whisper's token ids")

    def load(self, resources: Loading) -> None:
        self.known: WhisperTokens = resources.shared(read_whisper_tokens, self.folder / self.config.settings)
        self.names = {token_id: name for name, token_id in self.known.languages.items()}

    def run(self, call: Running, text: Stream[TextUpdate]) -> Stream[SpeechUpdate]:
        windows = call.request.windows

        def make(choice: StreamChoice) -> Segmenter:
            duration_s = len(windows[choice.prompt_index]) / SAMPLES_PER_S
            return Segmenter(self.known, self.names, len(choice.params.opening), duration_s)

        return text.pipe(make)


class Segmenter:
    """The stream stage of one window of `duration_s` seconds, whose output has `num_opening` tokens before
    its text.

    `_start_s` is where the segment begins whose text, tokens and log-probabilities are collected.
    """

    def __init__(
        self, known: WhisperTokens, names: dict[int, str], num_opening: int, duration_s: float
    ) -> None:
        self._known = known
        self._names = names
        self._num_opening = num_opening
        self._duration_s = duration_s
        self._num_tokens = 0
        self._start_s = 0.0
        self._times = 0  # how many of the last tokens are times, at most 2
        self._has_closed = False
        self._empty()

    def _empty(self) -> None:
        self._text: list[str] = []
        self._token_ids: list[int] = []
        self._logprobs: list[float] = []

    def push(self, update: TextUpdate) -> SpeechUpdate:
        piece = update.piece
        out = SpeechUpdate(piece, "", segments=[])
        logprobs = [] if piece.logprobs is None else piece.logprobs.tokens
        for i, (token_id, part) in enumerate(zip(piece.token_ids, update.parts, strict=False)):
            said = part.replace(REPLACEMENT, "")  # bytes that become no character are not speech
            self._take(token_id, said, logprobs[i] if i < len(logprobs) else None, out)
        if not self._num_tokens and logprobs:
            out.no_speech_prob = self._no_speech(logprobs[0])  # the end token alone
        if piece.finish is not None:
            self._end(out)
        return out

    def _take(self, token_id: int, part: str, logprob: TextLogprob | None, out: SpeechUpdate) -> None:
        at, self._num_tokens = self._num_tokens, self._num_tokens + 1
        if at == 0 and logprob is not None:
            out.no_speech_prob = self._no_speech(logprob)
        if at < self._num_opening:
            out.language = self._names.get(token_id, out.language)
        elif token_id >= self._known.first_time:
            self._at_time(token_id, part, out)
        else:
            self._times = 0
            self._text.append(part)
            self._token_ids.append(token_id)
            self._logprobs.append(0.0 if logprob is None else logprob.logprob)
            out.text += part

    def _no_speech(self, logprob: TextLogprob) -> float:
        found = [each.logprob for each in logprob.alternatives if each.token_id == self._known.no_speech]
        return math.exp(found[0]) if found else 0.0

    def _at_time(self, token_id: int, part: str, out: SpeechUpdate) -> None:
        """The text of the time itself is left out; what was held back before it is not."""
        seconds = self._known.seconds(token_id)
        held = part.replace(f"<|{seconds:.2f}|>", "")
        self._times = min(self._times + 1, 2)
        if self._token_ids:
            self._text.append(held)
            out.text += held
            self._close(seconds, out, is_closed=True)
        self._start_s = min(seconds, self._duration_s)

    def _close(self, end_s: float, out: SpeechUpdate, is_closed: bool) -> None:
        end_s = max(self._start_s, min(end_s, self._duration_s))
        text, ids, logprobs = "".join(self._text), self._token_ids, self._logprobs
        self._has_closed |= is_closed
        self._empty()
        if text.strip():
            out.segments.append(Segment(self._start_s, end_s, text, ids, logprobs, is_closed))

    def _end(self, out: SpeechUpdate) -> None:
        """Text without an end, or two times, after the end of a segment: the next window begins there."""
        if self._has_closed and (self._token_ids or self._times == 2):
            out.continues_s = self._start_s
        if self._token_ids:
            self._close(self._duration_s, out, is_closed=False)
