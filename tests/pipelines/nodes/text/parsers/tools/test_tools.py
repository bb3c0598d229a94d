"""Every family's transcripts, whole, split at every character and cut at every character."""

import json
from random import Random

import pytest
from breadth import after
from call_pieces import joined, parse
from every_case import every_case
from newer_transcripts import CALLS as NEWER
from patience import least_cpu_s

from pipelines.nodes.text.parsers.tables import REASONING, TOOLS
from pipelines.nodes.text.parsers.tools.families import FAMILIES

WEATHER = ("get_weather", {"city": "Paris"})
TIME = ("get_time", {})
BOTH = [WEATHER, TIME]
NAMED = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
EMPTY = '{"name": "get_time", "arguments": {}}'
LIST = f"[{NAMED}, {EMPTY}]"
V3 = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{}\n```json\n{}\n```<｜tool▁call▁end｜>"
V31 = "<｜tool▁call▁begin｜>{}<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
CALLS = "<｜tool▁calls▁begin｜>{}<｜tool▁calls▁end｜>"
KIMI = "<|tool_call_begin|>functions.{}<|tool_call_argument_begin|>{}<|tool_call_end|>"
SECTION = "<|tool_calls_section_begin|>{}<|tool_calls_section_end|>"
PARIS = '{"city": "Paris"}'
QWEN = "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>"
QWEN_TIME = "<function=get_time>\n</function>"
GLM = "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>"
INVOKE = '<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n</invoke>'
PYTHON = "[get_weather(city='Paris'), get_time()]"

