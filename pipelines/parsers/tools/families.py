"""What each family of models writes when it calls tools, by the names that vLLM gives the formats.

Data only: the engine that finds the blocks is calls.py, the readers are beside it.
"""

from __future__ import annotations

import secrets
import string

from pipelines.parsers.tools.calls import Block, Family
from pipelines.parsers.tools.gemma import gemma
from pipelines.parsers.tools.json_calls import either, named, read_full_objects, read_objects
from pipelines.parsers.tools.pythonic import read_python
from pipelines.parsers.tools.tagged_calls import tagged

NAME = r"(?P<name>\w[\w.\-]*+)"
SEPARATOR = "<｜tool▁sep｜>"
MISTRAL = rf"\s*{NAME}(?:\[CALL_ID\](?P<id>[^\[{{\s]+))?(?:\[ARGS\])?\s*(?P<arguments>{{.*)"
HARMONY = rf"{NAME}[^{{]*<\|message\|>(?P<arguments>.*)"


def nine_characters() -> str:
    """An id as Mistral's templates demand it: nine letters and digits."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(9))


def _json_in(open: str, close: str) -> Family:
    return Family((Block(open, read_objects, close),))


def _deepseek(pattern: str) -> Family:
    return Family(
        (Block("<｜tool▁call▁begin｜>", named(pattern), "<｜tool▁call▁end｜>"),),
        before=("<｜tool▁calls▁begin｜>",),
        after=("<｜tool▁calls▁end｜>",),
    )


def _functions(before: str, after: str) -> Family:
    """`<function=f><parameter=k>v</parameter></function>` between two marks, which models may forget."""
    read = tagged(rf"{NAME}\s*>\s*", r"<parameter=(?P<key>[^>]+)>(?P<value>.*?)</parameter>\s*")
    block = Block("<function=", read, "</function>", must_close=True)
    return Family((block,), before=(before,), after=(after,))


_HERMES = _json_in("<tool_call>", "</tool_call>")
_JAMBA = _json_in("<tool_calls>", "</tool_calls>")
_QWEN3_CODER = _functions("<tool_call>", "</tool_call>")
_GLM = Family(
    (
        Block(
            "<tool_call>",
            tagged(
                rf"\s*{NAME}\s*",
                r"<arg_key>(?P<key>[^<]*)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>\s*",
            ),
            "</tool_call>",
            must_close=True,
        ),
    )
)

FAMILIES: dict[str, Family] = {
    # JSON between two tags
    "hermes": _HERMES,
    "granite4": _HERMES,
    "ernie45": _HERMES,
    "longcat": _json_in("<longcat_tool_call>", "</longcat_tool_call>"),
    "jamba": _JAMBA,
    "hunyuan_a13b": _JAMBA,
    "internlm": _json_in("<|action_start|><|plugin|>", "<|action_end|>"),
    # JSON that ends where its brackets do
    "llama3_json": Family(
        (Block("{", read_full_objects, bare=True),), before=("<|python_tag|>",), between=";"
    ),
    "phi4_mini_json": Family((Block("functools", read_objects),)),
    "granite": Family((Block("<|tool_call|>", read_objects), Block("<tool_call>", read_objects))),
    "granite-20b-fc": Family((Block("<function_call>", read_objects),)),
    "mistral": Family(
        (
            Block(
                "[TOOL_CALLS]",
                either(read_objects, named(MISTRAL)),
                named=True,
            ),
        ),
        new_id=nine_characters,
    ),
    "xlam": Family(
        (
            Block("[{", read_full_objects, bare=True),
            Block("[ {", read_full_objects, bare=True),
            Block("[TOOL_CALLS]", read_objects),
            Block("<tool_call>", read_objects, "</tool_call>"),
            Block("```json", read_full_objects, "```"),
        )
    ),
    # a name, then JSON
    "deepseek_v3": _deepseek(rf"\w+{SEPARATOR}{NAME}\s*```json(?P<arguments>.*)```\s*"),
    "deepseek_v31": _deepseek(rf"{NAME}\s*{SEPARATOR}(?P<arguments>.*)"),
    "kimi_k2": Family(
        (
            Block(
                "<|tool_call_begin|>",
                named(
                    rf"\s*(?P<id>(?:functions\.)?{NAME}:\d+)\s*"
                    r"<\|tool_call_argument_begin\|>(?P<arguments>.*)"
                ),
                "<|tool_call_end|>",
            ),
        ),
        before=("<|tool_calls_section_begin|>",),
        after=("<|tool_calls_section_end|>",),
    ),
    "openai": Family(
        (Block(" to=functions.", named(HARMONY), "<|call|>"),),
        before=("<|start|>assistant", "<|channel|>commentary"),
    ),
    # parameters in tags
    "qwen3_coder": _QWEN3_CODER,
    "qwen3_xml": _QWEN3_CODER,
    "seed_oss": _functions("<seed:tool_call>", "</seed:tool_call>"),
    "glm45": _GLM,
    "glm47": _GLM,
    "minimax_m2": Family(
        (
            Block(
                "<invoke name=",
                tagged(
                    rf"[\"']?{NAME}[\"']?\s*>\s*",
                    r"<parameter name=[\"']?(?P<key>[^\"'>]+)[\"']?>(?P<value>.*?)</parameter>\s*",
                ),
                "</invoke>",
                must_close=True,
            ),
        ),
        before=("<minimax:tool_call>",),
        after=("</minimax:tool_call>",),
    ),
    # Python
    "pythonic": Family((Block("[", read_python, bare=True),)),
    "llama4_pythonic": Family(
        (Block("[", read_python, bare=True),),
        before=("<|python_start|>",),
        after=("<|python_end|>",),
    ),
    "olmo3": Family((Block("<function_calls>", read_python, "</function_calls>"),)),
    "lfm2": Family((Block("<|tool_call_start|>", read_python, "<|tool_call_end|>"),)),
    # Gemma's own
    "functiongemma": Family((Block("<start_function_call>", gemma("<escape>"), "<end_function_call>"),)),
    "gemma4": Family((Block("<|tool_call>", gemma('<|"|>'), "<tool_call|>"),)),
}
