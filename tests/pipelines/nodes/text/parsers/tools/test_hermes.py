from call_pieces import parse
from every_case import every_case

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
OTHER = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'
WEATHER = ("get_weather", '{"city": "Paris"}')

TRANSCRIPTS = {
    "one call": (CALL, "", [WEATHER]),
    "two calls": (f"{CALL}\n{OTHER}", "", [WEATHER, ("get_time", "{}")]),
    "text before": (f"Let me look.\n\n{CALL}", "Let me look.", [WEATHER]),
    "text after": (f"{CALL}\nThat was it.", "\nThat was it.", [WEATHER]),
    "no call": ("It is 2 < 3.\n", "It is 2 < 3.\n", []),
    "no closing tag": (CALL.removesuffix("\n</tool_call>"), "", [WEATHER]),
    "half a closing tag": (CALL[:-3], "", [WEATHER]),
    "cut inside the arguments": (CALL[:58], "", [("get_weather", "{}")]),
    "cut before the arguments": (CALL[:40], CALL[:40], []),
    "a closing tag inside a string": (
        '<tool_call>{"name": "f", "arguments": {"a": "</tool_call>"}}</tool_call>',
        "",
        [("f", '{"a": "</tool_call>"}')],
    ),
    "a call inside what is none": (f"<tool_call>{CALL}", "<tool_call>", [WEATHER]),
    "no JSON": ("<tool_call>hello</tool_call>", "<tool_call>hello</tool_call>", []),
    "no name": ('<tool_call>{"arguments": {}}</tool_call>', '<tool_call>{"arguments": {}}</tool_call>', []),
    "arguments are a list": ('<tool_call>{"name": "f", "arguments": [1]}</tool_call>',) * 2 + ([],),
    "a tag inside a string": (
        '<tool_call>{"name": "f", "arguments": {"a": "<tool_call>"}}</tool_call>',
        "",
        [("f", '{"a": "<tool_call>"}')],
    ),
    "parameters for arguments": (
        '<tool_call>{"name": "f", "parameters": {"a": 1}}</tool_call>',
        "",
        [("f", '{"a": 1}')],
    ),
    "beyond ASCII": (
        '<tool_call>{"name": "f", "arguments": {"a": "Zürich"}}</tool_call>',
        "",
        [("f", '{"a": "Zürich"}')],
    ),
}


@every_case("name", TRANSCRIPTS)
def test_whole(name):
    text, content, calls = TRANSCRIPTS[name]
    assert parse("hermes", [text]) == (content, calls)


@every_case("name", TRANSCRIPTS)
def test_split_at_every_character(name):
    text, content, calls = TRANSCRIPTS[name]
    for at in range(len(text) + 1):
        assert parse("hermes", [text[:at], text[at:]]) == (content, calls), at


@every_case("name", TRANSCRIPTS)
def test_one_character_at_a_time(name):
    text, content, calls = TRANSCRIPTS[name]
    assert parse("hermes", list(text)) == (content, calls)


def test_deep_nesting_is_content_not_a_crash():
    text = "<tool_call>" + "[" * 100_000 + "</tool_call>"
    assert parse("hermes", [text]) == (text, [])
