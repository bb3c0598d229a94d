"""Log-probabilities of output tokens in the two shapes that clients know."""

from __future__ import annotations

from pipelines.values import TextLogprob
from server.generation.schema import ChatLogprobs, ChosenLogprob, CompletionLogprobs, TokenLogprob

FLOOR = -9999.0
"""JSON knows no infinity: what is less likely than this is shown as this, as in vLLM."""


def chat_logprobs(entries: list[TextLogprob]) -> ChatLogprobs:
    content = [
        ChosenLogprob(
            token=entry.token,
            logprob=max(entry.logprob, FLOOR),
            bytes=list(entry.bytes),
            top_logprobs=[
                TokenLogprob(token=token, logprob=max(logprob, FLOOR), bytes=list(raw))
                for token, raw, logprob, _ in entry.alternatives
            ],
        )
        for entry in entries
    ]
    return ChatLogprobs(content=content)


def completion_logprobs(entries: list[TextLogprob], offset: int = 0) -> CompletionLogprobs:
    """The first token begins at character `offset` of its choice.

    The chosen token is among its alternatives even when it is not one of the likeliest.
    """
    offsets = []
    for entry in entries:
        offsets.append(offset)
        offset += len(entry.token)
    return CompletionLogprobs(
        text_offset=offsets,
        token_logprobs=[max(entry.logprob, FLOOR) for entry in entries],
        tokens=[entry.token for entry in entries],
        top_logprobs=[_alternatives(entry) for entry in entries],
    )


def _alternatives(entry: TextLogprob) -> dict[str, float]:
    """Token → log-probability, best first; of tokens with the same text the likeliest counts."""
    found: dict[str, float] = {}
    for token, _, logprob, _ in entry.alternatives:
        found.setdefault(token, max(logprob, FLOOR))
    found.setdefault(entry.token, max(entry.logprob, FLOOR))
    return found
