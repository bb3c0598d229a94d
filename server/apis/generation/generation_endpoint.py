"""What chat/completions, completions and messages do alike: from the body to the last byte of the reply.

Does not depend on the fields of requests or the shape of replies: each endpoint defines those.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import falcon
import falcon.asgi

from pipelines.base.cancellation import ClientGone
from pipelines.base.errors import BraidError, RequestError
from pipelines.requests.generation.generation import BaseGenerationRequest
from pipelines.values.tasks import GenerationInput
from pipelines.worker.call import Call
from pipelines.worker.model_choice import TEXT
from pipelines.worker.pipeline import Pipeline
from server.apis.generation.generation_call import Fit, open_call
from server.apis.generation.replies.call_trace import trace_of, wants_trace
from server.apis.generation.replies.prompt_echo import prompt_echoes
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter
from server.apis.generation.replies.update_stages import (
    Batch,
    Joiner,
    hide_reasoning,
    in_turns,
    joined,
    num_scores,
    written,
)
from server.apis.generation.requests.work_bytes import work_bytes
from server.dialects import Dialect
from server.http.errors import public_error
from server.http.exchange import KEEP_ALIVE, Exchange
from server.http.request_body import parse
from server.http.streaming import EVENT_STREAM, as_stream, first_piece
from server.schema.reply_models import Reply, TracedReply
from server.services.model_lookup import find_pipeline
from server.services.services import Services

log = logging.getLogger("braid.server")

PRIORITY = "X-Vllm-Priority"


class UpdateBuilder(Protocol):
    """Joins the updates of one choice."""

    def add(self, update: Any) -> Any: ...


class Chunks(Protocol):
    """Serializes the events of one stream."""

    def opening(self) -> bytes: ...

    def piece(self, choice: int, update: Any) -> bytes: ...

    def ending(self) -> bytes: ...

    def failure(self, error: BraidError) -> bytes:
        """The last events of a stream that failed."""


Body = TypeVar("Body", bound=BaseGenerationRequest)
AnyContext = TypeVar("AnyContext", bound=TextReplyContext)
Choice = TypeVar("Choice", bound=UpdateBuilder)


@dataclass(frozen=True, slots=True)
class ReplyInProgress(Generic[AnyContext]):
    """One request whose call runs: the call, its HTTP exchange and its token counts."""

    call: Call
    exchange: Exchange
    context: AnyContext
    counter: TokenCounter

    def updates(self) -> AsyncIterator[Batch]:
        """The call's updates, without token ids and log-probabilities of reasoning that is hidden."""
        updates = self.call.updates() if self.context.reasoning else self._without_reasoning()
        return self.context.staged(updates, self.call.close)

    async def _without_reasoning(self) -> AsyncIterator[Batch]:
        async for batch in self.call.updates():
            hide_reasoning(batch)
            yield batch


