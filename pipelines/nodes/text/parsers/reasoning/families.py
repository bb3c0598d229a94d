"""What each family of models writes around its reasoning, by the names that vLLM gives the formats.

Data only: the engine is think.py.
"""

from __future__ import annotations

from pipelines.nodes.text.parsers.reasoning.think import Marks

THINK = Marks()
INSIDE = Marks(begins_inside=True)

FAMILIES: dict[str, Marks] = {
    "qwen3": Marks(ends=("<tool_call>",)),
    "glm45": Marks(ends=("<tool_call>",)),
    "kimi_k2": Marks(ends=("<|tool_calls_section_begin|>",), special=True),
    "deepseek_r1": INSIDE,
    "deepseek_v3": THINK,
    "minimax_m2": INSIDE,
    "olmo3": THINK,
    "seed_oss": Marks(("<seed:think>",), ("</seed:think>",), special=True),
    "mistral": Marks(("[THINK]",), ("[/THINK]",), special=True),
    "granite": Marks(
        ("Here is my thought process:", "Here's my thought process:"),
        ("Here is my response:", "Here's my response:"),
    ),
    "gemma4": Marks(("<|channel>thought",), ("<channel|>",), ends=("<|tool_call>",), special=True),
}

ENCLOSED: dict[str, tuple[Marks, tuple[str, str]]] = {
    "ernie45": (INSIDE, ("<response>", "</response>")),
    "hunyuan_a13b": (THINK, ("<answer>", "</answer>")),
}
"""Name → the marks of the reasoning, and those that the answer stands between."""
