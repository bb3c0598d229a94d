"""Compiles grammars and makes guides from them; each grammar is compiled once and cached.

Safe to call from any thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from llguidance import LLMatcher

from pipelines.errors import RequestError
from pipelines.grammars.grammar_text import limits, readable
from pipelines.host.guides.grammar_guide import GrammarGuide
from pipelines.host.guides.thinking_guide import ThinkingGuide
from pipelines.host.guides.token_tables import TokenTable
from pipelines.host.sampling.guide import Guide, GuideMaker
from pipelines.wire.sampling_params import GuideSpec, SamplingParams

MAX_CACHED = 64
"""Compiled grammars in the cache, least recently used first out; each takes up to some megabytes."""


class GuideCompiler:
    """Makes guides for one model's tokens.  A cached matcher is never advanced: guides work on copies."""

    def __init__(self, tokens: TokenTable) -> None:
        self.tokens = tokens
        self._cache: OrderedDict[str, LLMatcher] = OrderedDict()
        self._lock = threading.Lock()

    def maker(self, spec: GuideSpec, params: SamplingParams) -> GuideMaker:
        """A function that makes guides for a request.  Compiles its grammar, which takes up to a second.

        Raises RequestError for a grammar that does not compile.
        """
        matcher = None if spec.grammar is None else self._matcher(spec.grammar)
        forces = params.logprobs is None and not params.logprob_token_ids

        def make() -> Guide:
            grammar_guide = None
            if matcher is not None:
                with self._lock:
                    copy = matcher.deep_copy()
                grammar_guide = GrammarGuide(copy, self.tokens, forces, params.ignore_eos)
            if spec.thinking is not None:
                return ThinkingGuide(spec.thinking, grammar_guide, self.tokens, forces)
            assert grammar_guide is not None
            return grammar_guide

        return make

    def _matcher(self, grammar: str) -> LLMatcher:
        with self._lock:
            if grammar in self._cache:
                self._cache.move_to_end(grammar)
                return self._cache[grammar]
        matcher = LLMatcher(self.tokens.tokenizer, grammar, log_level=0, limits=limits())
        if matcher.is_error():
            raise RequestError(readable(f"Grammar error: {matcher.get_error()}"))
        with self._lock:
            self._cache[grammar] = matcher
            while len(self._cache) > MAX_CACHED:
                self._cache.popitem(last=False)
        return matcher
