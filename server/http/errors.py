"""Turns every exception into an error reply in the shape of the path's dialect.

Only this module sends error bodies.  The text of an internal error is logged and never sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import falcon
import falcon.asgi

from pipelines.base.cancellation import ClientGone
from pipelines.base.errors import BraidError, EngineError, RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.telemetry.request_trace import RequestTrace

log = logging.getLogger("braid.server")

INTERNAL = "Internal server error"
RETRY = "X-Should-Retry"
"""The header in which OpenAI's and Anthropic's clients read whether to ask again."""
SERVER_ERROR = 1011
"""The close code of a WebSocket whose application failed."""


class Unauthorized(BraidError):
    status, kind = 401, "AuthenticationError"
    word = "invalid_api_key"


class Forbidden(BraidError):
    status, kind = 403, "PermissionDeniedError"


class BodyTooLarge(BraidError):
    status, kind = 413, "RequestEntityTooLarge"


class UpgradeRequired(BraidError):
    status, kind = 426, "UpgradeRequiredError"


KINDS = {
    400: RequestError.kind,
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    413: BodyTooLarge.kind,
    431: "RequestHeaderFieldsTooLarge",
}
WORDS = {404: "unknown_url", 405: "method_not_supported"}
"""Status of an error of Falcon's → OpenAI's word for it."""


def public_error(error: Exception, trace: RequestTrace, in_words: bool = False) -> BraidError:
    """A BraidError as it is; for anything else, which is logged, an error without details.

    It is noted in the request's `trace`, whose id it gets.  `in_words`: its code is OpenAI's word.  The
    frames of `error` are let go: it ends here.
    """
    if not isinstance(error, BraidError):
        log.error("request %s failed", trace.id, exc_info=error)
    release_encoder_states(error)
    if not isinstance(error, BraidError):
        error = EngineError(f"{INTERNAL} (request {trace.id})")
    if error.status != Unauthorized.status:  # those are no news, and there may be many
        trace.fail(error.status, error.message)
    error.in_words, error.request_id = in_words, trace.id
    return error


def release_encoder_states(error: BaseException) -> None:
    """Drop the tracebacks of an error and of those it came from.

    A frame that holds its own error is a cycle: with the request in it, it would stay until the next
    collection of garbage.
    """
    chain: list[BaseException | None] = [error]
    while chain:
        exception = chain.pop()
        if exception is not None and exception.__traceback__ is not None:
            exception.__traceback__ = None
            chain += [exception.__context__, exception.__cause__]


async def on_error(
    req: falcon.asgi.Request,
    resp: falcon.asgi.Response | None,
    error: Exception,
    params: dict[str, Any],
    ws: falcon.asgi.WebSocket | None = None,
) -> None:
    exchange = req.scope["braid.exchange"]
    await _reply(req, resp, public_error(error, exchange.trace, exchange.error_words), ws)


async def _reply(
    req: falcon.asgi.Request,
    resp: falcon.asgi.Response | None,
    public: BraidError,
    ws: falcon.asgi.WebSocket | None,
) -> None:
    exchange = req.scope["braid.exchange"]
    dialect = exchange.dialect
    status = dialect.statuses.get(public.status, public.status)
    headers = {"Content-Type": falcon.MEDIA_JSON}
    if public.retry_after_s is not None:
        headers["Retry-After"] = str(public.retry_after_s)
    if not public.may_retry:
        headers[RETRY] = "false"
    if public.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    body = dialect.error(public).to_json()
    if resp is not None:
        resp.status, resp.data = status, body
        resp.set_headers(headers)
    elif ws is not None and ws.unaccepted:
        await exchange.refuse(status, headers, body)
    elif ws is not None:
        await ws.close(SERVER_ERROR)


async def on_http_error(
    meant: Callable[[str], str | None],
    req: falcon.asgi.Request,
    resp: falcon.asgi.Response | None,
    error: falcon.HTTPError,
    params: dict[str, Any],
    ws: falcon.asgi.WebSocket | None = None,
) -> None:
    """Errors that Falcon itself raises: no such path, wrong method, malformed headers.

    `meant` finds the path that a client meant by one that is not served.
    """
    release_encoder_states(error)
    status = 404 if ws is not None and error.status_code == 405 else error.status_code
    reply = BraidError(_http_text(meant, req, error, status), word=WORDS.get(status))
    reply.status, reply.kind = status, KINDS.get(status, "BadRequestError")
    exchange = req.scope["braid.exchange"]
    reply.in_words, reply.request_id = exchange.error_words, exchange.request_id
    await _reply(req, resp, reply, ws)
    if resp is not None and error.headers is not None:
        resp.set_headers(error.headers)


def _http_text(
    meant: Callable[[str], str | None], req: falcon.asgi.Request, error: falcon.HTTPError, status: int
) -> str:
    if status == 404:
        path = meant(req.path)
        advice = f"did you mean {path}?" if path else "GET /docs lists all paths"
        return f"Not Found: there is no path {quoted(req.path)}; {advice}"
    if status == 405:
        allowed = dict(error.headers or {}).get("Allow", "")
        return f"Method Not Allowed: {req.method} on {quoted(req.path)}; allowed: {allowed}"
    return ": ".join(text for text in (error.title, error.description) if text)


async def on_client_gone(
    req: falcon.asgi.Request,
    resp: falcon.asgi.Response | None,
    error: ClientGone,
    params: dict[str, Any],
    ws: falcon.asgi.WebSocket | None = None,
) -> None:
    """The client is gone: the status is for the log alone."""
    release_encoder_states(error)
    if resp is not None:
        resp.status = 499


def install(app: falcon.asgi.App[Any, Any], meant: Callable[[str], str | None] = lambda path: None) -> None:
    app.add_error_handler(Exception, on_error)
    app.add_error_handler(falcon.HTTPError, partial(on_http_error, meant))
    app.add_error_handler(ClientGone, on_client_gone)
