"""The usual slips of models in calls: the call is made, with arguments that are JSON, and markup is no content."""

import json

from call_pieces import parse
from every_case import every_case

from pipelines.nodes.text.parsers.tables import REASONING, TOOLS

LARGEST = 1.7976931348623157e308

TYPES = {
    **{key: {"type": "string"} for key in ("s", "note")},
    "n": {"type": "integer"},
    "tags": {"type": "array"},
}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"properties": TYPES}}}
OTHER = {"type": "function", "function": {"name": "get_weather"}}

FUNCTION = ("<tool_call>\n<function=f>\n", "</function>\n</tool_call>")
SEED = ("<seed:tool_call>\n<function=f>\n", "</function>\n</seed:tool_call>")
MINIMAX = ('<minimax:tool_call>\n<invoke name="f">\n', "</invoke>\n</minimax:tool_call>")
GLM = ("<tool_call>f\n", "</tool_call>")
TAGGED = {
    **dict.fromkeys(("qwen3_coder", "qwen3_xml"), (FUNCTION, "<parameter={}>\n", "\n</parameter>\n")),
    "seed_oss": (SEED, "<parameter={}>", "</parameter>\n"),
    "minimax_m2": (MINIMAX, '<parameter name="{}">', "</parameter>\n"),
    **dict.fromkeys(("glm45", "glm47"), (GLM, "<arg_key>{}</arg_key>\n<arg_value>", "</arg_value>\n")),
}


def slips_in_tags():
    """(parser, text, arguments of each call)."""
    for name, ((begin, end), key, close) in TAGGED.items():
        s, n, u, marker = key.format("s"), key.format("n"), key.format("u"), close.strip()
        call_end = end.split("\n")[0]
        yield name, f"{begin}{s}missing end\n{end}", [{"s": "missing end"}]
        yield name, f"{begin}{n}5\n{end}", [{"n": 5}]
        yield name, f"{begin}{u}[1]\n{end}", [{"u": [1]}]
        yield name, f"{begin}{s}one\n{n}5{close}{end}", [{"s": "one", "n": 5}]
        yield name, f"{begin}{s}one{close.removesuffix(marker)}{end}\n{begin}{end}", [{"s": "one"}, {}]
        yield name, f"{begin}{s}with {marker} inside{close}{end}", [{"s": f"with {marker} inside"}]
        yield name, f"{begin}{u}with {marker} inside{close}{end}", [{"u": f"with {marker} inside"}]
        yield name, f"{begin}{s}use {call_end} in{close}{end}", [{"s": f"use {call_end} in"}]
        yield name, f"{begin}{s}two {marker}{marker} in{close}{end}", [{"s": f"two {marker}{marker} in"}]
        yield name, f"{begin}{s}x{close}{end}{begin}{n}5{end}", [{"s": "x"}, {"n": 5}]
        yield name, f"{begin}{s}x", [{"s": "x"}]
        yield name, f"{begin}{s}x{close}", [{"s": "x"}]
        yield name, f"{begin}{n}5", [{"n": 5}]
        if "\n" in end:
            outer = end.split("\n")[1]
            yield name, f"{begin}{s}x{close}{outer}", [{"s": "x"}]
            yield name, f"{begin}{outer}", [{}]
            yield name, f"{begin}{s}x\n{outer}\n{begin}{end}", [{"s": "x"}, {}]


