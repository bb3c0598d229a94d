"""POST decode and GET info."""

from __future__ import annotations

from typing import Literal

import falcon
import falcon.asgi

from pipelines.requests.pooling.input_parsing import MAX_TEXTS
from pipelines.values.node_values import ONLY_LABEL
from pipelines.worker.encoding import tokenize_node
from pipelines.worker.model_choice import EMBEDDING, POOLING, READING, able_names
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import gives_kind, of_type
from server.apis.tei.errors import translated_errors
from server.apis.tei.replies import DecodedTexts
from server.apis.tei.requests import DecodeRequest
from server.base.version import VERSION
from server.http.request_body import parse
from server.schema.reply_models import Reply
from server.services.model_lookup import find_pipeline
from server.services.services import Services


class DecodeEndpoint:
    """The texts of token ids."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        with translated_errors():
            raw = await services.admit(req)
            request = await exchange.off_loop(lambda: parse(DecodeRequest, raw), len(raw))
            pipeline = await find_pipeline(services, exchange, request.model, READING)
            reply = await exchange.off_loop(lambda: _decoded(pipeline, request), len(raw))
        resp.content_type, resp.data = falcon.MEDIA_JSON, reply


def _decoded(pipeline: Pipeline, request: DecodeRequest) -> bytes:
    tokenizer = tokenize_node(pipeline).tokenizer
    texts = tokenizer.decode_batch(request.texts, skip_special_tokens=request.skip_special_tokens)
    return DecodedTexts(texts).model_dump_json().encode()


class Pooled(Reply):
    pooling: str


class NamedLabels(Reply):
    id2label: dict[str, str]
    label2id: dict[str, int]


Kind = Literal["embedding", "classifier", "reranker"]
POOLING_NAMES = {"last": "lasttoken", "none": "mean"}
"""A graph's word for how vectors of tokens are pooled → that of text-embeddings-inference."""


class Info(Reply):
    """What clients read: the kind of model, and what a request may hold."""

    model_id: str
    model_sha: None = None
    model_dtype: Literal["float32"] = "float32"
    served_model_name: str
    model_type: dict[Kind, Pooled | NamedLabels]
    max_concurrent_requests: int
    max_input_length: int
    max_batch_tokens: int
    max_batch_requests: None = None
    max_client_batch_size: int
    auto_truncate: bool = True
    tokenization_workers: int
    version: str = VERSION
    sha: None = None
    docker_label: None = None


class InfoEndpoint:
    """The model of requests that name none; `?model=` selects another."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        with translated_errors():
            pipeline = await find_pipeline(services, exchange, self._name(req), POOLING)
        settings = services.settings
        info = Info(
            model_id=pipeline.name,
            served_model_name=pipeline.name,
            model_type=self._kind(pipeline),
            max_concurrent_requests=settings.max_concurrency * settings.workers,
            max_input_length=pipeline.max_context,
            max_batch_tokens=pipeline.max_context,
            max_client_batch_size=MAX_TEXTS,
            tokenization_workers=settings.workers,
        )
        resp.content_type, resp.data = falcon.MEDIA_JSON, info.model_dump_json().encode()

    def _name(self, req: falcon.asgi.Request) -> str | None:
        """The model that is named, else the only one that embeds, where there are others of other kinds."""
        able = able_names(self._services.of(req.scope["braid.exchange"]).catalogue.cards(), EMBEDDING)
        return req.get_param("model") or (able[0] if len(able) == 1 else None)

    def _kind(self, pipeline: Pipeline) -> dict[Kind, Pooled | NamedLabels]:
        """The kind of a model, and what belongs to it."""
        if pipeline.task in ("embed", "token_embed"):
            return {"embedding": Pooled(pooling=self._pooling(pipeline))}
        labels = next((node.labels for node in of_type(pipeline, "label")), [ONLY_LABEL])
        named = NamedLabels(
            id2label={str(i): label for i, label in enumerate(labels)},
            label2id={label: i for i, label in enumerate(labels)},
        )
        return {"reranker" if pipeline.task == "rerank" else "classifier": named}

    def _pooling(self, pipeline: Pipeline) -> str:
        """How the model's graph pools; of one that pools by itself it is not known, and `mean`."""
        if not gives_kind(pipeline, "dense") and gives_kind(pipeline, "sparse"):
            return "splade"
        lines = self._services.catalogue.built(pipeline.model).graph.bindings
        pools = [each.config for line in lines for each in line.body if each.type_name == "pool"]
        how = getattr(pools[0], "how", "mean") if pools else "mean"
        return POOLING_NAMES.get(how, how)
