"""The grammar of calls in free text lets a model write them as its template does, spaces and ids too."""

from __future__ import annotations

import pytest
from breadth import after
from llguidance import LLMatcher, LLTokenizer
from test_parser_search import PUBLIC, SMALL, expected, source_of

from pipelines.grammars.grammar_text import grammar_of_format
from pipelines.nodes.text.parsers.tools import forms
from pipelines.nodes.text.templates.trials import FUNCTION, OPTIONS, TOOLS, Trials

ENDS_NO_BLOCK = "deepseek-ai-DeepSeek-R1-Distill-Llama-8B"
"""Its template leaves out the mark behind the calls of a message with one of them."""


def held(name: str) -> forms.CallForm | None:
    """The form of calls of a template's parser, where calls in free text are held to it."""
    form = forms.FORMS.get(expected(name)[1] or "")
    return form if form is not None and form.trigger else None


QUICK = ["Qwen-Qwen3-0.6B", "CohereForAI-c4ai-command-r7b-12-2024-tool_use", "exaone-4", "mistral-7b-v3"]
OTHERS = [name for name in [*PUBLIC, *SMALL] if held(name) and name not in QUICK]


@pytest.mark.parametrize("name", after(len(QUICK), [*QUICK, *OTHERS]))
def test_a_template_s_calls_are_allowed(name):
    tried, form = Trials(source_of(name)), held(name)
    assert form is not None
    grammar = grammar_of_format(forms.after_trigger(form, TOOLS), "tools")
    for count in (1, 2):
        replies = (tried.calling(count, "", options) for options in OPTIONS)
        text = next((reply.text for reply in replies if reply and FUNCTION in reply.text), "")
        if text and (name, count) != (ENDS_NO_BLOCK, 1):
            assert is_allowed(grammar, text[text.index(form.trigger) + len(form.trigger) :])


def is_allowed(grammar: str, text: str) -> bool:
    """Whether a model may write the text up to where the call or block of calls ends."""
    matcher = LLMatcher(LLTokenizer("byte"), grammar)
    for byte in text.encode():
        if matcher.is_stopped() or not matcher.consume_token(byte):
            break
    return matcher.is_stopped() and matcher.is_accepting()
