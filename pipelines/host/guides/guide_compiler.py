"""What an output may be → makers of guides, each grammar compiled once.

Safe in any thread; knows nothing of engines.
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

MAX_KEPT = 64
"""Compiled grammars that are kept, the last used ones; each holds up to some megabytes."""


class GuideCompiler:
    """For one model's tokens.  What is kept is never advanced: guides follow copies."""

    def __init__(self, tokens: TokenTable) -> None:
        self.tokens = tokens
        self._kept: OrderedDict[str, LLMatcher] = OrderedDict()
        self._lock = threading.Lock()

    def maker(self, spec: GuideSpec, params: SamplingParams) -> GuideMaker:
        """Compiles what must be, for up to a second.  Raises RequestError for what does not compile."""
        matcher = None if spec.grammar is None else self._matcher(spec.grammar)
        forces = params.logprobs is None and not params.logprob_token_ids

        def make() -> Guide:
            answer = None
            if matcher is not None:
                with self._lock:
                    copy = matcher.deep_copy()
                answer = GrammarGuide(copy, self.tokens, forces, params.ignore_eos)
            if spec.thinking is not None:
                return ThinkingGuide(spec.thinking, answer, self.tokens, forces)
            assert answer is not None
            return answer

        return make

    def _matcher(self, grammar: str) -> LLMatcher:
        with self._lock:
            if grammar in self._kept:
                self._kept.move_to_end(grammar)
                return self._kept[grammar]
        matcher = LLMatcher(self.tokens.tokenizer, grammar, log_level=0, limits=limits())
        if matcher.is_error():
            raise RequestError(readable(f"Grammar error: {matcher.get_error()}"))
        with self._lock:
            self._kept[grammar] = matcher
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return matcher
