"""POST api/pull: fetches a model by name, and shows how far it is."""

from __future__ import annotations

from collections.abc import AsyncIterator

import falcon
import falcon.asgi
from pydantic import StrictBool

from pipelines.base.errors import FetchFailed
from pipelines.hub.base.events import ENDS, SUCCESS, PullEvent
from pipelines.requests.fields.unknown_fields import note_left_out
from server.apis.ollama.models_endpoint import NamedModel
from server.apis.ollama.replies import line
from server.apis.ollama.reply_models import PullProgress
from server.http.exchange import Exchange
from server.http.request_body import parse
from server.http.streaming import as_stream
from server.schema.reply_models import PlainError
from server.services.pulls import PullRequest
from server.services.services import Services

NDJSON = "application/x-ndjson"
SHOWN_DIGITS = 12


class PullModelBody(NamedModel):
    """The body of pull: `model` is a name on a hub, as `hf.co/ORG/NAME:TAG`.

    `insecure` changes nothing: certificates are always verified, and `HF_ENDPOINT` may be plain HTTP.
    """

    stream: StrictBool | None = None
    insecure: StrictBool | None = None


class OllamaPullEndpoint:
    """A model that is fetched already is joined; one whose client leaves is fetched all the same."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        body = parse(PullModelBody, await self._services.admit(req, any_content=True))
        if body.insecure:
            note_left_out("insecure", "true")
        state = self._services.pulls.start(PullRequest(body.given))
        events = self._services.pulls.events(state.id)
        if body.stream is not False:
            as_stream(resp, _lines(events), NDJSON)
            return
        exchange: Exchange = req.scope["braid.exchange"]
        last = await exchange.while_here(_last(events, state.last))
        if last.status != SUCCESS:
            raise FetchFailed(last.error or last.status, "model")
        resp.content_type, resp.data = falcon.MEDIA_JSON, PullProgress(status=SUCCESS).to_json()


async def _last(events: AsyncIterator[PullEvent], last: PullEvent) -> PullEvent:
    async for event in events:
        last = event
    return last


async def _lines(events: AsyncIterator[PullEvent]) -> AsyncIterator[bytes]:
    yield line(PullProgress(status="pulling manifest"))
    async for event in events:
        yield _line(event)


def _line(event: PullEvent) -> bytes:
    """An event in Ollama's words: that of a file has its digest, and how much of it is there."""
    if event.status in ENDS and event.status != SUCCESS:
        return line(PlainError(error=event.error or event.status))
    if event.status == SUCCESS or not event.file:
        return line(PullProgress(status=event.status))
    name = event.digest or event.file
    shown = name.removeprefix("sha256:")[:SHOWN_DIGITS]
    sizes = {"total": event.file_total, "completed": event.file_completed}
    return line(PullProgress(status=f"pulling {shown}", digest=name, **sizes))
