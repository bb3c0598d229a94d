"""Whatever a model writes: every parser of the tables, whole, in single characters and in random pieces."""

import json
from random import Random

import pytest
from call_pieces import joined
from every_case import every_case
from newer_transcripts import CALLS as NEWER
from test_tools import TRANSCRIPTS

from pipelines.nodes.text.parsers.tables import REASONING, TOOLS
from pipelines.nodes.text.parsers.tools.calls import CallFinder
from pipelines.nodes.text.parsers.tools.families import FAMILIES
from pipelines.nodes.text.parsers.tools.forced import PLAIN, ArgumentsOf
from pipelines.nodes.text.parsers.tools.model_json import ModelJson

pytestmark = pytest.mark.slow

CALLS = {}
for _name, _text, _, _calls in [*TRANSCRIPTS, *NEWER]:
    if _calls and "Paris" in _text:
        CALLS.setdefault(_name, []).append(_text)
CALLS["hermes"] = CALLS["granite4"]
VALUES = [
    *("\\ud83d", "\\ude00 \\ud83d\\ud83d", "\ufffd", "\0", "\\u0000", "\x1f\x7f\u2028", "\\", "\\u12", "\\d"),
    *('"', "'", "\n", "}", "]", "{", "[" * 200, "{" * 200, "9" * 5_000, "-", "null", "True", "1e999", "NaN"),
    *('"}', '", "a": 1, "a": 2', "<|", "</", ",", ":", "`", "|", "😀", "\u200d", "Paris, \\"),
]
QUOTED = ("'Paris'", '"Paris"', "Paris")
STRINGS = {"properties": {"city": {"type": "string"}, "a": {"type": "integer"}}}
TOOL_LISTS = [[], [{"type": "function", "function": {"name": "get_weather", "parameters": STRINGS}}]]


def finite(text):
    raise AssertionError(f"{text} is no number of JSON")


def read(text):
    """The value of arguments as the strictest of clients reads it."""
    text.encode()
    value = json.loads(text, parse_constant=finite)
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


def pieces_of(text, random):
    ends = sorted(random.choices(range(len(text) + 1), k=4))
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


def found(parser, texts):
    out = [parser.push(text) for text in texts] + [parser.push("", final=True)]
    return "".join(text for text, _ in out), joined(piece for _, calls in out for piece in calls)


def check(make, text, random):
    """Every way to push a text finds the same, of which every part can be sent."""
    content, calls = whole = found(make(), [text])
    assert found(make(), list(text)) == whole
    assert found(make(), pieces_of(text, random)) == whole
    content.encode()
    for name, arguments in calls:
        name.encode()
        assert isinstance(read(arguments), dict)
    assert calls or content == text
    return whole


@every_case("name", CALLS)
def test_half_of_a_call_is_no_content_where_a_limit_cuts_it(name):
    """The calls are the same as of a reply that ends there, and content is what is said before markers."""
    markers = [block.open for block in FAMILIES[name].blocks if not block.bare] + [*FAMILIES[name].before]
    for text in CALLS[name]:
        for end in Random(text).sample(range(len(text) + 1), min(12, len(text))):
            parsers = [TOOLS[name](TOOL_LISTS[1]) for _ in range(3)]
            ended = parsers[0].push(text[:end], final=True)
            whole = parsers[1].push(text[:end], final=True, is_cut=True)
            pieces = [parsers[2].push(char) for char in text[:end]]
            pieces.append(parsers[2].push("", final=True, is_cut=True))
            assert joined(whole[1]) == joined(ended[1])
            assert ended[0].startswith(whole[0])
            assert "".join(content for content, _ in pieces) == whole[0]
            assert not any(marker in whole[0] for marker in markers)
            if not any(marker in text[:end] for marker in markers) and not ended[1]:
                assert whole[0] == ended[0]


def hostile(name, random, values, count):
    """Calls of a family with values, with or without their quotes, and `count` damaged ones."""
    marks = [mark for each in FAMILIES[name].blocks for mark in (each.open, each.close)]
    marks += [*FAMILIES[name].before, *FAMILIES[name].after, *VALUES[:12]]
    for value in values:
        text = random.choice(CALLS[name])
        quoted = random.choice([each for each in QUOTED if each in text])
        yield text.replace(random.choice([quoted, "Paris"]), value, 1)
    for _ in range(count):
        yield damaged(random.choice(CALLS[name]), random, marks)


def damaged(text, random, marks):
    """A text with parts taken out, doubled and put in."""
    for _ in range(random.randint(1, 3)):
        start, end = sorted(random.choices(range(len(text) + 1), k=2))
        end = min(end, start + 12)
        text = random.choice(
            [
                text[:start] + text[end:],
                text[:end] + text[start:],
                text[:start] + random.choice(marks) + text[start:],
                text[:end],
            ]
        )
    return text


