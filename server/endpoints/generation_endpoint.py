"""What chat/completions and completions have in common: from the body to the last byte of the answer.

Knows nothing of messages, prompts or the shape of replies: the two endpoints name those.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import falcon
import falcon.asgi

from pipelines.errors import BraidError, RequestError
from pipelines.tasks import GenerationInput
from pipelines.worker.call import Call
from pipelines.worker.pipeline import Pipeline
from server.dialects import dialect_of
from server.generation.replies.chat import ReplyContext
from server.generation.replies.prompt_echo import prompts_shown
from server.generation.replies.schema import Reply
from server.generation.replies.token_counter import TokenCounter
from server.generation.replies.update_stages import Batch, Joiner, hide_reasoning
from server.generation.requests.generation import GenerationRequest
from server.http.errors import hidden
from server.http.exchange import ClientGone, Exchange
from server.http.request_body import LONG_BODY_BYTES, parse_body, read_body
from server.http.streaming import as_stream, begun
from server.model_lookup import TEXT, find_pipeline
from server.services import Services

log = logging.getLogger("braid.server")

PRIORITY = "X-Vllm-Priority"


class Joins(Protocol):
    """Joins the pieces of one choice."""

    def add(self, update: Any) -> Any: ...


class Chunks(Protocol):
    """Writes the events of one stream."""

    def opening(self) -> bytes: ...

    def piece(self, choice: int, update: Any) -> bytes: ...

    def ending(self) -> bytes: ...

    def failure(self, error: BraidError) -> bytes:
        """The last words of a stream that cannot go on."""


Body = TypeVar("Body", bound=GenerationRequest)
AnyContext = TypeVar("AnyContext", bound=ReplyContext)
Choice = TypeVar("Choice", bound=Joins)


@dataclass(frozen=True, slots=True)
class Answering(Generic[AnyContext]):
    """One request that its pipeline works on: the call, who waits for it, and what was counted."""

    call: Call
    exchange: Exchange
    head: AnyContext
    tally: TokenCounter

    def updates(self) -> AsyncIterator[Batch]:
        """The call's pieces, without what the client does not want to know of them."""
        return self.call.updates() if self.head.reasoning else self._without_reasoning()

    async def _without_reasoning(self) -> AsyncIterator[Batch]:
        async for batch in self.call.updates():
            hide_reasoning(batch)
            yield batch


