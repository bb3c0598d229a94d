"""OpenVINO Model Server's validation rules for generation bodies, with its error texts.

What that server refuses because it does not support it is allowed here; what it does not check is checked
by Braid's request model, as on every path.
"""

from __future__ import annotations

from typing import Any

from server.dialects.rules import (
    UINT32,
    Rule,
    below,
    boolean,
    instance,
    number,
    text,
    unsigned,
    whole,
    within,
)

MAX_STOPS = 16
DEFAULT_TOP_K = 40


def uint32(field: str, null: bool = False) -> list[Rule]:
    """The rules of an unsigned 32-bit number."""
    return [
        Rule(field, unsigned, f"{field} is not an unsigned integer", null),
        Rule(field, below(UINT32), f"{field} value can't be greater than {UINT32 - 1}"),
    ]


def _number(field: str, low: float | None = None, high: float = 0, shown_range: str = "") -> list[Rule]:
    rules = [Rule(field, number, f"{field} is not a valid number")]
    if low is not None:
        rules.append(
            Rule(field, within(low, high), f"{field} out of range{shown_range or f'({low}, {high})'}")
        )
    return rules


def _strings(value: Any) -> bool:
    return all(isinstance(item, str) for item in value) if isinstance(value, list) else True


def _speculation(body: Any) -> bool:
    return bool(body.get("num_assistant_tokens") or body.get("assistant_confidence_threshold"))


GENERATION: list[Rule] = [
    Rule("stream_options", instance(dict), "stream_options is not an object"),
    *uint32("max_tokens", null=True),
    Rule("ignore_eos", boolean, "ignore_eos accepts values true or false"),
    Rule("stop", instance((str, list)), "stop is not a string or array of strings"),  # type: ignore[arg-type]
    Rule("stop", _strings, "stop array contains non string element"),
    Rule(
        "stop",
        lambda value: isinstance(value, str) or len(value) <= MAX_STOPS,
        f"stop array must have no more than {MAX_STOPS} strings",
    ),
    Rule("include_stop_str_in_output", boolean, "include_stop_str_in_output accepts values true or false"),
    *_number("temperature", 0.0, 2.0),
    *_number("top_p", 0.0, 1.0),
    *_number("min_p"),
    Rule("min_p", lambda p: 0 <= p < 1, "min_p out of range [0.0, 1.0)"),
    Rule("top_k", whole, "top_k is not an integer"),
    Rule("top_k", lambda k: k == -1 or k > 0, "top_k must be -1 (all tokens) or a positive integer"),
    Rule("seed", whole, "seed is not an integer"),
    Rule("seed", within(0, UINT32 - 1), f"seed out of range [0, {UINT32 - 1}]"),
    *_number("repetition_penalty"),
    *_number("frequency_penalty", -2.0, 2.0),
    *_number("presence_penalty", -2.0, 2.0),
    *_number("length_penalty"),
    Rule("best_of", unsigned, "best_of is not an unsigned integer"),
    Rule("best_of", lambda n: n > 0, "best_of value should be greater than 0"),
    Rule("n", unsigned, "n is not an unsigned integer"),
    Rule("n", lambda n: n > 0, "n value should be greater than 0"),
    Rule("skip_special_tokens", boolean, "skip_special_tokens is not a bool"),
]
"""Rules for every body that requests generated text."""

GENERATION_TOGETHER: list[Rule] = [
    Rule(
        "stream_options",
        lambda body: body.get("stream_options") is None or body.get("stream") is True,
        "stream_options provided, but stream not set to true",
    ),
    Rule(
        "best_of",
        lambda body: not (body.get("stream") and (body.get("best_of") or 1) > 1),
        "best_of cannot be used in streaming mode",
    ),
    Rule(
        "n",
        lambda body: body.get("best_of") is None or (body.get("n") or 1) <= body["best_of"],
        "n value cannot be greater than best_of",
    ),
    Rule(
        "assistant_confidence_threshold",
        lambda body: not (body.get("num_assistant_tokens") and body.get("assistant_confidence_threshold")),
        "Parameters `assistant_confidence_threshold` and `num_assistant_tokens` are mutually exclusive in "
        "`GenerationConfig`",
    ),
    Rule(
        "best_of",
        lambda body: (body.get("best_of") or 1) <= 1 or not _speculation(body),
        "Beam search and parallel sampling are not compatible with assistant generation",
    ),
]
"""Rules about combinations of fields."""


