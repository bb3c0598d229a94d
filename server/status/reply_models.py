"""The reply of /v1/status.  It holds counts, times and names, never a text of a request or of a reply.

Times called `created`, `started`, `end` and `at` are Unix seconds.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict

from pipelines.telemetry.request_record import SpanKind
from pipelines.wire.engine_view import EngineNodeKind, RequestState
from server.schema.reply_models import Reply


class StatusPart(Reply):
    """An object in the feed; it never changes once it is made.

    `model_validate` makes it from a record of an engine or a worker: of its attributes only the fields that
    are declared here are taken, so that an account or a tenant stays out of the feed.
    """

    model_config = ConfigDict(frozen=True, from_attributes=True)


class ServerPart(StatusPart):
    """What holds for the server as a whole; `needs_key`: requests need a key, and so does this one."""

    version: str
    started: float
    needs_key: bool
    needs_admin_key: bool
    default_model: str | None


class EnginePart(StatusPart):
    """One engine host."""

    engine: str
    state: Literal["ready", "starting", "draining", "down"]
    pid: int | None = None
    resident_bytes: int | None = None


class ProcessPart(StatusPart):
    process: str
    pid: int
    resident_bytes: int
    cpu_seconds: float


class AdapterPart(StatusPart):
    """`problem`: why requests cannot use it; null where they can."""

    id: str
    problem: str | None = None


class ModelPart(StatusPart):
    """One model in short.  `bytes`: what its weights and cache take; `on_request`: a request loads it.

    `doing`: the task of a load that reports its progress; `share`: how much of it is done, from 0 to 1.
    """

    id: str
    state: str
    doing: str | None = None
    share: float | None = None
    problems: list[str]
    task: str | None
    version: int
    bytes: int | None
    on_request: bool
    adapters: list[AdapterPart]
    running: int
    waiting: int
    instance: int


class NodePart(StatusPart):
    """The time of one node of the graph: since the model was loaded, and of the last seconds.

    A share is that of all nodes of a worker, or of all phases of the steps.  `runs` of a node of a body are
    steps.  `opened`: how the model is run that the node opened, as the log says it.
    """

    path: str
    type: str
    process: str
    runs: int
    seconds: float
    mean_s: float | None
    share: float | None
    recent_mean_s: float | None
    recent_share: float | None
    recent_runs: int
    opened: dict[str, str] = {}


class PhasePart(StatusPart):
    """A phase of an engine's steps that is no node of its body."""

    engine_node: str
    kind: str
    name: str
    seconds: float
    mean_s: float | None


class CacheBlocks(StatusPart):
    """The blocks of a key-value cache, of `block_tokens` tokens each."""

    total: int
    used: int
    reusable: int
    free: int
    block_tokens: int


class QueuePart(StatusPart):
    """The queue of one engine node.

    `map` are runs of blocks of the cache in the order of their numbers: how many, and whose they are: the
    index of one of `requests`, -1: free, -2: reusable, -3: of several or of one that is not listed.
    """

    engine: str
    node: str
    kind: EngineNodeKind
    running: int
    waiting: int
    swapped: int
    blocks: CacheBlocks | None = None
    map: list[tuple[int, int]] | None = None


class RequestPart(StatusPart):
    """One choice of a request in flight; `prompt_done` of `prompt_tokens` are computed or were cached."""

    id: str
    choice: int
    engine: str
    node: str
    model: str
    adapter: str | None
    state: RequestState
    prompt_tokens: int
    prompt_done: int
    cached_tokens: int
    output_tokens: int
    max_tokens: int
    blocks: int
    age_s: float


class HistorySeries(StatusPart):
    """Numbers of the same instants, the oldest first; null where there was nothing to count."""

    running: list[float] = []
    waiting: list[float] = []
    prompt_tokens_per_s: list[float] = []
    output_tokens_per_s: list[float] = []
    blocks_used: list[float] = []
    blocks_reusable: list[float] = []
    prefix_hit_rate: list[float | None] = []
    draft_accept_rate: list[float | None] = []
    preemptions: list[float] = []
    resident_bytes: list[float] = []


class HistoryPart(StatusPart):
    """The last minutes of a model, a point each `period_s` seconds; the last one is of `end`."""

    period_s: float = 1.0
    end: float = 0.0
    series: HistorySeries = HistorySeries()


class TokenTotals(StatusPart):
    """Totals of a model since the server was started; `requests` and `failed` count choices that ended."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    preemptions: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    requests: int = 0
    failed: int = 0


class ErrorPart(StatusPart):
    """An error that a client was sent."""

    id: str
    at: float
    status: int
    path: str
    model: str | None
    message: str


class SpanPart(StatusPart):
    """What a node did for a request, from `start_s` after its arrival on.

    "run": it ran; "wait": in an engine's queue; "prefill" and "decode": with the engine; "updates": from the
    first to the last update of the reply that it handled, with which it was busy for `busy_s` seconds.
    """

    path: str
    start_s: float
    seconds: float
    kind: SpanKind
    busy_s: float | None = None


class RecentPart(StatusPart):
    """A request that ended; `finish` is why its first choice did.  `model` is null where it got none."""

    id: str
    at: float
    path: str
    model: str | None
    status: int
    finish: str | None
    seconds: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    stream: bool
    spans: list[SpanPart]


class StatusReply(StatusPart):
    """What the server does: all models in short, and one, `model`, in detail.

    `errors` and `recent` are those of all models, the newest first.
    """

    object: Literal["status"] = "status"
    created: float
    model: str | None
    server: ServerPart
    engines: list[EnginePart]
    processes: list[ProcessPart]
    models: list[ModelPart]
    nodes: list[NodePart]
    phases: list[PhasePart]
    queues: list[QueuePart]
    requests: list[RequestPart]
    history: HistoryPart
    totals: TokenTotals
    errors: list[ErrorPart]
    recent: list[RecentPart]
