"""Log-probabilities of tokens in the shapes of OpenAI and vLLM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pipelines.values.reply_values import Alternative, TextLogprob
from server.schema.reply_models import ChatLogprobs, CompletionLogprobs

FLOOR = -9999.0
"""The lowest log-probability in a reply, as in vLLM: JSON has no infinity."""


class TokenFormat(NamedTuple):
    """How tokens are written: as text or as "token_id:7".

    `chosen_first` puts the chosen token before its alternatives, where the client listed those itself.
    """

    as_ids: bool = False
    chosen_first: bool = False

    def token(self, token: str, token_id: int) -> str:
        return f"token_id:{token_id}" if self.as_ids else token


AS_TEXT = TokenFormat()


def chosen_logprobs(entries: Iterable[TextLogprob], token_format: TokenFormat = AS_TEXT) -> Any:
    """The content of `ChatLogprobs`: an iterator over an object for each token, of which one is held."""
    for entry in entries:
        others = _chosen_first(entry) if token_format.chosen_first else entry.alternatives
        yield {
            "token": token_format.token(entry.token, entry.token_id),
            "logprob": max(entry.logprob, FLOOR),
            "bytes": list(entry.bytes),
            "top_logprobs": [
                {
                    "token": token_format.token(other.token, other.token_id),
                    "logprob": max(other.logprob, FLOOR),
                    "bytes": list(other.bytes),
                }
                for other in others
            ],
        }


def chat_logprobs(entries: Sequence[TextLogprob], token_format: TokenFormat) -> ChatLogprobs:
    """The log-probabilities of a chat reply, to be serialized once: the content is an iterator."""
    return ChatLogprobs.model_construct(content=chosen_logprobs(entries, token_format))


def chat_drafts(drafted: Sequence[TextLogprob | None], token_format: TokenFormat) -> ChatLogprobs | None:
    """The draft model's log-probabilities of accepted draft tokens; None when there are none."""
    entries = [entry for entry in drafted if entry is not None]
    return chat_logprobs(entries, token_format) if entries else None


def completion_logprobs(
    entries: list[TextLogprob], token_format: TokenFormat, offset: int = 0
) -> CompletionLogprobs:
    """The first token begins at character `offset` of its choice.

    The chosen token is among its alternatives even when it is not one of the likeliest.
    """
    tokens = [token_format.token(entry.token, entry.token_id) for entry in entries]
    return CompletionLogprobs(
        text_offset=_offsets(tokens, offset),
        token_logprobs=[max(entry.logprob, FLOOR) for entry in entries],
        tokens=tokens,
        top_logprobs=[_by_token(entry, token_format) for entry in entries],
    )


def with_prompt(
    first: str, first_id: int, entries: list[TextLogprob], token_format: TokenFormat
) -> CompletionLogprobs:
    """Log-probabilities from a prompt's first token on, which has none of its own."""
    rest = completion_logprobs(entries, token_format, len(token_format.token(first, first_id)))
    return CompletionLogprobs(
        text_offset=[0, *rest.text_offset],
        token_logprobs=[None, *rest.token_logprobs],
        tokens=[token_format.token(first, first_id), *rest.tokens],
        top_logprobs=[None, *rest.top_logprobs],
    )


def completion_drafts(
    drafted: list[TextLogprob | None], offsets: list[int], token_format: TokenFormat
) -> CompletionLogprobs | None:
    """Log-probabilities of a completion's draft tokens; its tokens begin at `offsets`."""
    places = [(i, entry) for i, entry in enumerate(drafted) if entry is not None]
    if not places:
        return None
    logprobs = completion_logprobs([entry for _, entry in places], token_format)
    logprobs.text_offset = [offsets[i] for i, _ in places]
    return logprobs


def width(logprobs: CompletionLogprobs) -> int:
    """Characters that the tokens have together."""
    return sum(map(len, logprobs.tokens))


def prompt_logprobs(entries: Iterable[TextLogprob], token_format: TokenFormat) -> Any:
    """By token id, the prompt's own token first; null for the first token, which has none.

    It is an iterator over plain objects, to be written once.
    """
    yield None
    for entry in entries:
        yield dict(_ranked(entry, token_format))


def _ranked(entry: TextLogprob, token_format: TokenFormat) -> Iterator[tuple[str, dict[str, Any]]]:
    own = token_format.token(entry.token, entry.token_id)
    yield str(entry.token_id), _scored(entry.logprob, entry.rank, own)
    for i, other in enumerate(entry.alternatives):
        if other.token_id != entry.token_id:
            token = token_format.token(other.token, other.token_id)
            yield str(other.token_id), _scored(other.logprob, i + 1, token)


def _scored(logprob: float, rank: int, token: str) -> dict[str, Any]:
    return {"logprob": max(logprob, FLOOR), "rank": rank, "decoded_token": token}


def _offsets(tokens: list[str], offset: int) -> list[int]:
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token)
    return offsets


def _chosen_first(entry: TextLogprob) -> list[Alternative]:
    own = Alternative(entry.token, entry.bytes, entry.logprob, entry.token_id)
    return [own, *(other for other in entry.alternatives if other.token_id != entry.token_id)]


def _by_token(entry: TextLogprob, token_format: TokenFormat) -> dict[str, float]:
    """Token → log-probability, the chosen one first; of tokens with the same text the likeliest counts."""
    found = {token_format.token(entry.token, entry.token_id): max(entry.logprob, FLOOR)}
    for token, _, logprob, token_id in entry.alternatives:
        found.setdefault(token_format.token(token, token_id), max(logprob, FLOOR))
    return found