FUNCTIONS = [
    ("<parameter=ids: [1]\n</parameter>\n", {"ids": [1]}),
    ("<parameter=note=\n\n</parameter>\n", {"note": ""}),
    ("<parameter=note=\n\n</parameter>\n<parameter=n>5</parameter>\n", {"note": "", "n": 5}),
    ("<parameter=\nnote>x</parameter>\n", {"note": "x"}),
    ("<parameter=a:b>x</parameter>\n", {"a:b": "x"}),
    ("<parameter=s>\nuse <parameter=n> in\n</parameter>\n", {"s": "use <parameter=n> in"}),
]
GEMMA = [
    ('{opts:{"mode": "fast"}}', {"opts": {"mode": "fast"}}),
    ('{"q":"x"}', {"q": "x"}),
    ('{a:[{"k":"v"}]}', {"a": [{"k": "v"}]}),
    ("{o:{'a':1}}", {"o": {"a": 1}}),
    ('{"query":<|"|>x<|"|>}', {"query": "x"}),
    ("{refs:['a']}", {"refs": ["a"]}),
    ('{q:"a, b"}', {"q": "a, b"}),
    ('{a:["x]y"]}', {"a": ["x]y"]}),
    ('{q:"line\nbreak \\" \\u00e9"}', {"q": 'line\nbreak " é'}),
    ("{flag:True,no:False,q:None}", {"flag": True, "no": False, "q": None}),
    ("{a:[1,2,],}", {"a": [1, 2]}),
    ("{q:bare word}", {"q": "bare word"}),
    ("{q:it's}", {"q": "it's"}),
    ("{u:https://x.y/z?a=1,n:5}", {"u": "https://x.y/z?a=1", "n": 5}),
    ('{query:weather in Tokyo, Japan<|"|>}', {"query": "weather in Tokyo, Japan"}),
    ('{"content": "has } brace"}', {"content": "has } brace"}),
    ('{q:<|"|>a <tool_call|> b<|"|>}', {"q": "a <tool_call|> b"}),
    ("{q:1e999,r:NaN,t:007}", {"q": LARGEST, "r": "NaN", "t": "007"}),
]
PYTHON = [
    ("f(command='cat > f.py << EOF\nx \\\ny\nEOF')", {"command": "cat > f.py << EOF\nx \\\ny\nEOF"}),
    ("f(from=1, class='x')", {"from": 1, "class": "x"}),
    ("f(d=007)", {"d": 7}),
    ("f(tags={'a','b'})", {"tags": ["a", "b"]}),
    ("f(q=f'hi {x}', r=r'\\d', u=u'é')", {"q": "hi {x}", "r": "\\d", "u": "é"}),
    ("f(**{'q': 1}, r=2,)", {"q": 1, "r": 2}),
    ("f(user-id=5)", {"user-id": 5}),
    ("f(code='''print(\"it's\")''')", {"code": 'print("it\'s")'}),
    ('f(a=\'\', b="""x\n"y""")', {"a": "", "b": 'x\n"y'}),
    ("f(a='\0')", {"a": "\0"}),
    (
        "f(a=[1,], b=('x'), c=('x',), d='a' 'b', e=-.5e3)",
        {"a": [1], "b": "x", "c": ["x"], "d": "ab", "e": -500},
    ),
    ("f(s='\\ud83d', t='\\ud83d\\ude00')", {"s": "\ufffd", "t": "😀"}),
]
NO_PYTHON = [
    "f('Paris', unit='c')",
    "f(n=1e999)",
    "f(n={1: 2})",
    "f(n=1+2)",
    "f(n=x)",
    "f(n=b'x')",
    "f(n=1j)",
]
JSON = [
    ('{"a": "x\ny\tz"}', {"a": "x\ny\tz"}),
    ("{'a': 'it\\'s', \"b\": 'say \"x\"'}", {"a": "it's", "b": 'say "x"'}),
    ("{a: 1, b-c: [2]}", {"a": 1, "b-c": [2]}),
    ('{"a": True, "b": None, "c": [False,],}', {"a": True, "b": None, "c": [False]}),
    ('{"a": 1 "b": [1 2], , "c": 3}', {"a": 1, "b": [1, 2], "c": 3}),
    ('{"a": "\\d \\u12 \\x"}', {"a": "\\d \\u12 \\x"}),
    ('{"a": "\\ud83d", "b": "\\ude00x", "c": "\\ud83d\\ude00"}', {"a": "\ufffd", "b": "\ufffdx", "c": "😀"}),
    ('{"\\ud83d": {"b": ["\\ud83d\\n"]}}', {"\ufffd": {"b": ["\ufffd\n"]}}),
    ('{"a": 1e999, "b": -Infinity, "c": NaN, "d": 007}', {"a": LARGEST, "b": "-Infinity", "c": "NaN", "d": "007"}),
    ('{"a": -1e999, "b": ' + "9" * 5000 + "}", {"a": -LARGEST, "b": LARGEST}),
    ('{"a": 1, "a": 2}', {"a": 2}),
    ('{"a": "\\u0000\0"}', {"a": "\0\0"}),
    ('{"a": [1, {"b": 2}', {"a": [1, {"b": 2}]}),
]  # fmt: skip
AFTER_NAME = {
    "mistral": "[TOOL_CALLS]f{}",
    "deepseek_v3": "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜>",
    "deepseek_v31": "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
    "kimi_k2": "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
    "openai": "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
}
OBJECT = '{"name": "f", "arguments": %s}'
IN_OBJECTS = {
    "hermes": f"<tool_call>{OBJECT}</tool_call>",
    "llama3_json": OBJECT,
    "granite": f"<|tool_call|>[{OBJECT}]",
    "phi4_mini_json": f"functools[{OBJECT}]",
    "jamba": f"<tool_calls>[{OBJECT}]</tool_calls>",
    "internlm": f"<|action_start|><|plugin|>{OBJECT}<|action_end|>",
    "xlam": f"[{OBJECT}]",
    "longcat": f"<longcat_tool_call>{OBJECT}</longcat_tool_call>",
}

