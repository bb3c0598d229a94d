"""Long replies in single characters take processor time in proportion to their length."""

import pytest
from patience import assert_linear, least_cpu_s

from pipelines.nodes.text.parsers.tables import REASONING, TOOLS
from pipelines.nodes.text.parsers.tools.families import FAMILIES
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
SMALL = 3_000


def push_all(parser, text):
    for char in text:
        parser.push(char)
    parser.push("", final=True)


def assert_reads_once(push, head, fill):
    assert_linear(lambda size: push(head + (fill * size)[:size]), SMALL)


@pytest.mark.parametrize(("name", "head", "fill"), REPLIES)
def test_calls_that_do_not_end(name, head, fill):
    assert_reads_once(lambda text: push_all(TOOLS[name](DECLARED), text), head, fill)


@pytest.mark.parametrize(
    ("name", "head", "fill"),
    [("deepseek_v32", '<｜DSML｜parameter name="a', "\n"), ("qwen3_coder", "<parameter=", " ")],
)
def test_a_key_without_an_end(name, head, fill):
    """Each line break has such a tag read once more."""
    pattern = FAMILIES[name].blocks[0].reader.args[0].parameter
    assert_reads_once(lambda text: pattern.match(f"{text}\n"), head, fill)


def test_elements_with_half_a_tag():
    """The text of a block is read once it ends."""

    def push(text):
        parser = TOOLS["minicpm5"](DECLARED)
        parser.push(text)
        parser.push('"x></function>', final=True)

    assert_reads_once(push, '<function name="f"><param name="a', " ")


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
