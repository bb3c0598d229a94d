"""How many tokens may be drafted after each decoding sequence of a step."""

from __future__ import annotations

from pipelines.inference.engine.kv_cache.cache import Cache
from pipelines.inference.engine.scheduling.step_limits import num_scored
from pipelines.inference.engine.sequences.policy import EngineSettings, share_draft_budget
from pipelines.inference.engine.sequences.sequence import Slice


def with_draft_budget(
    decoding: list[Slice], prompts: list[Slice], settings: EngineSettings, cache: Cache
) -> list[Slice]:
    """The decoding slices with what all slices leave of the step's tokens, logit rows, states and blocks."""
    num_tokens = settings.max_step_tokens - len(decoding) - sum(slice.num_tokens for slice in prompts)
    num_rows = settings.max_scored_tokens - num_scored(prompts)
    most = min(num_tokens, num_rows)
    if cache.states.used:  # the state after each draft token takes a row
        most = min(most, cache.states.num_spare(len(decoding) + len(prompts)))
    budgets = share_draft_budget(
        [slice.sequence.num_draftable(settings.num_draft_tokens) for slice in decoding],
        [slice.end for slice in decoding],
        cache.block_tokens,
        most,
        -cache.shortage(decoding + prompts),
    )
    return [slice._replace(draft_budget=budget) for slice, budget in zip(decoding, budgets, strict=True)]
