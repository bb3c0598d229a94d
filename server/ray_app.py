"""Braid as an application of Ray Serve: each replica is an engine host and Braid's own ASGI application.

`serve run server.ray_app:app`; docs/scaling.md.  Only this module and the router import ray.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig, RequestRouterConfig

from pipelines.telemetry import registry
from server.app import App, Scope, create_app
from server.base.environment import read_settings
from server.base.settings import Settings
from server.connect import connect
from server.http.exchange import Message, Receive, Send
from server.process import startup
from server.ray_router import READY
from server.services.server_ready import is_ready

POLL_S = 1.0
"""The seconds between two looks at an engine host, by Serve's checks of health and for its state."""
MARGIN_S = 5.0
"""Serve waits for requests in flight so much longer than BRAID_GRACE_S."""
NUM_FALLBACKS = 7
"""Replicas that a request is sent to, one after another, where the first are full or without an engine."""
LOAD = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "cache_use",
}
"""Metric of the engine host → its name among Serve's autoscaling stats."""

log = logging.getLogger("ray.serve")


class Arguments(BaseModel):
    """`serve run server.ray_app:app NAME=VALUE …`, or `args` in a configuration of Serve."""

    model_config = ConfigDict(extra="forbid")

    min_replicas: int = Field(default=1, ge=1)
    max_replicas: int = Field(default=1, ge=1)
    target_requests: float = Field(default=16, gt=0)
    """Requests in flight for each replica; more add replicas, fewer remove some."""
    num_cpus: float = Field(default=1, ge=0)
    num_gpus: float = Field(default=0, ge=0)


class StartsLate:
    """An ASGI application whose start ends when something else has ended too."""

    def __init__(self, app: App, other: Callable[[], Awaitable[None]]) -> None:
        self._app = app
        self._other = other

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_late(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                await self._other()
            await send(message)

        await self._app(scope, receive, send_late if scope["type"] == "lifespan" else send)


class Replica:
    """What gunicorn's master and one worker are in a server, inside an actor of Ray."""

    def __init__(self) -> None:
        """Start the engine host.  Raises ValueError for settings that a replica cannot have."""
        os.environ.setdefault("BRAID_REPLICA", serve.get_replica_context().replica_id.unique_id)
        settings = read_settings()
        check(settings)
        self._folder = startup.open_folder(settings, log)
        self._settings = read_settings()
        self._engine = startup.supervise(self._settings, self._folder, log)
        self._engine.poll()

    def __serve_build_asgi_app__(self) -> Any:
        self._services = connect(self._settings)
        return StartsLate(create_app(self._services), self._models_loaded)

    async def _models_loaded(self) -> None:
        """Wait until each model has loaded or failed: then Serve sends requests."""
        while not is_ready(self._services):
            self._engine.poll()
            await asyncio.sleep(POLL_S / 5)

    async def check_health(self) -> None:
        """Serve's check: the supervisor's turn, which starts an engine host again that died."""
        self._engine.poll()

    async def record_routing_stats(self) -> dict[str, bool]:
        """What `SessionRouter` reads."""
        return {READY: is_ready(self._services)}

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Sequences that run and wait in all models, and the fullest cache's use, 0 to 1."""
        return await asyncio.to_thread(read_load)

    async def __del__(self) -> None:
        """The application has ended, after its last request."""
        if hasattr(self, "_engine"):
            await asyncio.to_thread(self._engine.stop)
        if hasattr(self, "_folder"):
            self._folder.remove()


def check(settings: Settings) -> None:
    """Refuse settings of a whole server: replicas of one machine would share the port."""
    if settings.grpc_port is not None:
        raise ValueError("BRAID_GRPC_PORT: a replica of Ray Serve has no port of its own")
    if settings.in_process:
        raise ValueError("BRAID_IN_PROCESS: a replica of Ray Serve has an engine host")


def read_load() -> dict[str, float]:
    """The engine host's numbers, over all models: sums, of the cache the largest."""
    found: dict[str, list[float]] = {name: [0.0] for name in LOAD.values()}
    for family in registry.collect():
        if family.name in LOAD:
            found[LOAD[family.name]] += [sample.value for sample in family.samples]
    return {name: max(values) if name == "cache_use" else sum(values) for name, values in found.items()}


def app(application_args: dict[str, str]) -> Application:
    """The application: `application_args` holds its `Arguments`, the environment its settings."""
    arguments, settings = Arguments.model_validate(application_args), read_settings()
    check(settings)
    deployment = serve.deployment(
        serve.ingress()(Replica),
        name="braid",
        autoscaling_config=AutoscalingConfig(
            min_replicas=arguments.min_replicas,
            max_replicas=arguments.max_replicas,
            target_ongoing_requests=arguments.target_requests,
        ),
        max_ongoing_requests=round(settings.max_concurrency * settings.tenant_share),
        health_check_period_s=POLL_S,
        health_check_timeout_s=30,
        graceful_shutdown_timeout_s=settings.grace_s + MARGIN_S,
        ray_actor_options={"num_cpus": arguments.num_cpus, "num_gpus": arguments.num_gpus},
        request_router_config=RequestRouterConfig(
            request_router_class="server.ray_router.SessionRouter",
            request_router_kwargs={"num_fallback_replicas": NUM_FALLBACKS},
            request_routing_stats_period_s=POLL_S,
        ),
    )
    bound: Application = deployment.bind()
    return bound
