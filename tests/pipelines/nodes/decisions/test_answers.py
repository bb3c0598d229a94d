"""Probabilities as answers: confidence and scores."""

import math

import pytest

from pipelines.nodes.decisions.answers import Answer, log_sum, sigmoid, softmax
from pipelines.nodes.decisions.questions import AnswerOption, Question


def answer(kind, *shares):
    options = tuple(AnswerOption(str(i)) for i in range(len(shares)))
    return Answer(Question(kind, None, "questions.0", "?", options), [*shares])


@pytest.mark.parametrize(
    ("kind", "shares", "confidence"),
    [
        ("choice", (1.0, 0.0), 1),
        ("choice", (0.5, 0.5), 0),
        ("choice", (0.25, 0.75), 0.5),
        ("choice", (0.1, 0.7, 0.2), (0.7 - 1 / 3) / (2 / 3)),
        ("choice", (1.0,), 1),
        ("score", (0.0, 1.0, 0.0), 1),
        ("score", (1 / 3, 1 / 3, 1 / 3), 0),  # all levels as far from the first as they can be
        ("score", (0.0, 0.75, 0.25), 1 - 0.25 / (2 / 3)),
        ("score", (1.0,), 1),
    ],
)
def test_confidence(kind, shares, confidence):
    assert math.isclose(answer(kind, *shares).confidence, confidence, abs_tol=1e-12)


def test_a_score_is_the_mean_level():
    found = answer("score", 0.1, 0.45, 0.45)
    assert math.isclose(found.score, 1.35)
    assert found.best == 1


def test_shares_of_extreme_numbers():
    assert softmax([1000.0, 1000.0]) == [0.5, 0.5]
    assert softmax([-math.inf, -math.inf]) == [0.5, 0.5]
    assert softmax([0.0, -math.inf]) == [1.0, 0.0]
    assert (sigmoid(-1000.0), sigmoid(0.0), sigmoid(1000.0)) == (0.0, 0.5, 1.0)
    assert log_sum([]) == log_sum([-math.inf]) == -math.inf
    assert math.isclose(log_sum([math.log(0.2), math.log(0.3)]), math.log(0.5))
