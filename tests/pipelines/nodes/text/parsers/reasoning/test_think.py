from every_case import every_case

from pipelines.nodes.text.parsers.tables import REASONING

ENDED = "<|im_start|>assistant\n"
OPENED = "<|im_start|>assistant\n<think>\n"
CLOSED = "<|im_start|>assistant\n<think>\n\n</think>\n\n"

TRANSCRIPTS = {
    "whole": (ENDED, "<think>\nTwo and two.\n</think>\n\nFour.", "Two and two.", "Four."),
    "none": (ENDED, "Four.", "", "Four."),
    "empty": (ENDED, "<think>\n\n</think>\n\nFour.", "", "Four."),
    "opened by the template": (OPENED, "Two and two.\n</think>\n\nFour.", "Two and two.", "Four."),
    "closed by the template": (CLOSED, "Four <think> five.", "", "Four <think> five."),
    "never closed": (ENDED, "<think>\nTwo and", "Two and", ""),
    "half a tag at the end": (ENDED, "<think>\nTwo</thi", "Two</thi", ""),
    "text first, so a later tag is text": (ENDED, "Well. <think>x</think>", "", "Well. <think>x</think>"),
    "a second block is content": (ENDED, "<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
    "inner blank lines stay": (ENDED, "<think>a\n\nb</think>c\n\nd", "a\n\nb", "c\n\nd"),
    "a call ends reasoning": (ENDED, "<think>a\n<tool_call>{}", "a", "<tool_call>{}"),
    "less-than signs": (ENDED, "<think>1 < 2</think>2 <3", "1 < 2", "2 <3"),
}


def parse(prompt, pieces):
    parser = REASONING["qwen3"](prompt)
    out = [parser.push(piece) for piece in pieces] + [parser.push("", final=True)]
    return "".join(r for r, _ in out), "".join(c for _, c in out)


@every_case("name", TRANSCRIPTS)
def test_whole(name):
    prompt, text, reasoning, content = TRANSCRIPTS[name]
    assert parse(prompt, [text]) == (reasoning, content)


@every_case("name", TRANSCRIPTS)
def test_split_at_every_character(name):
    prompt, text, reasoning, content = TRANSCRIPTS[name]
    for at in range(len(text) + 1):
        assert parse(prompt, [text[:at], text[at:]]) == (reasoning, content), at


@every_case("name", TRANSCRIPTS)
def test_one_character_at_a_time(name):
    prompt, text, reasoning, content = TRANSCRIPTS[name]
    assert parse(prompt, list(text)) == (reasoning, content)