@every_case("name", TOOLS)
def test_arguments_are_one_object_of_valid_json(name):
    random = Random(name)
    for text in hostile(name, random, random.sample(VALUES, 15), 6):
        tools = random.choice(TOOL_LISTS)
        check(lambda tools=tools: TOOLS[name](tools), text, random)


@pytest.mark.breadth
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", TOOLS)
def test_arguments_are_one_object_of_valid_json_for_many_texts(name, seed):
    random = Random(f"{name} {seed}")
    for text in hostile(name, random, VALUES, 200):
        check(lambda: TOOLS[name](TOOL_LISTS[seed % 2]), text, random)


@every_case("name", TOOLS)
def test_no_marker_of_a_read_call_is_content(name):
    """A value that a string can hold costs neither the call nor anything around it."""
    for text in CALLS[name]:
        for value in ("Zürich", "a b", "😀", "1"):
            content, calls = found(TOOLS[name](), [text.replace("Paris", value)])
            assert (content, len(calls)) == (
                found(TOOLS[name](), [text])[0],
                len(found(TOOLS[name](), [text])[1]),
            )


@every_case("text", ['{"city": "Paris"}', '{"a": [1, {"b": null}], "c": "x"}'])
def test_forced_calls(text):
    random = Random(text)
    for value in VALUES:
        for mutated in (
            text.replace('"Paris"', value),
            text.replace("null", value),
            text.replace("x", value),
        ):
            content, calls = found(ArgumentsOf("f"), [mutated])
            assert (content, calls) == found(ArgumentsOf("f"), list(mutated))
            assert isinstance(read(calls[0][1]), dict)
            check(lambda: CallFinder(PLAIN), f'[{{"name": "f", "parameters": {mutated}}}]', random)
    for at in range(1, len(text)):
        ((_, arguments),) = found(ArgumentsOf("f"), [text[:at]])[1]
        assert isinstance(read(arguments), dict)


def random_json(random, depth=0):
    kind = random.randrange(8 if depth < 4 else 6)
    if kind == 6:
        return [random_json(random, depth + 1) for _ in range(random.randrange(4))]
    if kind == 7:
        return {random.choice('ab\n"é😀'): random_json(random, depth + 1) for _ in range(random.randrange(4))}
    return random.choice(
        [
            None,
            True,
            False,
            random.randint(-99, 99),
            random.random() * 1e9,
            "".join(random.choices("a\"'\\\n\0é😀,{}[]: ", k=9)),
        ]
    )


@pytest.mark.parametrize("seed", range(20))
def test_json_passes_unchanged_and_its_beginnings_are_closed(seed):
    random = Random(seed)
    value = {"a": random_json(random), "b": random_json(random)}
    for ascii in (False, True):
        text = json.dumps(value, ensure_ascii=ascii, indent=random.choice([None, 2]))
        writer = ModelJson()
        assert writer.push(text + "rest") == "rest"
        assert writer.take() == text
        for at in range(1, len(text)):
            writer = ModelJson()
            assert writer.push(text[:at]) is None
            writer.finish()
            assert isinstance(read(writer.take()), dict)


CHANNELS = [
    *("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>", "<|constrain|>", "analysis"),
    *("final", "commentary", "assistant", " to=functions.f", " to=python", " to=assistant", "??", "json", "{}"),
]  # fmt: skip
MARKS = [*"\n ", "think", "text", "<think>", "</think>", "<tool_call>", "<|tool_call>", "[THINK]", "[/THINK]"]
MARKS += [
    "<seed:think>",
    "</seed:think>",
    "<|channel>thought",
    "<channel|>",
    "<response>",
    "</response>",
    "<answer>",
]


@every_case("name", REASONING)
def test_reasoning_is_the_same_in_all_pieces(name):
    """No character is given twice, and without markers none is lost."""
    random, marks = Random(name), CHANNELS if name == "openai_gptoss" else MARKS
    for _ in range(100):
        text = "".join(random.choice(marks) for _ in range(random.randint(1, 14)))
        whole = split(name, [text])
        assert split(name, list(text)) == split(name, pieces_of(text, random)) == whole, text
        assert sum(map(len, whole)) <= len(text)
        assert not any(mark in whole[1] for mark in CHANNELS[:3]) or "to=functions" in text


def split(name, texts):
    parser = REASONING[name]("")
    out = [parser.push(text) for text in texts] + [parser.push("", final=True)]
    return "".join(thought for thought, _ in out), "".join(said for _, said in out)
