"""The messages between workers and the engine host; the requests to engines are in `requests`."""

from __future__ import annotations

from typing import Literal

import msgspec

from pipelines.base.digests import digest
from pipelines.telemetry.request_record import ErrorRecord, RequestRecord
from pipelines.telemetry.step_profile import Steps
from pipelines.wire.engine_view import History, HostProcess, ModelLoad, ModelTotals, NodeView
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.requests import Submit, SubmitTensors, Tensor
from pipelines.wire.token_piece import TokenPiece

HostState = Literal["starting", "ready", "draining"]
ModelState = Literal["unloaded", "loading", "ready", "failed", "unloading"]
PauseMode = Literal["abort", "wait", "keep"]


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """Worker to host, first on every connection.  `schema` is the worker's SCHEMA.

    The fields of Hello and Welcome never change: they are how two versions of Braid recognise each other.
    """

    worker_pid: int
    schema: str


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag="welcome"):
    """Host to worker: the reply to Hello.  Nothing follows where `schema` is not the worker's SCHEMA."""

    engine_pid: int
    schema: str


class InUse(msgspec.Struct, frozen=True, array_like=True, tag="in_use"):
    """Worker to host: the model instances that this worker's pipelines call, all of them.

    The host closes no instance that a worker uses.  `status` is the number of the last Status for which all
    was built that can be.
    """

    instance_ids: list[int]
    status: int = 0


class Abort(msgspec.Struct, frozen=True, array_like=True, tag="abort"):
    """Worker to host: cancels this choice (-1: all of the request's choices)."""

    request_id: int
    choice: int = -1


class TokenUpdate(msgspec.Struct, array_like=True):
    """What one step gave one choice of a request.

    Where `piece.finish` is "error", `error` and what begins with its name are those of the `BraidError` for
    the client.
    """

    request_id: int
    choice: int
    piece: TokenPiece[TokenLogprobs]
    error: str | None = None
    error_status: int = 500
    error_field: str | None = None
    error_word: str | None = None


class Inferred(msgspec.Struct, frozen=True, array_like=True, tag="inferred"):
    """Host to worker: the whole reply to one Infer.  `error`, when set, is that of its `BraidError`."""

    request_id: int
    outputs: list[Tensor]
    error: str | None = None
    error_status: int = 500
    error_field: str | None = None
    error_word: str | None = None


class Profile(msgspec.Struct, frozen=True, array_like=True, tag="profile"):
    """Worker to host: requests the step times of a model instance; `Profiled` replies, between two steps.

    `request_id` is from the same numbers as that of Submit.  Percentiles are of the last `recent_s` seconds.
    """

    request_id: int
    model: str
    instance_id: int
    recent_s: float


class Profiled(msgspec.Struct, frozen=True, array_like=True, tag="profiled"):
    """Host to worker: the steps of each engine node of a model instance since its load, and the host's loop.

    `host` is seconds by phase since the host began, every model's steps being one of the phases.  `experts`:
    by engine node, how often each expert was chosen, in each layer, where it is counted.  `error`,
    when set, is that of its `BraidError`.  `running` and
    `waiting`: the choices, or texts, that its engine nodes have.
    """

    request_id: int
    engines: dict[str, list[Steps]]
    host: dict[str, float]
    error: str | None = None
    error_status: int = 500
    error_field: str | None = None
    error_word: str | None = None
    running: int = 0
    waiting: int = 0
    experts: dict[str, list[list[int]]] = {}


class Inspect(msgspec.Struct, frozen=True, array_like=True, tag="inspect"):
    """Worker to host: what the host does now; `Inspected` replies, between two steps.

    Engine nodes, totals and history are those of `model`; it need not be in memory.  `request_id` is from the
    same numbers as that of Submit.
    """

    request_id: int
    model: str


class Inspected(msgspec.Struct, frozen=True, array_like=True, tag="inspected"):
    """Host to worker: what a host does, at most a second ago.

    `models` are all that are in memory; `nodes` those of the asked model, of its newest instance first;
    `history` is None where there is none of it.  `requests` and `errors` are the last of all workers, the
    newest first.  `engine` is set by a worker that has several hosts: which one this is.
    """

    request_id: int
    state: HostState
    process: HostProcess
    models: list[ModelLoad]
    nodes: list[NodeView]
    totals: ModelTotals
    history: History | None = None
    requests: list[RequestRecord] = []
    errors: list[ErrorRecord] = []
    engine: str = "0"


