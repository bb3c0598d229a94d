"""POST api/embed and api/embeddings: Ollama's vectors."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import falcon
import falcon.asgi
import msgspec
from pydantic import StrictBool, StrictStr

from pipelines.base.errors import RequestError
from pipelines.requests.fields.known_fields import NONE, check_fields
from pipelines.requests.pooling.embedding import EmbeddingRequest
from pipelines.values.node_values import PooledOutputs
from pipelines.worker.model_choice import EMBEDDING
from pipelines.worker.pipeline import Pipeline
from server.apis.ollama.body import KeepAlive, ModelBody, made
from server.apis.ollama.keeping import keep
from server.apis.ollama.names import served_name
from server.apis.ollama.options import read_options
from server.apis.pooling.base_endpoint import PoolingEndpoint
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext
from server.dialects import Dialect
from server.http.request_body import parse
from server.services.model_lookup import find_pipeline

TO_THE_CONTEXT = -1


class EmbedBody(ModelBody):
    """The body of embed.  Null means: not set."""

    input: Any = None
    truncate: StrictBool | None = None
    dimensions: int | None = None
    options: dict[str, Any] | None = None
    keep_alive: KeepAlive = None

    @property
    def texts(self) -> list[str]:
        """Raises RequestError."""
        given = [self.input] if isinstance(self.input, str) else self.input or []
        if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
            raise RequestError("invalid input type", field="input")
        return [] if given == [""] else given

    def request(self) -> OllamaEmbedding:
        """Raises RequestError."""
        check_fields(self.model_extra or {}, type(self).model_fields, NONE, NONE)
        read_options(self.options or {})
        fields = {"model": self.model, "input": self.texts, "dimensions": self.dimensions or None}
        if self.truncate is not False:
            fields["truncate_prompt_tokens"] = TO_THE_CONTEXT
        own = {"asked": self.model, "started_s": time.monotonic(), "stays_s": self.keep_alive}
        return made(OllamaEmbedding, fields | own)


class EmbeddingsBody(ModelBody):
    """The body of embeddings, the older one of the two."""

    prompt: StrictStr | None = None
    options: dict[str, Any] | None = None
    keep_alive: KeepAlive = None

    def request(self) -> OllamaEmbedding:
        """Raises RequestError."""
        body = EmbedBody(
            model=self.model, input=self.prompt, options=self.options, keep_alive=self.keep_alive
        )
        request = body.request()
        request.use_activation = False
        return request


class OllamaEmbedding(EmbeddingRequest):
    """A body as a request for vectors; `asked` is the name that the client wrote.

    `stays_s`: how long the model stays loaded without calls.
    """

    asked: str
    started_s: float
    stays_s: float | None = None


class OllamaEmbedEndpoint(PoolingEndpoint[OllamaEmbedding]):
    body = OllamaEmbedding
    source: ClassVar[type[EmbedBody | EmbeddingsBody]] = EmbedBody
    ability = EMBEDDING
    id_prefix = ""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """A body is JSON whatever its type is said to be."""
        await self.respond(await self._services.admit(req, any_content=True), req, resp)

    def read(self, raw: bytes, dialect: Dialect) -> OllamaEmbedding:
        return parse(self.source, raw).request()

    async def reply_to(
        self, request: OllamaEmbedding, num_bytes: int, req: falcon.asgi.Request, resp: falcon.asgi.Response
    ) -> None:
        """Without a text the model is loaded."""
        catalogue = self._services.of(req.scope["braid.exchange"]).catalogue
        request.model = served_name(catalogue, request.asked)
        if request.input:
            await super().reply_to(request, num_bytes, req, resp)
        else:
            exchange = req.scope["braid.exchange"]
            await find_pipeline(self._services, exchange, request.model, EMBEDDING)
            resp.content_type, resp.data = falcon.MEDIA_JSON, self.encode(request, [], 0)
        keep(self._services, request.model, request.stays_s)

    def serialize(
        self, request: OllamaEmbedding, pipeline: Pipeline, context: ReplyContext, value: PooledOutputs
    ) -> EncodedReply:
        vectors = [vector.tolist() for vector in value.values]
        return EncodedReply(self.encode(request, vectors, context.num_tokens))

    def encode(self, request: OllamaEmbedding, vectors: list[list[float]], num_tokens: int) -> bytes:
        """The reply as JSON, without a model: vectors may be long."""
        took = max(int((time.monotonic() - request.started_s) * 1e9), 1)
        counts = {"total_duration": took, "load_duration": 1, "prompt_eval_count": num_tokens}
        return msgspec.json.encode({"model": request.asked, "embeddings": vectors, **counts})


class OllamaEmbeddingsEndpoint(OllamaEmbedEndpoint):
    source = EmbeddingsBody

    def encode(self, request: OllamaEmbedding, vectors: list[list[float]], num_tokens: int) -> bytes:
        return msgspec.json.encode({"embedding": vectors[0] if vectors else []})
