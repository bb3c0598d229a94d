"""Replies in the formats of newer families, and what they say."""

WEATHER = ("get_weather", {"city": "Paris"})
TIME = ("get_time", {})
BOTH = [WEATHER, TIME]
NAMED = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
EMPTY = '{"name": "get_time", "arguments": {}}'
LIST = f"[{NAMED}, {EMPTY}]"
COHERE = '{"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Paris"}}'
COHERE_TIME = '{"tool_call_id": "1", "tool_name": "get_time", "parameters": {}}'
DSML = "｜DSML｜"


def invoked(mark: str, block: str) -> str:
    """Both calls in tags whose names begin with a mark."""
    key = f'<{mark}parameter name="city"' + (' string="true">' if mark == DSML else ">")
    return (
        f'<{mark}{block}>\n<{mark}invoke name="get_weather">\n{key}Paris</{mark}parameter>\n</{mark}invoke>\n'
        f'<{mark}invoke name="get_time">\n</{mark}invoke>\n</{mark}{block}>'
    )


PARAM = '<function name="get_weather"><param name="city">{}</param></function>'
STEP = "<｜tool_call_begin｜>function<｜tool_sep｜>"
CALLS = [
    ("cohere_command3", f"<|START_ACTION|>[\n    {COHERE},\n    {COHERE_TIME}\n]<|END_ACTION|>", "", BOTH),
    ("cohere_command4", f"I look.<|START_ACTION|>[{COHERE}]<|END_ACTION|>", "I look.", [WEATHER]),
    ("cohere_command3", "<|START_ACTION|>[1]<|END_ACTION|>", "<|START_ACTION|>[1]<|END_ACTION|>", []),
    ("command_r", f"Action:\n```json\n[{COHERE}, {COHERE_TIME}]\n```", "", BOTH),
    ("command_r", "Action: none. ```json\n[1]\n```", "Action: none. ```json\n[1]\n```", []),
    ("apriel", f"<tool_calls>{LIST}</tool_calls>\n", "", BOTH),
    ("nemotron_json", f"So.\n<TOOLCALL>{LIST}</TOOLCALL>\n", "So.", BOTH),
    ("minimax", f"<tool_calls>\n{NAMED}\n{EMPTY}\n</tool_calls>", "", BOTH),
    ("minimax", '<tool_calls>\n{"a": 1}\n</tool_calls>', '<tool_calls>\n{"a": 1}\n</tool_calls>', []),
    ("llama4_json", f"<|python_start|><|python_end|>{NAMED}; {EMPTY}", "", BOTH),
    ("llama4_json", f"A {NAMED}", f"A {NAMED}", []),
    ("gigachat3", f"I look.<|message_sep|>\n\nfunction call<|role_sep|>\n{NAMED}", "I look.", [WEATHER]),
    ("gigachat3", f"function call<|role_sep|>\n{EMPTY}", "", [TIME]),
    ("gigachat3", "a function call<|role_sep|> is", "a function call<|role_sep|> is", []),
    ("gigachat31", f"I look.<|function_call|>{NAMED}<|function_call|>{EMPTY}", "I look.", BOTH),
    (
        "functionary_v31",
        '<function=get_weather>{"city": "Paris"}</function>\n<function=get_time>{}</function>',
        "",
        BOTH,
    ),
    (
        "functionary_v31",
        "So. <function=get_weather> with 3</function>",
        "So. <function=get_weather> with 3</function>",
        [],
    ),
    (
        "apertus",
        'So.<|tools_prefix|>[{"get_weather": {"city": "Paris"}}, {"get_time": {}}]<|tools_suffix|>',
        "So.",
        BOTH,
    ),
    (
        "apertus",
        '<|tools_prefix|>[{"f": {"a": "<|tools_suffix|>"}}]<|tools_suffix|>',
        "",
        [("f", {"a": "<|tools_suffix|>"})],
    ),
    (
        "apertus",
        '<|tools_prefix|>[{"f": 3}]<|tools_suffix|>',
        '<|tools_prefix|>[{"f": 3}]<|tools_suffix|>',
        [],
    ),
    (
        "apertus",
        '<|tools_prefix|>[{"f": {}, "g": {}}]<|tools_suffix|>',
        '<|tools_prefix|>[{"f": {}, "g": {}}]<|tools_suffix|>',
        [],
    ),
    ("deepseek_v32", "So.\n\n" + invoked(DSML, "function_calls"), "So.", BOTH),
    ("deepseek_v4", invoked(DSML, "tool_calls"), "", BOTH),
    ("muse_glimmer", invoked("atem:", "function_calls"), "", BOTH),
    (
        "step3",
        f'<｜tool_calls_begin｜>{STEP}<steptml:invoke name="get_weather"><steptml:parameter name="city">Paris'
        f"</steptml:parameter></steptml:invoke><｜tool_call_end｜>{STEP}"
        '<steptml:invoke name="get_time"></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>',
        "",
        BOTH,
    ),
    ("minicpm5", "So. " + PARAM.format("Paris") + '\n<function name="get_time"></function>', "So.", BOTH),
    ("minicpm5", PARAM.format("<![CDATA[Paris]]>"), "", [WEATHER]),
    (
        "minicpm5",
        PARAM.format("<![CDATA[</param></function>\n<a>]]> & <![CDATA[b]]>"),
        "",
        [("get_weather", {"city": "</param></function>\n<a> & b"})],
    ),
    ("minicpm5", '<function name="f">x</function>', '<function name="f">x</function>', []),
    ("minicpm5", '<function name="f"><param name="a">1', '<function name="f"><param name="a">1', []),
]
"""(parser, reply, content, calls)"""

