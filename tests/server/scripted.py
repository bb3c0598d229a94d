"""Services without an engine: pipelines whose calls say what a test wrote down for them."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

from fake_decoder import byte_tokenizer

from graphs.check import check
from pipelines.base.errors import BraidError, Unavailable
from pipelines.nodes import VOCABULARY
from pipelines.nodes.text.replies.parse_reply import ParseReply
from pipelines.nodes.text.tokenizing.text_reader import TextReader
from pipelines.telemetry.request_record import ErrorRecord, RequestRecord
from pipelines.values.reply_values import Alternative, ReplyUpdate, TextLogprob, TextPiece, TextUpdate
from pipelines.values.tasks import TASKS
from pipelines.wire.messages import Inspected, Profiled
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.token_piece import PieceLogprobs, TokenPiece
from pipelines.worker.model_table import BuiltPipeline, ModelCard, ModelTable
from pipelines.worker.request_checks import refuse_media
from pipelines.worker.spent import NOTHING_SPENT
from server.base.settings import Settings
from server.connect import make_services
from server.services.services import Services

TOKENIZER = byte_tokenizer()
GRAPH_TEXT = """
version: 1
task: chat
nodes:
  prompt: {type: chat_template, template: template.jinja}
  tokens: {type: tokenize, from: prompt, tokenizer: tokenizer.json}
  generated:
    type: scheduler
    from: tokens
    body:
      logits: {type: model, from: step, path: model.onnx}
      next: {type: sampler, from: logits}
  text: {type: detokenize, from: generated, tokenizer: tokenizer.json}
  reply: {type: parse_reply, from: text}
