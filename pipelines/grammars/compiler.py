"""llguidance's compiler as Braid uses it: its limits, and what it finds wrong with a grammar."""

from __future__ import annotations

from llguidance import LLMatcher, LLParserLimits

NEEDS_TOKENIZER = "no tokenizer"
"""Start of the compiler's warning that special tokens are checked later."""


def limits() -> LLParserLimits:
    """Resource limits of one grammar: 40 ms and 2 ms for a mask, 50 MB of lexer states.

    They do not bound everything: see `grammar_cost`.
    """
    return LLParserLimits(
        max_grammar_size=200_000,
        initial_lexer_fuel=2_000_000,
        step_lexer_fuel=500_000,
        max_lexer_states=50_000,
        verbose_errors=False,
    )


def faults_of(grammar: str) -> str:
    """What is wrong with a grammar or with any part of its schemas; "" where nothing is."""
    failed, messages = LLMatcher.validate_grammar_with_warnings(grammar, limits=limits())
    faults = messages if failed else [text for text in messages if not text.startswith(NEEDS_TOKENIZER)]
    return "Grammar error: " + "; ".join(faults) if faults else ""
