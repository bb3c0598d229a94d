"""What tools say besides the usual JSON: words, numbers, unknown keys and errors, and what is made of it."""

from __future__ import annotations

import json
from collections.abc import Callable

from ..conversation import Expectation, contains
from ..split import Draw, words
from . import tables
from .invention import made_up_word, name_or_new

Answered = tuple[str, str, Expectation]
ERRORS = words(
    """not found, city not found, no such user, timeout, timed out, permission denied, invalid input,
    unknown error, rate limit exceeded, service unavailable, no results, bad request, connection refused,
    internal server error, missing parameter, not available""",
    "location not found, access denied, too many requests, server is down, invalid key",
)
STATES = words(
    "sunny, raining, cloudy, done, ok, closed, open, ready, unknown, empty, yes, no, true, snowing, full",
    "windy and cold, finished, available, sold out",
)
KEYS = words(
    "value, status, state, level, count, total, size, kind, mode, speed, weight, unit, humidity, wind, score",
    "height, rating, depth, phase",
)


def unusual_response(draw: Draw) -> Answered:
    """The tool's words, the model's sentence about them, and what it must hold."""
    return draw.weighted(_KINDS)(draw)


def _error(draw: Draw) -> Answered:
    """An error is reported as one."""
    error = draw.of(ERRORS)
    if not draw.held_out and draw.chance(0.3):
        error = f"{made_up_word(draw)} {draw.any(['not found', 'failed', 'is missing', 'is unknown'])}"
    response = draw.any(
        [
            f"Error: {error}",
            f"ERROR: {error}",
            f"error: {error}",
            json.dumps({"error": error}),
            json.dumps({"status": "error", "message": error}),
            json.dumps({"error": {"message": error}}),
        ]
    )
    return response, f"The tool failed: {error}.", contains("failed", error)


def _number(draw: Draw) -> Answered:
    number = str(
        draw.any([draw.number(0, 99), draw.number(0, 9999), f"{draw.number(0, 99)}.{draw.number(0, 9)}"])
    )
    return number, _says(number), contains(number)


def _words(draw: Draw) -> Answered:
    """A word or two, a state, or a sentence, which is repeated."""
    kind = draw.any(["state", "degrees", "sentence", "words", "name"])
    text = {
        "state": lambda: draw.of(STATES),
        "degrees": lambda: (
            f"{draw.number(-10, 38)} degrees and {draw.any(['sunny', 'cloudy', 'rainy', 'windy'])}"
        ),
        "sentence": lambda: f"It is {draw.of(STATES)}.",
        "words": lambda: " ".join(_word(draw) for _ in range(draw.number(1, 4))),
        "name": lambda: name_or_new(draw, tables.NAMES),
    }[kind]()
    return text, _says(text), contains(text.rstrip("."))


def _unknown_keys(draw: Draw) -> Answered:
    """An object whose keys the family does not know is read out, key by key."""
    keys = list(dict.fromkeys(_key(draw) for _ in range(draw.number(1, 3))))
    fields = {key: draw.number(0, 999) if draw.chance(0.5) else _word(draw) for key in keys}
    text = ", ".join(f"{key} {value}" for key, value in fields.items())
    return json.dumps(fields), _says(text), contains(*map(str, fields.values()))


def _says(text: str) -> str:
    return f"The tool says: {text}" + ("" if text.endswith(".") else ".")


def _key(draw: Draw) -> str:
    return made_up_word(draw) if not draw.held_out and draw.chance(0.5) else draw.of(KEYS)


def _word(draw: Draw) -> str:
    return made_up_word(draw) if not draw.held_out and draw.chance(0.5) else draw.of(tables.COMMON_WORDS)


_KINDS: dict[Callable[[Draw], Answered], float] = {_error: 4, _number: 2, _words: 4, _unknown_keys: 2}