TRANSCRIPTS = [
    *NEWER,
    ("granite4", f"<tool_call>{NAMED}</tool_call>", "", [WEATHER]),
    ("ernie45", f"\n\n<tool_call>\n{NAMED}\n</tool_call>\n", "", [WEATHER]),
    (
        "longcat",
        f"<longcat_tool_call>{NAMED}</longcat_tool_call>\n<longcat_tool_call>{EMPTY}</longcat_tool_call>",
        "",
        BOTH,
    ),
    ("jamba", f"Let me see. <tool_calls>{LIST}</tool_calls>", "Let me see.", BOTH),
    ("hunyuan_a13b", f"<tool_calls>{LIST}</tool_calls>\n", "", BOTH),
    ("hunyuan_a13b", "<tool_calls>[]</tool_calls>", "<tool_calls>[]</tool_calls>", []),
    (
        "internlm",
        'So:\n<|action_start|><|plugin|>\n{"name": "get_weather", "parameters": {"city": "Paris"}}<|action_end|>\n',
        "So:",
        [WEATHER],
    ),
    ("internlm", "<|action_start|><|interpreter|>1+1", "<|action_start|><|interpreter|>1+1", []),
    ("llama3_json", '{"name": "get_weather", "parameters": {"city": "Paris"}}', "", [WEATHER]),
    ("llama3_json", f"<|python_tag|>{NAMED}; {EMPTY}", "", BOTH),
    ("llama3_json", f"Well.\n<|python_tag|>{NAMED}; {EMPTY};", "Well.", BOTH),
    ("llama3_json", f"{NAMED}; and so on", "; and so on", [WEATHER]),
    ("llama3_json", f"A {NAMED}", f"A {NAMED}", []),
    ("llama3_json", '{"name": "Bob", "age": 3}; ', '{"name": "Bob", "age": 3}; ', []),
    ("llama3_json", "<|python_tag|>print(1)", "<|python_tag|>print(1)", []),
    (
        "llama3_json",
        '{"name": "f", "parameters": {"a": "}\\"{", "b": {"c": []}}}',
        "",
        [("f", {"a": '}"{', "b": {"c": []}})],
    ),
    ("phi4_mini_json", f"functools{LIST}", "", BOTH),
    ("phi4_mini_json", f"Yes.\nfunctools {LIST} Done.", "Yes. Done.", BOTH),
    ("phi4_mini_json", "import functools\nx = functools.wraps", "import functools\nx = functools.wraps", []),
    ("granite", f"<|tool_call|> {LIST}", "", BOTH),
    ("granite", f"Well.\n<tool_call>{LIST}\nThat.", "Well.\nThat.", BOTH),
    ("granite-20b-fc", f"<function_call> {NAMED}\n<function_call> {EMPTY}", "", BOTH),
    ("mistral", f"[TOOL_CALLS]{LIST}", "", BOTH),
    ("mistral", f"Hello[TOOL_CALLS] {LIST}\nmore", "Hello\nmore", BOTH),
    ("mistral", f"[TOOL_CALLS]get_weather[ARGS]{PARIS}[TOOL_CALLS]get_time[ARGS]{{}}", "", BOTH),
    ("mistral", f"[TOOL_CALLS]get_weather{PARIS}[TOOL_CALLS]get_time{{}}", "", BOTH),
    ("mistral", f"[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]{PARIS}", "", [WEATHER]),
    ("mistral", "[TOOL_CALLS] not JSON at all\nmore", "[TOOL_CALLS] not JSON at all\nmore", []),
    ("xlam", LIST, "", BOTH),
    ("xlam", f"So:\n```json\n{LIST}\n```", "So:", BOTH),
    ("xlam", f"So.[TOOL_CALLS]{LIST}", "So.", BOTH),
    ("xlam", f"[TOOL_CALLS]{LIST}", "", BOTH),
    ("xlam", f"So.<tool_call>{LIST}</tool_call>", "So.", BOTH),
    ("xlam", "```json\n{}\n```", "```json\n{}\n```", []),
    ("xlam", "[1] A note.", "[1] A note.", []),
    ("deepseek_v3", CALLS.format(V3.format("get_weather", PARIS)), "", [WEATHER]),
    (
        "deepseek_v3",
        "Well." + CALLS.format(V3.format("get_weather", PARIS) + "\n" + V3.format("get_time", "{}")),
        "Well.",
        BOTH,
    ),
    (
        "deepseek_v3",
        CALLS.format(V31.format("get_time", "{}")),
        CALLS.format(V31.format("get_time", "{}")),
        [],
    ),
    ("deepseek_v31", CALLS.format(V31.format("get_weather", PARIS) + V31.format("get_time", "{}")), "", BOTH),
    ("deepseek_v31", CALLS.format("nothing"), CALLS.format("nothing"), []),
    (
        "kimi_k2",
        SECTION.format(KIMI.format("get_weather:0", PARIS) + KIMI.format("get_time:1", "{}")),
        "",
        BOTH,
    ),
    ("kimi_k2", "Hm. " + SECTION.format(KIMI.format("get_weather:0 ", PARIS)) + "\n", "Hm.", [WEATHER]),
    ("kimi_k2", SECTION.format(KIMI.format("f.0", "{}")), SECTION.format(KIMI.format("f.0", "{}")), []),
    (
        "openai",
        f"<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{PARIS}",
        "",
        [WEATHER],
    ),
    (
        "openai",
        f"<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{PARIS}<|call|>"
        "<|start|>assistant to=functions.get_time<|channel|>commentary json<|message|>{}<|call|>",
        "",
        BOTH,
    ),
    (
        "openai",
        "<|channel|>commentary to=functions.f<|message|>1<|call|>",
        "<|channel|>commentary to=functions.f<|message|>1<|call|>",
        [],
    ),
    ("qwen3_coder", f"Well.\n<tool_call>\n{QWEN}\n</tool_call>", "Well.", [WEATHER]),
    (
        "qwen3_xml",
        f"<tool_call>\n{QWEN}\n</tool_call>\n<tool_call>\n{QWEN_TIME}\n</tool_call>\nDone.",
        "\n\nDone.",
        BOTH,
    ),
    ("qwen3_coder", f"{QWEN}\n</tool_call>", "", [WEATHER]),
    ("qwen3_coder", "<tool_call>\nhello\n</tool_call>", "<tool_call>\nhello\n</tool_call>", []),
    (
        "qwen3_coder",
        "<function=f><parameter=code>\nif a < b:\n    pass\n\n</parameter></function>",
        "",
        [("f", {"code": "if a < b:\n    pass\n"})],
    ),
    (
        "seed_oss",
        "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n</function>\n</seed:tool_call>",
        "",
        [WEATHER],
    ),
    ("glm45", f"Well.\n{GLM}\n<tool_call>get_time\n</tool_call>", "Well.", BOTH),
    ("glm47", GLM.replace("\n", ""), "", [WEATHER]),
    ("glm45", "<tool_call>a b c</tool_call>", "<tool_call>a b c</tool_call>", []),
    (
        "minimax_m2",
        f'Well.\n<minimax:tool_call>\n{INVOKE}\n<invoke name="get_time">\n</invoke>\n</minimax:tool_call>',
        "Well.",
        BOTH,
    ),
    ("pythonic", PYTHON, "", BOTH),
    ("pythonic", "[1] A note.", "[1] A note.", []),
    ("pythonic", f"A {PYTHON}", f"A {PYTHON}", []),
    (
        "pythonic",
        "[f(a=-1.5, b=None, c=true, d={'x': [1, false]}, e='it\\'s ]', g=\"\\d\")]",
        "",
        [("f", {"a": -1.5, "b": None, "c": True, "d": {"x": [1, False]}, "e": "it's ]", "g": "\\d"})],
    ),
    ("pythonic", "[f(1)]", "[f(1)]", []),
    ("pythonic", "[f(**{})]", "[f(**{})]", []),
    ("pythonic", "[f(a=open('x'))]", "[f(a=open('x'))]", []),
    ("pythonic", "[f(a=1e999)]", "[f(a=1e999)]", []),
    ("pythonic", "[f(a=b'x')]", "[f(a=b'x')]", []),
    ("pythonic", "[calendar.events.add(day=1)]", "", [("calendar.events.add", {"day": 1})]),
    ("llama4_pythonic", f"<|python_start|>{PYTHON}<|python_end|>", "", BOTH),
    ("llama4_pythonic", f"Well. <|python_start|>{PYTHON}<|python_end|>", "Well.", BOTH),
    ("llama4_pythonic", PYTHON, "", BOTH),
    ("llama4_pythonic", "<|python_start|>hello<|python_end|>", "<|python_start|>hello<|python_end|>", []),
    ("olmo3", "<function_calls>get_weather(city='Paris')\nget_time()</function_calls>", "", BOTH),
    ("olmo3", "Well.\n<function_calls>\nget_weather(city='Paris')\n</function_calls>", "Well.", [WEATHER]),
    ("olmo3", "<function_calls>a b</function_calls>", "<function_calls>a b</function_calls>", []),
    ("lfm2", f"<|tool_call_start|>{PYTHON}<|tool_call_end|>Done.", "Done.", BOTH),
    (
        "functiongemma",
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>"
        "<start_function_call>call:get_time{}<end_function_call>",
        "",
        BOTH,
    ),
    (
        "functiongemma",
        "<start_function_call>call:f{a:<escape>x, {y}<escape>,n:-4.5,t:true,l:[1,{k:<escape><escape>}]}<end_function_call>",
        "",
        [("f", {"a": "x, {y}", "n": -4.5, "t": True, "l": [1, {"k": ""}]})],
    ),
    (
        "functiongemma",
        "<start_function_call>call:f{a:b:c}<end_function_call>",
        "",
        [("f", {"a": "b:c"})],
    ),
    ("gemma4", 'Well. <|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>', "Well.", [WEATHER]),
    ("gemma4", '<|tool_call>call:f{<|"|>a<|"|>:1 , b:[]}<tool_call|>', "", [("f", {"a": 1, "b": []})]),
]
TRANSCRIPTS += [(name, "It is 2 < 3 [1] {x}.\n", "It is 2 < 3 [1] {x}.\n", []) for name in TOOLS]
NAMES = [f"{name}-{at}" for at, (name, *_) in enumerate(TRANSCRIPTS)]


