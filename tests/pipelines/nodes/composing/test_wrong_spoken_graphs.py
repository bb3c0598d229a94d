"""Graphs that hear and speak wrongly: each is refused before anything is loaded, with its line and what is meant."""

from __future__ import annotations

import pytest
from every_case import every_case
from fake_decoder import write_fake_model
from speech_graphs import READER
from voice_models import write_voice

from pipelines.loading.inspection import inspect

HEARD = "heard: {type: transcribe, graph: reader, from: request}"
SAID = "said: {type: graph, graph: tiny, from: heard}"
SPOKEN = "reply: {type: speak, graph: voice, from: said}"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    write_fake_model(folder / "tiny")
    for name in ("voice", "reader", "wrong"):
        (folder / name).mkdir()
    write_voice(folder / "voice")
    (folder / "reader" / "graph.yaml").write_text(READER)
    for name in ("f.json", "encoder.onnx", "decoder.onnx"):
        (folder / "reader" / name).write_text("{}")
    return folder


@every_case(
    ("lines", "problem"),
    [
        ([HEARD, SAID, SPOKEN.replace("voice", "tiny")], "6: the task of `tiny` is `chat`; this line needs one of `speak`"),
        ([HEARD, SAID, SPOKEN.replace("voice", "voize")], "6: there is no graph `voize`; did you mean `voice`?"),
        ([HEARD.replace("reader", "tiny"), SAID, SPOKEN], "4: the task of `tiny` is `chat`; this line needs one of `transcribe`"),
        (["reply: {type: speak, graph: voice, from: request}"], "4: the input `reply` of `speak` takes Stream[ReplyUpdate], but `request` gives GenerationInput"),
        (["reply: {type: speak, graph: voice}"], "4: `speak` needs the input `reply`"),
        ([HEARD, SPOKEN.replace("said", "heard")], "5: the input `reply` of `speak` takes Stream[ReplyUpdate], but `heard` gives GenerationInput"),
        ([HEARD.replace("heard", "reply")], "4: the task `chat` replies Stream[ReplyUpdate], but the last line, `reply`, gives GenerationInput"),
        ([HEARD, SAID, SPOKEN.replace("}", ", speed: 9}")], "6: `speed` must be less than or equal to 4, not 9"),
        ([HEARD, SAID, SPOKEN.replace("}", ", voise: a}")], "6: unknown setting `voise`; did you mean `voice`?"),
        ([HEARD, SAID, "asked: {type: ask, graph: tiny, template: '{{ said }}', from: {said: said}}", SPOKEN], "6: nothing reads `asked`"),
        (
            [HEARD, SAID, "aloud: {type: speak, graph: voice, from: said}",
             "reply: {type: ask, graph: tiny, template: '{{ said }} {{ aloud }}', from: {said: said, aloud: aloud}}"],
            "7: reply (ask): it reads the same stream as `aloud`, which comes once; read one of them",
        ),
    ],
)  # fmt: skip
def test_each_spoken_graph_is_refused_with_its_line(models, lines, problem):
    text = "version: 1\ntask: chat\nnodes:\n" + "".join(f"  {line}\n" for line in lines)
    (models / "wrong" / "graph.yaml").write_text(text)
    found = inspect(models / "wrong")[0].problems
    assert any(f"graph.yaml:{problem}" in each for each in found), found


def test_what_they_are_made_from_is_right_too(models):
    text = "version: 1\ntask: chat\nnodes:\n" + "".join(f"  {line}\n" for line in (HEARD, SAID, SPOKEN))
    (models / "wrong" / "graph.yaml").write_text(text)
    assert inspect(models / "wrong")[0].problems == ()
