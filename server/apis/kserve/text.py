"""Graphs of text as models of tensors: texts in, and a text, vectors, classes or scores out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ValidationError

from pipelines.base.cancellation import ClientGone
from pipelines.base.errors import RequestError
from pipelines.requests.fields.known_fields import Refused, check_fields
from pipelines.requests.fields.validation import from_validation
from pipelines.requests.generation.completion import CompletionRequest
from pipelines.requests.pooling.classification import ClassificationRequest
from pipelines.requests.pooling.embedding import EmbeddingRequest
from pipelines.requests.pooling.reranking import RerankRequest
from pipelines.values.node_values import Tensors
from pipelines.wire.messages import TensorSpec
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import check_completion
from server.apis.generation.generation_call import open_call
from server.apis.generation.replies.choice_builder import text_of
from server.apis.generation.requests.work_bytes import work_bytes
from server.apis.pooling.pooling_call import run_pooling_call
from server.http.exchange import Exchange
from server.services.services import Services

TEXT_INPUT, TEXT_OUTPUT, DOCUMENTS = "text_input", "text_output", "documents"
ONE_TEXT = "the reply is one text"
OWN = Refused("the path or the inputs say it")
REFUSED: Mapping[str, Refused] = {
    **dict.fromkeys(("model", "prompt", "input", "messages", "query", "documents"), OWN),
    "stream": Refused("generate_stream streams", (False, True)),
    "n": Refused(ONE_TEXT, (1,)),
    "best_of": Refused(ONE_TEXT, (1,)),
    "echo": Refused(ONE_TEXT, (False,)),
    "logprobs": Refused(ONE_TEXT),
    "prompt_logprobs": Refused(ONE_TEXT),
    "return_token_ids": Refused(ONE_TEXT, (False,)),
    "prompt_token_ids": OWN,
}
"""Parameters that change what a reply holds; all others are those of completions, embeddings and rerank."""


class PoolingTask(NamedTuple):
    """How a pooling model is asked: the request of its own path, and the tensor of its reply."""

    body: Any
    output: TensorSpec


POOLING_TASKS = {
    "embed": PoolingTask(EmbeddingRequest, TensorSpec("embeddings", "float32", [None, None])),
    "classify": PoolingTask(ClassificationRequest, TensorSpec("probabilities", "float32", [None, None])),
    "rerank": PoolingTask(RerankRequest, TensorSpec("scores", "float32", [None])),
}
GENERATING = ("chat", "completion")
TEXT_TASKS = (*GENERATING, *POOLING_TASKS)


def text_ports(task: str) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """The inputs and outputs of a graph of text; none for a task that has no such form."""
    if task in GENERATING:
        return [TensorSpec(TEXT_INPUT, "bytes", [1])], [TensorSpec(TEXT_OUTPUT, "bytes", [1])]
    if task not in POOLING_TASKS:
        return [], []
    inputs = [TensorSpec(TEXT_INPUT, "bytes", [1 if task == "rerank" else None])]
    if task == "rerank":
        inputs.append(TensorSpec(DOCUMENTS, "bytes", [None]))
    return inputs, [POOLING_TASKS[task].output]


@dataclass(frozen=True, slots=True)
class TextQuestion:
    """The texts of a request, and its parameters."""

    texts: list[str]
    documents: list[str] | None
    parameters: Mapping[str, Any]

    @property
    def num_bytes(self) -> int:
        return sum(map(len, [*self.texts, *(self.documents or [])]))


async def text_pieces(
    services: Services, exchange: Exchange, pipeline: Pipeline, question: TextQuestion
) -> AsyncIterator[str]:
    """The text that a model generates, in pieces, on the path of completions.  Raises BraidError."""
    check_completion(pipeline)
    request = _request(CompletionRequest, question, {"prompt": _one(question)})
    num_bytes = work_bytes(request, question.num_bytes)
    call = await open_call(services, pipeline, request.generation, exchange, num_bytes, request)
    exchange.at_end(call.close)
    exchange.when_gone(call.close)
    finished = False
    async for batch in call.updates():
        yield "".join([text_of(update) for _, update in batch])
        finished = finished or any(update.piece.finish is not None for _, update in batch)
    if not finished:
        raise ClientGone


async def pooled_tensors(
    services: Services, exchange: Exchange, pipeline: Pipeline, question: TextQuestion
) -> Tensors:
    """Vectors, classes or scores of texts.  Raises BraidError."""
    task = POOLING_TASKS[pipeline.task]
    if pipeline.task == "rerank":
        request = _request(task.body, question, {"query": _one(question), "documents": question.documents})
        make = request.pairs_input
    else:
        request = _request(task.body, question, {"input": question.texts})
        make = request.pooling_input
    call = await exchange.long_work(lambda: services.prepare(pipeline, make(), exchange), question.num_bytes)
    result = await run_pooling_call(call, exchange)
    return Tensors({task.output.name: np.asarray(result.value.values)})


def _one(question: TextQuestion) -> str:
    if len(question.texts) != 1:
        raise RequestError(f"`{TEXT_INPUT}` must be one text, got {len(question.texts)}", field=TEXT_INPUT)
    return question.texts[0]


def _request(body: type[BaseModel], question: TextQuestion, texts: Mapping[str, Any]) -> Any:
    """The request of the model's own path.  Raises RequestError."""
    given = question.parameters
    check_fields({name: value for name, value in given.items() if name in REFUSED}, (), REFUSED)
    try:
        return body.model_validate({name: given[name] for name in given if name not in REFUSED} | dict(texts))
    except ValidationError as error:
        raise from_validation(error) from None
