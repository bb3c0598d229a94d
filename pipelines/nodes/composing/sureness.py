"""How sure a model was of a reply, by the log-probabilities of its tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from pipelines.values.composed_values import WholeReply
from pipelines.values.tasks import GenerationInput


def with_logprobs(request: GenerationInput) -> GenerationInput:
    """A request whose reply has the log-probability of each token."""
    if request.sampling.get("logprobs") is not None:
        return request
    return replace(request, sampling={**request.sampling, "logprobs": 0})


def mean_logprob(reply: WholeReply) -> float:
    """The mean over its tokens; of none minus infinity."""
    found = [entry.logprob for entry in reply.logprobs]
    return sum(found) / len(found) if found else -math.inf


def least_logprob(reply: WholeReply) -> float:
    """The log-probability of the least likely token; of none minus infinity."""
    return min((entry.logprob for entry in reply.logprobs), default=-math.inf)


MEASURES: Mapping[str, Callable[[WholeReply], float]] = {
    "mean_logprob": mean_logprob,
    "least_logprob": least_logprob,
}
"""Word in a graph → the measure; larger is surer."""
