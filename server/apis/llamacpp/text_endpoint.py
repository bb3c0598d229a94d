"""POST completion and infill: llama.cpp's completions, and texts with a gap."""

from __future__ import annotations

from typing import Any, ClassVar

import falcon.asgi
from pydantic import RootModel

from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import check_completion
from server.apis.generation.generation_endpoint import GenerationEndpoint
from server.apis.generation.replies.choice_builder import ChoiceBuilder
from server.apis.generation.replies.token_counter import TokenCounter
from server.apis.llamacpp.body import CompletionBody, InfillBody, LlamaCompletion, SamplingBody
from server.apis.llamacpp.line_limits import IndentLimits
from server.apis.llamacpp.replies import LlamaContext, LlamaEvents
from server.http.request_body import parse

REPORTED = (
    *("temperature", "top_k", "top_p", "min_p", "seed", "stop", "ignore_eos", "stream", "n_probs"),
    *("n_predict", "max_tokens", "samplers", "n_indent", "t_max_predict_ms"),
)
"""Fields of a body that a reply repeats as `generation_settings`."""


class LlamaReply(RootModel[Any]):
    """One object, or one for each choice."""

    def to_json(self) -> bytes:
        return self.model_dump_json().encode()


class LlamaTextEndpoint(GenerationEndpoint[LlamaCompletion, LlamaContext, ChoiceBuilder]):
    """What both paths do alike."""

    source: ClassVar[type[SamplingBody]]
    id_prefix = "cmpl-"

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """A body is JSON whatever its type is said to be."""
        await self.respond(await self._services.admit(req, any_content=True), req, resp)

    def read(self, raw: bytes) -> LlamaCompletion:
        return parse(self.source, raw).request()

    def check(self, request: LlamaCompletion, pipeline: Pipeline) -> None:
        check_completion(pipeline)

    def context(self, request: LlamaCompletion, reply_id: str, model: str) -> LlamaContext:
        source = request.source
        return LlamaContext(
            id=reply_id,
            model=model,
            logprobs=bool(source.n_probs),
            num_drawn=request.num_choices,
            num_returned=request.num_returned,
            token_ids=True,
            source=source,
            limits=IndentLimits(source.n_indent or 0, (source.t_max_predict_ms or 0) / 1e3),
            settings=_settings(source),
        )

    def builder(self, context: LlamaContext) -> ChoiceBuilder:
        return ChoiceBuilder()

    def full_reply(  # type: ignore[override]
        self, context: LlamaContext, choices: list[ChoiceBuilder], counter: TokenCounter
    ) -> LlamaReply:
        replies = [context.whole(i, choice, counter) for i, choice in enumerate(choices)]
        return LlamaReply(replies[0] if len(replies) == 1 else replies)

    def chunks(self, context: LlamaContext, counter: TokenCounter) -> LlamaEvents:
        return LlamaEvents(context, counter)


def _settings(source: SamplingBody) -> dict[str, Any]:
    reported = {name: getattr(source, name) for name in REPORTED}
    return {name: value for name, value in reported.items() if value is not None}


class LlamaCompletionEndpoint(LlamaTextEndpoint):
    source = CompletionBody


class InfillEndpoint(LlamaTextEndpoint):
    source = InfillBody
