"""POST chat/completions/render and completions/render: prompts in token ids, for generate of any server."""

from __future__ import annotations

from typing import Any, Literal

import falcon
import falcon.asgi
from pydantic import BaseModel, RootModel

from pipelines.requests.generation.generation import BaseGenerationRequest
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput
from pipelines.worker.encoding import chat_ids, tokenize_node
from pipelines.worker.model_choice import TEXT
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import check_one_prompt
from server.apis.generation.chat_endpoint import ChatCompletionsEndpoint, read_files
from server.apis.generation.completions_endpoint import CompletionsEndpoint
from server.apis.generation.requests.work_bytes import work_bytes
from server.apis.scale_out.render_request import RenderChatRequest, RenderCompletionRequest
from server.http.request_body import parse
from server.schema.reply_models import Reply
from server.services.model_lookup import find_pipeline
from server.services.services import Services

NEUTRAL = {
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "stop": [],
    "stop_token_ids": [],
    "bad_words": [],
}
"""Parameters that are always sent, with their neutral values."""
SENT = (
    *NEUTRAL,
    "n",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "min_tokens",
    "ignore_eos",
    "logit_bias",
    "allowed_token_ids",
    "prompt_logprobs",
    "include_stop_str_in_output",
    "skip_special_tokens",
)
"""Fields of a request that are sampling parameters of generate."""


class RenderedPrompt(Reply):
    """A body of generate; the fields about several machines and images are always null."""

    request_id: str
    token_ids: list[int]
    token_offsets: list[tuple[int, int]] | None
    features: None = None
    content_parts: None = None
    sampling_params: dict[str, Any]
    model: str
    reasoning_ended: None = None
    reasoning_parser_kwargs: None = None
    return_token_ids: bool | None
    output_mode: Literal["tokens"] = "tokens"
    stream: bool
    stream_options: dict[str, Any] | None
    cache_salt: str | None
    priority: int
    kv_transfer_params: None = None
    ec_transfer_params: None = None


class RenderedPrompts(RootModel[list[RenderedPrompt]]):
    """One for each prompt of a completion."""


def rendered(
    request: BaseGenerationRequest,
    reply_id: str,
    pipeline: Pipeline,
    ids: list[int],
    text: str | None = None,
) -> RenderedPrompt:
    """The body of generate for one prompt; `text` is the one whose offsets are wanted."""
    options = request.stream_options
    return RenderedPrompt(
        request_id=reply_id,
        token_ids=ids,
        token_offsets=None if text is None else _offsets(pipeline, text, len(ids)),
        sampling_params=_sampling(request, pipeline.max_context - len(ids)),
        model=pipeline.name,
        return_token_ids=request.return_token_ids,
        stream=bool(request.stream),
        stream_options=None if options is None else options.model_dump(exclude_unset=True),
        cache_salt=request.cache_salt,
        priority=request.priority or 0,
    )


def _sampling(request: BaseGenerationRequest, room: int) -> dict[str, Any]:
    wanted = {name: value for name in SENT if (value := getattr(request, name)) is not None}
    if (penalty := request.wanted_repetition_penalty) is not None:
        wanted["repetition_penalty"] = penalty
    if getattr(request, "calls_tools", False):  # calls may stand in special tokens
        wanted["skip_special_tokens"] = False
    num_tokens = request.num_tokens or request.most_tokens or room
    return NEUTRAL | wanted | {"max_tokens": min(num_tokens, room)}


def _offsets(pipeline: Pipeline, text: str, num_ids: int) -> list[tuple[int, int]] | None:
    """The places of all tokens in a text, in characters; None where the prompt was cut."""
    encoding = tokenize_node(pipeline).tokenizer.encode(text)
    return encoding.offsets if len(encoding.ids) == num_ids else None


class _Rendering:
    """What both endpoints do: from the body to the prompts."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        raw = await services.admit(req)
        request = await exchange.off_loop(lambda: self.read(raw), len(raw))
        pipeline = await find_pipeline(services, exchange, request.model, TEXT)
        check_one_prompt(pipeline)
        name = exchange.client_id or request.request_id or exchange.request_id

        def render() -> bytes:
            return self.reply(request, name, pipeline).model_dump_json().encode()

        resp.content_type = falcon.MEDIA_JSON
        resp.data = await exchange.off_loop(render, work_bytes(request, len(raw)))

    def read(self, raw: bytes) -> Any:
        raise NotImplementedError

    def reply(self, request: Any, name: str, pipeline: Pipeline) -> BaseModel:
        """The reply; may run in a thread.  Raises RequestError."""
        raise NotImplementedError


class RenderChatEndpoint(_Rendering):
    def read(self, raw: bytes) -> RenderChatRequest:
        request = parse(RenderChatRequest, raw)
        read_files(request.messages)
        return request

    def reply(self, request: RenderChatRequest, name: str, pipeline: Pipeline) -> RenderedPrompt:
        ChatCompletionsEndpoint(self._services).check(request, pipeline)
        generation = request.generation(pipeline.max_context)
        ids = _prompt_ids(pipeline, generation)[0] if generation.prompts else chat_ids(pipeline, generation)
        return rendered(request, ChatCompletionsEndpoint.id_prefix + name, pipeline, ids)


class RenderCompletionEndpoint(_Rendering):
    def read(self, raw: bytes) -> RenderCompletionRequest:
        return parse(RenderCompletionRequest, raw)

    def reply(self, request: RenderCompletionRequest, name: str, pipeline: Pipeline) -> RenderedPrompts:
        generation = request.generation(pipeline.max_context)
        wanted = request.return_token_offsets
        prompts = zip(generation.prompts, _prompt_ids(pipeline, generation), strict=True)
        reply_id = CompletionsEndpoint.id_prefix + name
        return RenderedPrompts(
            [
                rendered(request, reply_id, pipeline, ids, prompt.text if wanted else None)
                for prompt, ids in prompts
            ]
        )


def _prompt_ids(pipeline: Pipeline, generation: GenerationInput) -> list[list[int]]:
    node, prompts = tokenize_node(pipeline), generation.prompts
    return [node.ids(prompt) if isinstance(prompt, Prompt) else [] for prompt in prompts]
