"""How sure a model was of a reply, by the log-probabilities of its tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from pipelines.values.composed_values import WholeReply
from pipelines.values.reply_values import TextLogprob
from pipelines.values.tasks import GenerationInput


def with_logprobs(request: GenerationInput, num_alternatives: int) -> GenerationInput:
    """A request whose reply has the log-probabilities of each token and of its likeliest alternatives."""
    asked = request.sampling.get("logprobs") or 0
    num = asked if asked < 0 else max(asked, num_alternatives)  # below 0 are all
    return replace(request, sampling={**request.sampling, "logprobs": num})


def mean_logprob(reply: WholeReply) -> float:
    """The mean over its tokens; of none minus infinity."""
    found = [entry.logprob for entry in reply.logprobs]
    return sum(found) / len(found) if found else -math.inf


def least_logprob(reply: WholeReply) -> float:
    """The log-probability of the least likely token; of none minus infinity."""
    return min((entry.logprob for entry in reply.logprobs), default=-math.inf)


def minus_entropy(reply: WholeReply) -> float:
    """Minus the mean entropy of the alternatives at each place, in nats; of none minus infinity."""
    found = [sum(_shares(entry)) for entry in reply.logprobs]
    return sum(found) / len(found) if found else -math.inf


def _shares(entry: TextLogprob) -> list[float]:
    """p log p of each token that could stand there, the chosen one among them."""
    likely = {other.token_id: other.logprob for other in entry.alternatives}
    likely[entry.token_id] = entry.logprob
    return [math.exp(logprob) * logprob for logprob in likely.values() if logprob > -math.inf]


NUM_ALTERNATIVES = 20
MEASURES: Mapping[str, tuple[Callable[[WholeReply], float], int]] = {
    "mean_logprob": (mean_logprob, 0),
    "least_logprob": (least_logprob, 0),
    "entropy": (minus_entropy, NUM_ALTERNATIVES),
}
"""Word in a graph → the measure, larger is surer, and the alternatives of each token that it reads."""
