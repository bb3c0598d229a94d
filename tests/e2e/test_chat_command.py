"""`braid chat` as a process: at a terminal and in a pipe, with a real server of the shipped models."""

from __future__ import annotations

import json

import httpx
import pytest
from patience import PATIENCE_S
from terminal_program import TerminalProgram, run_inside, run_piped

QUESTION = "What is the capital of France?"
TOOL = {
    "name": "get_weather",
    "description": "Current weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
DIM, CYAN = "\x1b[2;3m", "\x1b[36m"
ENDLESS = ("--field", "ignore_eos=true", "--max-tokens", "1900")


@pytest.fixture
def chat(demo):
    def start(*arguments):
        return TerminalProgram("chat", "braid-demo", "--url", demo.url, *arguments)

    return start


@pytest.fixture
def tools_file(tmp_path):
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([TOOL]))
    return str(file)


def answer(demo, question, **fields):
    """What the server itself replies."""
    body = {"model": "braid-demo", "messages": [{"role": "user", "content": question}], **fields}
    reply = httpx.post(f"{demo.url}/v1/chat/completions", json=body, timeout=PATIENCE_S)
    return reply.json()["choices"][0]["message"]["content"]


def test_piped_input_is_answered_as_plain_text(demo):
    done = run_piped("chat", "braid-demo", "--url", demo.url, "--temperature", "0", given=QUESTION)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == answer(demo, QUESTION, temperature=0) + "\n"
    assert "Paris" in done.stdout


def test_without_a_model_the_first_of_the_server_answers(demo):
    first = httpx.get(f"{demo.url}/v1/models").json()["data"][0]["id"]
    assert first == "braid-demo"
    assert "Paris" in run_inside("chat", "--url", f"{demo.url}/v1", given=QUESTION).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no-such-model",), "404: The model `no-such-model` does not exist"),
        (("braid-demo", "--temperature", "9"), "400: "),
        (("braid-demo", "--field", "nonsense"), "--field: nonsense is not NAME=JSON"),
    ],
)
def test_what_fails_in_a_pipe_is_said_and_counts(demo, arguments, message):
    done = run_inside("chat", *arguments, "--url", demo.url, given="hi")
    assert done.returncode != 0
    assert message in done.stderr
    assert done.stdout == ""


def test_a_server_that_is_not_there():
    done = run_inside("chat", "--url", "http://127.0.0.1:1", given="hi")
    assert done.returncode == 1
    assert "no reply of http://127.0.0.1:1/v1" in done.stderr


def test_a_conversation_at_a_terminal(chat, demo):
    with chat("--temperature", "0") as program:
        program.type("> ", "My name is Anna.\n")
        program.type("\n> ", "What is my name?\n")
        assert "Anna" in program.type("\n> ", "/reset\n").partition("What is my name?")[2]
        program.until("a new conversation")
        program.type("> ", "What is my name?\n")
        assert "Anna" not in program.type("\n> ", "/quit\n").partition("What is my name?")[2]
        assert program.ended() == 0


def test_commands_change_model_and_system_prompt(chat):
    with chat("--temperature", "0") as program:
        program.type("> ", "/model\n")
        assert "braid-embed" in program.until("braid-topics")
        program.type("> ", "/model french\n")
        program.until("talking to french")
        program.type("> ", "She has a small house.\n")
        assert "maison" in program.type("\n> ", "/system Answer in one word.\n").partition("house.")[2]
        program.until("system prompt set")
        program.type("> ", "/nothing\n")
        program.until("/reset ")
        program.type("> ", "\x04")  # Ctrl-D
        assert program.ended() == 0


def test_ctrl_c_stops_the_reply_and_not_the_program(chat, demo):
    with chat(*ENDLESS) as program:
        program.type("> ", "Hello\n")
        program.until("Hello\r\n")
        demo.wait_for(lambda: demo.metric("vllm:num_requests_running", "braid-demo") == 1)
        program.until(" ")
        program.interrupt()
        program.until("[stopped]")
        demo.wait_for(lambda: demo.metric("vllm:num_requests_running", "braid-demo") == 0)
        program.type("> ", "/quit\n")
        assert program.ended() == 0


def test_reasoning_is_dimmed_and_results_of_tools_are_asked_for(chat, tools_file):
    thinking = ("--field", 'chat_template_kwargs={"enable_thinking": true}', "--temperature", "0")
    with chat("--tools", tools_file, *thinking) as program:
        program.type("> ", "What is the weather in Oslo?\n")
        seen = program.type("result of get_weather> ", '{"temperature": 3}\n')
        assert DIM in seen
        assert f"{CYAN}→ get_weather " in seen
        assert "Oslo" in seen.partition("→")[2]
        assert "3" in program.type("\n> ", "/quit\n").partition('{"temperature": 3}')[2]
        assert program.ended() == 0


def test_a_call_in_a_pipe_is_printed(demo, tools_file):
    done = run_inside(
        "chat",
        "--tools",
        tools_file,
        "--temperature",
        "0",
        "--url",
        demo.url,
        given="What is the weather in Oslo?",
    )
    name, _, arguments = done.stdout.removeprefix("→ ").partition(" ")
    assert (name, json.loads(arguments)) == ("get_weather", {"city": "Oslo"})


def test_the_key_comes_from_the_environment(demo, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("BRAID_URL", demo.url)
    done = run_inside("chat", "--stats", given=QUESTION)
    assert "Paris" in done.stdout
    assert "tokens/s" in done.stderr
