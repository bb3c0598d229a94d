"""Pieces of completions → the events of a stream, in the order in which vLLM sends them.

Knows nothing of HTTP or of where pieces come from.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from pipelines.errors import BraidError
from pipelines.values import ReplyUpdate, TextLogprob, TextPiece, TextUpdate
from pipelines.wire.token_piece import PieceLogprobs
from server.generation.replies.chat import ReplyContext, text_of
from server.generation.replies.logprobs import completion_drafts, completion_logprobs, width, with_prompt
from server.generation.replies.schema import Completion, CompletionChoice, CompletionLogprobs
from server.generation.replies.sse import DONE, cut, encode_text, error_events, event
from server.generation.replies.token_counter import TokenCounter
from server.version import FINGERPRINT


class CompletionChunks:
    """Writes the events of one completion stream.

    A choice in `_opened` has had its first event, which tells of the prompt where the client wants that.
    """

    def __init__(self, head: ReplyContext, tally: TokenCounter) -> None:
        self.head = head
        self.tally = tally
        self._tells_more = head.needs_prompts or head.continuous_usage  # with every piece
        self._opened: set[int] = set()
        self._offsets = [0] * tally.num_choices  # characters of each choice that have log-probabilities
        mark = uuid4().hex
        self._cut = [cut(self._text(i, mark), mark) for i in range(tally.num_choices)]

    def opening(self) -> bytes:
        return b""

    def piece(self, choice: int, update: ReplyUpdate | TextUpdate) -> bytes:
        """The event of one piece, b"" when there is nothing to show."""
        self.tally.add(choice, update)
        text, piece = text_of(update), update.piece
        has_logprobs = piece.logprobs is not None and bool(piece.logprobs.tokens)
        if piece.finish is None and not has_logprobs and not self._tells_more:
            if not text:
                return b""
            before, after = self._cut[choice]
            return before + encode_text(text) + after
        return self._rare(choice, text, piece)

    def ending(self) -> bytes:
        if not self.head.include_usage:
            return DONE
        usage = self.tally.stream_usage()
        chunk = Completion(**self._head(), choices=[], usage=usage, system_fingerprint=FINGERPRINT)
        return event(chunk) + DONE

    def failure(self, error: BraidError) -> bytes:
        return error_events(error)

    def _rare(self, choice: int, text: str, piece: TextPiece) -> bytes:
        found = piece.logprobs or PieceLogprobs()
        token_ids = piece.token_ids if self.head.token_ids else None
        opens = self.head.needs_prompts and choice not in self._opened
        if piece.finish is None and not found.tokens and not text and not token_ids and not opens:
            return b""
        chunk = self._text(choice, text)
        said = chunk.choices[0]
        said.finish_reason, said.stop_reason, said.token_ids = piece.finish, piece.stop_reason, token_ids
        if self.head.only_prompt:
            said.text, said.finish_reason, said.stop_reason = "", piece.finish and "length", None
            said.token_ids = [] if token_ids is not None else None
        if self.head.logprobs:
            said.logprobs = self._logprobs(choice, found, opens)
        if self.head.draft_logprobs:
            said.draft_logprobs = self._drafts(found, said.logprobs)
        if opens:
            self._opened.add(choice)
            said.prompt_token_ids = self.head.prompt(choice).ids
            said.text = self.head.prompt(choice).text + said.text if self.head.echo else said.text
        if self.head.continuous_usage:
            chunk.usage = self.tally.running_usage()
        if piece.finish is not None and not self.head.include_usage:
            chunk.system_fingerprint = FINGERPRINT
        return event(chunk)

    def _logprobs(
        self, choice: int, found: PieceLogprobs[TextLogprob], opens: bool
    ) -> CompletionLogprobs | None:
        entries = [] if self.head.only_prompt else found.tokens
        if opens and self.head.echo:
            prompt = self.head.prompt(choice)
            entries = [*(found.prompt or []), *entries]
            shown = with_prompt(prompt.first, prompt.ids[0], entries, self.head.shown)
        elif entries:
            shown = completion_logprobs(entries, self._offsets[choice], self.head.shown)
        else:
            return None
        self._offsets[choice] += width(shown)
        return shown

    def _drafts(
        self, found: PieceLogprobs[TextLogprob], own: CompletionLogprobs | None
    ) -> CompletionLogprobs | None:
        if not found.drafted or own is None:
            return None
        offsets = own.text_offset[len(own.text_offset) - len(found.tokens) :]
        return completion_drafts(found.drafted, offsets, self.head.shown)

    def _text(self, choice: int, text: str) -> Completion:
        said = CompletionChoice(
            index=choice,
            text=text,
            logprobs=None,
            finish_reason=None,
            stop_reason=None,
            prompt_token_ids=None,
            token_ids=None,
        )
        return Completion(**self._head(), choices=[said])

    def _head(self) -> dict[str, Any]:
        head = self.head
        return {"id": head.id, "object": "text_completion", "created": head.created, "model": head.model}