class GenerationEndpoint(Generic[Body, AnyContext, Choice]):
    """An endpoint that replies with generated text, whole or as a stream."""

    kind: ClassVar[str] = ""  # the name of its bodies in dialects
    media_type: ClassVar[str] = EVENT_STREAM  # of its streams
    keep_alive: ClassVar[bytes] = KEEP_ALIVE  # what a stream sends while there is no data; b"": nothing
    body: ClassVar[type[BaseGenerationRequest]]
    id_prefix: ClassVar[str]

    def __init__(self, services: Services) -> None:
        self._services = services

    def read(self, raw: bytes) -> Body:
        """The checked request; runs off the event loop for a long body.  Raises RequestError."""
        request: Any = parse(self.body, raw)
        return request  # type: ignore[no-any-return]

    def check(self, request: Body, pipeline: Pipeline) -> None:
        """Raise RequestError when the pipeline's graph lacks what the request needs."""
        raise NotImplementedError

    def fit(self, request: Body, pipeline: Pipeline) -> Fit | None:
        """What makes the call where a prompt may be shortened first."""
        return None

    def check_call(self, request: Body, pipeline: Pipeline, call: Call) -> None:
        """Raise RequestError where a prompt, by its length, leaves no room for what is asked."""

    def context(self, request: Body, reply_id: str, model: str) -> AnyContext:
        raise NotImplementedError

    def builder(self, context: AnyContext) -> Choice:
        """A builder for one choice."""
        raise NotImplementedError

    def full_reply(self, context: AnyContext, choices: list[Choice], counter: TokenCounter) -> Reply:
        """The reply of all choices, for a request without `stream`."""
        raise NotImplementedError

    def chunks(self, context: AnyContext, counter: TokenCounter) -> Chunks:
        """The serializer of a stream's events."""
        raise NotImplementedError

    async def explained(
        self,
        error: RequestError,
        exchange: Exchange,
        pipeline: Pipeline,
        generation: Callable[[int], GenerationInput],
    ) -> RequestError:
        """The error of a request that its model does not take, with what the client should know besides."""
        return error

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        await self.respond(await self._services.admit(req), req, resp)

    async def respond(self, raw: bytes, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """Reply to a body that was read."""
        exchange: Exchange = req.scope["braid.exchange"]
        transform = exchange.dialect.transform_body
        request: Body = await exchange.off_loop(lambda: self.read(transform(self.kind, raw)), len(raw))
        await self.reply_to(request, raw, req, resp)

    async def reply_to(
        self, request: Body, raw: bytes, req: falcon.asgi.Request, resp: falcon.asgi.Response
    ) -> None:
        """Reply to the request that a body is."""
        services, exchange = self._services, req.scope["braid.exchange"]
        dialect: Dialect = exchange.dialect
        request.priority = requested_priority(req, request.priority)
        await services.note_affinity(req, raw)
        pipeline = await find_pipeline(services, exchange, request.model, TEXT)
        self.check(request, pipeline)

        def generation(max_context: int) -> GenerationInput:
            return dialect.transform_generation(request.generation(max_context))

        num_bytes, fit = work_bytes(request, len(raw)), self.fit(request, pipeline)
        try:
            call = await open_call(services, pipeline, generation, exchange, num_bytes, request, fit)
        except RequestError as error:
            error = await self.explained(error, exchange, pipeline, generation)
            raise dialect.translate_error(self.kind, error) from None
        call.count_tool_calls("chat_completions", bool(request.stream))
        exchange.at_end(call.close)
        exchange.when_gone(call.close)
        self.check_call(request, pipeline, call)
        context = self.context(request, self._reply_id(request, exchange), pipeline.name)
        if context.needs_prompts and not (call.is_composed and context.shows_prompt_if_known):
            context = replace(context, prompts=prompt_echoes(pipeline, call))
        if wants_trace(req, services.settings):
            context = replace(context, trace=trace_of(call, exchange))
        counter = TokenCounter(call.prompt_lengths, request.num_choices, lambda: call.others)
        running = ReplyInProgress(call, exchange, context, counter)
        if request.stream:
            await self._stream(resp, running)
        else:
            resp.content_type = falcon.MEDIA_JSON
            resp.data = await self._gather(running)

    def _reply_id(self, request: Body, exchange: Exchange) -> str:
        """The header's id takes precedence over the body's, as in vLLM."""
        return self.id_prefix + (exchange.client_id or request.request_id or exchange.request_id)

    async def _gather(self, running: ReplyInProgress[AnyContext]) -> bytes:
        counter = running.counter
        choices = [self.builder(running.context) for _ in range(counter.num_choices)]
        num = 0
        async for batch in running.updates():
            for choice, update in batch:
                counter.add(choice, update)
                choices[choice].add(update)
                num += num_scores(update)
        if not counter.complete:
            raise ClientGone

        def whole() -> bytes:
            reply = self.full_reply(running.context, choices, counter)
            if running.context.trace is not None and isinstance(reply, TracedReply):
                reply.trace = running.context.trace()
            return reply.to_json()

        return await written(running.exchange, whole, num)

    async def _stream(self, resp: falcon.asgi.Response, running: ReplyInProgress[AnyContext]) -> None:
        """Start a stream at the first update, so that an earlier failure is a reply with its own status."""
        updates = running.updates()
        first = await first_piece(updates, running.exchange)
        as_stream(resp, self._events(running, first, updates), self.media_type)

    async def _events(
        self,
        running: ReplyInProgress[AnyContext],
        first: asyncio.Future[Batch | None],
        updates: AsyncIterator[Batch],
    ) -> AsyncIterator[bytes]:
        """The bytes of a stream; all updates since the last write go into one write, as far as a turn of the
        event loop allows.
        """
        exchange, chunks = running.exchange, self.chunks(running.context, running.counter)
        if first.done() and not first.cancelled() and first.exception() is None:
            running.counter.foresee(first.result() or [])
        waiting = chunks.opening()
        try:
            with exchange.kept_alive(self.keep_alive):
                if not first.done() and waiting:
                    yield waiting
                    waiting = b""
                batch, joiner = await first, Joiner(running.context.tokens_per_event)
                while batch is not None:
                    for number, (part, num) in enumerate(in_turns(joiner.push(batch))):
                        if number:
                            await asyncio.sleep(0)
                        if num:
                            data = await written(exchange, partial(joined, chunks.piece, part), num)
                        else:
                            data = joined(chunks.piece, part)
                        data = waiting + data
                        if running.counter.complete:
                            data += chunks.ending()
                        waiting = b""
                        if data:
                            exchange.has_written = True
                            yield data
                    batch = await anext(updates, None)
        except Exception as error:
            public = public_error(error, exchange.trace, exchange.error_words)
            yield waiting + chunks.failure(public)
        finally:
            running.call.close()


def requested_priority(req: falcon.asgi.Request, in_body: int | None) -> int | None:
    """The header's priority takes precedence over the body's, as in vLLM.  Raises RequestError."""
    given = req.get_header_as_int(PRIORITY)
    if given is not None and not -(2**63) <= given < 2**63:
        raise RequestError(f"{PRIORITY} must fit a signed 64-bit integer", field=PRIORITY)
    return in_body if given is None else given
