"""The replies of both APIs of decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from pipelines.nodes.decisions.answers import Answer
from server.apis.decisions.label_reads import Reads
from server.schema.reply_models import Reply


class PredicateAnswer(Reply):
    type: Literal["predicate"] = "predicate"
    name: str | None
    probability: float


class ChoiceProbability(Reply):
    value: bool | str
    probability: float


class ChoiceAnswer(Reply):
    type: Literal["choice"] = "choice"
    name: str | None
    choice: bool | str
    confidence: float
    probabilities: list[ChoiceProbability]


class LevelProbability(Reply):
    value: int
    label: str
    probability: float


class ScoreAnswer(Reply):
    """`score` is the mean level, counted from 0."""

    type: Literal["score"] = "score"
    name: str | None
    score: float
    confidence: float
    probabilities: list[LevelProbability]


class RefusalAnswer(Reply):
    type: Literal["refusal"] = "refusal"
    name: str | None


class InputDetails(Reply):
    cached_tokens: int
    cache_write_tokens: int = 0


class OutputDetails(Reply):
    reasoning_tokens: int = 0


class DecisionUsage(Reply):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class DecisionReply(Reply):
    """The answers in the order of the questions."""

    model: str
    answers: list[PredicateAnswer | ChoiceAnswer | ScoreAnswer | RefusalAnswer]
    usage: DecisionUsage

    def to_json(self) -> bytes:
        return self.model_dump_json().encode()


class Noul(Reply):
    type: Literal["noul"] = "noul"
    noul: float


class NamedChoice(Reply):
    type: Literal["choice"] = "choice"
    choice: str
    probabilities: dict[str, float]
    confidence: float


class NamedScore(Reply):
    """Levels are named by their number from 0, as text."""

    type: Literal["score"] = "score"
    score: float
    legend: dict[str, str]
    probabilities: dict[str, float]
    confidence: float


class Diagnostics(Reply):
    """How probable all words that are answers were together, and whether one of them was the likeliest."""

    label_mass: float
    argmax_is_label: bool


class NamedUsage(Reply):
    input_tokens: int
    output_tokens: int
    cached_tokens: int


class SystemOneReply(Reply):
    id: str
    object: Literal["structured_decision"] = "structured_decision"
    created: int
    model: str
    answers: dict[str, Noul | NamedChoice | NamedScore]
    usage: NamedUsage
    diagnostics: dict[str, Diagnostics] = Field(default_factory=dict)

    def to_json(self) -> bytes:
        return self.model_dump_json().encode()


def decision_reply(model: str, answers: Sequence[Answer], reads: Reads, least_mass: float) -> DecisionReply:
    """OpenAI's reply; answers whose labels have less probability than `least_mass` are refusals."""
    usage = DecisionUsage(
        input_tokens=reads.num_prompt,
        input_tokens_details=InputDetails(cached_tokens=reads.num_cached),
        output_tokens=reads.num_output,
        output_tokens_details=OutputDetails(),
        total_tokens=reads.num_prompt + reads.num_output,
    )
    return DecisionReply(model=model, answers=[_answer(each, least_mass) for each in answers], usage=usage)


def _answer(
    answer: Answer, least_mass: float
) -> PredicateAnswer | ChoiceAnswer | ScoreAnswer | RefusalAnswer:
    question, shares = answer.question, answer.probabilities
    if shares is None or answer.label_mass < least_mass:
        return RefusalAnswer(name=question.name)
    if question.kind == "predicate":
        return PredicateAnswer(name=question.name, probability=shares[1])
    pairs = [*zip(question.options, shares, strict=True)]
    if question.kind == "choice":
        return ChoiceAnswer(
            name=question.name,
            choice=question.options[answer.best].value,
            confidence=answer.confidence,
            probabilities=[
                ChoiceProbability(value=option.value, probability=share) for option, share in pairs
            ],
        )
    levels = [
        LevelProbability(value=i, label=str(option.value), probability=share)
        for i, (option, share) in enumerate(pairs)
    ]
    return ScoreAnswer(
        name=question.name, score=answer.score, confidence=answer.confidence, probabilities=levels
    )


def named_answer(answer: Answer) -> Noul | NamedChoice | NamedScore:
    """An answer of System One, whose questions are all answered."""
    options, shares = answer.question.options, answer.probabilities or []
    if answer.question.kind == "predicate":
        return Noul(noul=shares[1])
    if answer.question.kind == "choice":
        named = {str(option.value): share for option, share in zip(options, shares, strict=True)}
        best = str(options[answer.best].value)
        return NamedChoice(choice=best, probabilities=named, confidence=answer.confidence)
    return NamedScore(
        score=answer.score,
        legend={str(i): str(option.value) for i, option in enumerate(options)},
        probabilities={str(i): share for i, share in enumerate(shares)},
        confidence=answer.confidence,
    )
