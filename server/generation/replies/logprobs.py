"""Log-probabilities of tokens in the shapes that clients know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipelines.values import Alternative, TextLogprob
from server.generation.replies.schema import (
    ChatLogprobs,
    ChosenLogprob,
    CompletionLogprobs,
    PromptLogprob,
    PromptLogprobs,
    TokenLogprob,
)

FLOOR = -9999.0
"""JSON knows no infinity: what is less likely than this is shown as this, as in vLLM."""


class Shown(NamedTuple):
    """How tokens are shown: as text or as "token_id:7"; the chosen one also at the head of its alternatives,
    where a client lists those itself."""

    as_ids: bool = False
    chosen_first: bool = False

    def token(self, token: str, token_id: int) -> str:
        return f"token_id:{token_id}" if self.as_ids else token


AS_TEXT = Shown()


def chat_logprobs(entries: Sequence[TextLogprob], shown: Shown = AS_TEXT) -> ChatLogprobs:
    content = [
        ChosenLogprob(
            token=shown.token(entry.token, entry.token_id),
            logprob=max(entry.logprob, FLOOR),
            bytes=list(entry.bytes),
            top_logprobs=[
                TokenLogprob(
                    token=shown.token(other.token, other.token_id),
                    logprob=max(other.logprob, FLOOR),
                    bytes=list(other.bytes),
                )
                for other in (_chosen_first(entry) if shown.chosen_first else entry.alternatives)
            ],
        )
        for entry in entries
    ]
    return ChatLogprobs(content=content)


def chat_drafts(drafted: Sequence[TextLogprob | None], shown: Shown = AS_TEXT) -> ChatLogprobs | None:
    """What a draft said of the tokens that it drafted; None when there are none."""
    entries = [entry for entry in drafted if entry is not None]
    return chat_logprobs(entries, shown) if entries else None


def completion_logprobs(
    entries: list[TextLogprob], offset: int = 0, shown: Shown = AS_TEXT
) -> CompletionLogprobs:
    """The first token begins at character `offset` of its choice.

    The chosen token is among its alternatives even when it is not one of the likeliest.
    """
    tokens = [shown.token(entry.token, entry.token_id) for entry in entries]
    return CompletionLogprobs(
        text_offset=_offsets(tokens, offset),
        token_logprobs=[max(entry.logprob, FLOOR) for entry in entries],
        tokens=tokens,
        top_logprobs=[_by_token(entry, shown) for entry in entries],
    )


def with_prompt(
    first: str, first_id: int, entries: list[TextLogprob], shown: Shown = AS_TEXT
) -> CompletionLogprobs:
    """Log-probabilities from a prompt's first token on, which has none of its own."""
    rest = completion_logprobs(entries, len(shown.token(first, first_id)), shown)
    return CompletionLogprobs(
        text_offset=[0, *rest.text_offset],
        token_logprobs=[None, *rest.token_logprobs],
        tokens=[shown.token(first, first_id), *rest.tokens],
        top_logprobs=[None, *rest.top_logprobs],
    )


def completion_drafts(
    drafted: list[TextLogprob | None], offsets: list[int], shown: Shown = AS_TEXT
) -> CompletionLogprobs | None:
    """The same of a completion, whose tokens begin at `offsets`."""
    places = [(i, entry) for i, entry in enumerate(drafted) if entry is not None]
    if not places:
        return None
    told = completion_logprobs([entry for _, entry in places], shown=shown)
    told.text_offset = [offsets[i] for i, _ in places]
    return told


def width(logprobs: CompletionLogprobs) -> int:
    """Characters that the tokens have together."""
    return sum(map(len, logprobs.tokens))


def prompt_logprobs(entries: list[TextLogprob], shown: Shown = AS_TEXT) -> PromptLogprobs:
    """By token id, the prompt's own token first; null for the first token, which nothing stands before."""
    return [None, *(dict(_ranked(entry, shown)) for entry in entries)]


def _ranked(entry: TextLogprob, shown: Shown) -> Iterator[tuple[str, PromptLogprob]]:
    own = shown.token(entry.token, entry.token_id)
    yield (
        str(entry.token_id),
        PromptLogprob(logprob=max(entry.logprob, FLOOR), rank=entry.rank, decoded_token=own),
    )
    for i, other in enumerate(entry.alternatives):
        if other.token_id != entry.token_id:
            token = shown.token(other.token, other.token_id)
            yield (
                str(other.token_id),
                PromptLogprob(logprob=max(other.logprob, FLOOR), rank=i + 1, decoded_token=token),
            )


def _offsets(tokens: list[str], offset: int) -> list[int]:
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token)
    return offsets


def _chosen_first(entry: TextLogprob) -> list[Alternative]:
    own = Alternative(entry.token, entry.bytes, entry.logprob, entry.token_id)
    return [own, *(other for other in entry.alternatives if other.token_id != entry.token_id)]


def _by_token(entry: TextLogprob, shown: Shown) -> dict[str, float]:
    """Token → log-probability, the chosen one first; of tokens with the same text the likeliest counts."""
    found = {shown.token(entry.token, entry.token_id): max(entry.logprob, FLOOR)}
    for token, _, logprob, token_id in entry.alternatives:
        found.setdefault(shown.token(token, token_id), max(logprob, FLOOR))
    return found
