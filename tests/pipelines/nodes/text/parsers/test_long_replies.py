"""Long replies in single characters take processor time in proportion to their length."""

import pytest
from patience import least_cpu_s

from pipelines.nodes.text.parsers.tables import REASONING, TOOLS
from pipelines.nodes.text.parsers.tools.model_json import ModelJson

pytestmark = pytest.mark.slow

CITY = {"properties": {"city": {"type": "string"}}}
DECLARED = [{"type": "function", "function": {"name": "f", "parameters": CITY}}]
FUNCTION = "<function=f>\n<parameter=city>\nx"
GEMMA = "<|tool_call>call:f{q:"
REPLIES = [
    ("pythonic", "[f(), g(s='", "a b "),
    ("lfm2", "<|tool_call_start|>[f(), g(s='", " "),
    ("glm47", "<tool_call>f", "\n"),
    ("glm47", "<tool_call>f\n<arg_key>", "\n"),
    ("glm47", "<tool_call>f\n<arg_key>", ">"),
    ("glm47", "<tool_call>f\n<arg_key>city</arg_key><arg_value>x<arg_key>", "\n"),
    ("qwen3_coder", "<function=f>", "\n"),
    ("qwen3_coder", f"{FUNCTION}\n<parameter=", "\n"),
    ("qwen3_coder", f"{FUNCTION}</parameter>", "<parameter= "),
    ("gemma4", f'{GEMMA}<|"|>a', "<tool_call|> "),
    ("gemma4", f"{GEMMA}[", "1,"),
]
SMALL, FACTOR = 3_000, 8


def push_all(parser, text):
    for char in text:
        parser.push(char)
    parser.push("", final=True)


def assert_linear(push, head, fill):
    """A text that is 8 times as long takes far less than 64 times as long, which its square would."""

    def cost(size, enough_s=0.0):
        text = head + (fill * size)[:size]
        return least_cpu_s(lambda: push(text), enough_s)

    bound_s = 3 * FACTOR * cost(SMALL) + 0.05
    assert cost(FACTOR * SMALL, bound_s) < bound_s


@pytest.mark.parametrize(("name", "head", "fill"), REPLIES)
def test_calls_that_do_not_end(name, head, fill):
    assert_linear(lambda text: push_all(TOOLS[name](DECLARED), text), head, fill)


@pytest.mark.parametrize("end", ["", "<|end|>", "<|return|>"])
@pytest.mark.parametrize("head", ["<|channel|>final", "<|start|>assistant<|channel|>final"])
def test_an_answer_after_a_header_without_an_end_is_content(head, end):
    text = " a word" * 60
    for pieces in ([head + text + end], list(head + text + end)):
        parser = REASONING["openai_gptoss"]("")
        out = [parser.push(each) for each in pieces] + [parser.push("", final=True)]
        assert "".join(content for _, content in out) == text


def test_white_space_before_a_header_is_read_once():
    assert (
        least_cpu_s(lambda: push_all(REASONING["openai_gptoss"](""), (" " * 190 + "<|end|>") * 20), 0.5) < 0.5
    )


def test_json_holds_what_waits_for_a_value_in_pieces():
    """White space, keys and numbers of any length pass whole."""
    for text in ('{"a": 1,' + " " * 500 + '"b": 2}', '{"' + "k" * 500 + '": 1}', '{"a": ' + "9" * 500 + "}"):
        writer = ModelJson()
        assert [writer.push(char) for char in text][-1] == ""
        assert writer.take() == text
