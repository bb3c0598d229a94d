"""What must hold between two steps.  Reads an engine into plain data, judges the data, repairs nothing."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from pipelines.host.engine.kv_cache import prefix_digests
from pipelines.host.engine.loop import Engine
from pipelines.host.engine.policy import blocks_for
from pipelines.host.engine.sequence import NO_ROW, Sequence


@dataclass(frozen=True, slots=True)
class SequenceState:
    """One sequence as it stands; from `table` to `drafted_as_it_is` it is what its row says of it."""

    name: str
    priority: int
    arrival: int
    token_ids: list[int]
    num_prompt: int
    num_cached: int
    blocks: list[int]
    host_blocks: list[int]
    leaving: list[int] | None  # blocks that hold what its host blocks are to hold; None: nothing is to move
    arriving: int | None  # blocks found on the device, the rest is to be swapped in; None: nothing is
    row: int
    root: bytes
    table: list[int]
    num_past: int
    last_token: int
    num_outputs: int
    guided_as_it_is: bool  # by its own guide, or by none
    drafted_as_it_is: bool  # from its own tokens, if anybody draft tokens
    num_scored: int | None  # positions of its prompt that are scored; None: there are no more to score
    may_rest: bool  # it is a beam, and the report of another is missing


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An engine between two steps.

    `followers` wait for a leader's prompt, `num_live` are all unfinished, `num_moving` are to be swapped.
    """

    block_tokens: int
    references: list[int]
    free_blocks: list[int]
    digest_of: dict[int, bytes]
    block_of: dict[bytes, int]
    num_host_blocks: int
    free_host_blocks: list[int]
    num_moving: int
    num_rows: int
    free_rows: list[int]
    max_context: int
    running: list[SequenceState]
    waiting: list[SequenceState]
    followers: list[SequenceState]
    num_live: int


def snapshot(engine: Engine) -> Snapshot:
    """A copy: later steps do not change it."""
    pool, swap, scheduler, rows = engine.cache.pool, engine.cache.swap, engine.scheduler, engine.rows
    running = [_state(sequence, engine) for sequence in scheduler.running]
    waiting = [_state(sequence, engine) for sequence in scheduler.waiting]
    leaders = [*scheduler.running, *scheduler.waiting]
    return Snapshot(
        block_tokens=engine.cache.block_tokens,
        references=list(pool.references),
        free_blocks=list(pool.free),
        digest_of=dict(pool.digest_of),
        block_of=dict(pool.block_of),
        num_host_blocks=swap.num_blocks,
        free_host_blocks=list(swap.free),
        num_moving=len(swap.leaving) + len(swap.arriving),
        num_rows=len(rows.num_blocks),
        free_rows=list(rows.free),
        max_context=engine.limits.max_context,
        running=running,
        waiting=waiting,
        followers=[_state(follower, engine) for leader in leaders for follower in leader.followers],
        num_live=engine.num_live,
    )


def _state(sequence: Sequence, engine: Engine) -> SequenceState:
    rows, swap, sampling = engine.rows, engine.cache.swap, engine.scheduler.sampling
    row, speculation = sequence.row, engine.scheduler.speculation
    seated = row != NO_ROW
    return SequenceState(
        name=f"{sequence.key!r}/{sequence.choice}",
        priority=sequence.params.priority,
        arrival=sequence.arrival,
        token_ids=list(sequence.token_ids),
        num_prompt=sequence.num_prompt,
        num_cached=sequence.num_cached,
        blocks=list(sequence.blocks),
        host_blocks=list(sequence.host_blocks),
        leaving=swap.leaving.get(sequence),
        arriving=swap.arriving.get(sequence),
        row=row,
        root=sequence.root,
        table=rows.block_table[row, : rows.num_blocks[row]].tolist() if seated else [],
        num_past=int(rows.num_past[row]) if seated else 0,
        last_token=int(rows.last_token[row]) if seated else 0,
        num_outputs=int(sampling.num_outputs[row]) if seated else 0,
        guided_as_it_is=not seated or sampling.guides[row] is sequence.guide,
        drafted_as_it_is=(
            not seated
            or speculation is None
            or sequence.search is not None  # nobody draft tokens for beams, whose lists change
            or speculation.token_ids[row] is sequence.token_ids
        ),
        num_scored=len(sequence.scores.found) if sequence.scores is not None and sequence.scoring else None,
        may_rest=sequence.search is not None and sequence.search.waits,
    )


def violations(state: Snapshot) -> list[str]:
    """Every broken promise, in words; [] when all hold."""
    return [
        *_block_violations(state),
        *_host_violations(state),
        *_row_violations(state),
        *_queue_violations(state),
        *(line for sequence in state.running for line in _running_violations(sequence, state)),
        *(line for sequence in state.waiting for line in _waiting_violations(sequence, state)),
        *(line for sequence in state.followers for line in _following_violations(sequence)),
    ]


def _block_violations(state: Snapshot) -> Iterator[str]:
    owners = Counter(block for sequence in state.running for block in sequence.blocks)
    free = set(state.free_blocks)
    if len(free) != len(state.free_blocks):
        yield "a block is free twice"
    for block, references in enumerate(state.references):
        if references != owners[block]:
            yield f"block {block} counts {references} references but has {owners[block]} owners"
        if (block in free) != (references == 0):
            yield f"block {block} has {references} references and is {'' if block in free else 'not '}free"
    if {block: digest for digest, block in state.block_of.items()} != state.digest_of:
        yield "the digests of blocks and the blocks of digests disagree"


