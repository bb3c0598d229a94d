"""Clients load and unload adapters, with vLLM's paths, bodies and texts, where a setting allows it."""

from __future__ import annotations

from typing import Any

import falcon
import falcon.asgi
from pydantic import ConfigDict, model_validator

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import NotFound, RequestError
from pipelines.requests.fields.known_fields import check_fields
from server.http.request_body import joined, parse
from server.services.services import Services


class InvalidUserInput(RequestError):
    kind = "InvalidUserInput"


class _LoraRequest(DeferredModel):
    """Unknown fields are ignored, and reported where they are misspelt, as in any request."""

    model_config = ConfigDict(extra="allow")
    lora_name: str = ""

    @model_validator(mode="after")
    def _check_other_fields(self) -> _LoraRequest:
        check_fields(self.model_extra or {}, type(self).model_fields)
        return self


class LoadLoraRequest(_LoraRequest):
    """`lora_path`: a folder below that of the model's adapters, absolute or from there.

    `base_model_name` says which model's, where several have adapters.
    """

    lora_path: str = ""
    load_inplace: bool = False
    base_model_name: str | None = None


class UnloadLoraRequest(_LoraRequest):
    """`lora_int_id` changes nothing, as in vLLM: the name says which adapter it is."""

    lora_int_id: int | None = None


class _LoraEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def body(self, req: falcon.asgi.Request) -> bytes:
        if not self._services.settings.allow_runtime_lora_updating:
            raise NotFound(
                "Not Found: clients load and unload adapters only where the server is started with "
                "BRAID_ALLOW_RUNTIME_LORA_UPDATING=1"
            )
        return await self._services.arriving.read(req, joined, any_content=True) or b"{}"


class LoadLoraEndpoint(_LoraEndpoint):
    """POST load_lora_adapter: replies when every worker serves the adapter."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        request = parse(LoadLoraRequest, await self.body(req))
        if not request.lora_name or not request.lora_path:
            raise InvalidUserInput("Both 'lora_name' and 'lora_path' must be provided.")
        load = self._services.client.load_adapter(
            request.lora_name, request.lora_path, request.base_model_name, request.load_inplace
        )
        await _settled(req, load)
        _reply(resp, f"Success: LoRA adapter '{request.lora_name}' added successfully.")


class UnloadLoraEndpoint(_LoraEndpoint):
    """POST unload_lora_adapter: requests that run with it go on, new ones are refused."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        name = parse(UnloadLoraRequest, await self.body(req)).lora_name
        if not name:
            raise InvalidUserInput("'lora_name' needs to be provided to unload a LoRA adapter.")
        await _settled(req, self._services.client.unload_adapter(name))
        _reply(resp, f"Success: LoRA adapter '{name}' removed successfully.")


async def _settled(req: falcon.asgi.Request, asked: Any) -> None:
    try:
        await req.scope["braid.exchange"].while_here(asked)
    except RequestError as error:
        raise InvalidUserInput(error.message) from None


def _reply(resp: falcon.asgi.Response, text: str) -> None:
    resp.content_type, resp.text = falcon.MEDIA_TEXT, text