THOUGHTS = [
    ("lfm2", "<|im_start|>assistant\n", "<think>Two.</think>Four.", "Two.", "Four."),
    ("lfm2", "<|im_start|>assistant\n", "Four.", "", "Four."),
    ("lfm2", "", "<think>Two.<|tool_call_start|>[f()]", "Two.", "<|tool_call_start|>[f()]"),
    ("apertus", "", "<|inner_prefix|>Two.<|inner_suffix|>Four.", "Two.", "Four."),
    ("apertus", "", "<|inner_prefix|>Two.<|tools_prefix|>[", "Two.", "<|tools_prefix|>["),
    ("granite33", "", "<think>Two.</think>\n<response>Four.</response>", "Two.", "Four."),
    ("granite33", "", "Four.", "", "Four."),
    (
        "apriel",
        "",
        "Here are my reasoning steps:\nTwo.\n[BEGIN FINAL RESPONSE]\nFour.\n[END FINAL RESPONSE]",
        "Two.",
        "Four.",
    ),
    ("apriel", "Here are my reasoning steps:\n", "Two.\n<tool_calls>[", "Two.", "<tool_calls>["),
    ("apriel", "", "Four.", "", "Four."),
    (
        "cohere_command3",
        "",
        "<|START_THINKING|>Two.<|END_THINKING|><|START_RESPONSE|>Four.<|END_RESPONSE|>",
        "Two.",
        "Four.",
    ),
    (
        "cohere_command3",
        "<|START_THINKING|><|END_THINKING|>",
        "<|START_RESPONSE|>Four.<|END_RESPONSE|>",
        "",
        "Four.",
    ),
    ("cohere_command3", "<|START_THINKING|>", "Two.<|START_ACTION|>[", "Two.", "<|START_ACTION|>["),
    (
        "cohere_command4",
        "<|START_THINKING|>",
        "Two.<|END_THINKING|><|START_TEXT|>Four.<|END_TEXT|>",
        "Two.",
        "Four.",
    ),
    (
        "muse_glimmer",
        "<|start|>assistant",
        " to=self<|message|>Two.<|eom|><|start|>assistant to=user<|message|>Four.<|eot|>",
        "Two.",
        "Four.",
    ),
    (
        "muse_glimmer",
        "<|start|>assistant",
        " to=self<|message|>Two.<|eom|><|start|>assistant to=f.g<|message|><atem:function_calls><|eom|>",
        "Two.",
        "<atem:function_calls>",
    ),
    ("muse_glimmer", "<|start|>assistant", " to=user<|message|>Four.", "", "Four."),
    ("muse_glimmer", "<|start|>assistant", "Four.", "", "Four."),
    ("muse_glimmer", "<|start|>assistant", " to=self", "", ""),
]
"""(parser, prompt, reply, reasoning, content)"""
