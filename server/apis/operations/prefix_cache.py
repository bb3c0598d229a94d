"""POST reset_prefix_cache: empties the prefix caches of all models, for measurements and tests."""

from __future__ import annotations

import falcon.asgi

from server.schema.reply_models import Success
from server.services.services import Services


class ResetPrefixCacheEndpoint:
    """vLLM's path.  Requests in flight go on; later ones compute their whole prompts."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        await self._services.client.reset_prefix_cache()
        resp.media = Success(success=True).model_dump()
