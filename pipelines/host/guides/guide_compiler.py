"""Compiles grammars and makes guides from them; each grammar is compiled once and cached.

Safe to call from any thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, TypeVar

from llguidance import LLMatcher

from pipelines.errors import RequestError
from pipelines.grammars.grammar_text import limits, readable
from pipelines.host.guides.call_guide import CallGuide, CallRules
from pipelines.host.guides.grammar_guide import GrammarGuide
from pipelines.host.guides.thinking_guide import ThinkingGuide
from pipelines.host.guides.token_tables import TokenTable
from pipelines.host.sampling.guide import Guide, GuideMaker
from pipelines.wire.sampling_params import GuideSpec, HeldCalls, SamplingParams

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")

MAX_CACHED = 64
"""Compiled grammars in the cache, least recently used first out; each takes up to some megabytes."""


class GuideCompiler:
    """Makes guides for one model's tokens.  A cached matcher is never advanced: guides work on copies."""

    def __init__(self, tokens: TokenTable) -> None:
        self.tokens = tokens
        self._cache: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def maker(self, spec: GuideSpec, params: SamplingParams) -> GuideMaker:
        """A function that makes guides for a request.  Compiles its grammar, which takes up to a second.

        Raises RequestError for a grammar that does not compile.
        """
        matcher = None if spec.grammar is None else self._cached(spec.grammar, self._compiled)
        rules = None if spec.calls is None else self._cached(spec.calls, self._call_rules)
        forces = params.logprobs is None and not params.logprob_token_ids

        def make() -> Guide:
            reply: GrammarGuide | CallGuide | None = None
            if matcher is not None:
                reply = GrammarGuide(self._copy(matcher), self.tokens, forces, params.ignore_eos)
            elif rules is not None:
                own = replace(rules, start=self._copy(rules.start))
                reply = CallGuide(own, self.tokens, forces)
            if spec.thinking is not None:
                return ThinkingGuide(spec.thinking, reply, self.tokens, forces)
            assert reply is not None
            return reply

        return make

    def _call_rules(self, calls: HeldCalls) -> CallRules:
        return CallRules.of(calls, self._compiled(calls.grammar), self.tokens)

    def _compiled(self, grammar: str) -> LLMatcher:
        matcher = LLMatcher(self.tokens.tokenizer, grammar, log_level=0, limits=limits())
        if matcher.is_error():
            raise RequestError(readable(f"Grammar error: {matcher.get_error()}"))
        return matcher

    def _copy(self, matcher: LLMatcher) -> LLMatcher:
        with self._lock:
            return matcher.deep_copy()

    def _cached(self, key: Key, make: Callable[[Key], Made]) -> Made:
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                found: Made = self._cache[key]
                return found
        made = make(key)
        with self._lock:
            self._cache[key] = made
            while len(self._cache) > MAX_CACHED:
                self._cache.popitem(last=False)
        return made
