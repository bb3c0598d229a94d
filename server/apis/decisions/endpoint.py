"""POST decisions and systemone: answers of a model as probabilities.

Each path reads both bodies: one with a `state` is System One's, any other OpenAI's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import falcon
import falcon.asgi

from pipelines.base.errors import RequestError
from pipelines.nodes.decisions.answers import Answer
from pipelines.worker.model_choice import CLASSIFICATION, TEXT, Ability
from server.apis.decisions.decoder import ask_decoder
from server.apis.decisions.encoder import ask_encoder
from server.apis.decisions.label_reads import Reads
from server.apis.decisions.openai_request import DecisionRequest
from server.apis.decisions.questions import Decision
from server.apis.decisions.replies import (
    DecisionReply,
    Diagnostics,
    NamedUsage,
    SystemOneReply,
    decision_reply,
    named_answer,
)
from server.apis.decisions.systemone_request import SystemOneRequest
from server.http.exchange import Exchange
from server.http.request_body import JsonObject, parse
from server.services.model_lookup import find_pipeline
from server.services.services import Services

DECIDING = Ability((*TEXT.tasks, *CLASSIFICATION.tasks), "answer questions")


class DecisionsEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        raw = await services.admit(req)
        request, decision = await exchange.off_loop(lambda: _read(raw), len(raw))
        await services.note_affinity(req, raw)
        pipeline = await find_pipeline(services, exchange, decision.model, DECIDING)
        ask = ask_decoder if pipeline.task in TEXT.tasks else ask_encoder
        answers, reads = await ask(services, pipeline, exchange, decision, len(raw))
        resp.content_type = falcon.MEDIA_JSON
        resp.data = _reply(request, exchange, pipeline.name, answers, reads).to_json()


def _read(raw: bytes) -> tuple[DecisionRequest | SystemOneRequest, Decision]:
    """The request, and what it asks.  Raises RequestError."""
    is_named = "state" in parse(JsonObject, raw).root
    request = parse(SystemOneRequest, raw) if is_named else parse(DecisionRequest, raw)
    return request, request.decision()


def _reply(
    request: DecisionRequest | SystemOneRequest,
    exchange: Exchange,
    model: str,
    answers: Sequence[Answer],
    reads: Reads,
) -> DecisionReply | SystemOneReply:
    """Raises RequestError where System One, which has no refusals, gets one."""
    if isinstance(request, DecisionRequest):
        return decision_reply(model, answers, reads, request.min_label_mass or 0)
    for answer in answers:
        if answer.probabilities is None:
            where = answer.question.where
            raise RequestError(f"`{where}`: {answer.reason}", field=where)
    return SystemOneReply(
        id=f"sd-{exchange.client_id or exchange.request_id}",
        created=int(time.time()),
        model=model,
        answers={answer.question.name or "": named_answer(answer) for answer in answers},
        usage=NamedUsage(
            input_tokens=reads.num_prompt, output_tokens=reads.num_output, cached_tokens=reads.num_cached
        ),
        diagnostics={
            answer.question.name or "": Diagnostics(
                label_mass=answer.label_mass, argmax_is_label=answer.is_likeliest
            )
            for answer in answers
        },
    )