def calls_of(name, text, tools=()):
    parser = TOOLS[name](tools)
    return [piece for piece in parser.push(text, final=True)[1] if piece.name]


@every_case(("name", "text", "content", "calls"), TRANSCRIPTS)
def test_whole(name, text, content, calls):
    shown, found = parse(name, [text])
    assert (shown, [(name, json.loads(arguments)) for name, arguments in found]) == (content, calls)
    assert parse(name, list(text)) == (shown, found)


@pytest.mark.slow
@every_case(("name", "text", "content", "calls"), TRANSCRIPTS)
def test_split_at_every_character(name, text, content, calls):
    whole = parse(name, [text])
    for at in range(len(text) + 1):
        assert parse(name, [text[:at], text[at:]]) == whole, at


def begins(cut, whole):
    """Whether a value is the beginning of another one: its last member or item may be cut."""
    if isinstance(cut, dict | list) and type(cut) is type(whole):
        pairs = zip(
            *(list(value.items() if isinstance(value, dict) else value) for value in (cut, whole)),
            strict=False,
        )
        *others, (last, of) = list(pairs) or [("", "")]
        return (
            len(cut) <= len(whole) and all(ours == other for ours, other in others) and _last_begins(last, of)
        )
    return str(whole).startswith(str(cut))


def _last_begins(last, of):
    return last[0] == of[0] and begins(last[1], of[1]) if isinstance(last, tuple) else begins(last, of)


