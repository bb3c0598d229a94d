"""A generation request → its sampling parameters, within what the graph allows and its nodes can do."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipelines.base.errors import RequestError
from pipelines.values.tasks import GenerationInput
from pipelines.wire.sampling_params import SamplingParams


class SpeculationField(NamedTuple):
    """A request field, and the types of node of which one must be in the graph to use it."""

    field: str
    nodes: tuple[str, ...]


SPECULATION_FIELDS = {
    "num_draft_tokens": SpeculationField("num_assistant_tokens", ("lookup", "draft")),
    "draft_threshold": SpeculationField("assistant_confidence_threshold", ("draft",)),
    "max_ngram": SpeculationField("max_ngram_size", ("lookup",)),
}
"""By name in `SamplingParams`; the value 0 needs no node."""


@dataclass(frozen=True)
class SamplingRules:
    """The rules of one scheduler node.

    `max_tokens_limit`: most output tokens, None: what the context holds.  `best_of_limit`: beam searches have
    fewer beams.  `defaults`: parameters that the model's files name.  `node_types`: of the scheduler's body.
    """

    max_context: int
    max_tokens_limit: int | None
    best_of_limit: int
    defaults: Mapping[str, Any]
    node_types: Collection[str]

    def params(self, request: GenerationInput, max_output: int, bad_words: list[list[int]]) -> SamplingParams:
        """What the client set, else the model's default, else the neutral value; at most `max_output` tokens.

        Raises RequestError.
        """
        self._check(request.sampling)
        most = self.max_tokens_limit or max_output
        params: dict[str, Any] = {"max_tokens": most} | self._defaults_for(request)
        if request.default_max_tokens is not None:
            params["max_tokens"] = request.default_max_tokens
        params |= request.sampling
        params["max_tokens"] = min(params["max_tokens"], most, max_output)
        suppressed = self.defaults.get("bad_words_ids", [])
        params["bad_words_ids"] = [*suppressed, *request.sampling.get("bad_words_ids", []), *bad_words]
        return SamplingParams(**params)

    def _defaults_for(self, request: GenerationInput) -> dict[str, Any]:
        """The parameters that the client left open; beam search takes none that concern random sampling."""
        if request.sampling.get("beams") is not None:
            return {name: value for name, value in self.defaults.items() if name == "max_tokens"}
        defaults = dict(self.defaults)
        if request.samples_always and not defaults.get("temperature"):
            defaults.pop("temperature", None)
        return request.fallbacks | defaults

    def _check(self, sampling: Mapping[str, Any]) -> None:
        """Raise RequestError for more than the graph allows, and for what none of its nodes can do."""
        most, beams, max_tokens = self.max_tokens_limit, sampling.get("beams"), sampling.get("max_tokens", 1)
        if max_tokens > self.max_context:
            raise RequestError(
                f"max_tokens={max_tokens} cannot be greater than max_model_len={self.max_context}. "
                "Please request fewer output tokens.",
                field="max_tokens",
            )
        if most is not None and max_tokens > most:
            raise RequestError(f"max_tokens exceeds limit provided in graph config: {most}", "max_tokens")
        if beams is not None and beams.width >= self.best_of_limit:
            limit = self.best_of_limit
            raise RequestError(f"best_of exceeds limit provided in graph config: {limit}", "best_of")
        self._check_speculation(sampling)

    def _check_speculation(self, sampling: Mapping[str, Any]) -> None:
        for name, (field, nodes) in SPECULATION_FIELDS.items():
            if sampling.get(name) and not any(node in self.node_types for node in nodes):
                raise RequestError(
                    f"`{field}` needs a {' or '.join(nodes)} node, which this model's graph does not have",
                    field,
                )
