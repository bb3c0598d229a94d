"""POST generative_scoring: how probable certain tokens are after a query and each of several items."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any, Literal

import falcon
import falcon.asgi

from pipelines.nodes.decisions.answers import softmax
from pipelines.nodes.decisions.reading import ONE_TOKEN, TokenRead
from pipelines.requests.generation.completion import CompletionRequest
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput
from pipelines.worker.encoding import check_chars, tokenize_node
from pipelines.worker.model_choice import TEXT
from pipelines.worker.pipeline import Pipeline
from server.apis.decisions.label_reads import PromptReader
from server.apis.decisions.scoring_request import GenerativeScoringRequest
from server.apis.pooling.replies.ranking import Score
from server.http.request_body import parse
from server.schema.reply_models import Reply, Usage
from server.services.model_lookup import find_pipeline
from server.services.services import Services


class GenerativeScores(Reply):
    id: str
    object: Literal["list"] = "list"
    created: int
    model: str
    data: list[Score]
    usage: Usage

    def to_json(self) -> bytes:
        return self.model_dump_json().encode()


class GenerativeScoringEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        raw = await services.admit(req)
        request: Any = await exchange.off_loop(lambda: parse(GenerativeScoringRequest, raw), len(raw))
        await services.note_affinity(req, raw)
        pipeline = await find_pipeline(services, exchange, request.model, TEXT)
        work = len(raw) * len(request.items)
        inputs = await exchange.off_loop(lambda: _inputs(pipeline, request), work)
        showing = CompletionRequest.model_construct()
        reads = await PromptReader(services, pipeline, exchange, showing, work).read(inputs)
        scores = [_score(request, read) for read in reads.found]
        reply = GenerativeScores(
            id="generative-scoring-" + (exchange.client_id or request.request_id or exchange.request_id),
            created=int(time.time()),
            model=pipeline.name,
            data=[Score(index=i, object="score", score=score) for i, score in enumerate(scores)],
            usage=Usage(
                prompt_tokens=reads.num_prompt,
                total_tokens=reads.num_prompt + reads.num_output,
                completion_tokens=reads.num_output,
            ),
        )
        resp.content_type, resp.data = falcon.MEDIA_JSON, reply.to_json()


def _inputs(pipeline: Pipeline, request: GenerativeScoringRequest) -> list[GenerationInput]:
    """All prompts; where they begin with the query, the first one apart.  Raises RequestError."""
    texts = [text for text in (request.query, *request.items) if isinstance(text, str)]
    check_chars(texts, "items")
    query = _ids(pipeline, request.query, request.add_special_tokens)
    items = [_ids(pipeline, item, add_special_tokens=False) for item in request.items]
    joined = [item + query if request.item_first else query + item for item in items]
    most = pipeline.max_context - 1
    prompts = [Prompt(ids=ids[:most] if most > 0 else ids) for ids in joined]
    sampling: dict[str, Any] = {**ONE_TOKEN, "logprob_token_ids": [*dict.fromkeys(request.label_token_ids)]}
    sampling["priority"] = request.priority or 0
    base = GenerationInput(
        sampling=sampling, cache_salt=request.cache_salt or "", parse_reasoning=False, parse_tools=False
    )
    groups = [prompts] if request.item_first else [prompts[:1], prompts[1:]]
    return [replace(base, prompts=group) for group in groups if group]


def _ids(pipeline: Pipeline, given: str | list[int], add_special_tokens: bool) -> list[int]:
    if not isinstance(given, str):
        return given
    return tokenize_node(pipeline).ids(Prompt(text=given, add_special_tokens=add_special_tokens))


def _score(request: GenerativeScoringRequest, read: TokenRead) -> float:
    """The probability of the first label, among all labels or among all tokens."""
    logprobs = [read.logprobs[token] for token in request.label_token_ids]
    return softmax(logprobs)[0] if request.apply_softmax else math.exp(logprobs[0])
