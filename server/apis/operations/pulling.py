"""Models are fetched from hubs by clients: started, followed as events, listed and cancelled."""

from __future__ import annotations

from collections.abc import AsyncIterator

import falcon
import falcon.asgi
import msgspec
from pydantic import ConfigDict, Field

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import FetchFailed
from pipelines.hub.base.events import SUCCESS, PullEvent
from server.http.exchange import Exchange
from server.http.request_body import joined, parse
from server.http.streaming import as_stream, kept_alive
from server.schema.reply_models import Reply
from server.schema.sse import DONE
from server.services.pulls import PullRequest, Pulls, PullState
from server.services.services import Services

EVENTS = "text/event-stream"


class PullBody(DeferredModel):
    """`model` is a name on a hub, as `ORG/NAME:TAG`; `as` is the name that it gets here."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    model: str = Field(min_length=1, max_length=2048)
    served_as: str | None = Field(default=None, alias="as", min_length=1, max_length=256)
    hub: str | None = None
    revision: str | None = Field(default=None, max_length=256)
    stream: bool = True


class PullStep(Reply):
    """One step of a pull: bytes of all its files, and of the file that it is about.

    `status` is `success`, `failed` or `cancelled` at the end.
    """

    id: str
    name: str
    model: str
    status: str
    completed: int = 0
    total: int = 0
    file: str = ""
    digest: str = ""
    file_completed: int = 0
    file_total: int = 0
    message: str = ""
    error: str = ""


class PullList(Reply):
    data: list[PullStep]


class PullsEndpoint:
    """POST models/pull fetches a model; GET lists what was fetched since the server started."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        data = await self._services.arriving.read(req, joined, any_content=True) or b"{}"
        body = parse(PullBody, data)
        pulls = self._services.pulls
        state = pulls.start(PullRequest(body.model, body.served_as, body.hub, body.revision))
        exchange: Exchange = req.scope["braid.exchange"]
        if body.stream:
            as_stream(resp, kept_alive(exchange, _events(pulls, state)))
            return
        last = await exchange.while_here(_last(pulls, state))
        if last.status != SUCCESS:
            raise FetchFailed(last.error or f"{state.name}: {last.status}", "model")
        resp.content_type, resp.data = falcon.MEDIA_JSON, progress(state, last).to_json()

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        states = self._services.pulls.states()
        listed = PullList(data=[progress(state, state.last) for state in states])
        resp.content_type, resp.data = falcon.MEDIA_JSON, listed.to_json()


class PullEndpoint:
    """GET models/pull/{id} shows or follows one, DELETE cancels it."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, pull_id: str) -> None:
        pulls = self._services.pulls
        state = pulls.state(pull_id)
        if EVENTS in req.accept or req.get_param_as_bool("stream"):
            as_stream(resp, kept_alive(req.scope["braid.exchange"], _events(pulls, state)))
            return
        resp.content_type, resp.data = falcon.MEDIA_JSON, progress(state, state.last).to_json()

    async def on_delete(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, pull_id: str) -> None:
        state = self._services.pulls.cancel(pull_id)
        resp.content_type, resp.data = falcon.MEDIA_JSON, progress(state, state.last).to_json()


def progress(state: PullState, event: PullEvent) -> PullStep:
    """An event of a pull, as clients get it."""
    fields = msgspec.structs.asdict(event)
    return PullStep(**{**fields, "id": state.id, "name": state.name, "model": state.served_as})


async def _events(pulls: Pulls, state: PullState) -> AsyncIterator[bytes]:
    async for event in pulls.events(state.id):
        yield b"data: " + progress(state, event).to_json() + b"\n\n"
    yield DONE


async def _last(pulls: Pulls, state: PullState) -> PullEvent:
    event = state.last
    async for event in pulls.events(state.id):  # noqa: B007
        pass
    return event
