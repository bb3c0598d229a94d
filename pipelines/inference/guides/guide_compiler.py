"""Compiles grammars and makes guides from them; each grammar is compiled once and cached.

Safe to call from any thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from resource import getpagesize
from typing import NamedTuple

from llguidance import LLMatcher

from pipelines.base.errors import RequestError
from pipelines.grammars.compiler import limits
from pipelines.grammars.grammar_cost import NO_WORD, check_cost
from pipelines.grammars.grammar_limits import BoundError
from pipelines.grammars.grammar_text import readable
from pipelines.inference.contracts.guide import Guide, GuideMaker
from pipelines.inference.guides.call_guide import CallGuide, CallRules
from pipelines.inference.guides.grammar_guide import GrammarGuide, fault
from pipelines.inference.guides.thinking_guide import ThinkingGuide
from pipelines.inference.guides.token_tables import TokenTable
from pipelines.wire.sampling_params import GuideSpec, HeldCalls, SamplingParams

STATM = Path("/proc/self/statm")
PAGE_BYTES = getpagesize()
MAX_CACHED, MAX_CACHED_BYTES = 64, 256 << 20
"""Number and size of all compiled grammars in the cache, least recently used first out."""
LEAST_BYTES = 256 << 10
SLOW_BYTES = 32 << 20
"""What a grammar may grow by while it is followed, where it is not cheap."""


class Compiled(NamedTuple):
    """A grammar of the cache: a matcher that is never advanced, since guides work on copies."""

    matcher: LLMatcher
    is_slow: bool
    num_bytes: int


class GuideCompiler:
    """Makes guides for one model's tokens."""

    def __init__(self, tokens: TokenTable) -> None:
        self.tokens = tokens
        self._cache: OrderedDict[str, Compiled] = OrderedDict()
        self._num_bytes = 0
        self._rules: dict[HeldCalls, CallRules] = {}
        self._lock = threading.Lock()

    def maker(self, spec: GuideSpec, params: SamplingParams) -> GuideMaker:
        """A function that makes guides for a request.  Compiles its grammar, which takes up to a second.

        Raises RequestError for a grammar that does not compile.
        """
        grammar = spec.calls.grammar if spec.grammar is None and spec.calls is not None else spec.grammar
        compiled = None if grammar is None else self._cached(grammar)
        rules = None if spec.calls is None or compiled is None else self._call_rules(spec.calls, compiled)
        is_slow = compiled is not None and compiled.is_slow
        forces = params.logprobs is None and not params.logprob_token_ids and not is_slow

        def make() -> Guide:
            reply: GrammarGuide | CallGuide | None = None
            if spec.grammar is not None and compiled is not None:
                reply = GrammarGuide(self._copy(compiled.matcher), self.tokens, forces, params.ignore_eos)
            elif rules is not None:
                own = replace(rules, start=self._copy(rules.start))
                reply = CallGuide(own, self.tokens, forces)
            guide = (
                reply if spec.thinking is None else ThinkingGuide(spec.thinking, reply, self.tokens, forces)
            )
            assert guide is not None
            guide.is_slow = is_slow
            return guide

        return make

    def _call_rules(self, calls: HeldCalls, compiled: Compiled) -> CallRules:
        """Cached as long as their grammar."""
        with self._lock:
            rules = self._rules.get(calls)
        if rules is None or rules.start is not compiled.matcher:
            rules = CallRules.of(calls, compiled.matcher, self.tokens)
            with self._lock:
                self._rules[calls] = rules
        return rules

    def _compiled(self, grammar: str) -> Compiled:
        """Raises RequestError where it does not compile, or allows no token at all."""
        try:
            is_slow = not check_cost(grammar)
        except BoundError as error:
            raise RequestError(readable(str(error))) from error
        before = resident_bytes()
        matcher = LLMatcher(self.tokens.tokenizer, grammar, log_level=0, limits=limits())
        if matcher.is_error():
            raise RequestError(readable(f"Grammar error: {matcher.get_error()}"))
        matcher.compute_bitmask()  # it says whether there is a first token, and later ones are faster
        if matcher.is_error():
            raise RequestError(readable(f"{NO_WORD}: {fault(matcher)}"))
        taken = max(LEAST_BYTES, 8 * len(grammar), resident_bytes() - before)
        return Compiled(matcher, is_slow, taken + SLOW_BYTES * is_slow)

    def _copy(self, matcher: LLMatcher) -> LLMatcher:
        with self._lock:
            return matcher.deep_copy()

    def _cached(self, grammar: str) -> Compiled:
        with self._lock:
            if grammar in self._cache:
                self._cache.move_to_end(grammar)
                return self._cache[grammar]
        compiled = self._compiled(grammar)
        with self._lock:
            if grammar not in self._cache:
                self._num_bytes += compiled.num_bytes
                self._cache[grammar] = compiled
            while len(self._cache) > MAX_CACHED or self._num_bytes > MAX_CACHED_BYTES:
                self._forget(*self._cache.popitem(last=False))
        return compiled

    def _forget(self, grammar: str, compiled: Compiled) -> None:
        self._num_bytes -= compiled.num_bytes
        for calls in [calls for calls in self._rules if calls.grammar == grammar]:
            del self._rules[calls]


def resident_bytes() -> int:
    """Memory of this process; 0 where the system does not say."""
    try:
        return int(STATM.read_text().split()[1]) * PAGE_BYTES
    except OSError:
        return 0