class CancelRequest(msgspec.Struct, frozen=True, array_like=True, tag="cancel"):
    """Worker to host: end all that is in flight of the HTTP requests of this `name`; `Cancelled` replies.

    `account`: only of those that are its own; None: of all.

    Their choices end with `finish` "abort", requests for vectors and tensors with an error, each at the
    worker that submitted it.  `request_id` is from the same numbers as that of Submit.
    """

    request_id: int
    name: str
    account: str | None = None


class Cancelled(msgspec.Struct, frozen=True, array_like=True, tag="cancelled"):
    """Host to worker: how many submissions of that name were ended; 0 where none was in flight."""

    request_id: int
    num_cancelled: int


class ReportRequests(msgspec.Struct, frozen=True, array_like=True, tag="report_requests"):
    """Worker to host: HTTP requests that have ended, and those that failed."""

    requests: list[RequestRecord]
    errors: list[ErrorRecord]


class ResetPrefixCache(msgspec.Struct, frozen=True, array_like=True, tag="reset_prefix_cache"):
    """Worker to host: no later request of any model reuses what is cached now; `PrefixCacheReset` replies.

    `request_id` is from the same numbers as that of Submit.
    """

    request_id: int


class PrefixCacheReset(msgspec.Struct, frozen=True, array_like=True, tag="prefix_cache_reset"):
    """Host to worker: the prefix caches of all models are empty."""

    request_id: int


class Pause(msgspec.Struct, frozen=True, array_like=True, tag="pause"):
    """Worker to host: no engine of generative models makes a step until `Resume`.

    What it generates is ended before ("abort"), or has ended ("wait"), or goes on after the pause ("keep").
    New requests wait.  `clears_cache`: and no later prompt reuses what is cached now.
    """

    request_id: int
    mode: PauseMode
    clears_cache: bool = True


class LeavePause(msgspec.Struct, frozen=True, array_like=True, tag="leave_pause"):
    """Worker to host: the client that requested the pause `pause_id` left before it was answered."""

    pause_id: int


class Resume(msgspec.Struct, frozen=True, array_like=True, tag="resume"):
    """Worker to host: engines make steps again."""

    request_id: int


class Sleep(msgspec.Struct, frozen=True, array_like=True, tag="sleep"):
    """Worker to host: from now on no request loads a model.  The models that are loaded are in the reply."""

    request_id: int


class WakeUp(msgspec.Struct, frozen=True, array_like=True, tag="wake_up"):
    """Worker to host: requests load models again.  Those that were loaded before are in the reply."""

    request_id: int


class Followed(msgspec.Struct, frozen=True, array_like=True, tag="followed"):
    """Host to worker: what a trainer asked for is so; `models` are those to be unloaded or loaded."""

    request_id: int
    models: list[str] = []


class WantModel(msgspec.Struct, frozen=True, array_like=True, tag="want_model"):
    """Worker to host: load a model, if it is not; `ModelSettled` replies when it is ready, or why it is not.

    From the reply until `ReleaseModel` the model stays.  `by_hand`: a client says so, rather than a request
    that needs the model.  `request_id` is from the same numbers as that of Submit.
    """

    request_id: int
    model: str
    by_hand: bool = False


class ReleaseModel(msgspec.Struct, frozen=True, array_like=True, tag="release_model"):
    """Worker to host: what an earlier message asked for is no longer waited for, nor is its model held."""

    request_id: int


class UnloadModel(msgspec.Struct, frozen=True, array_like=True, tag="unload_model"):
    """Worker to host: unload a model until a client loads it; `ModelSettled` replies when it is closed."""

    request_id: int
    model: str


class LoadAdapter(msgspec.Struct, frozen=True, array_like=True, tag="load_adapter"):
    """Worker to host: register an adapter; `ModelSettled` replies when every worker knows it, or why not.

    `path` is a folder below that of the adapters of `model`; None: of the model that has adapters, if one
    has.  `in_place`: it may have this name already, and is loaded anew.
    """

    request_id: int
    name: str
    path: str
    model: str | None = None
    in_place: bool = False


class UnloadAdapter(msgspec.Struct, frozen=True, array_like=True, tag="unload_adapter"):
    """Worker to host: no new request uses an adapter; `ModelSettled` replies when every worker knows."""

    request_id: int
    name: str


