"""The markers of reasoning of each family of models, by vLLM's names of the formats.

Data only: the parser is in think.py.
"""

from __future__ import annotations

from pipelines.nodes.text.parsers.reasoning.think import Markers

THINK = Markers(may_be_unopened=True)
INSIDE = Markers(begins_inside=True)

_FINAL = "[BEGIN FINAL RESPONSE]"  # ends the reasoning and opens the answer
_APRIEL = Markers(
    ("Here are my reasoning steps:",),
    (_FINAL,),
    ends=(_FINAL, "<tool_calls>"),
    special=True,
    may_be_unopened=True,
)
_COHERE = Markers(("<|START_THINKING|>",), ("<|END_THINKING|>",), ends=("<|START_ACTION|>",), special=True)

FAMILIES: dict[str, Markers] = {
    "qwen3": Markers(ends=("<tool_call>",), may_be_unopened=True),
    "glm45": Markers(ends=("<tool_call>",), may_be_unopened=True),
    "kimi_k2": Markers(
        ends=("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"),
        special=True,
        may_be_unopened=True,
    ),
    "deepseek_r1": INSIDE,
    "deepseek_v3": THINK,
    "minimax_m2": INSIDE,
    "olmo3": THINK,
    "seed_oss": Markers(("<seed:think>",), ("</seed:think>",), special=True, may_be_unopened=True),
    "mistral": Markers(("[THINK]",), ("[/THINK]",), special=True),
    "granite": Markers(
        ("Here is my thought process:", "Here's my thought process:"),
        ("Here is my response:", "Here's my response:"),
    ),
    "gemma4": Markers(("<|channel>thought",), ("<channel|>",), ends=("<|tool_call>",), special=True),
    "lfm2": Markers(ends=("<|tool_call_start|>",), special=True, may_be_unopened=True),
    "apertus": Markers(
        ("<|inner_prefix|>",), ("<|inner_suffix|>",), ends=("<|tools_prefix|>",), special=True
    ),
}

ENCLOSED: dict[str, tuple[Markers, tuple[str, str]]] = {
    "granite33": (THINK, ("<response>", "</response>")),
    "ernie45": (INSIDE, ("<response>", "</response>")),
    "hunyuan_a13b": (Markers(), ("<answer>", "</answer>")),
    "apriel": (_APRIEL, (_FINAL, "[END FINAL RESPONSE]")),
    "cohere_command3": (_COHERE, ("<|START_RESPONSE|>", "<|END_RESPONSE|>")),
    "cohere_command4": (_COHERE, ("<|START_TEXT|>", "<|END_TEXT|>")),
}
"""Name → the markers of the reasoning, and the two around the answer."""
