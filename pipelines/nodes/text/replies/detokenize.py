"""Token ids in pieces → text in pieces: half characters and possible stop strings are held back.

Knows nothing of what the text means, of HTTP or of how the tokens were computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.nodes.interface import Loading, Running
from pipelines.nodes.text.markup.tags import SearchPattern
from pipelines.nodes.text.replies.incremental_decoder import IncrementalDecoder
from pipelines.nodes.text.replies.prompt_logprobs import DescribePrompt, PromptTexts
from pipelines.nodes.text.tokenizing.tokenizer import open_tokenizer
from pipelines.values.reply_values import Alternative, TextLogprob, TextPiece, TextUpdate
from pipelines.values.stream_values import Stream, StreamChoice
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.messages import TokenUpdate
from pipelines.wire.token_piece import PieceLogprobs, TokenPiece

REPETITION = "repetition_detected"
"""The stop reason of an output that repeats itself, in vLLM's word."""


class Detokenize(Node):
    """Text of the generated tokens, ended at the first stop string."""

    class Config(NodeConfig):
        tokenizer: FilePath = Field(description="a tokenizer.json")

    def load(self, resources: Loading) -> None:
        self.tokenizer = resources.shared(open_tokenizer, self.folder / self.config.tokenizer)

    def run(self, call: Running, generated: Stream[TokenUpdate]) -> Stream[TextUpdate]:
        request, prompts = call.request, PromptTexts()
        skips = request.skip_special_tokens and not call.plan.keep_special_tokens
        stops = StopPatterns(request.stop, request.include_stop_str_in_output)

        def make(choice: StreamChoice) -> Detokenizer:
            decoder = IncrementalDecoder(self.tokenizer, skips)
            scored = choice.params.prompt_logprobs is not None
            describe_prompt = partial(prompts.describe, choice) if scored else None
            return Detokenizer(
                decoder, StopStrings(stops), request.sampling.get("min_tokens", 0), describe_prompt
            )

        return generated.pipe(make)


class StopPatterns:
    """The stop strings of a request, none of them empty, which the searches of all its choices share."""

    def __init__(self, stops: Sequence[str], include: bool) -> None:
        """`include`: a text that a stop string ends has it at its end."""
        self.patterns = [SearchPattern(stop) for stop in stops]
        self.first_chars = frozenset(stop[0] for stop in stops)
        self.include = include


class StopStrings:
    """Finds the earliest stop string across piece borders; holds back what may become one."""

    def __init__(self, stops: StopPatterns) -> None:
        self.include = stops.include
        self.held = ""
        self._patterns = stops.patterns
        self._first_chars = stops.first_chars
        self._found = [0] * len(stops.patterns)  # characters of each with which the text so far ends

    def push(self, text: str) -> tuple[str, str | None]:
        """(text that is safe to show, the stop string that ended it or None)."""
        if not self._found or (not self.held and self._first_chars.isdisjoint(text)):
            return text, None
        begun, stop = 0, None  # where the earliest stop string begins
        for index, pattern in enumerate(self._patterns):
            self._found[index], end = pattern.advance(self._found[index], text)
            at = len(self.held) + end - len(pattern.text)
            if end and (stop is None or at < begun):
                begun, stop = at, pattern.text
        text = self.held + text
        if stop is not None:
            self._forget()
            return text[: begun + len(stop) if self.include else begun], stop
        shown = len(text) - max(self._found)
        self.held = text[shown:]
        return text[:shown], None

    def flush(self) -> str:
        """What was held back, at the end of the text."""
        text = self.held
        self._forget()
        return text

    def _forget(self) -> None:
        self.held, self._found = "", [0] * len(self._found)


class Detokenizer:
    """The stream stage of one choice.  Stop strings count only after `min_tokens` output tokens.

    An end token is text only where stop strings are.  Bytes of a character that the end cut off are no text.
    `describe_prompt` turns the log-probabilities of the prompt into text, where the request asks for them.
    """

    def __init__(
        self,
        decoder: IncrementalDecoder,
        stops: StopStrings,
        min_tokens: int,
        describe_prompt: DescribePrompt | None = None,
    ) -> None:
        self.decoder = decoder
        self.stops = stops
        self.min_tokens = min_tokens
        self.num_tokens = 0
        self._describe_prompt = describe_prompt

    def push(self, update: TokenUpdate) -> TextUpdate:
        parts: list[str] = []
        stop = None
        for token_id in self._written(update.piece):
            part, stop = self._token(token_id)
            parts.append(part)
            if stop is not None:
                break
        if stop is not None:
            _end_at(update.piece, len(parts), stop)
        out = TextUpdate(self._as_text(update.piece), "".join(parts), parts)
        if stop is None and out.piece.finish is not None:
            self._end(out)
        return out

    def _written(self, piece: TokenPiece[TokenLogprobs]) -> list[int]:
        ends = piece.finish == "stop" and not self.stops.include
        return piece.token_ids[:-1] if ends else piece.token_ids

    def _token(self, token_id: int) -> tuple[str, str | None]:
        self.num_tokens += 1
        text = self.decoder.push(token_id)
        return self.stops.push(text) if self.num_tokens > self.min_tokens else (text, None)

    def _end(self, out: TextUpdate) -> None:
        """The engine ended the choice: what could have become a stop string is text."""
        out.text += self.stops.flush()
        if out.piece.finish == "repetition":
            out.piece.stop_reason = REPETITION

    def _as_text(self, piece: TokenPiece[TokenLogprobs]) -> TextPiece:
        """Gives the piece with its log-probabilities, where it has any, as text."""
        as_text = cast(TextPiece, piece)
        if piece.logprobs is not None:
            as_text.logprobs = self._described(piece.token_ids, piece.logprobs)
        return as_text

    def _described(
        self, token_ids: list[int], logprobs: PieceLogprobs[TokenLogprobs]
    ) -> PieceLogprobs[TextLogprob]:
        pairs = zip(token_ids, logprobs.tokens, strict=False)
        drafts = zip(token_ids, logprobs.drafted, strict=False)
        described = PieceLogprobs(
            [self._logprob(*pair) for pair in pairs],
            drafted=[None if draft is None else self._logprob(token_id, draft) for token_id, draft in drafts],
        )
        if self._describe_prompt is not None and logprobs.prompt is not None:
            described.prompt = self._describe_prompt(logprobs.prompt, self._logprob)
        return described

    def _logprob(self, token_id: int, logprobs: TokenLogprobs) -> TextLogprob:
        text, raw = self.decoder.token_text(token_id)
        top = [
            Alternative(*self.decoder.token_text(top_id), value, top_id)
            for top_id, value in zip(logprobs.top_ids, logprobs.top_logprobs, strict=True)
        ]
        return TextLogprob(text, raw, token_id, logprobs.logprob, top, logprobs.rank)


def _end_at(piece: TokenPiece[TokenLogprobs], count: int, stop: str) -> None:
    """End a piece after its first `count` tokens, where a stop string was found."""
    piece.token_ids, piece.num_tokens = piece.token_ids[:count], count
    piece.finish, piece.stop_reason = "stop", stop
