"""Makes the services of a worker: the way to its engine, and what each family of endpoints shares."""

from __future__ import annotations

from pathlib import Path

from pipelines.nodes.speech.windows import SAMPLE_BYTES, SAMPLES_PER_S
from pipelines.wire.lora_modules import parse_module
from pipelines.wire.socket_link import over_socket
from pipelines.worker.catalogue import Catalogue
from pipelines.worker.engines.engines import over_sockets
from pipelines.worker.engines.faces import HostClient
from server.apis.batches.offline_store import OfflineStore
from server.apis.responses.background import BackgroundResponses
from server.apis.responses.store import ResponseStore
from server.apis.retrieval.stores.vector_stores import VectorStores
from server.apis.speech.sound_memory import SoundMemory
from server.apis.usage.usage_log import UsageLog
from server.base.settings import Settings
from server.http.admission import Admission
from server.http.request_body import ArrivingBodies
from server.http.work_queue import Work
from server.keys.key_file import KEYS_COPY, KeyFile
from server.keys.limits import KeyLimits
from server.media.fetching import MediaFetcher
from server.media.sources import MediaSources
from server.services.pulls import Pulls
from server.services.request_log import RequestLog
from server.services.services import Services
from server.status.feed import StatusFeed
from server.status.snapshot import StatusSnapshots
from server.traces.sender import trace_sender


def make_services(settings: Settings, client: HostClient, catalogue: Catalogue | None = None) -> Services:
    """The services of a worker that reaches its engines through `client`."""
    catalogue, response_store = catalogue or Catalogue(client), ResponseStore(settings)
    max_body_bytes = settings.max_body_mb << 20
    key_file, limits = None, KeyLimits(None)
    if settings.keys_file is not None:
        key_file = KeyFile(settings.keys_file, _beside_socket(settings, KEYS_COPY))
        limits = KeyLimits(_beside_socket(settings, "limits"))
    usage, offline = UsageLog(settings, key_file, limits), OfflineStore(settings)
    return Services(
        settings=settings,
        client=client,
        catalogue=catalogue,
        admission=Admission(settings.max_concurrency, settings.tenant_share),
        key_file=key_file,
        limits=limits,
        arriving=ArrivingBodies(max_body_bytes),
        work=Work(settings.max_body_mb),
        requests=RequestLog(client.report if settings.status else None, usage.add),
        response_store=response_store,
        background=BackgroundResponses(response_store),
        sounds=SoundMemory(round(settings.max_audio_s * SAMPLES_PER_S) * SAMPLE_BYTES),
        media=MediaFetcher(_media_sources(settings), max_body_bytes),
        feed=StatusFeed(StatusSnapshots(settings, client, catalogue).make),
        offline=offline,
        stores=VectorStores(settings, offline),
        pulls=Pulls(
            settings,
            lambda: client.rescan(),
            lambda name: any(card.name == name for card in catalogue.cards()),
        ),
        usage=usage,
        new_trace_sender=trace_sender,
    )


def _beside_socket(settings: Settings, name: str) -> Path | None:
    """A file in the private folder of the server; None in a process that no server has started."""
    return settings.engine_socket and settings.engine_socket.with_name(name)


def _media_sources(settings: Settings) -> MediaSources:
    return MediaSources(
        settings.allowed_media_domains,
        settings.private_media_domains,
        settings.allowed_local_media_path,
    )


def connect(settings: Settings) -> Services:
    """The services that the settings ask for: over the engine's socket, or with the engine in a thread."""
    return make_services(settings, _client(settings))


def _client(settings: Settings) -> HostClient:
    if settings.in_process:
        from pipelines.host.announce import announce
        from pipelines.host.first_run.new_models import HostOptions
        from pipelines.host.in_process import InProcessClient
        from pipelines.host.models.residents import MemoryLimits

        return InProcessClient(
            HostOptions(
                settings.models,
                settings.device,
                settings.cache,
                settings.first_run,
                settings.prefix_file_gb,
                prepared_mb=settings.prepared_mb,
                poll_s=settings.poll_models,
                modules=[parse_module(module) for module in settings.lora_modules],
            ).source(),
            snapshots=settings.engine_socket.with_name("models") if settings.engine_socket else None,
            limits=MemoryLimits.of(
                settings.max_loaded_gb,
                settings.idle_unload_s,
                settings.load_timeout,
                settings.load_on_request,
            ),
            announce=lambda status: announce(
                status, settings.models, settings.url, settings.needs_key, settings.default_model
            ),
        )
    if settings.engine_socket is None:
        raise RuntimeError("BRAID_ENGINE_SOCKET is not set: start the server with `braid serve`")
    sockets = [str(socket) for socket in settings.engine_sockets]
    several = len(sockets) > 1
    return over_sockets(sockets, settings.engine_max_ahead) if several else over_socket(sockets[0])
