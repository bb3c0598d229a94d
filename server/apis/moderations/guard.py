"""A guard model moderates: it writes a verdict in its own format, and the word's probability is the score."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import ValidationError

from pipelines.base.cancellation import ClientGone
from pipelines.nodes.text.parsers.guards import GUARDS, GuardFormat
from pipelines.nodes.text.parsers.verdicts import MAX_TOKENS, NUM_ALTERNATIVES, read_verdict
from pipelines.requests.fields.validation import from_validation
from pipelines.requests.generation.chat import ChatRequest
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import of_type
from server.apis.generation.generation_call import open_call
from server.apis.generation.replies.choice_builder import ChoiceBuilder
from server.apis.moderations.replies import THRESHOLD, Judgement
from server.apis.moderations.request import Content
from server.http.exchange import Exchange
from server.services.services import Services


def guard_of(pipeline: Pipeline) -> GuardFormat | None:
    """The format of a guard model; None for any other model."""
    named = (node.config.guard for node in of_type(pipeline, "parse_reply"))
    return next((GUARDS[name] for name in named if name is not None), None)


async def moderate_by_guard(
    services: Services, pipeline: Pipeline, exchange: Exchange, contents: list[Content], num_bytes: int
) -> list[Judgement]:
    """A judgement for each content, all at once.  Raises RequestError."""
    guard = guard_of(pipeline)
    assert guard is not None, "the model is a guard"
    ask = partial(_reply, services, pipeline, exchange, num_bytes)
    runs = [(content, name, kwargs) for content in contents for name, kwargs in guard.rules]
    replies = iter(await asyncio.gather(*(ask(_chat(pipeline, guard, *run)) for run in runs)))
    judgements = []
    for content in contents:
        kinds = ("text",) if isinstance(content, str) else ("image", "text")
        judgements.append(Judgement(kinds=kinds))
        for name, _ in guard.rules:
            _judge(judgements[-1], guard, name, next(replies))
    return judgements


def _chat(
    pipeline: Pipeline, guard: GuardFormat, content: Content, name: str | None, kwargs: Mapping[str, Any]
) -> ChatRequest:
    """The request for one verdict; where the graph has grammars, nothing but a verdict can be written."""
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": content}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": NUM_ALTERNATIVES,
        "chat_template_kwargs": dict(kwargs),
    }
    if any(node.write is not None for node in of_type(pipeline, "scheduler")):
        body["structured_outputs"] = {"regex": guard.reply}
    try:
        return ChatRequest.model_validate(body)
    except ValidationError as error:
        raise from_validation(error) from None


async def _reply(
    services: Services, pipeline: Pipeline, exchange: Exchange, num_bytes: int, chat: ChatRequest
) -> ChoiceBuilder:
    call = await open_call(services, pipeline, chat.generation, exchange, num_bytes, chat)
    exchange.at_end(call.close)
    exchange.when_gone(call.close)
    builder = ChoiceBuilder()
    async for batch in call.updates():
        for _, update in batch:
            builder.add(update)
    if builder.piece.finish is None:
        raise ClientGone
    return builder


def _judge(judgement: Judgement, guard: GuardFormat, name: str | None, reply: ChoiceBuilder) -> None:
    """Add what a reply says; a reply without a verdict is one against the content."""
    verdict = read_verdict(guard, "".join(reply.text), reply.logprobs.tokens)
    if verdict is None:
        judgement.flagged = True
        return
    judgement.flagged |= verdict.is_unsafe or verdict.score >= THRESHOLD
    names = verdict.names if name is None else [name]
    for harm in names or ["unsafe"]:
        judgement.add(harm, guard.categories.get(harm, ()), verdict.score)
