"""Whether a body returned what its step requires, checked before anything of the step is visible."""

from __future__ import annotations

from collections.abc import Sized

from pipelines.inference.contracts.step import Sampled, Step


def check_result(step: Step, sampled: Sampled) -> None:
    """Raise ValueError for a result whose lengths do not fit the step, as the engine packed it."""
    num_tokens, num_drafted = sampled.num_tokens, sampled.num_drafted
    _check_count(
        "tokens were to be sampled", step.num_sampled, sampled.token_ids if num_tokens is None else num_tokens
    )
    _check_count("tokens were to be scored", step.num_scored, sampled.scores)
    if sampled.logprobs:
        _check_count("log-probabilities were to be given", len(sampled.token_ids), sampled.logprobs)
    if num_tokens is None:
        return
    if num_drafted is None:
        raise ValueError("the numbers of draft tokens are missing beside the numbers of tokens")
    _check_count("numbers of draft tokens were to be given", step.num_sampled, num_drafted)
    if (num_tokens < 1).any() or (num_tokens > num_drafted + 1).any():
        raise ValueError("a run must have at least one token, and at most one more than it has draft tokens")
    if num_tokens.sum() != len(sampled.token_ids):
        raise ValueError(
            f"the runs have {num_tokens.sum()} tokens, but {len(sampled.token_ids)} were returned"
        )


def _check_count(what: str, wanted: int, given: Sized) -> None:
    if len(given) != wanted:
        raise ValueError(f"{wanted} {what}, not {len(given)}")
