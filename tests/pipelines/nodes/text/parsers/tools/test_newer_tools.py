"""Calls of newer families that are cut, and values whose types the tool declares."""

import json

import pytest
from call_pieces import parse
from newer_transcripts import DSML, PARAM

TOOLS = [
    {
        "function": {
            "name": "f",
            "parameters": {
                "properties": {
                    "text": {"type": "string"},
                    "count": {"type": "integer"},
                    "items": {"type": "array"},
                }
            },
        }
    }
]
VALUES = {"text": "3", "count": 3, "items": [1, {"a": "b"}]}
WRITTEN = {key: value if isinstance(value, str) else json.dumps(value) for key, value in VALUES.items()}


def invoked(mark: str) -> str:
    parameters = "".join(
        f'<{mark}parameter name="{key}">{value}</{mark}parameter>\n' for key, value in WRITTEN.items()
    )
    return f'<{mark}invoke name="f">\n{parameters}</{mark}invoke>'


ELEMENTS = "".join(f'<param name="{key}">{value}</param>' for key, value in WRITTEN.items())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deepseek_v32", invoked(DSML)),
        ("deepseek_v4", invoked(DSML)),
        ("muse_glimmer", invoked("atem:")),
        ("step3", invoked("steptml:")),
        ("minicpm5", f'<function name="f">{ELEMENTS}</function>'),
    ],
)
def test_values_have_the_types_that_the_tool_declares(name, text):
    for pieces in ([text], list(text)):
        content, ((called, arguments),) = parse(name, pieces, TOOLS)
        assert (content, called, json.loads(arguments)) == ("", "f", VALUES)


@pytest.mark.parametrize(
    ("name", "text", "arguments"),
    [
        ("apertus", '<|tools_prefix|>[{"f": {"city": "Paris"}}]', {"city": "Paris"}),
        ("apertus", '<|tools_prefix|>[{"f": {"city": "Paris"}}]<|tools_', {"city": "Paris"}),
        ("minicpm5", PARAM.format("Paris").removesuffix("</function>"), {"city": "Paris"}),
        ("minicpm5", PARAM.format("Paris").removesuffix("ction>"), {"city": "Paris"}),
    ],
)
def test_a_call_without_its_closing_marker_is_made_at_the_end(name, text, arguments):
    for pieces in ([text], list(text)):
        content, ((_, found),) = parse(name, pieces)
        assert (content, json.loads(found)) == ("", arguments)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("apertus", '<|tools_prefix|>[{"f": {"city": "Par'),
        ("minicpm5", '<function name="f">'),
        ("minicpm5", '<function name="f"><param name="city"><![CDATA[</param></function>'),
    ],
)
def test_what_is_cut_inside_of_a_call_is_content(name, text):
    assert parse(name, [text]) == parse(name, list(text)) == (text, [])


def test_many_sections_of_cdata_take_no_time_that_doubles():
    text = '<function name="f"><param name="a">' + "<![CDATA[x]]>" * 2000 + "</function>"
    assert parse("minicpm5", [text]) == (text, [])