def _has_ids(body: Any) -> bool:
    return body.get("prompt_token_ids") is not None


COMPLETION: list[Rule] = [
    Rule("prompt", instance((str, list)), "prompt is not a string", null=True),  # type: ignore[arg-type]
    Rule("echo", boolean, "echo accepts values true or false"),
    Rule("logprobs", whole, "logprobs accepts integer values"),
]
COMPLETION_TOGETHER: list[Rule] = [
    Rule(
        "prompt",
        lambda body: body.get("prompt") not in (None, "") or _has_ids(body),
        "prompt is missing",
    ),
    Rule(
        "max_tokens",
        lambda body: body.get("max_tokens") != 0 or body.get("echo") is True,
        "max_tokens value should be greater than 0 unless echo is set",
    ),
]

FUNCTION_TOOLS = "Only function tools are supported"


def _tool_name(tool: Any) -> bool:
    function = tool.get("function", tool)
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _tool_parameters(tool: Any) -> bool:
    return isinstance(tool.get("function", tool).get("parameters", {}), dict)


def _every(holds: Any) -> Any:
    return lambda items: all(holds(item) for item in items)


def _every_message(holds: Any) -> Any:
    """A test that `holds` is true for every message; token ids have no messages."""
    return lambda items: all(map(whole, items)) or all(map(holds, items))


TOOLS: list[Rule] = [
    Rule("tools", instance(list), "Tools are not an array"),
    Rule("tools", _every(instance(dict)), "Tool is not a JSON object"),
    Rule("tools", _every(lambda tool: text(tool.get("type"))), "Tool type is missing or invalid"),
    Rule("tools", _every(lambda tool: tool["type"] == "function"), FUNCTION_TOOLS),
    Rule("tools", _every(_tool_name), "Function object does not contain a valid name field"),
    Rule("tools", _every(_tool_parameters), "Function parameters are not a valid JSON object"),
    Rule(
        "tool_choice",
        instance((str, dict)),  # type: ignore[arg-type]
        "tool_choice is not a valid JSON object or string",
    ),
    Rule(
        "tool_choice",
        lambda choice: isinstance(choice, dict) or choice in ("none", "auto", "required"),
        "tool_choice should be either 'none' or 'auto' or 'required'",
    ),
    Rule("chat_template_kwargs", instance(dict), "chat_template_kwargs must be an object"),
]

CHAT: list[Rule] = [
    Rule("messages", instance(list), "Messages are not an array", null=True),
    Rule("messages", _every_message(instance(dict)), "Message is not a JSON object"),
    Rule(
        "messages",
        _every_message(lambda message: text(message.get("role"))),
        "Every message must have 'role' field",
    ),
    *TOOLS,
    Rule("logprobs", boolean, "logprobs accepts values true or false"),
    *uint32("max_completion_tokens"),
    Rule("max_completion_tokens", bool, "max_tokens value should be greater than 0"),
    Rule("response_format", instance(dict), "response_format is not an object"),
]
CHAT_TOGETHER: list[Rule] = [
    Rule("messages", lambda body: "messages" in body or _has_ids(body), "Messages missing in request"),
    Rule(
        "messages",
        lambda body: body.get("messages") != [] or _has_ids(body),
        "Messages array cannot be empty",
    ),
    Rule(
        "max_tokens",
        lambda body: body.get("max_tokens") != 0,
        "max_tokens value should be greater than 0",
    ),
]