@pytest.mark.slow
@pytest.mark.parametrize("step", after(1, [5, 1]))
@every_case(("name", "text", "content", "calls"), TRANSCRIPTS)
def test_cut_at_every_character(name, text, content, calls, step):
    """What is found in the beginning of a text is a beginning of what is found in all of it, or content."""
    whole = parse(name, [text])[1]
    for at in range(len(text), -1, -step):
        shown, calls_found = parse(name, [text[:at]])
        assert parse(name, list(text[:at])) == (shown, calls_found), at
        assert [name for name, _ in calls_found] == [name for name, _ in whole[: len(calls_found)]], at
        values = [
            (json.loads(arguments), json.loads(whole[i][1])) for i, (_, arguments) in enumerate(calls_found)
        ]
        assert all(begins(*pair) for pair in values), at
        assert all(arguments == whole[i][1] for i, (_, arguments) in enumerate(calls_found[:-1])), at
        if not calls_found:
            assert shown == text[:at]


PARTS = "<function=f><parameter=a>1</parameter>"
BROKEN = [
    # a call begins with its name and arguments; what is no JSON after that is mended, or ends the arguments
    ("hermes", '<tool_call>{"name": "f", "arguments": {oops</tool_call> So.', "oops So.", [("f", "{}")]),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>', "", [("f", '{"a": "NaN"}')]),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": [1}}</tool_call>', "", [("f", '{"a": [1]}')]),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": "x', "", [("f", '{"a": "x"}')]),
    ("mistral", '[TOOL_CALLS]f{"a": {"b": 1', "", [("f", '{"a": {"b": 1}}')]),
    # what follows the arguments and is not the end of their block is content, without the closing marker
    ("hermes", '<tool_call>{"name": "f", "arguments": {}} So.</tool_call>', " So.", [("f", "{}")]),
    ("hermes", '<tool_call>{"name": "f", "arguments": {} So.}</tool_call>', " So.}", [("f", "{}")]),
    ("hermes", '<tool_call>{"name": "f", "arguments": {}, "id": 3}</tool_call>', "", [("f", "{}")]),
    ("hermes", '<tool_call>{"name": "f", "arguments": {}, "id', "", [("f", "{}")]),
    ("hermes", '<tool_call>{"name": "f", "arguments": {}}</tool', "", [("f", "{}")]),
    ("jamba", f'<tool_calls>[{EMPTY}, {{"name": 1}}]</tool_calls>', '{"name": 1}]', [("get_time", "{}")]),
    ("jamba", f"<tool_calls>[{EMPTY}, 3]</tool_calls>", "3]", [("get_time", "{}")]),
    ("jamba", f'<tool_calls>[{EMPTY}, {{"na', '{"na', [("get_time", "{}")]),
    ("deepseek_v31", V31.format("f", "{} and") + "So.", " andSo.", [("f", "{}")]),
    ("deepseek_v3", V3.format("f", "{}").removesuffix("```<｜tool▁call▁end｜>"), "", [("f", "{}")]),
    # parameters in tags: one that is cut ends with the text
    ("qwen3_coder", f"{PARTS}<parameter=b>2", "", [("f", '{"a": 1, "b": 2}')]),
    ("qwen3_coder", f"{PARTS}</func", "", [("f", '{"a": 1}')]),
    ("qwen3_coder", f"{PARTS} x</function> y", " x y", [("f", '{"a": 1}')]),
    ("qwen3_coder", "<function=f> x</function>", "<function=f> x</function>", []),
    ("qwen3_coder", "<function=f> x</parameter> y", "<function=f> x</parameter> y", []),
    ("glm45", GLM.removesuffix("</tool_call>"), "", [("get_weather", '{"city": "Paris"}')]),
    # Python: calls are whole or none
    ("pythonic", "[f(a=1), 3]", "3]", [("f", '{"a": 1}')]),
    ("pythonic", "[f(a=1), g(b=", "g(b=", [("f", '{"a": 1}')]),
    ("lfm2", "<|tool_call_start|>[f(a=1)] x<|tool_call_end|>", " x", [("f", '{"a": 1}')]),
    ("olmo3", "<function_calls>f(a=1)\nnot one</function_calls>", "not one", [("f", '{"a": 1}')]),
]


