"""The table of where a step's time goes, made of two profiles; and the operators of a model."""

from __future__ import annotations

import io
import json

import pytest
from click.testing import CliRunner
from gguf import GGMLQuantizationType
from gguf_files import write_llama_like
from rich.console import Console
from step_profiles import kind, phase, told

from tools.client.http_client import RequestFailed
from tools.lab.profile_step import __main__ as command
from tools.lab.profile_step.difference import profile_difference
from tools.lab.profile_step.operators import Operators, Row, operator_name, operator_rows
from tools.lab.profile_step.tables import operator_table, tables

BEFORE = told(100.0, kind("decoding", 10, phase("plan", 1.0), phase("body.logits", 4.0, "model")), steps=5.0)
AFTER = told(
    110.0,
    kind("decoding", 20, phase("plan", 2.0), phase("body.logits", 7.0, "model", 0.25)),
    kind("with_prompts", 1, phase("plan", 2.0)),
    steps=12.0,
    runs=50,
)


def printed(table):
    console = Console(file=io.StringIO(), width=120)
    console.print(table)
    return console.file.getvalue()


def test_nodes_in_workers_have_a_table_of_their_own():
    ran = profile_difference(BEFORE, AFTER)
    (row,) = ran.worker
    assert (row.node, row.runs, row.mean_ms, row.share) == (
        "tokens",
        50,
        pytest.approx(2),
        pytest.approx(0.01),
    )
    assert "tokens" in printed(next(tables(ran)))
    assert profile_difference(AFTER, AFTER | {"host": {"seconds": 120.0, "phases": []}}).worker == []


def test_what_ran_is_what_two_profiles_differ_by():
    ran = profile_difference(BEFORE, AFTER)
    decoding, prompts = ran.kinds
    assert (ran.seconds, decoding.steps, decoding.seconds) == (10.0, 10, 4.0)
    assert [(row.phase, row.share, row.mean_ms, row.p50_ms) for row in decoding.rows] == [
        ("plan", 0.25, 100.0, 0.0),
        ("body.logits", 0.75, 300.0, 250.0),
    ]
    assert (decoding.tokens, decoding.sequences, decoding.output_tokens) == (8, 4, 2)
    assert (prompts.kind, prompts.steps, prompts.seconds) == ("with_prompts", 1, 2.0)
    assert ran.host == pytest.approx({"idle": 0.3, "steps": 0.7})
    assert ran.other_steps == pytest.approx(0.1)
    assert ran.output_tokens_per_s == pytest.approx(2.2)


def test_nothing_ran():
    assert profile_difference(BEFORE, {**BEFORE, "host": AFTER["host"]}).kinds == []


def test_a_model_that_was_loaded_anew_begins_at_nothing():
    anew = told(110.0, kind("decoding", 3, phase("plan", 0.6)))
    (decoding,) = profile_difference(BEFORE, anew).kinds
    assert (decoding.steps, round(decoding.seconds, 6)) == (3, 0.6)


def test_tables_show_each_kind_and_the_host():
    texts = [printed(table) for table in tables(profile_difference(BEFORE, AFTER))]
    assert [text.strip().splitlines()[0].strip() for text in texts] == [
        "m: nodes in workers",
        "generated: 10 steps decoding only",
        "generated: 1 steps with prompts",
        "m: the engine host's thread",
    ]
    (line,) = (line for line in texts[1].splitlines() if "body.logits" in line)
    assert [cell.strip() for cell in line.split("│")[1:4]] == ["body.logits", "model", "75.00"]
    assert "40.0% of the time, 2.0 tokens/s" in texts[1]


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        (
            "FullyConnectedCompressed",
            "__module.model.layers.12.mlp.up_proj/aten::linear/MatMul",
            "product mlp.up_proj",
        ),
        ("FullyConnected", "__module.model.lm_head/aten::linear/MatMul", "product lm_head"),
        ("FullyConnected", "__module.lm_head/aten::linear/MatMul", "product lm_head"),
        ("FullyConnected", "MatMul_17", "product by weights"),
        ("PagedAttentionExtension", "PagedAttentionExtension_3", "attention"),
        ("ShapeOf", "anything", "the rest"),
    ],
)
def test_operators_have_names_for_people(kind, name, expected):
    assert operator_name(kind, name) == expected


def test_operators_of_a_sort_are_one_row_and_those_that_did_not_run_none():
    assert operator_rows([("a", 0.001), ("b", 0.003), ("a", 0.001), ("c", 0.0)]) == [
        Row("b", 1, 3.0),
        Row("a", 2, 2.0),
    ]


def test_what_no_operator_counted_is_between_them():
    text = printed(operator_table(Operators(8, 128, 1, 5, 10.0, [Row("attention", 28, 6.0)])))
    (line,) = (line for line in text.splitlines() if "between them" in line)
    assert "4.000" in line
    assert "40.00" in line


@pytest.mark.parametrize("tokens", [1, 20])
def test_the_operators_of_a_folder_are_counted_as_its_graph_runs_them(
    tmp_path, monkeypatch, kernel_folder, tokens
):
    monkeypatch.setenv("BRAID_KERNELS", str(kernel_folder))
    folder = tmp_path / "tiny"
    folder.mkdir()
    write_llama_like(folder / "tiny.gguf", kind=GGMLQuantizationType.Q8_0)
    options = ["--nodes", str(folder), "--load", "3", "--tokens", str(tokens), "--seconds", "0"]
    done = CliRunner().invoke(command.main, options)
    assert done.exit_code == 0, done.output
    assert "own product" in done.output
    assert "3 sequences with 128 tokens" in done.output
    assert ("20 more" in done.output) == (tokens == 20)


class FakeServer:
    """Profiles in their order."""

    def __init__(self, url, key):
        self._told = [BEFORE, AFTER]

    def model_names(self):
        return ["m"]

    def get(self, path):
        assert path.startswith("/models/m/profile?seconds=")
        return self._told.pop(0)


def test_the_command_asks_twice_and_writes_what_it_was_told(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "server_at", FakeServer)
    done = CliRunner().invoke(command.main, ["--seconds", "0", "--json", str(tmp_path / "told.json")])
    assert done.exit_code == 0, done.output
    assert "10 steps decoding only" in done.output
    assert json.loads((tmp_path / "told.json").read_text()) == [BEFORE, AFTER]


def test_several_models_must_be_told_apart(monkeypatch):
    monkeypatch.setattr(FakeServer, "model_names", lambda self: ["a", "b"])
    monkeypatch.setattr(command, "server_at", FakeServer)
    done = CliRunner().invoke(command.main, [])
    assert (done.exit_code, "ready: a, b" in done.output) == (1, True)


def test_without_a_server_it_says_so():
    done = CliRunner().invoke(command.main, ["--url", "http://127.0.0.1:9"])
    assert done.exit_code == 1
    assert done.output.startswith("Error: no reply of http://127.0.0.1:9/v1: ")


class ListedModels:
    """Of a server's client no more than the names of its models."""

    def __init__(self, *names):
        self.model_names = lambda: list(names)


def test_without_a_name_the_only_model_is_watched():
    assert command._only_model(ListedModels("one")) == "one"
    for names, said in (((), "none"), (("one", "two"), "one, two")):
        with pytest.raises(RequestFailed, match=f"--model is required; models that are ready: {said}"):
            command._only_model(ListedModels(*names))
