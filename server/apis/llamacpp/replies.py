"""Replies of completion and infill: one object for each choice, or server-sent events.  Without HTTP."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from pipelines.base.errors import BraidError
from pipelines.values.reply_values import TextLogprob
from server.apis.generation.replies.choice_builder import ChoiceBuilder
from server.apis.generation.replies.logprobs import FLOOR
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter
from server.apis.generation.replies.update_stages import Batch
from server.apis.llamacpp.body import SamplingBody
from server.apis.llamacpp.dialect import llama_error
from server.apis.llamacpp.line_limits import IndentLimits
from server.apis.llamacpp.reply_models import LlamaText, LlamaTimings

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class LlamaContext(TextReplyContext):
    """`settings` are reported as those of the generation; `started_s` is by a monotonic clock."""

    shows_prompt_if_known: ClassVar[bool] = True

    source: SamplingBody = field(default_factory=SamplingBody)
    limits: IndentLimits = field(default_factory=IndentLimits)
    settings: dict[str, Any] = field(default_factory=dict)

    def staged(self, updates: AsyncIterator[Batch], close: Callable[[], None]) -> AsyncIterator[Batch]:
        return self.limits.ended(updates, close) if self.limits.limits else updates

    def whole(self, index: int, choice: ChoiceBuilder, counter: TokenCounter) -> dict[str, Any]:
        """The object of one choice: of a stream its last event, with the text left out, and without
        probabilities, which its pieces have."""
        only_prompt = self.source.only_prompt
        text, piece = "" if only_prompt else "".join(choice.text), choice.piece
        num_output = 0 if only_prompt else piece.num_tokens
        kind, word = _stop(choice.finish, piece.stop_reason)
        reply = LlamaText(
            index=index,
            content=text,
            tokens=piece.token_ids if self.source.return_tokens and not only_prompt else [],
            id_slot=0,
            stop=True,
            model=self.model,
            tokens_predicted=num_output,
            tokens_evaluated=counter.num_prompt,
            generation_settings=self.settings,
            prompt=self.prompts[0].text if self.prompts else "",
            has_new_line="\n" in text,
            truncated=False,
            stop_type=kind,
            stopping_word=word,
            tokens_cached=counter.num_prompt + num_output,
            timings=self._timings(counter, piece.prefill_s or 0.0, num_output),
        )
        if self.source.n_probs and not (self.source.stream or only_prompt):
            reply.completion_probabilities = [_probabilities(token) for token in choice.logprobs.tokens]
        return self._chosen(reply.model_dump(exclude_unset=True))

    def _timings(self, counter: TokenCounter, prefill_s: float, num_output: int) -> LlamaTimings:
        prompt_ms = max(prefill_s * 1e3, 1e-3)
        output_ms = max((time.monotonic() - self.limits.started_s) * 1e3 - prompt_ms, 1e-3)
        num_prompt = counter.num_prompt - counter.num_cached
        return LlamaTimings(
            cache_n=counter.num_cached,
            prompt_n=num_prompt,
            prompt_ms=prompt_ms,
            prompt_per_token_ms=prompt_ms / max(num_prompt, 1),
            prompt_per_second=num_prompt / prompt_ms * 1e3,
            predicted_n=num_output,
            predicted_ms=output_ms,
            predicted_per_token_ms=output_ms / max(num_output, 1),
            predicted_per_second=num_output / output_ms * 1e3,
        )

    def _chosen(self, reply: dict[str, Any]) -> dict[str, Any]:
        """The members that the client reads; "a/b" is member b of a, under that name."""
        if not self.source.response_fields:
            return reply
        found = {path: _member(reply, path.split("/")) for path in self.source.response_fields}
        return {path: value for path, value in found.items() if value is not None}


def _member(reply: Any, path: Sequence[str]) -> Any:
    for name in path:
        reply = reply.get(name) if isinstance(reply, dict) else None
    return reply


def _stop(finish: str, reason: str | int | None) -> tuple[str, str]:
    """Why a text ended, in llama.cpp's words, and the stop string that ended it."""
    if finish != "stop":
        return "limit", ""
    return ("word", reason) if isinstance(reason, str) else ("eos", "")


def _probabilities(entry: TextLogprob) -> dict[str, Any]:
    top = [
        {
            "id": other.token_id,
            "token": other.token,
            "bytes": [*other.bytes],
            "logprob": max(other.logprob, FLOOR),
        }
        for other in entry.alternatives
    ]
    own = {"id": entry.token_id, "token": entry.token, "bytes": [*entry.bytes]}
    return {**own, "logprob": max(entry.logprob, FLOOR), "top_logprobs": top}


def _scored(update: Any) -> list[dict[str, Any]]:
    """The probabilities of an update's tokens."""
    logprobs = update.piece.logprobs
    return [] if logprobs is None else [_probabilities(token) for token in logprobs.tokens]


def event(reply: Any) -> bytes:
    """One event of a stream."""
    return b"data: " + encode(reply) + b"\n\n"


class LlamaEvents:
    """Serializes the events of one stream; it ends without a [DONE]."""

    def __init__(self, context: LlamaContext, counter: TokenCounter) -> None:
        self._context = context
        self._counter = counter
        self._choices = [ChoiceBuilder() for _ in range(counter.num_choices)]

    def opening(self) -> bytes:
        return b""

    def piece(self, choice: int, update: Any) -> bytes:
        """The events of one update, b"" when it shows nothing."""
        self._counter.add(choice, update)
        builder, context = self._choices[choice], self._context
        token_ids, scored = list(update.piece.token_ids), _scored(update) if context.source.n_probs else []
        builder.add(update)
        text = builder.text[-1] if builder.text else ""
        data = b""
        if (text or scored) and not context.source.only_prompt:
            part = LlamaText(
                index=choice,
                content=text,
                tokens=token_ids,
                id_slot=0,
                stop=False,
                tokens_predicted=builder.piece.num_tokens,
                tokens_evaluated=self._counter.num_prompt,
            )
            if scored:
                part.completion_probabilities = scored
            data = event(part.model_dump(exclude_unset=True))
        if update.piece.finish is None:
            return data
        return data + event({**context.whole(choice, builder, self._counter), "content": ""})

    def ending(self) -> bytes:
        return b""

    def failure(self, error: BraidError) -> bytes:
        return b"data: " + llama_error(error).to_json() + b"\n\n"
