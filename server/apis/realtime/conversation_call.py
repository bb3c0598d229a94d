"""One response of a conversation through a chat model, with a place among the requests while it lasts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from pipelines.base.errors import ContextTooLong, RequestError
from pipelines.nodes.composing.speak import Speak
from pipelines.requests.generation.chat import ChatRequest
from pipelines.values.reply_values import ReplyUpdate
from pipelines.values.tasks import GenerationInput, SoundInput, SpokenForm
from pipelines.worker.call import Call
from pipelines.worker.model_choice import Ability
from pipelines.worker.pipeline import Pipeline
from server.apis.generation.fitting import fitted_chat, turns_to_drop
from server.apis.generation.generation_call import open_call
from server.apis.generation.replies.token_counter import TokenCounter
from server.apis.realtime.client_events import checked
from server.apis.realtime.conversation_fields import ReplySettings
from server.http.exchange import Exchange
from server.schema.reply_models import Usage
from server.services.model_lookup import find_pipeline
from server.services.services import Services

if TYPE_CHECKING:
    from pipelines.worker.composed_call import ComposedCall

TALKING = Ability(("chat",), "hold conversations")


class ConversationCall:
    """The calls that one response takes: more than one where a conversation is too long for the model.

    `finish` is why the reply ended, None where it did not.
    """

    def __init__(
        self,
        services: Services,
        part: Exchange,
        pipeline: Pipeline,
        num_bytes: int,
        samples: Mapping[str, NDArray[np.float32]],
    ) -> None:
        """`num_bytes` are those of the conversation, `samples` the sounds that its messages name."""
        self._samples = samples
        self.finish: str | None = None
        self._services = services
        self._part = part
        self._pipeline = pipeline
        self._num_bytes = num_bytes
        self._call: Call | None = None
        self._counter: TokenCounter | None = None

    async def updates(
        self, messages: list[dict[str, Any]], settings: ReplySettings, spoken: SpokenForm | None, cuts: bool
    ) -> AsyncGenerator[ReplyUpdate, None]:
        """What the model says.  `cuts`: where a conversation is too long, its oldest turns are left out, by
        halves where the prompts of a composed graph are known when it runs alone.  Raises BraidError.
        """
        while True:
            try:
                updates = self._once(messages, settings, spoken, cuts)
                async with aclosing(updates):
                    async for update in updates:
                        yield update
                return
            except ContextTooLong:
                shorter = without_oldest(messages)
                if not cuts or shorter is None:
                    raise
                messages = shorter

    async def _once(
        self, messages: list[dict[str, Any]], settings: ReplySettings, spoken: SpokenForm | None, cuts: bool
    ) -> AsyncGenerator[ReplyUpdate, None]:
        body = chat_body(messages, settings)
        num_bytes, pipeline = self._num_bytes, self._pipeline
        request = await self._part.off_loop(lambda: checked(ChatRequest, body), num_bytes)

        def generation(asked: ChatRequest, _: object = None) -> GenerationInput:
            generated = asked.generation(pipeline.max_context)
            return replace(generated, spoken=spoken, sounds=[*map(self._with_samples, generated.sounds)])

        def fit(make: Callable[[GenerationInput], Call]) -> Call:
            return fitted_chat(request, pipeline, generation, make) if cuts else make(generation(request))

        call = await open_call(
            self._services, pipeline, request.generation, self._part, num_bytes, request, fit
        )
        self._call = call
        self._part.at_end(call.close)
        self._part.when_gone(call.close)
        call.count_tool_calls("realtime", streams=True)
        self._counter = TokenCounter(call.prompt_lengths, 1, lambda: call.others)
        async for batch in call.updates():
            for choice, update in batch:
                self._counter.add(choice, update)
                self.finish = update.piece.finish or self.finish
                yield update

    def _with_samples(self, sound: SoundInput) -> SoundInput:
        return replace(sound, samples=self._samples[sound.url.rpartition(",")[2]])

    @property
    def heard(self) -> list[str]:
        """What is said in the sounds of the messages, in order, as far as it is known."""
        call = self._call
        return [*cast("ComposedCall", call).heard.values()] if call is not None and call.is_composed else []

    def usage(self) -> Usage | None:
        return None if self._counter is None else self._counter.usage()


def chat_body(messages: list[dict[str, Any]], settings: ReplySettings) -> dict[str, Any]:
    """A response's request as the body of a chat completion."""
    body: dict[str, Any] = {"messages": messages, "stream": True}
    if settings.tools:
        body |= {"tools": settings.tools, "tool_choice": _tool_choice(settings.tool_choice)}
    if settings.max_output_tokens is not None:
        body["max_completion_tokens"] = settings.max_output_tokens
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    return body


def _tool_choice(choice: Any) -> Any:
    """A function that must be called, as chat completions write it."""
    if isinstance(choice, dict) and choice.get("type") == "function" and "name" in choice:
        return {"type": "function", "function": {"name": choice["name"]}}
    return choice


def without_oldest(messages: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """The messages without the older half of what may be left out; None where nothing may be."""
    parts = turns_to_drop([message["role"] for message in messages])
    left_out = {at for part in parts[: (len(parts) + 1) // 2] for at in part}
    return [message for at, message in enumerate(messages) if at not in left_out] if parts else None


def speaker(pipeline: Pipeline) -> Speak | None:
    """The line of a model's graph that speaks its replies, if there is one."""
    node = pipeline.lines[-1].node if pipeline.lines else None
    return node if isinstance(node, Speak) else None


def spoken_form(pipeline: Pipeline, settings: ReplySettings) -> SpokenForm | None:
    """How a reply is spoken; None: it is text.  Raises RequestError."""
    line = speaker(pipeline)
    if line is None and settings.modality == "audio":
        raise RequestError(
            f"{pipeline.name} does not speak: the last line of its graph is none of the type `speak`; set "
            '`output_modalities` to ["text"]',
            "output_modalities",
        )
    if line is None or settings.modality == "text":
        return None
    if settings.voice is not None:
        line.voices.voice(settings.voice)
    return SpokenForm(settings.voice, settings.speed)


async def find_talker(services: Services, part: Exchange, model: str | None) -> Pipeline:
    """The chat model of a conversation, loaded if it has to be, until `part` ends.  Raises NotFound."""
    return await find_pipeline(services, part, model, TALKING)
