"""Folders of audio models: their graphs, and the ones that are refused."""

from __future__ import annotations

import json

import pytest

from graphs.check import check
from graphs.errors import GraphError
from pipelines.nodes import VOCABULARY
from pipelines.repository.exports.audio_graph import ENCODER, NEEDED
from pipelines.repository.new_graph import new_graph, recognise
from pipelines.values.tasks import TASKS


def folder_of(path, kind="voxtral", missing=None):
    for name in (*NEEDED, ENCODER):
        if name != missing:
            (path / name).write_text("{}")
    (path / "config.json").write_text(json.dumps({"model_type": kind}))
    (path / "chat_template.jinja").write_text("{{ messages }}")
    return path


def test_the_graph_reads_sounds_into_the_prompt(tmp_path):
    assert recognise(folder_of(tmp_path)) == "openvino"
    graph = check(new_graph(tmp_path), VOCABULARY, TASKS)
    sources = {line.name: [str(each) for each in line.sources.values()] for line in graph.bindings}
    assert sources["heard"] == ["sounds"]
    assert sources["tokens"] == ["prompt", "sounds"]
    assert sources["generated"] == ["tokens", "heard"]


def test_an_error_text_offers_the_type_of_its_node(tmp_path):
    text = new_graph(folder_of(tmp_path))
    assert text.count("type: audio") == 1
    with pytest.raises(GraphError, match="did you mean `audio`"):
        check(text.replace("type: audio", "type: sounds"), VOCABULARY, TASKS)


@pytest.mark.parametrize(
    ("kind", "missing", "words"),
    [
        ("ultravox", None, "models of type ultravox with sounds are not served; those of type voxtral are"),
        ("voxtral", "preprocessor_config.json", "preprocessor_config.json is missing; braid export"),
    ],
)
def test_others_are_refused_by_name(tmp_path, kind, missing, words):
    with pytest.raises(ValueError, match=words):
        new_graph(folder_of(tmp_path, kind, missing))
