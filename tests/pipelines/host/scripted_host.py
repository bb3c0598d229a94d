"""A host and its client in one process, around a scripted engine; and both ends over a real socket."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patience import PATIENCE_S, until

from pipelines.base.errors import RequestError
from pipelines.host.host import Host
from pipelines.host.in_process import InProcessClient
from pipelines.host.models.loader import ModelSource
from pipelines.inference.contracts.tensor_contract import TensorPort
from pipelines.inference.engine.interface.engine_contract import EngineKind, EngineView
from pipelines.inference.engine.interface.outputs import Output, aborted_output
from pipelines.repository.model_folders import ModelFolder
from pipelines.telemetry.engine_counts import Counts
from pipelines.telemetry.step_profile import DECODING, StepProfile
from pipelines.wire.address import EngineAddress
from pipelines.wire.client import EngineClient
from pipelines.wire.engine_view import SequenceView
from pipelines.wire.messages import Status
from pipelines.wire.requests import Origin, Submit, TokenRequest
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.socket_link import over_socket
from pipelines.wire.token_piece import TokenPiece
from pipelines.wire.update_queue import UpdateQueue


class ScriptedEngine:
    """Gives every choice the tokens 0, 1, 2 … up to `max_tokens`, one a step.  `listener` holds steps
    back.
    """

    kind = EngineKind.STEPPED
    routed_experts = None

    def __init__(self, step_s: float = 0.0) -> None:
        self.live: dict[Any, dict[int, int]] = {}
        self.limits: dict[Any, int] = {}
        self.tenants: list[str] = []
        self.aborted: list[tuple[Any, int | None]] = []
        self.raises: BaseException | None = None
        self.step_s = step_s
        self.num_steps = 0
        self.num_resets = 0
        self.step_tokens = 0
        self.profile = StepProfile()

    def submit(self, key, request):
        prompts, params, n = request.prompts, request.params, request.n
        if not prompts[0]:
            raise RequestError("The prompt is empty.")
        self.live[key] = dict.fromkeys(range(len(prompts) * n), 0)
        self.limits[key] = params.max_tokens
        self.tenants.append(request.origin.tenant)

    def cancel(self, key, choice=None):
        self.aborted.append((key, choice))
        choices = self.live.get(key, {})
        for one in list(choices) if choice is None else [choice]:
            choices.pop(one, None)
        if not choices:
            self.live.pop(key, None)

    def abort(self, key):
        return [aborted_output(key, choice) for choice in self.live.pop(key, {})]

    def view(self, identify):
        shown = [
            SequenceView(*(who.name, choice, "running", 1, 1, 0, done, self.limits[key], 0), *who[1:])
            for key, choices in list(self.live.items())
            for who in [identify(key)]
            for choice, done in choices.items()
        ]
        return EngineView("generation", shown)

    def reset_prefix_cache(self):
        self.num_resets += 1

    @property
    def has_work(self):
        return bool(self.live)

    def step(self):
        self.profile.start()
        if self.step_s:
            threading.Event().wait(self.step_s)
        self.num_steps += 1
        if self.raises is not None:
            error, self.raises = self.raises, None
            raise error
        self.step_tokens += sum(map(len, self.live.values()))
        self.profile.mark("made up")
        self.profile.end(DECODING, len(self.live), len(self.live), len(self.live))
        return [self._advance(key, choice) for key in list(self.live) for choice in list(self.live[key])]

    def _advance(self, key, choice):
        token = self.live[key][choice]
        self.live[key][choice] += 1
        finish = "length" if token + 1 == self.limits[key] else None
        if finish:
            del self.live[key][choice]
            if not self.live[key]:
                del self.live[key]
        return Output(key, choice, TokenPiece([token], 1, finish))

    def counts(self):
        return Counts(running=sum(map(len, self.live.values())))


@dataclass(frozen=True)
class Folder(ModelFolder):
    """A model folder that is not on disk: it changes only when its fingerprint does."""

    version: int = 1
    path: Path = Path("nowhere/1")
    fingerprint: str = "a"
    graph: str | None = ""

    def refreshed(self) -> Folder:
        return self


@dataclass(eq=False)
class Model:
    """A HostModel around scripted engines."""

    engines: dict[str, ScriptedEngine]
    task: str = "chat"
    max_context: int = 64
    cache_tokens: int = 128
    cache_bytes: int = 1024
    closed: bool = False
    cold: int = 0
    inputs: tuple[TensorPort, ...] = ()
    outputs: tuple[TensorPort, ...] = ()
    adapters: dict = field(default_factory=dict)
    adapter_fit: None = None

    @property
    def stepped(self):
        return self.engines

    @property
    def threaded(self):
        return {}

    def opened(self, node):
        return {"logits": {"engine": f"scripted {node}"}}

    def warm(self):
        self.cold -= 1
        return self.cold > 0

    def close(self):
        self.closed = True


@dataclass
class Repository:
    """What `scan` finds and `build` makes; tests change `folders` and `broken` between scans."""

    folders: list[Folder] = field(default_factory=lambda: [Folder("m")])
    broken: dict[str, BaseException] = field(default_factory=dict)
    built: list[Model] = field(default_factory=list)
    step_s: float = 0.001
    hold: threading.Event | None = None

    def source(self, folder, **more):
        return ModelSource(folder, self.scan, self.build, **more)

    def scan(self, folder):
        return list(self.folders)

    def build(self, folder, sources):
        if self.hold is not None:
            self.hold.wait(PATIENCE_S)
        if folder.name in self.broken:
            raise self.broken[folder.name]
        self.built.append(Model({"generated": ScriptedEngine(self.step_s)}))
        return self.built[-1]

    @property
    def engine(self) -> ScriptedEngine:
        return self.built[-1].engines["generated"]


@dataclass
class RunningHost:
    """A running host thread and how to reach it."""

    host: Host
    thread: threading.Thread
    path: Path
    announced: list[Status]


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[EngineClient]:
    """A started client whose host is ready."""
    client = over_socket(str(path))
    await client.start()
    try:
        await until(lambda: client.status is not None and client.status.state == "ready")
        yield client
    finally:
        await client.close()


def submit(client, *, max_tokens=3, prompts=None, n=1, name="", tenant="", **where):
    """The id of a request that was sent, and the queue of its updates."""
    update_queue = UpdateQueue()
    params = SamplingParams(max_tokens=max_tokens)
    request = TokenRequest(prompts or [[1, 2]], params, n, origin=Origin(name, tenant))
    return client.submit(Submit(address(client, **where), request), update_queue), update_queue


def address(client, model="m", instance_id=None, node="generated"):
    number = client.status.models[0].instance_id if instance_id is None else instance_id
    return EngineAddress(model, number, node)


async def read(update_queue):
    """Tokens and finish of each choice, to the end."""
    tokens, finish = {}, {}
    while updates := await asyncio.wait_for(update_queue.get(), PATIENCE_S):
        for update in updates:
            tokens.setdefault(update.choice, []).extend(update.piece.token_ids)
            finish[update.choice] = update.piece.finish
    return tokens, finish


def over(running_host, scene):
    async def run():
        async with connected(running_host.path) as client:
            return await scene(client)

    return asyncio.run(run())


def in_process(scene, source, limits=None):
    """What `scene(client)` gives, with a client whose host is a thread and has settled."""

    async def run():
        client = InProcessClient(source, limits=limits)
        await client.start()
        try:
            await until(lambda: client.status is not None and client.status.state == "ready")
            return await scene(client)
        finally:
            await client.close()

    return asyncio.run(run())
