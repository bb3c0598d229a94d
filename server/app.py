"""The ASGI application: Falcon, its middleware and routes, inside a wrapper that sees each exchange end.

Knows no endpoint by name; `server/apis/routes.py` lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import falcon
import falcon.asgi

from pipelines.telemetry import processes
from server.apis.batches.batch_worker import MAX_RUNS, BatchWorker
from server.apis.batches.line_calls import LineCalls
from server.apis.batches.window import MAX
from server.apis.responses.foreground import NOT_STORED
from server.apis.routes import batch_routes, dialects, meant_path, routes
from server.base.environment import read_settings
from server.base.settings import Settings
from server.connect import connect
from server.http import errors
from server.http.auth import Guard, take_key
from server.http.exchange import LOSSES, Exchange, Receive, Send
from server.http.origins import PageGuard
from server.http.socket_exchange import ARRIVING, SocketExchange
from server.http.unknown_fields_report import HEADER, UnknownFieldsReport
from server.keys.limits import HEADERS
from server.process.worker_state import process_of
from server.services.paths import HeadRouter
from server.services.request_counts import RequestCounts
from server.services.services import Services

if TYPE_CHECKING:
    from server.apis.retrieval.stores.store_worker import StoreWorker

Scope = dict[str, Any]


class Lifespan:
    """Falcon middleware: services start with the worker and end with it."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._grpc: Any = None
        self._batches: BatchWorker | None = None
        self._stores: StoreWorker | None = None

    async def process_startup(self, scope: Scope, event: dict[str, Any]) -> None:
        await self._services.start(process_of(scope))
        self._batches = batch_worker(self._services)
        self._batches.start()
        process_of(scope).drain.at_start(self._batches.stop)
        if "retrieval" in self._services.settings.apis:
            from server.apis.retrieval.stores.store_worker import StoreWorker

            self._stores = StoreWorker(self._services)
            self._stores.start()
            process_of(scope).drain.at_start(self._stores.stop)
        if self._services.settings.grpc_port is not None:
            from server.apis.kserve.grpc.listener import GrpcListener

            self._grpc = GrpcListener(self._services)
            await self._grpc.start()
            process_of(scope).drain.at_start(self._grpc.drain)
        processes.register("worker")

    async def process_shutdown(self, scope: Scope, event: dict[str, Any]) -> None:
        if self._grpc is not None:
            await self._grpc.stop()
        for worker in (self._stores, self._batches):
            if worker is not None:
                await worker.close()
        await self._services.close()


class RequestIds:
    """Falcon middleware: every answer carries the id by which the logs know its request, and what its key has
    left.
    """

    async def process_request(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        _note(req).take_id(req.get_header("X-Request-Id"))

    async def process_request_ws(self, req: falcon.asgi.Request, ws: falcon.asgi.WebSocket) -> None:
        _note(req)

    async def process_response(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, resource: object, succeeded: bool
    ) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        trace = exchange.trace
        trace.status, trace.streams = resp.status_code, resp.stream is not None
        resp.set_header("X-Request-Id", trace.id)
        if exchange.dialect.id_header is not None:
            resp.set_header(exchange.dialect.id_header, trace.id)
        for bound in exchange.bounds:
            resp.set_headers(bound.headers())


def _note(req: falcon.asgi.Request) -> Exchange:
    """The exchange of a request, with what the record of it says of its HTTP."""
    exchange: Exchange = req.scope["braid.exchange"]
    exchange.trace.path, exchange.trace.traceparent = req.path, req.get_header("traceparent")
    return exchange


class ListedOrigins(falcon.CORSMiddleware[Any, Any]):
    """CORS for a list of origins, with `Vary: Origin` for caches: a reply depends on the origin."""

    def process_response(self, req: Any, resp: Any, resource: object, req_succeeded: bool) -> None:
        super().process_response(req, resp, resource, req_succeeded)
        resp.append_header("Vary", "Origin")


class App:
    """Falcon's app; around each HTTP request or WebSocket an `Exchange`, closed whatever became of it.

    Falcon closes no stream that it did not begin, and none when the client leaves: so what a request holds
    is given back here.
    """

    def __init__(self, falcon_app: falcon.asgi.App[Any, Any], services: Services) -> None:
        self._falcon = falcon_app
        self._services = services
        self._dialects = dialects(services.settings)
        self._error_words = services.settings.error_codes == "openai"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._falcon(scope, receive, send)
            return
        scope["path"] = "/" + scope["path"].lstrip("/")  # as it is routed: keys and dialects go by the same
        shared = self._services.work, self._dialects.of(scope["path"]), self._error_words
        exchange: Exchange
        if scope["type"] == "websocket":
            exchange = socket = SocketExchange(receive, send, *shared)
            send, scope[ARRIVING] = socket.send, self._services.arriving
        else:
            exchange = Exchange(receive, send, *shared, watches=LOSSES not in scope)
        scope.get(LOSSES, []).append(exchange.leave)
        scope["braid.exchange"] = exchange
        if exchange.dialect.key_parameter is not None:
            exchange.query_key = take_key(scope, exchange.dialect.key_parameter)
        try:
            await self._falcon(scope, exchange.receive, send)
        finally:
            exchange.close()
            if not exchange.trace.runs_on:
                self._services.requests.ended(exchange.trace)


def batch_worker(services: Services) -> BatchWorker:
    """What runs batches; their requests go to the endpoints that HTTP requests go to."""

    def make_app() -> falcon.asgi.App[Any, Any]:
        app = falcon.asgi.App(middleware=[UnknownFieldsReport(services.settings.strict_fields)])
        errors.install(app)
        for path, resource in batch_routes(services.for_batches(MAX_RUNS * MAX)):
            app.add_route(path, resource)
        return app

    settings = services.settings
    calls = LineCalls(services, make_app, dialects(settings))
    return BatchWorker(services.offline, calls, services.load_of)


def create_app(services: Services) -> App:
    """The application around given services."""
    settings = services.settings
    router = HeadRouter()
    middleware: list[Any] = [
        RequestCounts(router),
        Lifespan(services),
        RequestIds(),
        UnknownFieldsReport(settings.strict_fields),
        PageGuard(settings.needs_key, settings.host, settings.cors_origins, settings.allowed_hosts),
        Guard(settings.api_keys, settings.admin_keys, lambda: services.key_file),
    ]
    if settings.cors_origins:
        middleware.insert(0, _cors(settings))
    app = falcon.asgi.App(middleware=middleware, router=router)
    app.req_options.strip_url_path_trailing_slash = True
    app.ws_options.max_receive_queue = 0  # a message is read when the one before it was worked on
    errors.install(app, meant_path(settings))
    for path, resource in routes(services):
        app.add_route(path, resource)
    return App(app, services)


def _cors(settings: Settings) -> Any:
    origins = "*" if "*" in settings.cors_origins else list(settings.cors_origins)
    kind = falcon.CORSMiddleware if origins == "*" else ListedOrigins
    shown = ["X-Request-Id", "request-id", "Retry-After", HEADER, NOT_STORED, *HEADERS]
    return kind(allow_origins=origins, expose_headers=shown)


def __getattr__(name: str) -> Any:
    """`server.app:app`, as gunicorn asks for it: made of the environment when it is first wanted."""
    if name != "app":
        raise AttributeError(name)
    globals()["app"] = app = create_app(connect(read_settings()))
    return app
