"""Serializes the updates of completions as the events of a stream, in vLLM's order.

Does not depend on HTTP.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from pipelines.base.errors import BraidError
from pipelines.values.reply_values import ReplyUpdate, TextLogprob, TextPiece, TextUpdate
from pipelines.wire.token_piece import PieceLogprobs
from server.apis.generation.replies.choice_builder import text_of
from server.apis.generation.replies.logprobs import completion_drafts, completion_logprobs, width, with_prompt
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter
from server.base.version import FINGERPRINT
from server.schema.reply_models import Completion, CompletionChoice, CompletionLogprobs
from server.schema.sse import DONE, encode_text, error_events, event, template


class CompletionChunks:
    """Serializes the events of one completion stream; the common event, text alone, from a byte template.

    A choice in `_opened` has had its first event, which has the prompt where the client requested it.
    """

    def __init__(self, context: TextReplyContext, counter: TokenCounter) -> None:
        self.context = context
        self.counter = counter
        self._has_extra_fields = context.needs_prompts or context.continuous_usage
        self._opened: set[int] = set()
        self._offsets = [0] * counter.num_choices  # characters of each choice that have log-probabilities
        placeholder = uuid4().hex
        self._templates = [
            template(self._text(i, placeholder), placeholder) for i in range(counter.num_choices)
        ]

    def opening(self) -> bytes:
        return b""

    def piece(self, choice: int, update: ReplyUpdate | TextUpdate) -> bytes:
        """The event of one update, b"" when it shows nothing."""
        self.counter.add(choice, update)
        text, piece = text_of(update), update.piece
        has_logprobs = piece.logprobs is not None and bool(piece.logprobs.tokens)
        if piece.finish is None and not has_logprobs and not self._has_extra_fields:
            if not text:
                return b""
            before, after = self._templates[choice]
            return before + encode_text(text) + after
        return self._any_events(choice, text, piece)

    def ending(self) -> bytes:
        if self.context.trace is None:
            return self._usage_event() + DONE
        chunk = Completion(**self._shared(), choices=[], trace=self.context.trace())
        return event(chunk) + self._usage_event() + DONE

    def _usage_event(self) -> bytes:
        if not self.context.include_usage:
            return b""
        usage = self.counter.stream_usage()
        chunk = Completion(**self._shared(), choices=[], usage=usage, system_fingerprint=FINGERPRINT)
        return event(chunk)

    def failure(self, error: BraidError) -> bytes:
        return error_events(error)

    def _any_events(self, choice: int, text: str, piece: TextPiece) -> bytes:
        piece_logprobs = piece.logprobs or PieceLogprobs()
        token_ids = piece.token_ids if self.context.token_ids else None
        opens = self.context.needs_prompts and choice not in self._opened
        if piece.finish is None and not piece_logprobs.tokens and not text and not token_ids and not opens:
            return b""
        chunk = self._text(choice, text)
        reply = chunk.choices[0]
        reply.finish_reason, reply.stop_reason, reply.token_ids = piece.finish, piece.stop_reason, token_ids
        if self.context.only_prompt:
            reply.text, reply.finish_reason, reply.stop_reason = "", piece.finish and "length", None
            reply.token_ids = [] if token_ids is not None else None
        if self.context.logprobs:
            reply.logprobs = self._logprobs(choice, piece_logprobs, opens)
        if self.context.draft_logprobs:
            reply.draft_logprobs = self._drafts(piece_logprobs, reply.logprobs)
        if opens:
            self._opened.add(choice)
            reply.prompt_token_ids = self.context.prompt(choice).ids
            reply.text = self.context.prompt(choice).text + reply.text if self.context.echo else reply.text
        if self.context.continuous_usage:
            chunk.usage = self.counter.running_usage()
        if piece.finish is not None and not self.context.include_usage:
            chunk.system_fingerprint = FINGERPRINT
        return event(chunk)

    def _logprobs(
        self, choice: int, piece_logprobs: PieceLogprobs[TextLogprob], opens: bool
    ) -> CompletionLogprobs | None:
        entries = [] if self.context.only_prompt else piece_logprobs.tokens
        if opens and self.context.echo:
            prompt = self.context.prompt(choice)
            entries = [*(piece_logprobs.prompt or []), *entries]
            logprobs = with_prompt(prompt.first, prompt.ids[0], entries, self.context.token_format)
        elif entries:
            logprobs = completion_logprobs(entries, self.context.token_format, self._offsets[choice])
        else:
            return None
        self._offsets[choice] += width(logprobs)
        return logprobs

    def _drafts(
        self, found: PieceLogprobs[TextLogprob], own: CompletionLogprobs | None
    ) -> CompletionLogprobs | None:
        if not found.drafted or own is None:
            return None
        offsets = own.text_offset[len(own.text_offset) - len(found.tokens) :]
        return completion_drafts(found.drafted, offsets, self.context.token_format)

    def _text(self, choice: int, text: str) -> Completion:
        reply = CompletionChoice(
            index=choice,
            text=text,
            logprobs=None,
            finish_reason=None,
            stop_reason=None,
            prompt_token_ids=None,
            token_ids=None,
        )
        return Completion(**self._shared(), choices=[reply])

    def _shared(self) -> dict[str, Any]:
        context = self.context
        return {
            "id": context.id,
            "object": "text_completion",
            "created": context.created,
            "model": context.model,
        }
