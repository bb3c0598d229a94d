"""The methods of KServe's service: what HTTP has under /v2, in messages of gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError

from pipelines.base.cancellation import ClientGone
from pipelines.base.errors import RequestError
from pipelines.worker.pipeline import Pipeline
from server.apis.kserve.grpc.schema import SERVICE, TYPES
from server.apis.kserve.grpc.tensors import read_message, reply_message, work_size
from server.apis.kserve.inference import Inference
from server.apis.kserve.messages import ModelMetadata
from server.apis.kserve.run import INFER, run_inference, stream_inference
from server.apis.kserve.served import (
    GRPC_EXTENSIONS,
    Served,
    check_ready,
    find_served,
    metadata,
    server_metadata,
)
from server.apis.kserve.triton import model_config, model_statistics, repository_index
from server.http.auth import Guard
from server.http.errors import BodyTooLarge, Unauthorized, public_error
from server.http.exchange import Exchange
from server.services.model_lookup import find_pipeline
from server.services.server_ready import is_ready
from server.services.services import Services

CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    Unauthorized.status: grpc.StatusCode.UNAUTHENTICATED,
    404: grpc.StatusCode.NOT_FOUND,
    BodyTooLarge.status: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}
"""HTTP's status of an error → gRPC's; any other is INTERNAL."""
OPEN = ("ServerLive", "ServerReady")
"""Methods that need no key."""


class InferenceService:
    """One worker's; each call has an exchange, as a request over HTTP has."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._guard = Guard(
            services.settings.api_keys, services.settings.admin_keys, lambda: services.key_file
        )

    def handler(self) -> Any:
        """For grpc's server: the methods by name, each with the classes of its messages."""
        unary: dict[str, Callable[[Any, Exchange], Awaitable[Any]]] = {
            "ServerLive": self._server_live,
            "ServerReady": self._server_ready,
            "ServerMetadata": self._server_metadata,
            "ModelReady": self._model_ready,
            "ModelMetadata": self._model_metadata,
            "ModelConfig": self._model_config,
            "ModelStatistics": self._model_statistics,
            "RepositoryIndex": self._repository_index,
            "ModelInfer": self._model_infer,
        }
        methods = {
            name: grpc.unary_unary_rpc_method_handler(self._unary(name, method), **_writer(name))
            for name, method in unary.items()
        }
        methods["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(
            self._stream, **_writer("ModelStreamInfer")
        )
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def _unary(self, name: str, method: Callable[[Any, Exchange], Awaitable[Any]]) -> Any:
        async def call(body: bytes, context: Any) -> Any:
            with self._exchange(context, name) as exchange:
                try:
                    if name not in OPEN:
                        self._admit(context, exchange)
                    return await method(_message(name, body), exchange)
                except Exception as error:
                    public = public_error(error, exchange.trace)
                    await context.abort(CODES.get(public.status, grpc.StatusCode.INTERNAL), public.message)

        return call

    async def _stream(self, bodies: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        """Each request is answered in turn, one that fails with its error's text."""
        reply = TYPES["ModelStreamInferResponse"]
        async for body in bodies:
            with self._exchange(context, "ModelStreamInfer") as exchange:
                try:
                    self._admit(context, exchange)
                    async for piece in self._pieces(_message("ModelInfer", body), exchange):
                        yield reply(infer_response=piece)
                except ClientGone:
                    return
                except Exception as error:
                    yield reply(error_message=public_error(error, exchange.trace).message)

    @contextmanager
    def _exchange(self, context: Any, method: str) -> Iterator[Exchange]:
        exchange = Exchange(_never, _nothing, self._services.work)
        exchange.trace.path = f"/{SERVICE}/{method}"
        try:
            yield exchange
        finally:
            exchange.close()
            self._services.requests.ended(exchange.trace)

    def _admit(self, context: Any, exchange: Exchange) -> None:
        """Raises Unauthorized without a key, Overloaded where there is no place."""
        given = {name.lower(): value for name, value in context.invocation_metadata() or ()}
        address = context.peer().rpartition(":")[0]
        self._guard.note_tenant(exchange, given.get, address, exchange.trace.path)
        self._services.enter(exchange)

    async def _server_live(self, request: Any, exchange: Exchange) -> Any:
        return TYPES["ServerLiveResponse"](live=True)

    async def _server_ready(self, request: Any, exchange: Exchange) -> Any:
        return TYPES["ServerReadyResponse"](ready=is_ready(self._services))

    async def _server_metadata(self, request: Any, exchange: Exchange) -> Any:
        known = server_metadata(GRPC_EXTENSIONS)
        return TYPES["ServerMetadataResponse"](
            name=known.name, version=known.version, extensions=known.extensions
        )

    async def _model_ready(self, request: Any, exchange: Exchange) -> Any:
        check_ready(self._services.of(exchange), request.name, request.version)
        return TYPES["ModelReadyResponse"](ready=True)

    async def _model_metadata(self, request: Any, exchange: Exchange) -> Any:
        services = self._services.of(exchange)
        known: ModelMetadata = metadata(services, find_served(services, request.name, request.version))
        return TYPES["ModelMetadataResponse"](
            name=known.name,
            versions=known.versions,
            platform=known.platform,
            inputs=[_tensor_metadata(spec) for spec in known.inputs],
            outputs=[_tensor_metadata(spec) for spec in known.outputs],
        )

    async def _model_config(self, request: Any, exchange: Exchange) -> Any:
        services = self._services.of(exchange)
        known = metadata(services, find_served(services, request.name, request.version))
        return ParseDict({"config": model_config(known)}, TYPES["ModelConfigResponse"]())

    async def _model_statistics(self, request: Any, exchange: Exchange) -> Any:
        counts = await model_statistics(self._services.of(exchange), request.name, request.version)
        return ParseDict(counts, TYPES["ModelStatisticsResponse"]())

    async def _repository_index(self, request: Any, exchange: Exchange) -> Any:
        entries = repository_index(self._services.of(exchange).catalogue.cards(), request.ready)
        return ParseDict({"models": entries}, TYPES["RepositoryIndexResponse"]())

    async def _model_infer(self, request: Any, exchange: Exchange) -> Any:
        served, pipeline, inference = await self._read(request, exchange)
        try:
            tensors = await run_inference(self._services, exchange, pipeline, inference)
        except ClientGone:
            raise asyncio.CancelledError from None
        return reply_message(served.name, served.status.version, inference.id, tensors)

    async def _pieces(self, request: Any, exchange: Exchange) -> AsyncIterator[Any]:
        """The replies to one request of a stream: a text in pieces, tensors as a whole."""
        served, pipeline, inference = await self._read(request, exchange)
        async for tensors in stream_inference(self._services, exchange, pipeline, inference):
            yield reply_message(served.name, served.status.version, inference.id, tensors)

    async def _read(self, request: Any, exchange: Exchange) -> tuple[Served, Pipeline, Inference]:
        inference = await exchange.off_loop(lambda: read_message(request), work_size(request))
        served = find_served(self._services.of(exchange), request.model_name, request.model_version)
        return served, await find_pipeline(self._services, exchange, served.key, INFER), inference


def _writer(name: str) -> dict[str, Any]:
    """How a method writes its replies.  It gets requests as bytes: grpc logs a traceback for bad ones."""
    return {"response_serializer": TYPES[f"{name}Response"].SerializeToString}


def _message(name: str, body: bytes) -> Any:
    """The message that a client sent.  Raises RequestError."""
    try:
        return TYPES[f"{name}Request"].FromString(body)
    except DecodeError:
        raise RequestError(f"the body is no {name}Request of KServe's protocol") from None


def _tensor_metadata(tensor: Any) -> Any:
    return TYPES["TensorMetadata"](name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)


async def _never() -> Any:
    """A call over gRPC is cancelled when its client leaves; no message says so."""
    await asyncio.Event().wait()


async def _nothing(message: Any) -> None: ...
