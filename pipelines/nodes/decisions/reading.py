"""How a decoder is asked a question: the probabilities of the token behind its prompt are the answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pipelines.nodes.decisions.answers import Answer, log_sum, softmax
from pipelines.nodes.decisions.labels import Words
from pipelines.nodes.decisions.questions import Kind, Question
from pipelines.nodes.interface import NamedGraph
from pipelines.values.node_values import Prompt, Tokens
from pipelines.values.reply_values import TextLogprob
from pipelines.values.tasks import GenerationInput

HOW: dict[Kind, str] = {
    "predicate": "Is this statement true? Answer with Yes or No only.",
    "choice": "Answer with the letter of the best option only.",
    "score": "Answer with the number of the best level only.",
}
"""Kind of question → how it is to be answered, the end of its text; with letters as a choice."""
ONE_TOKEN = {"max_tokens": 1, "temperature": 0.0, "logprobs": 0, "seed": 0}
"""The sampling of a prompt of which only the next token's log-probabilities are wanted."""


class TokenRead(NamedTuple):
    """After one prompt: the log-probability of each token that was asked for, and the likeliest token."""

    logprobs: dict[int, float]
    likeliest: int


def question_text(question: Question, words: Words) -> str:
    """What is asked, a line for each option, how to answer."""
    name = "Statement" if question.kind == "predicate" else "Question"
    lines = [f"{name}: {question.instructions}"] if question.instructions else []
    for (word, _), option in zip(words.of_options, question.options, strict=True):
        if words.kind != "predicate":
            lines.append(f"{word}: {option.text}")
        elif option.description:
            lines.append(f"{word}: {option.description}")
    return "\n".join([*lines, HOW[words.kind]])


def without_template(text: str, asked: str) -> Prompt:
    """The prompt of a model without a chat template: an input, and a question about it."""
    return Prompt(text=f"{text}\n\n{asked}\nAnswer:", add_special_tokens=True)


def closed(graph: NamedGraph, given: GenerationInput, prompt: Prompt) -> Prompt:
    """The prompt of a conversation, with the end of the reasoning that it opens."""
    text = prompt.text or ""
    rule = graph.plan(given).reasoning
    thinking = None if rule is None else rule.thinking(Tokens([], prompt_text=text))
    end = f"\n{thinking.end}\n\n" if thinking is not None and thinking.opened else ""
    return replace(prompt, text=text + end)


def reading(given: GenerationInput, words: Sequence[Words], **changes: Any) -> GenerationInput:
    """An input of which only the probabilities of the words are read."""
    ids = frozenset().union(*(each.tokens for each in words))
    sampling = given.sampling | ONE_TOKEN | {"logprob_token_ids": sorted(ids)}
    return replace(given, sampling=sampling, parse_reasoning=False, parse_tools=False, **changes)


def token_read(token: TextLogprob) -> TokenRead:
    """What the first token of a reply says."""
    return TokenRead({each.token_id: each.logprob for each in token.alternatives}, token.token_id)


def answer_to(question: Question, words: Words, read: TokenRead) -> Answer:
    """The probabilities of the options."""
    logprobs = [log_sum([read.logprobs[token] for token in tokens]) for _, tokens in words.of_options]
    mass = math.exp(min(0.0, log_sum(logprobs)))
    return Answer(question, softmax(logprobs), mass, read.likeliest in words.tokens)