class GenerationEndpoint(Generic[Body, AnyContext, Choice]):
    """An endpoint that answers with generated text, at once or as a stream."""

    kind: ClassVar[str] = ""  # what dialects call its bodies
    body: ClassVar[type[GenerationRequest]]
    id_prefix: ClassVar[str]

    def __init__(self, services: Services) -> None:
        self._services = services

    async def read(self, raw: bytes) -> Body:
        """The checked request.  Raises RequestError."""
        request: Any = await parse_body(self.body, raw)
        return request  # type: ignore[no-any-return]

    def check(self, request: Body, pipeline: Pipeline) -> None:
        """Raise RequestError when the pipeline's graph cannot do what is asked."""
        raise NotImplementedError

    def head(self, request: Body, reply_id: str, model: str) -> AnyContext:
        raise NotImplementedError

    def gathered(self, head: AnyContext) -> Choice:
        """What joins the pieces of one choice."""
        raise NotImplementedError

    def whole(self, head: AnyContext, choices: list[Choice], tally: TokenCounter) -> Reply:
        """The reply in one piece."""
        raise NotImplementedError

    def chunks(self, head: AnyContext, tally: TokenCounter) -> Chunks:
        """The reply as events."""
        raise NotImplementedError

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        exchange.at_end(services.admission.enter())
        await self.respond(await read_body(req, services.settings.max_body_mb << 20), req, resp)

    async def respond(self, raw: bytes, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """Answer a body that was read."""
        services, exchange = self._services, req.scope["braid.exchange"]
        dialect = dialect_of(req.path)
        request = await self.read(dialect.transform_body(self.kind, raw))
        request.priority = asked_priority(req, request.priority)
        pipeline = find_pipeline(services, request.model, TEXT)
        self.check(request, pipeline)

        def generation(max_context: int) -> GenerationInput:
            return dialect.transform_generation(request.generation(max_context))

        is_long = len(raw) > LONG_BODY_BYTES or request.compiles
        call = await open_call(services, pipeline, generation, is_long)
        exchange.at_end(call.close)
        exchange.when_gone(call.close)
        head = self.head(request, self._reply_id(request, exchange), pipeline.name)
        if head.needs_prompts:
            head = replace(head, prompts=prompts_shown(pipeline, call))
        answering = Answering(call, exchange, head, TokenCounter(call.prompt_lengths, request.num_choices))
        if request.stream:
            await self._stream(resp, answering)
        else:
            resp.content_type = falcon.MEDIA_JSON
            resp.data = await self._gather(answering)

    def _reply_id(self, request: Body, exchange: Exchange) -> str:
        """The header's id counts more than the body's, as in vLLM."""
        return self.id_prefix + (exchange.asked_id or request.request_id or exchange.request_id)

    async def _gather(self, answering: Answering[AnyContext]) -> bytes:
        tally = answering.tally
        choices = [self.gathered(answering.head) for _ in range(tally.num_choices)]
        async for batch in answering.updates():
            for choice, update in batch:
                tally.add(choice, update)
                choices[choice].add(update)
        if not tally.complete:
            raise ClientGone
        return self.whole(answering.head, choices, tally).to_json()

    async def _stream(self, resp: falcon.asgi.Response, answering: Answering[AnyContext]) -> None:
        """Begin a stream once the first piece is there: what fails before it is an answer with a status."""
        updates = answering.updates()
        first = await begun(updates, answering.exchange)
        as_stream(resp, self._events(answering, first, updates))

    async def _events(
        self,
        answering: Answering[AnyContext],
        first: asyncio.Future[Batch | None],
        updates: AsyncIterator[Batch],
    ) -> AsyncIterator[bytes]:
        """The bytes of a stream; all that piled up since the last write is one write."""
        exchange, chunks = answering.exchange, self.chunks(answering.head, answering.tally)
        waiting = chunks.opening()
        try:
            with exchange.kept_alive():
                if not first.done() and waiting:
                    yield waiting
                    waiting = b""
                batch, joiner = await first, Joiner(answering.head.tokens_per_event)
                while batch is not None:
                    due = joiner.push(batch)
                    data = waiting + b"".join([chunks.piece(choice, update) for choice, update in due])
                    if answering.tally.complete:
                        data += chunks.ending()
                    waiting = b""
                    if data:
                        exchange.said = True
                        yield data
                    batch = await anext(updates, None)
        except Exception as error:
            told = hidden(error, exchange.request_id)
            yield waiting + chunks.failure(told)
        finally:
            answering.call.close()


def asked_priority(req: falcon.asgi.Request, said: int | None) -> int | None:
    """The header's priority counts more than the body's, as in vLLM.  Raises RequestError."""
    given = req.get_header_as_int(PRIORITY)
    if given is not None and not -(2**63) <= given < 2**63:
        raise RequestError(f"{PRIORITY} must fit a signed 64-bit integer", field=PRIORITY)
    return said if given is None else given


async def open_call(
    services: Services, pipeline: Pipeline, generation: Callable[[int], GenerationInput], is_long: bool
) -> Call:
    """Start a call; `generation` makes what is asked, given the model's context.

    A long prompt is tokenized in a thread, and sent from the event loop.
    """

    def prepare() -> Call:
        return pipeline.prepare(generation(pipeline.max_context), services.client)

    call = await asyncio.to_thread(prepare) if is_long else prepare()
    call.start()
    return call
