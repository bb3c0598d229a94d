"""Models looked at without loading them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_decoder import byte_tokenizer
from peft_adapters import write_adapted_model, write_adapter

from pipelines.loading.inspection import find, inspect, schema_text


def export(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "openvino_model.xml").touch()
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text("{}")
    return folder


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "graph.yaml").write_text(text)
    return folder


NAMES_ANOTHER = "version: 1\ntask: completion\nnodes:\n  inner: {type: graph, graph: other}\n"


def test_every_model_of_a_repository(tmp_path):
    export(tmp_path / "a")
    write(tmp_path / "b", "version: 1\n")
    found = {finding.name: finding.graph is not None for finding in inspect(tmp_path)}
    assert found == {"a": True, "b": False}


def test_problems_name_the_model(tmp_path):
    write(tmp_path / "b", "version: 2\n")
    assert all(problem.startswith("b/graph.yaml:1: ") for problem in inspect(tmp_path)[0].problems)


def test_an_export_that_no_graph_serves_troubles_no_other(tmp_path):
    (export(tmp_path / "odd") / "modules.json").write_text('[{"type": "models.LSTM"}]')
    export(tmp_path / "plain")
    odd, plain = inspect(tmp_path)
    assert odd.problems[0].startswith("odd (no graph.yaml):1: modules.json has the module LSTM")
    assert plain.problems == ()


def test_one_model_s_folder(tmp_path):
    assert inspect(export(tmp_path / "a"))[0].name == "a"


def test_the_newest_version_is_looked_at(tmp_path):
    export(tmp_path / "a" / "1")
    write(tmp_path / "a" / "2", "version: 1\n")
    (finding,) = inspect(tmp_path)
    assert finding.graph is None


def test_a_folder_without_models(tmp_path):
    assert inspect(tmp_path) == []


def test_a_graph_that_names_its_neighbour(tmp_path):
    export(tmp_path / "other")
    folder = write(tmp_path / "a", NAMES_ANOTHER)
    assert inspect(folder)[0].problems == ()


def test_a_graph_that_names_no_neighbour(tmp_path):
    export(tmp_path / "others")
    (problem,) = inspect(write(tmp_path / "a", NAMES_ANOTHER))[0].problems
    assert problem == "a/graph.yaml:4: there is no graph `other`; did you mean `others`?"


def test_bytes_that_are_no_text(tmp_path):
    (write(tmp_path / "a", "") / "graph.yaml").write_bytes(b"\xff\xfe\x00")
    (problem,) = inspect(tmp_path)[0].problems
    assert problem.startswith("a/graph.yaml:1: ")


def test_a_graph_made_for_an_export_is_not_written(tmp_path):
    assert inspect(export(tmp_path / "a"))[0].source == "a (no graph.yaml)"


def test_find_by_name(tmp_path):
    export(tmp_path / "a")
    assert find("a", tmp_path).name == "a"


def test_find_by_folder(tmp_path):
    assert find(str(export(tmp_path / "a")), tmp_path / "elsewhere").name == "a"


def test_find_neither(tmp_path):
    export(tmp_path / "a")
    with pytest.raises(LookupError, match="which holds: a"):
        find("b", tmp_path)


def test_a_model_with_problems_cannot_be_drawn(tmp_path):
    write(tmp_path / "b", "version: 1\n")
    with pytest.raises(ValueError, match="b has problems"):
        inspect(tmp_path)[0].mermaid()


def test_the_schema_knows_every_node_type():
    from pipelines.nodes import NODE_TYPES

    assert {f"type.{name}" for name in NODE_TYPES} <= set(json.loads(schema_text())["$defs"])


def test_adapters_are_listed_and_their_folder_is_drawn(tmp_path):
    folder = write_adapted_model(tmp_path / "a", "poet").parent
    write_adapter(tmp_path / "a" / "adapters" / "dora", use_dora=True)
    finding = inspect(folder)[0]
    assert "logits<br/>model<br/>adapters/" in finding.mermaid()
    refused, listed = finding.notes
    assert refused.startswith("adapter dora cannot be used: ")
    assert listed == "adapter poet: rank 2"


def test_the_levels_of_reasoning_of_a_template_are_shown(tmp_path):
    folder = export(tmp_path / "a")
    template = (
        "{% if reasoning_effort is defined %}{{ {'low': 1, 'max': 2}[reasoning_effort] + 0 }}{% endif %}"
    )
    (folder / "chat_template.jinja").write_text(template + "{{ messages[0].content }}")
    (finding,) = inspect(folder)
    assert finding.notes == (
        "chat template: reasoning_effort none as low, minimal as low, low, medium as low, high as max, xhigh as max, max",
    )
