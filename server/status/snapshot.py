"""Makes one snapshot of the server: of all models in short, and of one in detail."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from graphs.outline import GraphOutline, outline
from pipelines.errors import BraidError
from pipelines.wire.messages import Profiled
from pipelines.worker.catalogue import Catalogue
from pipelines.worker.engines.faces import HostClient
from pipelines.worker.model_table import ModelCard
from server.metric_values import MetricValues
from server.settings import Settings
from server.status.node_times import RecentRuns, body_runs, node_parts, phases, step_runs
from server.status.reply_models import (
    AdapterPart,
    EnginePart,
    HistoryPart,
    ModelPart,
    NodePart,
    ProcessPart,
    ServerPart,
    StatusReply,
    TokenTotals,
)
from server.version import VERSION

TEXT_TASKS = ("chat", "completion")


@dataclass(frozen=True, slots=True)
class Detail:
    """What is known of the model that is shown in detail; None while no engine has it ready."""

    name: str
    graph: GraphOutline
    profiled: Profiled


class StatusSnapshots:
    """Makes snapshots; what they have of recent times is since the snapshots before."""

    def __init__(self, settings: Settings, client: HostClient, catalogue: Catalogue) -> None:
        self._settings = settings
        self._client = client
        self._catalogue = catalogue
        self._recent: dict[str, RecentRuns] = {}

    async def make(self, model: str | None) -> bytes:
        """A `StatusReply` as JSON; `model` is shown in detail, None: the default one.  Raises nothing."""
        cards = self._catalogue.cards()
        name = model or default_model(self._settings, cards)
        detail = await self._detail(name) if name is not None else None
        return await asyncio.to_thread(self._json, name, cards, detail)

    async def _detail(self, name: str) -> Detail | None:
        try:
            graph = outline(self._catalogue.built(name).graph)
            return Detail(name, graph, await self._client.profile(name))
        except BraidError:
            return None

    def _json(self, name: str | None, cards: list[ModelCard], detail: Detail | None) -> bytes:
        values, settings = MetricValues(), self._settings
        processes = values.processes()
        reply = StatusReply(
            created=time.time(),
            model=name,
            server=ServerPart(
                version=VERSION,
                started=values.started(),
                needs_key=bool(settings.api_keys),
                needs_admin_key=bool(settings.admin_keys),
                default_model=default_model(settings, cards),
            ),
            engines=[self._engine({each.pid: each.resident_bytes for each in processes})],
            processes=[ProcessPart(**each._asdict()) for each in processes],
            models=[_model(card, values) for card in cards],
            nodes=self._nodes(detail, values) if detail else [],
            phases=phases(detail.profiled.engines) if detail else [],
            queues=[],
            requests=[],
            history=HistoryPart(),
            totals=_totals(name or "", values),
            errors=[],
            recent=[],
        )
        return reply.model_dump_json().encode()

    def _engine(self, resident: dict[int, int]) -> EnginePart:
        status = self._client.status
        if status is None:
            return EnginePart(engine="0", state="down")
        pid = status.engine_pid
        return EnginePart(engine="0", state=status.state, pid=pid, resident_bytes=resident.get(pid))

    def _nodes(self, detail: Detail, values: MetricValues) -> list[NodePart]:
        steps = step_runs(detail.profiled.engines)
        totals = {**values.node_runs(detail.name), **steps, **body_runs(detail.profiled.engines)}
        recent = self._recent.setdefault(detail.name, RecentRuns()).since(time.monotonic(), totals)
        return node_parts(detail.graph.walk(), totals, recent, steps)


def default_model(settings: Settings, cards: list[ModelCard]) -> str | None:
    """The model of requests that name none; else the first one that generates text, else the first."""
    names = [card.name for card in cards]
    if settings.default_model in names:
        return settings.default_model
    texts = [card.name for card in cards if card.task in TEXT_TASKS]
    return next(iter([*texts, *names]), None)


def _model(card: ModelCard, values: MetricValues) -> ModelPart:
    return ModelPart(
        id=card.name,
        state=card.state,
        problems=card.problems,
        task=card.task,
        version=card.version,
        bytes=values.of_model("braid:model_bytes", card.name) or None,
        on_request=card.on_request,
        adapters=[AdapterPart(id=one.name, problem=one.problem or None) for one in card.adapters],
        running=values.of_model("vllm:num_requests_running", card.name),
        waiting=values.of_model("vllm:num_requests_waiting", card.name),
        instance=0,
    )


def _totals(name: str, values: MetricValues) -> TokenTotals:
    ended = values.by("vllm:request_success_total", "finished_reason", model_name=name)
    return TokenTotals(
        prompt_tokens=values.of_model("vllm:prompt_tokens_total", name),
        cached_tokens=values.of_model("vllm:prompt_tokens_cached_total", name),
        output_tokens=values.of_model("vllm:generation_tokens_total", name),
        preemptions=values.of_model("vllm:num_preemptions_total", name),
        draft_tokens=values.of_model("vllm:spec_decode_num_draft_tokens_total", name),
        accepted_tokens=values.of_model("vllm:spec_decode_num_accepted_tokens_total", name),
        requests=round(sum(ended.values())),
        failed=round(ended.get("error", 0)),
    )
