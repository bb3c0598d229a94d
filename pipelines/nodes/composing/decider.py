"""Asks a model of text a question with fixed answers, for a line of a composed graph."""

from __future__ import annotations

import asyncio
from typing import Any

from pipelines.base.errors import EngineError, RequestCancelled, RequestError
from pipelines.nodes.decisions.answers import Answer
from pipelines.nodes.decisions.labels import Labels, Words
from pipelines.nodes.decisions.questions import Question
from pipelines.nodes.decisions.reading import (
    HOW,
    answer_to,
    closed,
    question_text,
    reading,
    token_read,
    without_template,
)
from pipelines.nodes.interface import Composer, NamedGraph
from pipelines.nodes.naming import nodes_of
from pipelines.nodes.text.templates.chat_template import ChatTemplate
from pipelines.nodes.text.tokenizing.tokenize import TokenizerNode
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput


async def decide(call: Composer, graph: NamedGraph, question: Question, text: str) -> Answer:
    """The answer of a model to a question about a text, as `/v1/decisions` gives it.

    Raises RequestError for a text that is too long, or where it was cancelled, and EngineError for a graph
    that has no tokenizer.
    """
    words, asked = await asyncio.to_thread(_request, graph, question, text)
    reply = await (await call.ask(graph, asked)).reply()
    if reply.finish == "abort":
        raise RequestCancelled
    if not reply.logprobs:
        raise EngineError("the model gave no probabilities, by which the question is answered")
    return answer_to(question, words, token_read(reply.logprobs[0]))


def _request(graph: Any, question: Question, text: str) -> tuple[Words, GenerationInput]:
    nodes = list(nodes_of(graph))
    tokenizer = next((node for node in nodes if isinstance(node, TokenizerNode)), None)
    template = next((node for node in nodes if isinstance(node, ChatTemplate)), None)
    if tokenizer is None or (template is None and graph.task == "chat"):
        raise EngineError("a question is answered by a model with a tokenizer and, for chats, a template")

    def prompt(asked: str) -> Prompt:
        if template is None:
            return without_template(text, asked)
        messages = [{"role": "user", "content": f"{text}\n\n{asked}" if text else asked}]
        chat = GenerationInput(messages=messages, template_kwargs={"enable_thinking": False})
        return closed(graph, chat, template.prompt(chat))

    try:
        words = Labels(tokenizer, prompt(HOW["choice"]).text or "").of(question)
    except RequestError as error:  # of the line's settings, not of the request
        raise EngineError(error.message) from None
    asked = GenerationInput(prompts=[prompt(question_text(question, words))])
    return words, reading(asked, [words])
