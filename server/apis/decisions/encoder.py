"""Classifiers and cross-encoders answer questions about an input that are labels or statements.

A cross-encoder scores each statement of a question against the input, as does a classifier of whether
a text entails another (Yin, Hay and Roth, 2019).  Any other classifier reads no questions: it answers those
whose options are its labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipelines.base.errors import RequestError
from pipelines.nodes.decisions.answers import Answer, sigmoid, softmax
from pipelines.nodes.decisions.questions import Question
from pipelines.requests.pooling.input_parsing import check_total_chars
from pipelines.values.node_values import Classes, Prompt, Scores
from pipelines.values.tasks import PoolingInput
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import of_type
from server.apis.decisions.label_reads import Reads
from server.apis.decisions.questions import Decision
from server.apis.pooling.pooling_call import run_pooling_call
from server.http.exchange import Exchange
from server.services.services import Services

ENTAILS, CONTRADICTS = ("entailment", "entails"), ("contradiction", "contradicts", "not_entailment")
YES = ("true", "yes", "label_1")
"""Names of the label of two that says that a text is what the classifier looks for."""


async def ask_encoder(
    services: Services, pipeline: Pipeline, exchange: Exchange, decision: Decision, num_bytes: int
) -> tuple[list[Answer], Reads]:
    """The answers, and the tokens that were read for them.  Raises RequestError."""
    _check_text(decision)
    compares = pipeline.task == "rerank" or _entailment(labels_of(pipeline)) is not None
    pooling_input = _statements(decision) if compares else _input(decision)
    num_bytes *= max(1, len(pooling_input.pairs))
    call = await exchange.off_loop(lambda: services.prepare(pipeline, pooling_input, exchange), num_bytes)
    result = await run_pooling_call(call, exchange)
    if compares:
        answers = [*_by_statements(decision.questions, result.value)]
    else:
        answers = [_by_labels(question, result.value) for question in decision.questions]
    return answers, Reads(num_prompt=result.num_tokens)


def labels_of(pipeline: Pipeline) -> list[str]:
    """The labels of a classifier; [] of any other model."""
    return next((node.labels for node in of_type(pipeline, "label")), [])


def _check_text(decision: Decision) -> None:
    """Raise RequestError for images, of which these models see none."""
    showing = [question.where for question in decision.questions if question.images]
    for message, place in zip(decision.messages, decision.places, strict=True):
        content = message.get("content")
        if isinstance(content, list) and any(part["type"] != "text" for part in content):
            showing.append(place)
    if showing:
        raise RequestError(f"`{showing[0]}`: this model reads text only", field=showing[0])


def _input(decision: Decision) -> PoolingInput:
    return PoolingInput(prompts=[Prompt.of_text(decision.text)], priority=decision.priority or 0)


def _statements(decision: Decision) -> PoolingInput:
    """A pair for each statement: a query or hypothesis, and the input."""
    text, claims = decision.text, [claim for each in decision.questions for claim in each.claims]
    check_total_chars([len(text) + len(claim) for claim in claims], "questions")
    pairs = [(Prompt.of_text(claim), Prompt.of_text(text)) for claim in claims]
    return PoolingInput(pairs=pairs, activate=False, priority=decision.priority or 0)


def _entailment(labels: Sequence[str]) -> tuple[int, int] | None:
    """The places of the labels that say that a text entails another and that it contradicts it."""
    names = [label.lower() for label in labels]
    found = [
        next((i for i, name in enumerate(names) if name in kind), None) for kind in (ENTAILS, CONTRADICTS)
    ]
    return None if None in found else (found[0] or 0, found[1] or 0)


def _by_statements(questions: Sequence[Question], value: Scores | Classes) -> Iterator[Answer]:
    """The answers of log-odds, one for each statement of each question in order."""
    if isinstance(value, Scores):
        odds = logits = value.values.tolist()
    else:
        true, false = _entailment(value.labels) or (0, 0)
        logits = value.values[:, true].tolist()
        odds = (value.values[:, true] - value.values[:, false]).tolist()
    at = 0
    for question in questions:
        if question.kind == "predicate":
            true_share = sigmoid(odds[at])
            yield Answer(question, [1 - true_share, true_share])
        else:
            yield Answer(question, softmax(logits[at : at + len(question.options)]))
        at += len(question.claims)


def _by_labels(question: Question, value: Classes) -> Answer:
    shares = dict(zip((label.lower() for label in value.labels), value.values[0].tolist(), strict=True))
    wanted = [_label(option.value, option.description, shares) for option in question.options]
    if question.kind == "predicate":
        true = _label(question.instructions, description=None, shares=shares) or _only_label(shares)
        return (
            _refusal(question, value) if true is None else Answer(question, [1 - shares[true], shares[true]])
        )
    names = [name for name in wanted if name is not None]
    total = sum(shares[name] for name in names)
    if len({*names}) < len(wanted) or not total:
        return _refusal(question, value)
    return Answer(question, [shares[name] / total for name in names])


def _label(value: object, description: str | None, shares: dict[str, float]) -> str | None:
    """The label with the name of an option, or of what it means."""
    names = [str(each).strip().rstrip(".").lower() for each in (value, description) if each is not None]
    return next((name for name in names if name in shares), None)


def _only_label(shares: dict[str, float]) -> str | None:
    """The label of a classifier that looks for one thing."""
    if len(shares) == 1:
        return next(iter(shares))
    return next((name for name in YES if name in shares), None) if len(shares) == 2 else None


def _refusal(question: Question, value: Classes) -> Answer:
    reason = f"this model reads no questions; it answers with its labels: {', '.join(value.labels)}"
    return Answer(question, probabilities=None, reason=reason)
