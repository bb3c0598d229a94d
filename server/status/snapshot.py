"""Makes one snapshot of the server: of all models in short, and of one in detail."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec.structs import asdict

from graphs.outline import GraphOutline, outline
from pipelines.base.errors import BraidError
from pipelines.telemetry import deferred
from pipelines.telemetry.last_requests import LastRequests
from pipelines.wire.messages import Inspected
from pipelines.worker.catalogue import Catalogue
from pipelines.worker.engines.faces import HostClient
from pipelines.worker.model_table import ModelCard
from server.base.metric_values import MetricValues
from server.base.settings import Settings
from server.base.version import VERSION
from server.status.engine_parts import engine_parts, queue_parts, summed_totals
from server.status.history import history_part
from server.status.node_times import WorkerTimes, engine_times, node_parts, phase_parts
from server.status.own_requests import own_records, own_requests
from server.status.reply_models import (
    AdapterPart,
    ErrorPart,
    ModelPart,
    NodePart,
    ProcessPart,
    RecentPart,
    ServerPart,
    StatusReply,
    TokenTotals,
)

INSPECT_S = 2.0
"""A host that takes longer to say what it does is shown as one that does not reply."""
TEXT_TASKS = ("chat", "completion")


@dataclass(frozen=True, slots=True)
class Known:
    """What a snapshot is made of.  `inspected` is what each engine shows that replies, with the nodes of the
    model `name`; `graph` is None while that is not served.
    """

    name: str | None
    cards: list[ModelCard]
    graph: GraphOutline | None
    inspected: list[Inspected]


class StatusSnapshots:
    """Makes snapshots; while no engine replies, the models and the last requests are those of the one before.

    They have no state but "down" then.
    """

    def __init__(self, settings: Settings, client: HostClient, catalogue: Catalogue) -> None:
        self._settings = settings
        self._client = client
        self._catalogue = catalogue
        self._cards: list[ModelCard] = []
        self._last = LastRequests()
        self._times: dict[str, WorkerTimes] = {}

    async def make(self, model: str | None, account: str | None = None) -> bytes:
        """A `StatusReply` as JSON; `model` is shown in detail, None: the default one.  Raises nothing.

        With an `account` it has no requests of others.
        """
        deferred.catch_up()
        known = await self._known(model)
        for host in known.inspected:
            self._last.add(host.requests, host.errors)
        self._cards = known.cards
        return await asyncio.to_thread(self._json, known, account)

    async def _known(self, model: str | None) -> Known:
        cards = self._catalogue.cards() or [replace(card, state="down") for card in self._cards]
        name = model or default_model(self._settings, cards)
        try:
            async with asyncio.timeout(INSPECT_S):
                inspected = await self._client.inspect(name or "")
        except (BraidError, TimeoutError):
            inspected = []
        try:
            graph = None if name is None else outline(self._catalogue.built(name).graph)
        except BraidError:
            graph = None
        return Known(name, cards, graph, inspected)

    def _json(self, known: Known, account: str | None) -> bytes:
        values, settings, inspected = MetricValues(), self._settings, known.inspected
        queues, requests = queue_parts(known.name or "", [own_requests(host, account) for host in inspected])
        views = [view for host in inspected for view in host.nodes]
        reply = StatusReply(
            created=time.time(),
            model=known.name,
            server=ServerPart(
                version=VERSION,
                started=values.started(),
                needs_key=settings.needs_key,
                needs_admin_key=settings.needs_admin_key,
                default_model=default_model(settings, known.cards),
            ),
            engines=engine_parts(settings.num_engines, inspected),
            processes=[ProcessPart(**process._asdict()) for process in values.processes()],
            models=self._models(known),
            nodes=self._nodes(known, values),
            phases=phase_parts(views),
            queues=queues,
            requests=requests,
            history=history_part([model.history for model in inspected if model.history is not None]),
            totals=_totals(known.name or "", inspected, values),
            errors=[ErrorPart.model_validate(record) for record in own_records(self._last.errors, account)],
            recent=[
                RecentPart.model_validate(record) for record in own_records(self._last.requests, account)
            ],
        )
        return reply.model_dump_json().encode()

    def _models(self, known: Known) -> list[ModelPart]:
        """All models; what runs and waits, and what they take, summed over the engines."""
        status = self._client.status
        instances = {model.name: model.instance_id for model in status.models} if status else {}
        return [_model(card, known.inspected, instances) for card in known.cards]

    def _nodes(self, known: Known, values: MetricValues) -> list[NodePart]:
        if known.graph is None or known.name is None:
            return []
        times = self._times.setdefault(known.name, WorkerTimes())
        worker = times.since(time.monotonic(), values.node_runs(known.name))
        newest = [
            view for host in known.inspected for view in host.nodes if _is_newest(view.instance_id, host)
        ]
        return list(node_parts(known.graph.walk(), worker, engine_times(newest)))


def _is_newest(instance_id: int, host: Inspected) -> bool:
    return instance_id == host.nodes[0].instance_id


def default_model(settings: Settings, cards: list[ModelCard]) -> str | None:
    """The model of requests that name none; else the first one that generates text, else the first."""
    names = [card.name for card in cards]
    if settings.default_model in names:
        return settings.default_model
    texts = [card.name for card in cards if card.task in TEXT_TASKS]
    return next(iter([*texts, *names]), None)


def _totals(name: str, inspected: Sequence[Inspected], values: MetricValues) -> TokenTotals:
    ended = values.by("vllm:request_success_total", "finished_reason", model_name=name)
    return TokenTotals(
        **asdict(summed_totals(inspected)),
        requests=round(sum(ended.values())),
        failed=round(ended.get("error", 0)),
    )


def _model(card: ModelCard, inspected: Sequence[Inspected], instances: Mapping[str, int]) -> ModelPart:
    loads = [load for host in inspected for load in host.models if load.name == card.name]
    return ModelPart(
        id=card.name,
        state=card.state,
        doing=card.doing or None,
        share=card.share,
        problems=card.problems,
        task=card.task,
        version=card.version,
        bytes=sum(load.num_bytes for load in loads) if loads else None,
        on_request=card.on_request,
        adapters=[AdapterPart(id=adapter.name, problem=adapter.problem or None) for adapter in card.adapters],
        running=sum(load.running for load in loads),
        waiting=sum(load.waiting for load in loads),
        instance=instances.get(card.name, 0),
    )