"""
GRAPH = check(GRAPH_TEXT, VOCABULARY, TASKS)
ABC = TOKENIZER.encode("abc").ids


def piece(
    token_ids: Sequence[int] = (),
    finish: str | None = None,
    logprobs: Sequence[TextLogprob] = (),
    prompt_logprobs: list[TextLogprob] | None = None,
    drafted: Sequence[TextLogprob | None] = (),
    num_tokens: int = 1,
    **more: Any,
) -> TextPiece:
    """The header of an update; `logprobs`, `prompt_logprobs` and `drafted` are its log-probabilities."""
    token_piece: TextPiece = TokenPiece([*token_ids], num_tokens, finish, **more)
    if logprobs or drafted or prompt_logprobs is not None:
        token_piece.logprobs = PieceLogprobs([*logprobs], prompt_logprobs, [*drafted])
    return token_piece


def said(content: str = "", finish: str | None = None, **more: Any) -> ReplyUpdate:
    own = {name: more.pop(name) for name in ReplyUpdate.__struct_fields__ if name in more}
    return ReplyUpdate(piece(finish=finish, **more), content, **own)


def text(part: str = "", finish: str | None = None, **more: Any) -> TextUpdate:
    return TextUpdate(piece(finish=finish, **more), part, [part])


def logprob(token: str, value: float = -0.5, *alternatives: tuple[str, float]) -> TextLogprob:
    others = [Alternative(other, other.encode(), number) for other, number in alternatives]
    return TextLogprob(token, token.encode(), 7, value, others)


HI = [[(0, said("Hel"))], [(0, said("lo"))], [(0, said("", "stop"))]]


class ScriptedCall:
    """A call that gives `batches`; an exception among them is raised, an event is waited for, a number
    waits that many seconds, "forever" waits until the call is closed."""

    is_composed = False

    def __init__(self, generation: Any, batches: list[Any], num_prompts: int) -> None:
        self.generation = self.request = generation
        self.prompt_ids = [ABC] * num_prompts
        self.prompt_lengths = [len(ids) for ids in self.prompt_ids]
        self.prompt_text = "<user>hi"
        self.sampling_params = SamplingParams(**generation.sampling)
        self.others = NOTHING_SPENT
        self.tenant = ""
        self.earlier: Any = None
        self.started = False
        self.closed = False
        self._batches = batches
        self._failure: Exception | None = None
        self._wake = asyncio.Event()

    def count_tool_calls(self, request_type: str, streams: bool) -> None:
        self.counted_as = (request_type, streams)

    def start(self) -> None:
        self.started = True

    async def updates(self) -> AsyncIterator[list[tuple[int, Any]]]:
        for batch in self._batches:
            if isinstance(batch, Exception):
                raise batch
            if isinstance(batch, asyncio.Event):
                await batch.wait()
            elif isinstance(batch, float):
                await asyncio.sleep(batch)
            elif batch == "forever":
                await self._wake.wait()
                if self._failure is not None:
                    raise self._failure
                return
            else:
                await asyncio.sleep(0)
                yield pickle.loads(pickle.dumps(batch))  # stages change updates in place

    def fail(self, error: Exception) -> None:
        self._failure = error
        self._wake.set()

    def close(self) -> None:
        self.closed = True
        self._wake.set()


class ScriptedPipeline:
    """Remembers the calls it opened."""

    takes_long = False
    is_composed = False

    def __init__(
        self,
        task: str = "chat",
        tools: str | None = "hermes",
        max_context: int = 512,
        reasoning: str | None = None,
    ) -> None:
        self.name = "tiny"
        self.task = task
        self.max_context = max_context
        parse = ParseReply(ParseReply.Config(tools=tools, reasoning=reasoning), None)
        tokenize = SimpleNamespace(
            node=SimpleNamespace(tokenizer=TOKENIZER, reader=TextReader(TOKENIZER, max_context))
        )
        self.lines = [tokenize, SimpleNamespace(node=parse)] if task == "chat" else [tokenize]
        self.batches: list[Any] = HI
        self.calls: list[ScriptedCall] = []

    def prepare(
        self, generation: Any, client: Any, tenant: str = "", earlier: Any = None, trace: Any = None
    ) -> ScriptedCall:
        for each in [*getattr(generation, "images", []), *getattr(generation, "sounds", [])]:
            refuse_media(self.name, each)
        call = ScriptedCall(generation, self.batches, len(generation.prompts) or 1)
        call.tenant, call.earlier = tenant, earlier
        self.calls.append(call)
        return call

    @property
    def answering(self) -> Any:
        return self.lines

    @property
    def asked(self) -> Any:
        """The last request that reached the pipeline."""
        return self.calls[-1].generation


class ScriptedCatalogue:
    def ended(self):
        return []

    def __init__(self, pipeline: ScriptedPipeline) -> None:
        self.pipeline = pipeline
        self.models = [ModelCard("tiny", 1, 1700000000, pipeline.max_context, "ready", [], pipeline.task)]

    async def start(self) -> None: ...

    async def caught_up(self, timeout_s: float) -> None: ...

    async def close(self) -> None: ...

    def cards(self) -> list[ModelCard]:
        return self.models

    def versions(self, name: str) -> dict[int, ModelCard]:
        return {card.version: card for card in self.models if card.name == name}

    def get(self, name: str | None) -> Any:
        if name not in (None, *(card.name for card in self.models)):
            raise self.unknown(name)
        if name == "loading":
            raise Unavailable("The model `loading` is loading")
        return self.pipeline

    def unknown(self, name: str) -> BraidError:
        return ModelTable(True, dict.fromkeys(card.name for card in self.models)).unknown(name)

    def built(self, name: str | None) -> BuiltPipeline:
        return BuiltPipeline(self.get(name), 7, (), GRAPH, GRAPH_TEXT)

    def model_of(self, name: str | None) -> str:
        return name or "tiny"

    def may_wait(self, name: str | None) -> bool:
        return False

    def hold(self, pipeline: Any) -> Any:
        return lambda: None


class ScriptedClient:
    def __init__(self, pipeline: ScriptedPipeline) -> None:
        self.profiled: Any = Profiled(0, {}, {})
        self.status: Any = SimpleNamespace(state="ready", models=[], is_paused=False, is_sleeping=False)
        self.num_resets = 0
        self.paused: list[tuple[str, bool]] = []
        self.inspected: Any = []
        self.num_inspected = 0
        self.cancelled: list[str] = []
        self.cancelled_of: list[str | None] = []
        self.num_in_flight = 0
        self.kept: list[tuple[str, float]] = []
        self.requests: list[RequestRecord] = []
        self.errors: list[ErrorRecord] = []
        self._pipeline = pipeline

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def on_mismatch(self, callback: Any) -> None: ...

    async def profile(self, model: str, recent_s: float) -> Any:
        self.recent_s = recent_s
        if isinstance(self.profiled, Exception):
            raise self.profiled
        return self.profiled

    def keep(self, model: str, seconds: float) -> None:
        self.kept.append((model, seconds))

    def route(self, key: str | None) -> ScriptedClient:
        return self

    async def inspect(self, model: str) -> list[Inspected]:
        self.num_inspected += 1
        if isinstance(self.inspected, Exception):
            raise self.inspected
        return self.inspected

    async def cancel(self, name: str, account: str | None = None) -> int:
        self.cancelled.append(name)
        self.cancelled_of.append(account)
        return self.num_in_flight

    def report(self, requests: Sequence[RequestRecord], errors: Sequence[ErrorRecord]) -> None:
        self.requests += requests
        self.errors += errors

    async def pause(self, mode: str, *, clears_cache: bool) -> None:
        self.paused.append((mode, clears_cache))

    async def resume(self) -> None:
        self.paused.clear()

    async def sleep(self) -> list[str]:
        return []

    async def wake_up(self) -> list[str]:
        return []

    async def reset_prefix_cache(self) -> None:
        self.num_resets += 1

    def abort_all(self, error: Exception) -> None:
        for call in self._pipeline.calls:
            call.fail(error)


def scripted_services(pipeline: ScriptedPipeline, **settings: Any) -> Services:
    chosen = Settings(**settings)
    client: Any = ScriptedClient(pipeline)
    catalogue: Any = ScriptedCatalogue(pipeline)
    return make_services(chosen, client, catalogue)
