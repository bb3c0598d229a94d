"""What the nodes of a graph need of each other for one request, collected before any of them runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.nodes.text.rules.reasoning_rule import ReasoningRule
    from pipelines.nodes.text.rules.tool_call_rule import ToolCallRule


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """What one node needs of the nodes before it; merged, what all nodes of a graph need.

    `keep_special_tokens`: the text of special tokens must stay in the output.  `tool_calls`: how
    calls are found in the output, None where no node looks for calls.  `reasoning`: the same of reasoning.
    `tools_as_text`: the model knows no form of tools, so that its prompt has them as text.
    `handled`: optional fields of the request that a node takes into account.  `held`: lines whose outputs
    stay in the engine host, where a later engine reads them.  `results`: kinds of vectors that a later node
    reads, where the request names none.
    """

    keep_special_tokens: bool = False
    tool_calls: ToolCallRule | None = None
    reasoning: ReasoningRule | None = None
    handled: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    tools_as_text: bool = False
    results: tuple[str, ...] = ()


NOTHING = RequestPlan()


def merged(parts: Sequence[RequestPlan]) -> RequestPlan:
    """One plan of the parts of all nodes, the last node's first: where two differ, the later node decides."""
    if len(parts) < 2:
        return parts[0] if parts else NOTHING
    return RequestPlan(
        keep_special_tokens=any(part.keep_special_tokens for part in parts),
        tool_calls=next((part.tool_calls for part in parts if part.tool_calls is not None), None),
        reasoning=next((part.reasoning for part in parts if part.reasoning is not None), None),
        handled=frozenset().union(*(part.handled for part in parts)),
        held=frozenset().union(*(part.held for part in parts)),
        tools_as_text=any(part.tools_as_text for part in parts),
        results=next((part.results for part in parts if part.results), ()),
    )
