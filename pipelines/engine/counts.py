"""What an engine has done so far and holds now; it only counts, others export."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """`running`, `waiting` (choices), `blocks_*` are now; the rest are totals since the engine began."""

    running: int = 0
    waiting: int = 0
    blocks_used: int = 0
    blocks_total: int = 0
    steps: int = 0
    failed_steps: int = 0
    step_tokens: int = 0  # computed by all steps, prompts and recomputation included
    preemptions: int = 0
    prompt_tokens: int = 0  # of admitted prompts, once for all choices of a prompt
    output_tokens: int = 0
    prefix_query_tokens: int = 0  # prompt tokens looked up in the prefix cache
    prefix_hit_tokens: int = 0