class Rescan(msgspec.Struct, frozen=True, array_like=True, tag="rescan"):
    """Worker to host: look at the repository; `ModelSettled` replies when all that changed is loaded."""

    request_id: int


class KeepModel(msgspec.Struct, frozen=True, array_like=True, tag="keep_model"):
    """Worker to host: how long a model stays without calls from now on."""

    model: str
    seconds: float


class ModelSettled(msgspec.Struct, frozen=True, array_like=True, tag="model_settled"):
    """Host to worker: the reply to a message about a model or an adapter; `error`, when set, is why not.

    `has_changed`: whether a Rescan found anything that was loaded or removed.
    """

    request_id: int
    has_changed: bool = True
    error: str | None = None
    error_status: int = 500
    error_field: str | None = None
    error_word: str | None = None
    retry_after_s: int | None = None


class TensorSpec(msgspec.Struct, frozen=True, array_like=True):
    """A named input or output of a model; a length is None where it is free, `shape` for any rank."""

    name: str
    dtype: str
    shape: list[int | None] | None


class Frame(msgspec.Struct, frozen=True, array_like=True, tag="frame"):
    """Host to worker: what one step gave the requests of this worker."""

    updates: list[TokenUpdate]


class AdapterStatus(msgspec.Struct, frozen=True, array_like=True):
    """An adapter of a model: its load number, its folder `root`, and when it was loaded.

    `problem`, when set, is why requests cannot use it.
    """

    name: str
    number: int
    root: str
    created: int
    problem: str = ""


class GraphText(msgspec.Struct, frozen=True, array_like=True):
    """The text of a graph, and that of the Python file with its own node types ("": it has none)."""

    graph: str
    nodes: str = ""


class ModelStatus(msgspec.Struct, frozen=True, array_like=True):
    """One model name, and the model instance that new calls use.

    `instance_id` is never used twice, not even by a later host.  It is 0 when there is nothing to call.
    `problems` states why the newest load failed; with `state == "ready"` an older instance serves on.
    Workers build from what the instance was loaded from, and from nothing else: `graphs`, the texts of its
    graph and of all that it names, and `snapshot`, a folder whose digest is `fingerprint`.  `replaced` are
    earlier instances that still take calls.  `max_context` is None for a graph without an engine of its
    own; `inputs` and `outputs` are those of a graph of tensor models.  `on_request`: a request for the model
    may wait until it is loaded.  `doing` is the task of a load that reports its progress, `share`,
    from 0 to 1, how much of it is done.
    """

    name: str
    version: int
    instance_id: int
    state: ModelState
    problems: list[str] = []
    task: str = ""
    graphs: dict[str, GraphText] = {}
    snapshot: str = ""
    fingerprint: str = ""
    replaced: list[int] = []
    max_context: int | None = None
    cache_tokens: int = 0
    inputs: list[TensorSpec] = []
    outputs: list[TensorSpec] = []
    on_request: bool = False
    adapters: list[AdapterStatus] = []
    doing: str = ""
    share: float | None = None


def how_far(doing: str, share: float | None) -> str:
    """The task of a load and the percentage of it that is done, as a phrase; "" where none is reported."""
    return "" if share is None else f"{doing}, {int(100 * share)} %"


class Status(msgspec.Struct, frozen=True, array_like=True, tag="status"):
    """Host to worker: sent on connection and whenever something in it changed; `number` counts them."""

    engine_pid: int
    state: HostState
    models: list[ModelStatus] = []
    number: int = 0
    is_paused: bool = False
    is_sleeping: bool = False


ToModels = WantModel | ReleaseModel | UnloadModel | LoadAdapter | UnloadAdapter | Rescan | KeepModel
FromTrainers = Pause | Resume | Sleep | WakeUp
ToFeed = Inspect | CancelRequest | ReportRequests | ResetPrefixCache | FromTrainers | LeavePause
ToHost = Hello | InUse | Submit | SubmitTensors | Profile | Abort | ToModels | ToFeed
Replies = Profiled | Inspected | Cancelled | PrefixCacheReset | ModelSettled | Followed
ToWorker = Welcome | Frame | Inferred | Replies | Status


def _schema() -> str:
    """The digest of all messages: their names, fields, types and defaults, in order."""
    described = repr(msgspec.inspect.multi_type_info([ToHost, ToWorker]))
    return digest(described, num_bytes=8)


SCHEMA = _schema()
"""Equal in two processes only if each decodes what the other encodes."""
