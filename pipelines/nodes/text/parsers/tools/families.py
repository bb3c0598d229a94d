"""The tool-call format of each family of models, by vLLM's names of the formats.

Data only: calls.py finds the blocks, the readers are in the other files of this folder.
"""

from __future__ import annotations

import secrets
import string

from pipelines.nodes.text.parsers.tools.calls import CallBlock, Family
from pipelines.nodes.text.parsers.tools.gemma import gemma
from pipelines.nodes.text.parsers.tools.json_calls import named, objects
from pipelines.nodes.text.parsers.tools.newer_families import FAMILIES as NEWER
from pipelines.nodes.text.parsers.tools.pythonic import PythonReader
from pipelines.nodes.text.parsers.tools.tagged_calls import tagged

NAME = r"(?P<name>\w[\w.\-]*+)"
SEPARATOR = "<｜tool▁sep｜>"
MISTRAL = rf"\s*{NAME}(?:\[CALL_ID\](?P<id>[^\[\s]+))?(?:\[ARGS\])?\s*"
KIMI = rf"\s*(?P<id>(?:functions\.)?{NAME}:\d+|[^\s<]+)\s*<\|tool_call_argument_begin\|>\s*"
HARMONY = rf"{NAME}.*<\|message\|>\s*"


def nine_characters() -> str:
    """An id in the form that Mistral's templates require: nine letters and digits."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(9))


def _json_in(open: str, close: str) -> Family:
    return Family((CallBlock(open, objects(), close),))


def _deepseek(name: str, tail: str = "") -> Family:
    return Family(
        (CallBlock("<｜tool▁call▁begin｜>", named(name, tail=tail), "<｜tool▁call▁end｜>"),),
        before=("<｜tool▁calls▁begin｜>",),
        after=("<｜tool▁calls▁end｜>",),
    )


def _functions(before: str, after: str) -> Family:
    """`<function=f><parameter=k>v</parameter></function>` between two markers, which models may omit."""
    # a model may write `<parameter=key: value`
    key = r"(?:\s*+([^>\n]+)>|([\w.\-]+)\s*[:=](?=[^>\n]*\n)[ \t]*)"
    opens = ("<function=", before)
    reader = tagged(rf"{NAME}\s*>\s*", "<parameter=", key, "</parameter>", after, opens)
    block = CallBlock("<function=", reader, "</function>")
    return Family((block,), before=(before,), after=(after,))


_HERMES = _json_in("<tool_call>", "</tool_call>")
_JAMBA = _json_in("<tool_calls>", "</tool_calls>")
_QWEN3_CODER = _functions("<tool_call>", "</tool_call>")
_GLM = Family(
    (
        CallBlock(
            "<tool_call>",
            tagged(
                rf"\s*{NAME}\s*",
                "<arg_key>",
                r"([^<]*)</arg_key>\s*<arg_value>",
                "</arg_value>",
                opens=("<tool_call>",),
                inline=True,
            ),
            "</tool_call>",
        ),
    )
)
_MINIMAX = tagged(
    rf"[\"']?{NAME}[\"']?\s*>\s*",
    "<parameter name=",
    r"[\"']?([^\"'>]+)[\"']?>",
    "</parameter>",
    "</minimax:tool_call>",
    ("<invoke name=", "<minimax:tool_call>"),
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
        (CallBlock("{", objects(needs_arguments=True), bare=True),), before=("<|python_tag|>",), between=";"
    ),
    "phi4_mini_json": Family((CallBlock("functools", objects()),)),
    "granite": Family((CallBlock("<|tool_call|>", objects()), CallBlock("<tool_call>", objects()))),
    "granite-20b-fc": Family((CallBlock("<function_call>", objects()),)),
    "mistral": Family((CallBlock("[TOOL_CALLS]", named(MISTRAL, objects=True)),), new_id=nine_characters),
    "xlam": Family(
        (
            CallBlock("[{", objects(needs_arguments=True), bare=True),
            CallBlock("[ {", objects(needs_arguments=True), bare=True),
            CallBlock("[TOOL_CALLS]", objects()),
            CallBlock("<tool_call>", objects(), "</tool_call>"),
            CallBlock("```json", objects(needs_arguments=True), "```"),
        )
    ),
    # a name, then JSON
    "deepseek_v3": _deepseek(rf"\w+{SEPARATOR}{NAME}\s*```json\s*", tail="`"),
    "deepseek_v31": _deepseek(rf"{NAME}\s*{SEPARATOR}\s*"),
    "kimi_k2": Family(
        (CallBlock("<|tool_call_begin|>", named(KIMI), "<|tool_call_end|>"),),
        before=("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"),
        after=("<|tool_calls_section_end|>", "<|tool_call_section_end|>"),
    ),
    "openai": Family(
        (CallBlock(" to=functions.", named(HARMONY), "<|call|>"),),
        before=("<|start|>assistant", "<|channel|>commentary", "<|channel|>analysis", "<|channel|>final"),
    ),
    # parameters in tags
    "qwen3_coder": _QWEN3_CODER,
    "qwen3_xml": _QWEN3_CODER,
    "seed_oss": _functions("<seed:tool_call>", "</seed:tool_call>"),
    "glm45": _GLM,
    "glm47": _GLM,
    "minimax_m2": Family(
        (CallBlock("<invoke name=", _MINIMAX, "</invoke>"),),
        before=("<minimax:tool_call>",),
        after=("</minimax:tool_call>",),
    ),
    # Python
    "pythonic": Family((CallBlock("[", PythonReader, bare=True),)),
    "llama4_pythonic": Family(
        (CallBlock("[", PythonReader, bare=True),),
        before=("<|python_start|>",),
        after=("<|python_end|>",),
    ),
    "olmo3": Family((CallBlock("<function_calls>", PythonReader, "</function_calls>"),)),
    "lfm2": Family((CallBlock("<|tool_call_start|>", PythonReader, "<|tool_call_end|>"),)),
    # Gemma's own
    "functiongemma": Family(
        (
            CallBlock(
                "<start_function_call>", gemma("<escape>", "<start_function_call>"), "<end_function_call>"
            ),
        )
    ),
    "gemma4": Family((CallBlock("<|tool_call>", gemma('<|"|>', "<|tool_call>"), "<tool_call|>"),)),
    **NEWER,
}
