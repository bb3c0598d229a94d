"""OpenVINO Model Server's validation rules for speech bodies, with its error texts."""

from __future__ import annotations

from server.dialects.dialect import Body
from server.dialects.rules import Rule, number, text, within

SPEECH: list[Rule] = [
    Rule("input", text, "input field is not a string", null=True),
    Rule("voice", text, "voice field is not a string", null=True),
    Rule("language", text, "language field is not a string", null=True),
    Rule("speed", number, "speed field is not a number", null=True),
    Rule("speed", within(0.25, 4), "speed must be between speed_min (0.25) and speed_max (4)"),
]
SPEECH_TOGETHER: list[Rule] = [
    Rule("input", lambda body: "input" in body, "input field is missing in JSON body"),
]


def transform_speech(body: Body) -> Body:
    """The reply is WAV unless the request names another format."""
    return {**body, "response_format": body.get("response_format") or "wav"}
