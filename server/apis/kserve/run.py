"""Runs an inference on whatever its model is: a graph of tensor models, or one of text."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pipelines.base.errors import RequestError
from pipelines.values.node_values import Tensors
from pipelines.worker.model_choice import Ability
from pipelines.worker.pipeline import Pipeline
from server.apis.kserve import parameters
from server.apis.kserve.binary_data import objects
from server.apis.kserve.inference import Inference, run_tensors_call
from server.apis.kserve.text import (
    DOCUMENTS,
    GENERATING,
    TEXT_INPUT,
    TEXT_OUTPUT,
    TEXT_TASKS,
    TextQuestion,
    pooled_tensors,
    text_pieces,
)
from server.http.exchange import Exchange
from server.services.services import Services

INFER = Ability(("infer", *TEXT_TASKS), "take tensors")


async def run_inference(
    services: Services, exchange: Exchange, pipeline: Pipeline, inference: Inference
) -> Tensors:
    """The outputs.  Raises BraidError, and ClientGone when the client left."""
    if pipeline.task == "infer":
        parameters.check_request(inference.parameters)
        return await run_tensors_call(services, exchange, pipeline, inference)
    if pipeline.task in GENERATING:
        pieces = [piece async for piece in text_pieces(services, exchange, pipeline, _question(inference))]
        return _text("".join(pieces))
    return await pooled_tensors(services, exchange, pipeline, _question(inference))


async def stream_inference(
    services: Services, exchange: Exchange, pipeline: Pipeline, inference: Inference
) -> AsyncIterator[Tensors]:
    """The outputs of a model that generates in pieces, those of any other as a whole."""
    if pipeline.task not in GENERATING:
        yield await run_inference(services, exchange, pipeline, inference)
        return
    async for piece in text_pieces(services, exchange, pipeline, _question(inference)):
        yield _text(piece)


def _text(text: str) -> Tensors:
    return Tensors({TEXT_OUTPUT: objects([text.encode()], [1])})


def _question(inference: Inference) -> TextQuestion:
    """The texts of a request.  Raises RequestError for inputs that a model of text does not have."""
    texts: dict[str, list[str]] = {}
    for name, array in inference.inputs.items():
        if name not in (TEXT_INPUT, DOCUMENTS) or not array.dtype.hasobject:
            raise RequestError(f"A model of text takes {TEXT_INPUT} and {DOCUMENTS}, of BYTES", name)
        try:
            texts[name] = [text.decode() for text in array.flat]
        except UnicodeDecodeError:
            raise RequestError(f"The input {name} is not UTF-8", field=name) from None
    own = (*parameters.HONOURED, *parameters.IGNORED)
    others = {name: value for name, value in inference.parameters.items() if name not in own}
    return TextQuestion(texts.get(TEXT_INPUT, []), texts.get(DOCUMENTS), others)
