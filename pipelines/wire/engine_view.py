"""What an engine host shows of itself: its process, its queues, the requests in flight, the last ten minutes.

It never has any of a request's text.
"""

from __future__ import annotations

from typing import Literal

import msgspec

MAX_SEQUENCES = 1000
"""Sequences that one engine node shows; of more those that run, then the oldest."""
MAX_BLOCK_RUNS = 4096
"""Runs of a map of blocks; where there are more, one block stands for its neighbours."""

FREE, REUSABLE, SHARED = -1, -2, -3
"""Numbers in place of a block's owner.  Shared: by several sequences, or by one that is not shown."""

HISTORY_PERIOD_S, HISTORY_SAMPLES = 1.0, 600
RECENT_S = 10

EngineNodeKind = Literal["generation", "pooling", "tensors"]
RequestState = Literal["waiting", "running", "swapped"]
Series = Literal[
    "running",
    "waiting",
    "prompt_tokens",
    "output_tokens",
    "blocks_used",
    "blocks_reusable",
    "prefix_queries",
    "prefix_hits",
    "draft_tokens",
    "accepted_tokens",
    "preemptions",
    "resident_bytes",
]


class SequenceView(msgspec.Struct, frozen=True, array_like=True):
    """A request in flight in an engine node: a choice of it, where it is generated (of a beam search a beam).

    `name` is the id of the HTTP request, `tenant` whose it is.  `prompt_done` of `prompt_tokens` are computed
    now; `cached_tokens` of them were found in the prefix cache.  Of texts to be embedded the tokens are those
    of all of them.
    """

    name: str
    choice: int
    state: RequestState
    prompt_tokens: int
    prompt_done: int
    cached_tokens: int
    output_tokens: int
    max_tokens: int
    blocks: int
    age_s: float
    adapter: str | None = None
    tenant: str = ""


def is_own(tenant: str, account: str | None) -> bool:
    """Whether what a tenant asked for is an account's; None: that sees all.

    The tenant of a key's batches ends with the account of that key.
    """
    return account is None or tenant.endswith(account)


class BlockCounts(msgspec.Struct, frozen=True, array_like=True):
    """The blocks of an engine's cache: `used` + `reusable` + `free` = `total`.

    Reusable ones belong to no sequence, and what they hold is found by later prompts.
    """

    total: int
    used: int
    reusable: int
    free: int
    block_tokens: int


class PhaseTimes(msgspec.Struct, frozen=True, array_like=True):
    """One phase of all steps of a kind since the engine's start; `node` is the type of a line of the body, ""
    for a phase of the engine's own.  The recent ones are those of the last RECENT_S seconds.
    """

    kind: str
    name: str
    node: str
    steps: int
    seconds: float
    recent_steps: int
    recent_s: float


class NodeView(msgspec.Struct, frozen=True, array_like=True):
    """An engine node of a model instance: all that runs and waits there, and its first MAX_SEQUENCES.

    `block_map` is the cache by block number: (how many blocks, the place of their owner in `sequences`, or
    FREE, REUSABLE, SHARED).  `blocks` and `block_map` are None where there is no cache.  `opened` says of the
    lines of its body that opened models how these are run.
    """

    node: str
    kind: EngineNodeKind
    instance_id: int
    running: int
    waiting: int
    swapped: int
    sequences: list[SequenceView]
    blocks: BlockCounts | None = None
    block_map: list[tuple[int, int]] | None = None
    phases: list[PhaseTimes] = []
    opened: dict[str, dict[str, str]] = {}


class ModelLoad(msgspec.Struct, frozen=True, array_like=True):
    """A model that is in memory: what runs and waits in all its engine nodes, and what it takes."""

    name: str
    running: int
    waiting: int
    num_bytes: int


class History(msgspec.Struct, frozen=True, array_like=True):
    """One sample each `period_s` for at most the last HISTORY_SAMPLES of them, oldest first.

    The last one is of the period that ended at `end`, in Unix seconds, a multiple of `period_s`; all series
    are of the same length.  Numbers of tokens, queries, hits and preemptions are those of the period.
    """

    end: float
    period_s: float
    series: dict[Series, list[float]]


class ModelTotals(msgspec.Struct, frozen=True, array_like=True):
    """What the engines of a model have done since the host began."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    preemptions: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0


class HostProcess(msgspec.Struct, frozen=True, array_like=True):
    """The engine host's process; `started` is in Unix seconds."""

    pid: int
    started: float
    resident_bytes: int
    cpu_seconds: float
