"""A generation request and its plan → what the output must be: a grammar, and where reasoning ends."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from tokenizers import Tokenizer

from pipelines.base.errors import RequestError
from pipelines.grammars.formats import Format, GrammarWriter
from pipelines.nodes.request_plan import RequestPlan
from pipelines.nodes.text.tokenizing.tokenizer import special_tokens
from pipelines.values.node_values import Tokens
from pipelines.values.tasks import GenerationInput
from pipelines.wire.sampling_params import GuideSpec

MAX_CACHED = 32
"""Grammars that a worker caches for one model: clients send the same tools with every turn."""


def grammar_writer(tokenizer: Tokenizer, file: Path | None = None) -> GrammarWriter:
    """Writes grammars for a model; the tokenizer determines which words are single tokens.

    What is not cheap is tried on the tokens of `file`, the same tokenizer.
    """
    from pipelines.grammars.grammar_text import grammar_of_format

    specials = special_tokens(tokenizer)

    @lru_cache(MAX_CACHED)
    def written(text: str, field: str) -> str:
        return grammar_of_format(json.loads(text), field, specials, file)

    def write(format: Format, field: str) -> str:
        try:
            return written(json.dumps(format), field)
        except RecursionError as error:
            raise RequestError("the format is nested too deeply", field) from error

    return write


def check_guidable(request: GenerationInput, write: GrammarWriter | None) -> None:
    """Raise RequestError where the output must be restricted and nothing can do that.

    `write` is None where the graph has no grammar node.
    """
    demands = {"tool_choice": request.tool_choice, "thinking_token_budget": request.thinking_budget}
    fields = [field for field, demand in demands.items() if demand is not None]
    if request.constraint is not None:
        fields.append(request.constraint.where)
    for field in fields:
        if write is None:
            raise RequestError("this model's graph has no grammar node, which this needs", field)
        if request.sampling.get("beams") is not None:
            raise RequestError("beam search cannot keep to this", field)


def guide_spec(
    request: GenerationInput, plan: RequestPlan, prompt: Tokens, write: GrammarWriter | None
) -> GuideSpec | None:
    """What the output must be, None for anything.  Raises RequestError for what is no valid format.

    What the request does not demand (calls that the model may make) is left out where nothing can restrict
    the output.
    """
    if write is None or request.sampling.get("beams") is not None:
        return None
    grammar = _grammar(request, plan, write)
    calls = None if plan.tool_calls is None else plan.tool_calls.held_calls(request, write)
    if grammar is None and calls is None and request.thinking_budget is None:
        return None
    thinking = None if plan.reasoning is None else plan.reasoning.thinking(prompt)
    spec = GuideSpec(grammar, thinking, calls)
    return None if spec == GuideSpec() else spec


def _grammar(request: GenerationInput, plan: RequestPlan, write: GrammarWriter) -> str | None:
    """The grammar of the reply with its tool calls, else of the request's constraint; both are checked."""
    grammar = None
    if request.constraint is not None:
        from pipelines.grammars.held_formats import held_format  # most requests have no constraint

        grammar = write(held_format(request.constraint, write), request.constraint.where)
    of_calls = None if plan.tool_calls is None else plan.tool_calls.reply_grammar(request, write)
    return grammar if of_calls is None else of_calls
