"""How families whose parameters are in tags write a call with one text: the text as it is, between marks."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.nodes.text.parsers.tools.newer_families import DSML
from pipelines.values.tasks import TEXT_ARGUMENT


@dataclass(frozen=True)
class TextForm:
    """`begin` holds NAME and starts a call of that tool, nothing else; then `before`, the text and `end`."""

    begin: str
    before: str
    end: str


_LINES = TextForm("<function=NAME>", f"\n<parameter={TEXT_ARGUMENT}>\n", "\n</parameter>")
_INVOKED = TextForm('<invoke name="NAME">', f'\n<parameter name="{TEXT_ARGUMENT}">', "</parameter>")
_DSML = TextForm(
    f'<{DSML}invoke name="NAME">',
    f'\n<{DSML}parameter name="{TEXT_ARGUMENT}" string="true">',
    f"</{DSML}parameter>",
)

TEXT_FORMS: dict[str, TextForm] = {
    "qwen3_coder": _LINES,
    "qwen3_xml": _LINES,
    "seed_oss": TextForm("<function=NAME>", f"\n<parameter={TEXT_ARGUMENT}>", "</parameter>"),
    "glm45": TextForm(
        "<tool_call>NAME\n", f"<arg_key>{TEXT_ARGUMENT}</arg_key>\n<arg_value>", "</arg_value>"
    ),
    "glm47": TextForm("<tool_call>NAME<arg_key>", f"{TEXT_ARGUMENT}</arg_key><arg_value>", "</arg_value>"),
    "minimax_m2": _INVOKED,
    "deepseek_v32": _DSML,
    "deepseek_v4": _DSML,
}
"""Name in a graph → the form, as the chat templates of the family write it."""