SLIPS = [
    *slips_in_tags(),
    *(("qwen3_coder", text.join(FUNCTION), [found]) for text, found in FUNCTIONS),
    *(("gemma4", f"<|tool_call>call:f{text}<tool_call|>", [found]) for text, found in GEMMA),
    ("gemma4", "<|tool_call>call:f{n:1}", [{"n": 1}]),
    ("gemma4", "<|tool_call>call:f{n:1}<|tool_call>call:g{}<tool_call|>", [{"n": 1}, {}]),
    *(("lfm2", f"<|tool_call_start|>[{text}]<|tool_call_end|>", [found]) for text, found in PYTHON),
    *((name, f"[{text}]", [found]) for name in ("pythonic", "llama4_pythonic") for text, found in PYTHON),
    *(("olmo3", f"<function_calls>{text}</function_calls>", [found]) for text, found in PYTHON),
    ("lfm2", "<|tool_call_start|>[my-tool(a=1)<|tool_call_end|>", [{"a": 1}]),
    ("pythonic", "[f(a=1), g()", [{"a": 1}, {}]),
    *((name, form.replace("{}", text), [found]) for name, form in AFTER_NAME.items() for text, found in JSON),
    *((name, form % text, [found]) for name, form in IN_OBJECTS.items() for text, found in JSON[:-1]),
    (
        "openai",
        '<|channel|>commentary<|channel|>analysis to=functions.f code<|message|>{"a":1}<|call|>',
        [{"a": 1}],
    ),
]


@every_case(("name", "text", "arguments"), SLIPS)
def test_a_slip_costs_no_call(name, text, arguments):
    content, calls = parse(name, [text], [TOOL])
    assert parse(name, list(text), [TOOL]) == (content, calls)
    assert [json.loads(each) for _, each in calls] == arguments
    assert content == ""


@every_case("text", NO_PYTHON)
def test_what_is_no_call_is_text(text):
    whole = f"<|tool_call_start|>[{text}]<|tool_call_end|>"
    assert parse("lfm2", [whole]) == parse("lfm2", list(whole)) == (whole, [])


KIMI = [
    ("functions.get_weather:0", "get_weather"),
    ("get_weather:2", "get_weather"),
    ("functions.a.b:0", "a.b"),
    ("functions_get_weather_1", "get_weather"),
    ("functions-get_weather-1", "get_weather"),
    ("functionsf5", "f"),
    ("get_weather", "get_weather"),
]


@every_case(("id", "tool"), KIMI)
@every_case("section", ["tool_calls_section", "tool_call_section"])
def test_ids_of_kimi_that_a_client_rewrote(id, tool, section):
    call = f"<|tool_call_begin|>{id}<|tool_call_argument_begin|>{{}}<|tool_call_end|>"
    text = f"<|{section}_begin|>{call}<|{section}_end|>"
    assert (
        parse("kimi_k2", [text], [TOOL, OTHER])
        == parse("kimi_k2", list(text), [TOOL, OTHER])
        == ("", [(tool, "{}")])
    )


@every_case("id", ["call00003", "call_abc123", "3"])
def test_ids_without_a_name_are_the_only_tool_s(id):
    text = f"<|tool_call_begin|>{id}<|tool_call_argument_begin|>{{}}<|tool_call_end|>"
    assert parse("kimi_k2", [text], [TOOL]) == ("", [("f", "{}")])
    assert parse("kimi_k2", [text], [TOOL, OTHER]) == (text, [])


def test_reasoning_of_kimi_ends_at_either_marker():
    for marker in ("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"):
        assert REASONING["kimi_k2"]("<think>").push(f"Hm.{marker}", final=True) == ("Hm.", marker)


def test_a_recipient_in_the_analysis_channel():
    text = (
        "<|channel|>analysis<|message|>x<|end|>"
        '<|start|>assistant<|channel|>analysis to=functions.f code<|message|>{"a":1'
        "<|start|>assistant<|channel|>final<|message|>hi"
    )
    reasoning, passed = REASONING["openai_gptoss"]("").push(text, final=True)
    content, pieces = TOOLS["openai"]().push(passed, final=True)
    assert (reasoning, content) == ("x", "hi")
    assert "".join(each.arguments for each in pieces) == '{"a":1}'
