"""A guard model moderates: it writes a verdict in its own format, and the word's probability is the score."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import ValidationError

from pipelines.base.cancellation import ClientGone
from pipelines.nodes.naming import nodes_of
from pipelines.nodes.text.parsers.guards import GUARDS, GuardFormat
from pipelines.nodes.text.parsers.verdicts import read_verdict, verdict_request
from pipelines.requests.fields.validation import from_validation
from pipelines.requests.generation.chat import ChatRequest
from pipelines.values.tasks import GenerationInput
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
    runs = [(content, name, rule) for content in contents for name, rule in guard.rules]
    replies = iter(await asyncio.gather(*(ask(guard, _chat(content), rule) for content, _, rule in runs)))
    judgements = []
    for content in contents:
        kinds = ("text",) if isinstance(content, str) else ("image", "text")
        judgements.append(Judgement(kinds=kinds))
        for name, _ in guard.rules:
            _judge(judgements[-1], guard, name, next(replies))
    return judgements


def _chat(content: Content) -> ChatRequest:
    """The conversation that is judged."""
    try:
        return ChatRequest.model_validate({"messages": [{"role": "user", "content": content}]})
    except ValidationError as error:
        raise from_validation(error) from None


async def _reply(
    services: Services,
    pipeline: Pipeline,
    exchange: Exchange,
    num_bytes: int,
    guard: GuardFormat,
    chat: ChatRequest,
    rule: Mapping[str, Any],
) -> ChoiceBuilder:
    def generation(max_context: int) -> GenerationInput:
        return verdict_request(guard, chat.generation(max_context), rule, nodes_of(pipeline))

    call = await open_call(services, pipeline, generation, exchange, num_bytes, chat)
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