@every_case(("name", "text", "content", "calls"), BROKEN)
def test_what_goes_wrong_in_a_call_is_lost_nowhere(name, text, content, calls):
    assert parse(name, [text]) == (content, calls)
    assert parse(name, list(text)) == (content, calls)
    for at in range(len(text) + 1):
        assert parse(name, [text[:at], text[at:]]) == (content, calls), at


FIRST = [
    ("hermes", '<tool_call>{"name": "f", "arguments": {', '"a": 1}}</tool_call>', "{"),
    ("jamba", '<tool_calls>[{"id": {"x": 1}, "name": "f", "parameters": {"a"', ": 1}}]", "{"),
    ("llama3_json", '{"name": "f", "parameters": {"a": "b', '"}}', '{"a": "b'),
    ("mistral", "[TOOL_CALLS]f{", "}", "{"),
    ("kimi_k2", "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{", "}", "{"),
    ("deepseek_v3", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{", "}", "{"),
    ("openai", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{", "}", "{"),
    ("qwen3_coder", "<function=f><parameter=a>1</parameter>", "</function>", '{"a": 1'),
    ("glm45", "<tool_call>f\n<arg_key>a</arg_key><arg_value>1</arg_value>", "</tool_call>", '{"a": 1'),
    ("pythonic", "[f(a=1),", "g()]", '{"a": 1}'),
]


@every_case(("name", "early", "late", "arguments"), FIRST)
def test_a_call_is_shown_as_soon_as_it_is_certain(name, early, late, arguments):
    parser = TOOLS[name]()
    assert parser.push(early[:-1])[1] == [] or name == "jamba" or name == "llama3_json"
    parser = TOOLS[name]()
    assert joined(parser.push(early)[1]) == [("f", arguments)]
    assert [piece.name for piece in parser.push(late)[1]][:1] in ([None], ["g"], [])


TYPED = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {"properties": {"s": {"type": "string"}, "n": {"type": "integer"}}},
        },
    }
]


TEXTS = {
    "qwen3_coder": ("<function=f><parameter=s>\n", "\n</parameter></function>"),
    "seed_oss": ("<function=f><parameter=s>\n", "\n</parameter></function>"),
    "glm45": ("<tool_call>f<arg_key>s</arg_key><arg_value>\n", "\n</arg_value></tool_call>"),
    "minimax_m2": ('<invoke name="f"><parameter name="s">\n', "\n</parameter></invoke>"),
}


@every_case("name", TEXTS)
@every_case("value", ['if a < b:\n\t"x\\"\n\né', "", "\n", "</par", "12"])
def test_declared_text_is_given_out_as_it_comes(name, value):
    begin, end = TEXTS[name]
    whole = [("f", json.dumps({"s": value}, ensure_ascii=False))]
    for pieces in ([begin + value + end], list(begin + value + end), [begin, value, end]):
        assert parse(name, pieces, TYPED) == ("", whole)
    parser = TOOLS[name](TYPED)
    parser.push(begin)
    assert [piece.arguments for piece in parser.push("one two ")[1]] == ["one two "]
    cut = joined(TOOLS[name](TYPED).push(begin + "one", final=True)[1])
    assert cut == [("f", '{"s": "one"}')]


def test_arguments_before_the_name_wait_for_it():
    text = '<tool_call>{"arguments": {"a":  1}, "name": "f"}</tool_call>'
    parser = TOOLS["hermes"]()
    assert parser.push(text[:-14])[1] == []
    assert joined(parser.push(text[-14:], final=True)[1]) == [("f", '{"a":  1}')]


def test_arguments_may_be_an_object_in_text():
    text = '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>'
    assert parse("hermes", list(text)) == ("", [("f", '{"a": 1}')])


def test_arguments_are_passed_on_as_they_are_written():
    written = '{"a":1,  "b" : "\\u00e9\\n</tool_call>"}'
    text = f'<tool_call>{{"name": "f", "arguments": {written}}}</tool_call>'
    assert parse("hermes", list(text)) == ("", [("f", written)])


def test_every_family_has_a_transcript():
    assert {name for name, _, _, calls in TRANSCRIPTS if calls} | {"hermes"} == set(TOOLS)


@every_case(("name", "text", "content", "calls"), TRANSCRIPTS)
def test_calls_are_shown_when_their_block_is_whole(name, text, content, calls):
    """Nothing waits for the end of the text."""
    found = joined(TOOLS[name]().push(text)[1])
    assert [(name, json.loads(arguments)) for name, arguments in found] == calls


@pytest.mark.slow
@every_case("name", TOOLS)
@every_case("body", ["[" * 20_000, "{" * 20_000, '{"a":' * 5_000, "f(" * 10_000, "-" * 20_000])
def test_deep_nesting_is_content_not_a_crash(name, body):
    block = FAMILIES[name].blocks[0]
    text = block.open + body + block.close
    assert parse(name, [text]) == (text, [])


def push_all(parser, text):
    for char in text:
        parser.push(char)
    parser.push("", final=True)


@pytest.mark.slow
@every_case("name", TOOLS)
def test_long_texts_in_single_characters_take_linear_time(name):
    block = FAMILIES[name].blocks[0]
    for text in ("x" * 2_000, block.open + '{"a": "' + "x" * 2_000, block.open + "{" + " " * 2_000):
        taken_s = least_cpu_s(lambda text=text: push_all(TOOLS[name](), text), 0.1)
        assert taken_s < 0.1  # quadratic: a quarter of a second


@pytest.mark.slow
@every_case("name", TOOLS)
@every_case(
    "body",
    [
        " " * 20_000,
        "f" * 20_000,
        "f" + " " * 20_000,
        "f>" + "<parameter=" * 2_000,
        "f<arg_key></arg_key>" * 1_000,
    ],
)
def test_no_block_is_slow_to_read(name, body):
    for block in FAMILIES[name].blocks:
        text = block.open + body + "\n" + block.close
        assert least_cpu_s(lambda text=text: TOOLS[name]().push(text, final=True), 0.5) < 0.5


PIECES = [
    *"{}[]\"\\,:;()'<x1 \n",
    *("f", "```", "</", "<|", "NaN", "[ARGS]", "[CALL_ID]abc", "a:1", "call:f{", "f(a=1)", "functions.f:0"),
    *(
        '"name": "f"',
        '"arguments": {',
        '"arguments"',
        '"parameters": {"a": 1}',
        '{"name": "f", "arguments": {"a": "b"}}',
    ),
    *(
        "<parameter=a>",
        "</parameter>",
        "f>",
        '"f">',
        '<parameter name="a">',
        "<arg_key>k</arg_key>",
        "<arg_value>1",
    ),
    *(
        "</arg_value>",
        "<|message|>",
        "<|tool_call_argument_begin|>",
        "f<｜tool▁sep｜>",
        "x<｜tool▁sep｜>f\n```json\n",
    ),
]


@pytest.mark.parametrize("num_texts", after(1, [15, 1000]))
@every_case("name", TOOLS)
def test_no_split_of_a_random_text_changes_what_is_found(name, num_texts):
    """Marks and pieces of calls in any order: the same is found however they come, and no call loses no text."""
    random, family = Random(name), FAMILIES[name]
    strings = {"properties": {"a": {"type": "string"}, "k": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": strings}}]
    marks = [
        *family.before,
        *family.after,
        *(mark for b in family.blocks for mark in (b.open, b.close) if mark),
    ]
    for _ in range(num_texts):
        text = "".join(random.choice(PIECES + marks * 4) for _ in range(random.randint(1, 20)))
        at = random.randint(0, len(text))
        whole = parse(name, [text], tools)
        assert parse(name, list(text), tools) == whole, text
        assert parse(name, [text[:at], text[at:]], tools) == whole, text
        assert whole[1] or whole[0] == text, text


def test_reasoning_and_calls_of_gpt_oss_together():
    text = (
        "<|channel|>analysis<|message|>Two.<|end|><|start|>assistant<|channel|>commentary<|message|>Look.<|end|>"
        f"<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{PARIS}"
    )
    for at in range(len(text) + 1):
        thinks, finds = REASONING["openai_gptoss"](""), TOOLS["openai"]()
        halves = [thinks.push(text[:at]), thinks.push(text[at:], final=True)]
        shown = [finds.push(halves[0][1]), finds.push(halves[1][1], final=True)]
        assert "".join(reasoning for reasoning, _ in halves) == "Two."
        assert "".join(content for content, _ in shown) == "Look."
        assert joined(piece for _, pieces in shown for piece in pieces) == [("get_weather", PARIS)]


def test_kimi_s_calls_keep_their_ids():
    text = SECTION.format(KIMI.format("get_time:7", "{}"))
    assert [call.id for call in calls_of("kimi_k2", text)] == ["functions.get_time:7"]


def test_mistral_s_ids_are_nine_letters_and_digits():
    (call,) = calls_of("mistral", "[TOOL_CALLS]f[ARGS]{}")
    assert len(call.id) == 9
    assert call.id.isalnum()
    (call,) = calls_of("mistral", "[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{}")
    assert call.id == "abcdefghi"


@every_case(
    ("name", "text"),
    [
        (
            "qwen3_coder",
            "<function=f><parameter=s>1</parameter><parameter=n>1</parameter><parameter=u>[1]</parameter></function>",
        ),
        (
            "glm45",
            "<tool_call>f<arg_key>s</arg_key><arg_value>1</arg_value><arg_key>n</arg_key><arg_value>1</arg_value>"
            "<arg_key>u</arg_key><arg_value>[1]</arg_value></tool_call>",
        ),
        (
            "minimax_m2",
            '<invoke name="f"><parameter name="s">1</parameter><parameter name="n">1</parameter>'
            '<parameter name="u">[1]</parameter></invoke>',
        ),
        (
            "functiongemma",
            "<start_function_call>call:f{s:<escape>1<escape>,n:<escape>1<escape>,u:[1]}<end_function_call>",
        ),
    ],
)
def test_values_have_the_types_that_were_declared(name, text):
    assert parse(name, [text], TYPED) == ("", [("f", '{"s": "1", "n": 1, "u": [1]}')])
