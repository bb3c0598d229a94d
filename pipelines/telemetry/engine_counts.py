"""What an engine has done so far and holds now; it only counts, others export."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class ExpertUse(NamedTuple):
    """How a model's routed experts are used: choices of all tokens in all layers so far, how many times its
    even share the busiest of a layer has (the mean over layers), and the part of all that was never chosen.
    """

    choices: int
    busiest: float
    unused: float


@dataclass(slots=True)
class Counts:
    """Fields up to `reuses_prefixes` are current values; the rest are totals since the engine started."""

    running: int = 0  # choices
    waiting: int = 0
    swapped: int = 0  # waiting ones whose cache is in host memory
    blocks_used: int = 0
    blocks_reusable: int = 0  # free ones whose content later prompts find
    blocks_total: int = 0
    host_blocks_used: int = 0
    host_blocks_total: int = 0
    block_tokens: int = 0
    routed_experts: ExpertUse | None = None  # where they are recorded
    reuses_prefixes: bool = False
    steps: int = 0
    failed_steps: int = 0
    step_tokens: int = 0  # computed by all steps, recomputation included, draft tokens aside
    preemptions: int = 0
    swap_preemptions: int = 0  # of those: by swapping out, the others give up what was computed
    swapped_out_blocks: int = 0
    swapped_in_blocks: int = 0
    prompt_tokens: int = 0  # of admitted prompts, once for all choices of a prompt; of texts
    padding_tokens: int = 0  # computed as well, so that texts of one batch have one width
    output_tokens: int = 0
    prefix_query_tokens: int = 0  # prompt tokens looked up in the prefix cache
    prefix_hit_tokens: int = 0
    prefix_blocks_read: int = 0  # brought back from the file of prefixes
    prefix_blocks_written: int = 0  # written to it
    image_queries: int = 0  # images that an encoder was asked for
    image_hits: int = 0  # of those: whose rows were there
    drafts: int = 0  # runs of draft tokens that were verified
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: list[int] = field(default_factory=list)  # sums to accepted_tokens

    def count_run(self, num_drafted: int, num_accepted: int) -> None:
        """Counts a run of draft tokens, of which the first were accepted."""
        self.drafts += 1
        self.draft_tokens += num_drafted
        self.accepted_tokens += num_accepted
        places = self.accepted_per_position
        places += [0] * (num_accepted - len(places))
        for place in range(num_accepted):
            places[place] += 1
