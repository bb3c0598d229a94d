"""The prompts that ask a decoder: the input of a request, then one question, where the reply begins."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pydantic import ValidationError

from pipelines.base.errors import RequestError
from pipelines.nodes.decisions.labels import Labels, Words
from pipelines.nodes.decisions.questions import Question
from pipelines.nodes.decisions.reading import HOW, closed, question_text, without_template
from pipelines.requests.fields.validation import from_validation
from pipelines.requests.generation.chat import ChatRequest
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput
from pipelines.worker.encoding import chat_prompt, tokenize_node
from pipelines.worker.pipeline import Pipeline
from server.apis.decisions.questions import Decision


class QuestionPrompts:
    """Writes the prompts of one request for one model.  Its methods raise RequestError."""

    def __init__(self, pipeline: Pipeline, decision: Decision) -> None:
        self._pipeline = pipeline
        self._decision = decision

    @cached_property
    def _labels(self) -> Labels:
        """Prompts end alike, whatever the question."""
        return Labels(tokenize_node(self._pipeline), self._prompt(HOW["choice"]).text or "")

    def words(self, question: Question) -> Words:
        """The words for the options of a question."""
        return self._labels.of(question)

    def conversation(self, question: Question) -> GenerationInput:
        """The input of the model that ends with a question."""
        return self._conversation(self._text(question), question.images)

    def prompt(self, question: Question) -> Prompt:
        """The conversation as one text."""
        return self._prompt(self._text(question))

    def _text(self, question: Question) -> str:
        return question_text(question, self.words(question))

    def _prompt(self, text: str) -> Prompt:
        """The input and a text; a model without a chat template reads them as they are."""
        if self._pipeline.task != "chat":
            return without_template(self._decision.text, text)
        given = self._conversation(text)
        return closed(self._pipeline, given, chat_prompt(self._pipeline, given))

    def _conversation(self, text: str, images: tuple[dict[str, Any], ...] = ()) -> GenerationInput:
        return chat_request(self._decision, text, images).generation(self._pipeline.max_context)


def chat_request(decision: Decision, text: str, images: tuple[dict[str, Any], ...] = ()) -> ChatRequest:
    """The conversation that ends with the input and a text about it.  Raises RequestError."""
    try:
        return decision.chat(text, images)
    except ValidationError as error:
        raise from_validation(error) from None


def renamed(error: RequestError, decision: Decision) -> RequestError:
    """An error of the conversation with the place in the request of what it is about."""
    if error.field == "prompt":
        error.field = decision.places[-1]
    for i, place in reversed([*enumerate(decision.places)]):
        own = f"messages.{i}"
        if error.field is not None and error.field.startswith(own):
            error.field = place + error.field.removeprefix(own)
            error.message = error.message.replace(own, place)
    return error
