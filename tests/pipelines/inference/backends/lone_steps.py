"""Steps of one sequence, written by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipelines.inference.contracts.step import ONLY_LAST, RecurrentStates, Step


def step(
    ids: Sequence[int] | np.ndarray,
    past: int,
    blocks: list[int],
    logit_indices: list[int],
    copies: Sequence[tuple[int, int]] = (),
    slots: Sequence[int] = (0,),
    states: Sequence[int] = (),
    interval: int = ONLY_LAST,
) -> Step:
    """`ids` after `past` tokens, in `blocks`; the table has one undefined entry more.

    `states`: the row of a recurrent state that is read, and those that are written.
    """
    return Step(
        token_ids=np.asarray(ids, np.int64),
        positions=np.arange(past, past + len(ids), dtype=np.int64),
        starts=np.array([0, len(ids)], np.int32),
        num_past=np.array([past], np.int32),
        block_table=np.array([[*blocks, -1]], np.int32),
        num_blocks=np.array([len(blocks)], np.int32),
        max_context=past + len(ids),
        logit_indices=np.array(logit_indices, np.int64),
        logit_slots=np.arange(len(logit_indices), dtype=np.int32),
        copies=np.array(copies, np.int32).reshape(-1, 2),
        slots=np.array(slots, np.int32),
        states=states_of(states, interval) if states else None,
    )


def states_of(rows: Sequence[int], interval: int) -> RecurrentStates:
    return RecurrentStates(table=np.array([rows], np.int32), interval=np.array([interval], np.int32))


def together(steps: list[Step]) -> Step:
    """One step of all of them; tables are filled up with a block that does not exist."""
    counts = [len(single.token_ids) for single in steps]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    columns = max(single.block_table.shape[1] for single in steps)
    tables = [
        np.pad(single.block_table, [(0, 0), (0, columns - single.block_table.shape[1])], constant_values=9999)
        for single in steps
    ]
    logit_indices = np.concatenate(
        [single.logit_indices + start for single, start in zip(steps, starts, strict=False)]
    )
    return Step(
        token_ids=np.concatenate([single.token_ids for single in steps]),
        positions=np.concatenate([single.positions for single in steps]),
        starts=starts,
        num_past=np.concatenate([single.num_past for single in steps]),
        block_table=np.concatenate(tables),
        num_blocks=np.concatenate([single.num_blocks for single in steps]),
        max_context=max(single.max_context for single in steps),
        logit_indices=logit_indices,
        logit_slots=np.arange(len(logit_indices), dtype=np.int32),
        copies=np.concatenate([single.copies for single in steps]),
        slots=np.concatenate([single.slots for single in steps]),
        states=None
        if steps[0].states is None
        else RecurrentStates(
            table=np.concatenate([single.states.table for single in steps]),
            interval=np.concatenate([single.states.interval for single in steps]),
        ),
    )
