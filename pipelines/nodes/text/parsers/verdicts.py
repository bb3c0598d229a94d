"""The verdict of a guard model: how it is asked for, and how probable the unsafe word is in a reply."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pipelines.nodes.text.parsers.guards import GuardFormat
from pipelines.values.reply_values import TextLogprob
from pipelines.values.tasks import Constraint, GenerationInput

MAX_TOKENS = 96
"""Longest verdict."""
NUM_ALTERNATIVES = 20
"""Alternatives of each token that a verdict is read from."""


class Verdict(NamedTuple):
    """`score` is the probability of the unsafe words among all words of a verdict; `names` are the harms, as
    the model writes them.
    """

    is_unsafe: bool
    score: float
    names: list[str]


def verdict_request(
    guard: GuardFormat, shown: GenerationInput, rule: Mapping[str, Any], nodes: Iterable[Any]
) -> GenerationInput:
    """The request for the verdict on a conversation: greedy and short, with the alternatives of each token.

    `rule` are the template's arguments for one of the guard's rules, `nodes` those of its graph: where one of
    them has grammars, nothing but a verdict can be written.
    """
    writes = any(getattr(node, "write", None) is not None for node in nodes)
    return replace(
        shown,
        sampling={"max_tokens": MAX_TOKENS, "temperature": 0.0, "logprobs": NUM_ALTERNATIVES},
        constraint=Constraint("regex", guard.reply, "guard") if writes else None,
        template_kwargs=dict(rule),
    )


def read_verdict(guard: GuardFormat, text: str, tokens: Sequence[TextLogprob]) -> Verdict | None:
    """The verdict that a reply of these tokens holds; None for a text without one."""
    found = guard.verdict.match(text)
    if found is None:
        return None
    is_unsafe = found["unsafe"] is not None
    start = found.start("unsafe" if is_unsafe else "safe")
    return Verdict(is_unsafe, _share(guard, _token_at(tokens, start), is_unsafe), guard.names(text))


def _token_at(tokens: Sequence[TextLogprob], place: int) -> TextLogprob:
    """The token that has the character at `place` of the text of all tokens."""
    end = 0
    for token in tokens:
        end += len(token.token)
        if end > place:
            return token
    return tokens[-1]


def _share(guard: GuardFormat, token: TextLogprob, is_unsafe: bool) -> float:
    """How probable the unsafe words are among all words of a verdict, where they begin."""
    unsafe, safe = (
        sum(math.exp(logprob) for text, logprob in _alternatives(token) if _begins(text, words))
        for words in guard.words
    )
    return unsafe / (unsafe + safe) if unsafe + safe else float(is_unsafe)


def _alternatives(token: TextLogprob) -> list[tuple[str, float]]:
    """The tokens that could stand there, the chosen one among them."""
    others = {other.token_id: (other.token, other.logprob) for other in token.alternatives}
    return [*(others | {token.token_id: (token.token, token.logprob)}).values()]


def _begins(text: str, words: tuple[str, ...]) -> bool:
    """Whether a token begins one of the words."""
    begin = text.strip().lower()
    return bool(begin) and any(word.lower().startswith(begin) for word in words)
