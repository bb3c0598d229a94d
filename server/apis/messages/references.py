"""`tool_reference` blocks: tools that a client's own search found, shown where it names them."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from server.apis.messages.blocks import AnthropicMessage, placed_blocks

REFERENCE = "tool_reference"


def show_found_tools(
    messages: list[AnthropicMessage], tools: list[dict[str, Any]], later: Collection[str]
) -> None:
    """Write the declaration of each of the `later` tools where it is named first; else its name alone.

    So the prompt grows at its end, and what stands in front of the result is found again.
    """
    functions = [tool["function"] for tool in tools]
    waiting = {function["name"]: function for function in functions if function["name"] in later}
    for _, block in placed_blocks(messages):
        if block.type == REFERENCE:
            function = waiting.pop(block.tool_name, None)
            declared = {"type": "function", "function": function}
            block.text = json.dumps(declared, ensure_ascii=False) if function else block.tool_name
