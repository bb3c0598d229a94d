"""POST embed, embed_all, embed_sparse, predict, rerank, similarity: the inference of that server."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, TypeVar

import falcon.asgi

from pipelines.nodes.pooling.entities import OUTSIDE, entities_of, spans_as_entities
from pipelines.nodes.pooling.result_names import COLBERT, DENSE, SPARSE
from pipelines.nodes.pooling.similarity import document_scores, similarities
from pipelines.values.node_values import FoundEntities, PooledOutputs, SparseVectors, TokenClasses
from pipelines.values.tasks import PoolingInput
from pipelines.worker.model_choice import EMBEDDING, FINDING, LABELLING, TAGGING, Ability
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import gives_kind, of_type
from server.apis.pooling.base_endpoint import PoolingEndpoint
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext
from server.apis.pooling.score_endpoint import ComparisonEndpoint
from server.apis.tei import replies
from server.apis.tei.errors import Invalid, WrongModel, translated_errors
from server.apis.tei.requests import (
    EmbedRequest,
    LabelRequest,
    RankRequest,
    SimilarityRequest,
    TeiRequest,
)

TOKEN_EMBEDDING = Ability(("token_embed", "embed"), "give embeddings of tokens")
Body = TypeVar("Body", bound=TeiRequest)


class TeiEndpoint(PoolingEndpoint[Body]):
    """The base: errors and headers of text-embeddings-inference."""

    id_prefix = "tei-"

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        with translated_errors():
            raw = await self._services.admit(req)
        await self.respond(raw, req, resp)

    async def respond(self, raw: bytes, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        with translated_errors():
            await super().respond(raw, req, resp)
        took_ms = str(round((time.monotonic() - req.scope["braid.exchange"].started_s) * 1000))
        resp.set_headers({"x-compute-type": "braid", "x-total-time": took_ms, "x-compute-time": took_ms})


class EmbedEndpoint(TeiEndpoint[EmbedRequest]):
    body = EmbedRequest
    ability = EMBEDDING

    def check(self, request: EmbedRequest, pipeline: Pipeline) -> None:
        super().check(request, pipeline)
        if request.normalize and not gives_kind(pipeline, DENSE) and gives_kind(pipeline, SPARSE):
            raise WrongModel("`normalize` is not available for SPLADE models")

    def serialize(
        self, request: EmbedRequest, pipeline: Pipeline, context: ReplyContext, value: PooledOutputs
    ) -> EncodedReply:
        return replies.encode_vectors(context, request.num_chars, value.values)


class EmbedAllEndpoint(EmbedEndpoint):
    """A vector for each token, as the model gives it."""

    ability = TOKEN_EMBEDDING

    def check(self, request: EmbedRequest, pipeline: Pipeline) -> None:
        super().check(request, pipeline)
        if pipeline.task == "embed" and not gives_kind(pipeline, COLBERT):
            raise WrongModel(f"`{pipeline.name}` gives a vector for each text: its graph has no colbert node")

    def pooling_input(self, request: EmbedRequest, pipeline: Pipeline) -> PoolingInput:
        results = (COLBERT,) if pipeline.task == "embed" else ()
        return replace(request.pooling_input(), results=results)


class EmbedSparseEndpoint(EmbedEndpoint):
    """Vectors over the vocabulary, of models with a line of type `sparse`."""

    def check(self, request: EmbedRequest, pipeline: Pipeline) -> None:
        if not gives_kind(pipeline, SPARSE):
            raise WrongModel(f"`{pipeline.name}` is not a SPLADE model: its graph has no sparse node")

    def pooling_input(self, request: EmbedRequest, pipeline: Pipeline) -> PoolingInput:
        return replace(request.pooling_input(), results=(SPARSE,))

    def serialize(
        self, request: EmbedRequest, pipeline: Pipeline, context: ReplyContext, value: PooledOutputs
    ) -> EncodedReply:
        assert isinstance(value.vectors, SparseVectors), "`check` lets no other models pass"
        return replies.encode_sparse(context, request.num_chars, value.vectors)


class LabelEndpoint(TeiEndpoint[LabelRequest]):
    body = LabelRequest
    ability = LABELLING

    def check(self, request: LabelRequest, pipeline: Pipeline) -> None:
        super().check(request, pipeline)
        if pipeline.task not in TAGGING.tasks and (request.aggregation_strategy or request.ignore_labels):
            raise WrongModel(f"`{pipeline.name}` classifies whole texts, not tokens")
        if pipeline.task in FINDING.tasks and request.aggregation_strategy not in (None, "simple"):
            raise Invalid(
                f"`{pipeline.name}` finds whole entities: `aggregation_strategy` must be simple, or left out",
                field="aggregation_strategy",
            )
        if request.pooling_input().pairs and not any(of_type(pipeline, "tokenize_pairs")):
            raise WrongModel(
                f"`{pipeline.name}` classifies single texts: its graph has no tokenize_pairs node"
            )

    def serialize(
        self, request: LabelRequest, pipeline: Pipeline, context: ReplyContext, value: Any
    ) -> EncodedReply:
        if isinstance(value, TokenClasses):
            ignored = (OUTSIDE,) if request.ignore_labels is None else request.ignore_labels
            strategy = request.aggregation_strategy or "none"
            entities = entities_of(value, strategy, ignored)
            return replies.encode_entities(context, request.num_chars, entities, request.is_batch)
        if isinstance(value, FoundEntities):
            spans = spans_as_entities(value, request.ignore_labels or ())
            return replies.encode_entities(context, request.num_chars, spans, request.is_batch)
        return replies.encode_predictions(context, request.num_chars, value, request.is_batch)


class RankEndpoint(TeiEndpoint[RankRequest], ComparisonEndpoint[RankRequest]):
    """Ranks texts by their relevance to a query; a model of embeddings by their similarity."""

    body = RankRequest

    def serialize(
        self, request: RankRequest, pipeline: Pipeline, context: ReplyContext, value: Any
    ) -> EncodedReply:
        texts = request.texts if request.return_text else None
        return replies.encode_ranking(context, request.num_chars, document_scores(value, 1), texts)


class SimilarityEndpoint(TeiEndpoint[SimilarityRequest]):
    body = SimilarityRequest
    ability = EMBEDDING

    def serialize(
        self, request: SimilarityRequest, pipeline: Pipeline, context: ReplyContext, value: PooledOutputs
    ) -> EncodedReply:
        return replies.encode_similarities(context, request.num_chars, similarities(value, 1))
