"""The chat template of braid-demo writes what Qwen3's writes, with thinking off unless asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.nodes.text.templates.jinja_template import Template

FILE = Path(__file__).parents[5] / "model_repo" / "braid-demo" / "model" / "chat_template.jinja"
TEMPLATE = Template(FILE.read_text(encoding="utf-8"), {})
HELLO = {"role": "user", "content": "Hello"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
TOOL_SECTION = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
    '{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", '
    '"properties": {"city": {"type": "string"}}}}}\n'
    "</tools>\n\nFor each function call, return a json object with function name and arguments "
    "within <tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)
CALL_TEXT = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def render(messages, tools=None, *, add_generation_prompt=False, **options):
    return TEMPLATE.render(messages, tools, add_generation_prompt, False, options)


def call(arguments: object) -> dict[str, object]:
    function = {"name": "get_weather", "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": function}]}


def test_user_message_alone() -> None:
    assert render([HELLO]) == "<|im_start|>user\nHello<|im_end|>\n"


def test_system_message_comes_first() -> None:
    text = render([{"role": "system", "content": "Be kind."}, HELLO])
    assert text == "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"


def test_content_may_be_text_parts() -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    assert render([{"role": "user", "content": parts}]) == render([HELLO])


@pytest.mark.parametrize("options", [{}, {"enable_thinking": False}])
def test_without_thinking_the_prompt_holds_an_empty_thought(options: dict[str, bool]) -> None:
    text = render([HELLO], add_generation_prompt=True, **options)
    assert text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_with_thinking_the_thought_is_left_to_the_model() -> None:
    text = render([HELLO], add_generation_prompt=True, enable_thinking=True)
    assert text.endswith("<|im_end|>\n<|im_start|>assistant\n")


def test_tools_without_a_system_message() -> None:
    assert render([HELLO], [WEATHER]).startswith(f"<|im_start|>system\n{TOOL_SECTION}<|im_end|>\n")


def test_tools_after_the_system_message() -> None:
    text = render([{"role": "system", "content": "Be kind."}, HELLO], [WEATHER])
    assert text.startswith(f"<|im_start|>system\nBe kind.\n\n{TOOL_SECTION}<|im_end|>\n")


@pytest.mark.parametrize("arguments", [{"city": "Oslo"}, '{"city": "Oslo"}'])
def test_tool_call_arguments_may_be_an_object_or_its_text(arguments: object) -> None:
    text = render([HELLO, call(arguments), {"role": "tool", "content": "sunny"}], [WEATHER])
    assert f"<|im_start|>assistant\n{CALL_TEXT}<|im_end|>\n" in text


def test_content_stands_before_its_tool_call() -> None:
    message = call({"city": "Oslo"}) | {"content": "I look."}
    text = render([HELLO, message, HELLO])
    assert f"<|im_start|>assistant\nI look.\n{CALL_TEXT}<|im_end|>\n" in text


def test_two_tool_calls_stand_in_one_turn() -> None:
    message = call({"city": "Oslo"})
    message["tool_calls"] = [*message["tool_calls"], *message["tool_calls"]]  # type: ignore[misc,has-type]
    assert f"<|im_start|>assistant\n{CALL_TEXT}\n{CALL_TEXT}<|im_end|>\n" in render([HELLO, message, HELLO])


def test_tool_responses_share_a_user_turn() -> None:
    responses = [{"role": "tool", "content": "sunny"}, {"role": "tool", "content": "rainy"}]
    text = render([HELLO, call({"city": "Oslo"}), *responses])
    assert text.endswith(
        "<|im_start|>user\n<tool_response>\nsunny\n</tool_response>\n"
        "<tool_response>\nrainy\n</tool_response><|im_end|>\n"
    )


def test_reasoning_is_dropped_before_the_last_question() -> None:
    thought = {"role": "assistant", "content": "Hi!", "reasoning_content": "A greeting."}
    assert "A greeting." not in render([HELLO, thought, HELLO])


def test_reasoning_is_kept_after_the_last_question() -> None:
    message = call({"city": "Oslo"}) | {"reasoning_content": "I need the weather."}
    text = render([HELLO, message, {"role": "tool", "content": "sunny"}])
    assert f"<|im_start|>assistant\n<think>\nI need the weather.\n</think>\n\n{CALL_TEXT}" in text


def test_reasoning_inside_the_content_is_recognised() -> None:
    message = {"role": "assistant", "content": "<think>\nA greeting.\n</think>\n\nHi!"}
    assert render([HELLO, message, HELLO]) == render([HELLO, {"role": "assistant", "content": "Hi!"}, HELLO])


def test_tool_json_keeps_its_order_and_its_letters() -> None:
    tool = {"type": "function", "function": {"name": "naïve", "description": "<é & ü>"}}
    assert '{"name": "naïve", "description": "<é & ü>"}' in render([HELLO], [tool])
