"""What an engine has done so far and holds now; it only counts, others export."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """Up to `host_blocks_total` it is now; the rest are totals since the engine began."""

    running: int = 0  # choices
    waiting: int = 0
    swapped: int = 0  # of those that wait: what they computed lies in host memory
    blocks_used: int = 0
    blocks_total: int = 0
    host_blocks_used: int = 0
    host_blocks_total: int = 0
    steps: int = 0
    failed_steps: int = 0
    step_tokens: int = 0  # computed by all steps, prompts and recomputation included
    preemptions: int = 0
    swap_preemptions: int = 0  # of those: by swapping out, the others give up what was computed
    swapped_out_blocks: int = 0
    swapped_in_blocks: int = 0
    prompt_tokens: int = 0  # of admitted prompts, once for all choices of a prompt
    output_tokens: int = 0
    prefix_query_tokens: int = 0  # prompt tokens looked up in the prefix cache
    prefix_hit_tokens: int = 0
