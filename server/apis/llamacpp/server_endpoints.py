"""GET props and slots, POST apply-template, embedding: what llama.cpp's clients ask a server besides."""

from __future__ import annotations

from typing import Annotated, Any

import falcon
import falcon.asgi
import msgspec
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipelines.base.errors import Unavailable
from pipelines.requests.generation.chat import ChatRequest
from pipelines.requests.pooling.embedding import EmbeddingRequest
from pipelines.values.node_values import PooledOutputs
from pipelines.worker.encoding import chat_prompt
from pipelines.worker.model_choice import EMBEDDING, READING, TEXT
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import check_chat, check_one_prompt, of_type
from server.apis.llamacpp.dialect import DEFAULTS
from server.apis.llamacpp.reply_models import AppliedTemplate
from server.apis.pooling.base_endpoint import PoolingEndpoint
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext
from server.base.version import FINGERPRINT
from server.dialects import Dialect
from server.http.request_body import parse
from server.services.model_lookup import find_pipeline
from server.services.services import Services

NONE, MAX_ABSOLUTE, TAXICAB, EUCLIDEAN = -1, 0, 1, 2
"""llama.cpp's numbers for norms; a larger one is that of a p-norm."""


class PropsEndpoint:
    """The context, the template and the modalities of a model; `?model=` names it."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        pipeline = await find_pipeline(services, exchange, req.get_param("model"), READING)
        templates: list[Any] = [*of_type(pipeline, "chat_template")]
        media = {"vision": any(of_type(pipeline, "images")), "audio": any(of_type(pipeline, "audio"))}
        resp.media = {
            "default_generation_settings": {"n_ctx": pipeline.max_context, "params": DEFAULTS},
            "total_slots": services.settings.max_concurrency,
            "model_alias": pipeline.name,
            "model_path": pipeline.name,
            "chat_template": next((node.template.source for node in templates), ""),
            "modalities": media,
            "build_info": FINGERPRINT,
            "is_sleeping": False,
        }


class SlotsEndpoint:
    """One entry for each sequence that a model runs, and one that is free.

    `?fail_on_no_slot=1` is a 503 where requests wait.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        pipeline = await find_pipeline(services, exchange, req.get_param("model"), TEXT)
        running, waiting = await services.load_of(pipeline.name)
        if waiting and req.get_param_as_bool("fail_on_no_slot"):
            raise Unavailable("no slot available")
        resp.media = [
            {"id": i, "n_ctx": pipeline.max_context, "is_processing": i < running} for i in range(running + 1)
        ]


class ApplyTemplateEndpoint:
    """The prompt of a conversation."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        raw = await services.admit(req, any_content=True)
        request = await exchange.off_loop(lambda: parse(ChatRequest, raw), len(raw))
        pipeline = await find_pipeline(services, exchange, request.model, TEXT)
        check_chat(pipeline, request.calls_tools)
        check_one_prompt(pipeline)
        prompt = await exchange.off_loop(
            lambda: chat_prompt(pipeline, request.generation(pipeline.max_context)), len(raw)
        )
        resp.content_type = falcon.MEDIA_JSON
        resp.data = AppliedTemplate(prompt=prompt.text or "").to_json()


class LlamaEmbeddingRequest(EmbeddingRequest):
    """`content` is another name of `input`."""

    content: Any = None
    embd_normalize: Annotated[int, Field(ge=-1, lt=2**31)] | None = None


class LlamaEmbeddingEndpoint(PoolingEndpoint[LlamaEmbeddingRequest]):
    """A bare list of vectors, in the norm that the client chooses."""

    body = LlamaEmbeddingRequest
    ability = EMBEDDING
    id_prefix = "embd-"

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """A body is JSON whatever its type is said to be."""
        await self.respond(await self._services.admit(req, any_content=True), req, resp)

    def read(self, raw: bytes, dialect: Dialect) -> LlamaEmbeddingRequest:
        request = super().read(raw, dialect)
        request.input = request.content if request.input is None else request.input
        request.use_activation = request.embd_normalize in (None, EUCLIDEAN)
        return request

    def serialize(
        self, request: LlamaEmbeddingRequest, pipeline: Pipeline, context: ReplyContext, value: PooledOutputs
    ) -> EncodedReply:
        norm = EUCLIDEAN if request.embd_normalize is None else request.embd_normalize
        vectors = [normalized(np.asarray(vector), norm).tolist() for vector in value.values]
        entries = [{"index": i, "embedding": [vector]} for i, vector in enumerate(vectors)]
        return EncodedReply(msgspec.json.encode(entries))


def normalized(vector: NDArray[np.float32], norm: int) -> NDArray[np.float32]:
    """float32[size] in one of llama.cpp's norms: as it is, the largest number 32760, or of length 1."""
    if norm == NONE:
        return vector
    largest = np.abs(vector).max()
    if not largest > 0:
        return vector
    vector = vector / largest  # a high power of small numbers would be 0
    return vector * 32760.0 if norm == MAX_ABSOLUTE else vector / np.linalg.norm(vector, norm)
