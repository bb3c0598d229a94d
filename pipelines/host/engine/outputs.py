"""What an engine says of its choices.

Knows sequences and tokens; knows nothing of steps, text or the wire.
"""

from __future__ import annotations

from collections.abc import Hashable
from time import perf_counter
from typing import NamedTuple

from pipelines.host.engine.sequence import Sequence
from pipelines.wire.logprobs import TokenLogprobs


class Output(NamedTuple):
    """What one step gave one choice of one request.

    `finish` is None while more will follow, else "stop" (an end token, which is not in `token_ids`),
    "length" (max_tokens, or the context is full), "repetition" (as `params.repetition_detection` says) or
    "error" (`error` is the message for the client, `error_status` whose fault it is, as in HTTP).
    `stop_token_id` is the token of `params.stop_token_ids` that ended it, None for the model's own.
    `num_cached` prompt tokens were found in the prefix cache.  `prompt_logprobs`, when asked for, are in the
    first Output of a choice: one per prompt token but the first.  Of `num_drafted` tokens that were drafted
    ahead for the choice so far, `num_accepted` were accepted; `draft_logprobs` are the draft's own of those
    among
    `token_ids`, when they were asked for.  `prefill_s`, in the first Output of a choice, is the time since
    its prompt was admitted.
    """

    key: Hashable
    choice: int
    token_ids: list[int]
    logprobs: list[TokenLogprobs]  # one per token when they were asked for, else []
    finish: str | None = None
    stop_token_id: int | None = None
    error: str | None = None
    num_cached: int = 0
    prompt_logprobs: list[TokenLogprobs] | None = None
    error_status: int = 500
    num_drafted: int = 0
    num_accepted: int = 0
    draft_logprobs: list[TokenLogprobs] = []
    prefill_s: float | None = None


def joined(output: Output, later: Output) -> Output:
    """What one step gave a choice in two parts; what both say of the choice stands in the later one."""
    return later._replace(
        token_ids=output.token_ids + later.token_ids,
        logprobs=output.logprobs + later.logprobs,
        prompt_logprobs=output.prompt_logprobs,
        prefill_s=output.prefill_s,
    )


def output_of(
    sequence: Sequence,
    token_ids: list[int],
    logprobs: list[TokenLogprobs],
    finish: str | None,
    stop_token_id: int | None = None,
) -> Output:
    """Its next tokens, or its end, with what is to be said once."""
    num_cached, scores, prefill_s = sequence.num_reused or 0, None, None
    if sequence.scores is not None:
        scores, sequence.scores = sequence.scores.found, None
    if sequence.admitted_s is not None:
        prefill_s, sequence.admitted_s = perf_counter() - sequence.admitted_s, None
    return Output(
        sequence.key,
        sequence.choice,
        token_ids,
        logprobs,
        finish,
        stop_token_id,
        None,
        num_cached,
        scores,
        num_drafted=sequence.num_drafted,
        num_accepted=sequence.num_accepted,
        prefill_s=prefill_s,
    )