def _host_violations(state: Snapshot) -> Iterator[str]:
    everyone = [*state.running, *state.waiting, *state.followers]
    owned = [block for sequence in everyone for block in sequence.host_blocks]
    if sorted(owned + state.free_host_blocks) != list(range(state.num_host_blocks)):
        yield f"host blocks {sorted(owned)} are owned and {sorted(state.free_host_blocks)} free"
    moving = [(s.leaving is not None) + (s.arriving is not None) for s in everyone]
    if sum(moving) != state.num_moving:
        yield f"{state.num_moving} sequences are to be swapped, but {sum(moving)} are live"


def _row_violations(state: Snapshot) -> Iterator[str]:
    taken = [s.row for s in (*state.running, *state.followers) if s.row != NO_ROW]
    if sorted(taken + state.free_rows) != list(range(state.num_rows)):
        yield f"rows {sorted(taken)} are taken and {sorted(state.free_rows)} free, of {state.num_rows}"


def _queue_violations(state: Snapshot) -> Iterator[str]:
    queued = [*state.running, *state.waiting]
    for name, queue in (("running", state.running), ("waiting", state.waiting)):
        turns = [(sequence.priority, sequence.arrival) for sequence in queue]
        if turns != sorted(set(turns)):
            yield f"{name} sequences do not stand in turn: {turns}"
    for priority in {sequence.priority for sequence in queued}:
        arrivals = [sequence.arrival for sequence in queued if sequence.priority == priority]
        if arrivals != sorted(set(arrivals)):
            yield f"an older sequence of priority {priority} waits while a younger one runs: {arrivals}"
    if len(queued) + len(state.followers) != state.num_live:
        yield f"{len(queued)} sequences and {len(state.followers)} followers, but {state.num_live} are live"


def _running_violations(sequence: SequenceState, state: Snapshot) -> Iterator[str]:
    num_tokens, num_cached = len(sequence.token_ids), sequence.num_cached
    most_cached = num_tokens if sequence.may_rest else num_tokens - 1
    room = max(len(sequence.blocks), len(sequence.host_blocks)) * state.block_tokens
    if sequence.row == NO_ROW:
        yield f"{sequence.name} runs without a row"
    if num_cached > most_cached or not num_tokens < max(state.max_context, sequence.num_prompt + 1):
        yield f"{sequence.name} has {num_tokens} tokens, {num_cached} cached, of {state.max_context}"
    if sequence.num_scored is not None and num_cached > sequence.num_scored:
        yield f"{sequence.name} has {num_cached} tokens cached, but only {sequence.num_scored} scored"
    if not room - state.block_tokens < num_cached <= room:
        yield f"{sequence.name} caches {num_cached} tokens in blocks for {room}"
    if sequence.table != sequence.blocks:
        yield f"{sequence.name} owns blocks {sequence.blocks}, its row says {sequence.table}"
    if (sequence.num_past, sequence.last_token) != (num_cached, sequence.token_ids[-1]):
        yield f"{sequence.name} has {num_cached} tokens cached and its row another past or another last token"
    if sequence.num_outputs != num_tokens - sequence.num_prompt or not sequence.guided_as_it_is:
        yield f"{sequence.name} has a number of output tokens and a guide, its row others"
    if not sequence.drafted_as_it_is:
        yield f"{sequence.name} has tokens of its own, and others are drafted from"
    if sequence.leaving is not None:
        yield f"{sequence.name} runs and is to be swapped out"
    if sequence.arriving != (len(sequence.blocks) if sequence.host_blocks else None):
        host_blocks = sequence.host_blocks
        yield f"{sequence.name} owns host blocks {host_blocks} and is swapped in behind {sequence.arriving}"
    yield from _digest_violations(sequence, state)


def _digest_violations(sequence: SequenceState, state: Snapshot) -> Iterator[str]:
    digests: list[bytes] = []
    full = sequence.num_cached // state.block_tokens
    prefix_digests.extend(digests, sequence.root, array("q", sequence.token_ids), full, state.block_tokens)
    for block, digest in zip(sequence.blocks[:full], digests, strict=False):
        if state.digest_of.get(block, digest) != digest:
            yield f"block {block} of {sequence.name} is known by the digest of other tokens"
    for block in sequence.blocks[full:]:
        if block in state.digest_of:
            yield f"block {block} of {sequence.name} has a digest and is not full"


def _waiting_violations(sequence: SequenceState, state: Snapshot) -> Iterator[str]:
    num_cached, num_host = sequence.num_cached, len(sequence.host_blocks)
    if sequence.blocks or sequence.arriving is not None:
        yield f"{sequence.name} waits and owns blocks {sequence.blocks}"
    if num_host != blocks_for(num_cached, state.block_tokens) or num_cached >= len(sequence.token_ids):
        yield f"{sequence.name} waits with {num_cached} tokens cached in {num_host} host blocks"
    if sequence.leaving is not None and len(sequence.leaving) != num_host:
        yield f"{sequence.name} leaves {len(sequence.leaving)} blocks for {num_host} host blocks"


def _following_violations(sequence: SequenceState) -> Iterator[str]:
    if sequence.blocks or sequence.host_blocks or sequence.num_cached:
        blocks = sequence.blocks + sequence.host_blocks
        yield f"{sequence.name} follows and owns blocks {blocks}, {sequence.num_cached} tokens cached"
