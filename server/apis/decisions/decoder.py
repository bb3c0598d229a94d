"""A decoder answers: each question ends a prompt, and the probabilities of the next token are the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pipelines.base.errors import RequestError
from pipelines.nodes.decisions.answers import Answer
from pipelines.nodes.decisions.labels import Words
from pipelines.nodes.decisions.questions import Question
from pipelines.nodes.decisions.reading import answer_to, reading
from pipelines.requests.generation.chat import ChatRequest
from pipelines.requests.pooling.input_parsing import check_total_chars
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput
from pipelines.worker.pipeline import Pipeline
from server.apis.decisions.label_reads import PromptReader, Reads
from server.apis.decisions.prompts import QuestionPrompts, chat_request, renamed
from server.apis.decisions.questions import Decision
from server.http.exchange import Exchange
from server.services.services import Services

SHARED_CHARS = 1 << 10
"""What all prompts begin with is computed first where that saves the others this many characters."""


class Asked(NamedTuple):
    """What is run: inputs whose prompts are those of the questions in order, and the words of each."""

    inputs: list[GenerationInput]
    words: list[Words]


async def ask_decoder(
    services: Services, pipeline: Pipeline, exchange: Exchange, decision: Decision, num_bytes: int
) -> tuple[list[Answer], Reads]:
    """The answers, and what was read for them.  Raises RequestError."""
    work = num_bytes * len(decision.questions)
    try:
        showing = chat_request(decision, "", decision.images)
        asked = await exchange.off_loop(lambda: _asked(pipeline, decision, showing), work)
        reads = await PromptReader(services, pipeline, exchange, showing, work).read(asked.inputs)
    except RequestError as error:
        raise renamed(error, decision) from None
    pairs = zip(decision.questions, asked.words, reads.found, strict=True)
    return [answer_to(*pair) for pair in pairs], reads


def _asked(pipeline: Pipeline, decision: Decision, showing: ChatRequest) -> Asked:
    showing.generation(pipeline.max_context)  # raises for an input that is no conversation
    prompts = QuestionPrompts(pipeline, decision)
    words = [prompts.words(question) for question in decision.questions]
    if showing.shows_images:
        pairs = zip(decision.questions, words, strict=True)
        return Asked([reading(prompts.conversation(each), [own]) for each, own in pairs], words)
    texts = _texts(prompts, decision.questions)
    base = replace(prompts.conversation(decision.questions[0]), messages=None)
    return Asked([reading(base, words, prompts=group) for group in _groups(texts)], words)


def _texts(prompts: QuestionPrompts, questions: Sequence[Question]) -> list[Prompt]:
    """A prompt for each question.  Raises RequestError where they would be too long together."""
    num_chars = len(prompts.prompt(questions[0]).text or "")  # they differ in their questions alone
    check_total_chars([num_chars] * len(questions), "questions")
    return [prompts.prompt(question) for question in questions]


def _groups(prompts: list[Prompt]) -> list[list[Prompt]]:
    """The first prompt apart, where what the others have in common with it is long."""
    num_saved = _num_common([prompt.text or "" for prompt in prompts]) * (len(prompts) - 1)
    return [prompts[:1], prompts[1:]] if num_saved >= SHARED_CHARS else [prompts]


def _num_common(texts: list[str]) -> int:
    """How many characters all texts begin with."""
    first, last = min(texts), max(texts)  # what these have in common, those between them have too
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
