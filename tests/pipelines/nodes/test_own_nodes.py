"""Node types of a model's own, in the nodes.py of its folder: read, refused, and run with a limit."""

from __future__ import annotations

import re

import pytest
from every_case import every_case
from own_node_model import HIDE_NUMBERS, write_own_model

from graphs.graph import Graph
from pipelines.base.errors import EngineError, RequestError
from pipelines.loading.inspection import Finding, inspect
from pipelines.nodes import own_nodes
from pipelines.nodes.own_setting import LIMIT_SETTING, SETTING
from pipelines.values.node_values import Prompt
from pipelines.values.stream_values import Deferred

HEAD = "from graphs.node import Node, NodeConfig\nfrom pipelines.values.node_values import Prompt\n"
RUN = "    def run(self, call, prompts: list[Prompt]) -> list[Prompt]:\n        "


@pytest.fixture(autouse=True)
def allowed(monkeypatch):
    monkeypatch.setenv(SETTING, "1")


def found(folder, nodes=HIDE_NUMBERS) -> Finding:
    (finding,) = inspect(write_own_model(folder / "m", nodes))
    return finding


def hide_numbers(folder, body, head=HEAD):
    """A live node whose `run` has this body."""
    graph = found(folder, f"{head}\nclass HideNumbers(Node):\n{RUN}{body}\n").graph
    assert isinstance(graph, Graph)
    binding = graph["hidden"]
    return binding.type(binding.config, folder)


def test_a_class_is_a_node_type_and_its_signature_the_ports(tmp_path):
    graph = found(tmp_path).graph
    binding = graph["hidden"]
    assert (binding.type_name, str(binding.sources["prompts"])) == ("hide_numbers", "prompt")
    node = binding.type(binding.config, tmp_path)
    assert node.run(None, prompts=[Prompt(text="to 12345678 now")]) == [Prompt(text="to [number] now")]


def test_nothing_is_written_into_the_folder(tmp_path):
    found(tmp_path)
    assert not list(tmp_path.rglob("__pycache__"))


def test_settings_are_those_of_its_config(tmp_path):
    config = "    class Config(NodeConfig):\n        word: str\n"
    nodes = f"{HEAD}\nclass HideNumbers(Node):\n{config}\n{RUN}return prompts\n"
    assert [problem.rpartition(": ")[2] for problem in found(tmp_path, nodes).problems] == [
        "the setting `word` is missing"
    ]


@every_case(
    ("nodes", "problem"),
    [
        ("def x(:", "m/nodes.py:1: not Python: invalid syntax"),
        ("\nraise ValueError('no')", "m/nodes.py:2: its import raised ValueError: no"),
        ("import sys\nsys.exit(4)", "m/nodes.py:2: its import raised SystemExit: 4"),
        ("x = 1", "m/nodes.py:1: it holds no node: write a class that derives from `graphs.node.Node`"),
        (
            f"{HEAD}\nclass Tokenize(Node):\n{RUN}return prompts",
            "m/nodes.py:4: `tokenize` is the name of a built-in node; give the class another name",
        ),
        (
            f"{HEAD}\nclass HideNumbers(Node):\n    def run(self, call, prompts) -> list[Prompt]: ...",
            "m/nodes.py:4: the input `prompts` of `HideNumbers.run` has no type, such as "
            "`prompts: list[Prompt]`",
        ),
        (
            f"{HEAD}\nclass HideNumbers(Node):\n    def run(self, call, prompts: list[Prompt]): ...",
            "m/nodes.py:4: `HideNumbers.run` has no type of its result, such as `-> list[Prompt]`",
        ),
        (
            f"{HEAD}\nclass HideNumbers(Node):\n    def run(self, prompts: list[Prompt]) -> int: ...",
            "m/nodes.py:4: the first parameters of `HideNumbers.run` must be `self` and `call`",
        ),
        (
            f"{HEAD}\nclass HideNumbers(Node):\n    def run(self, call, *prompts: Prompt) -> int: ...",
            "m/nodes.py:4: the input `prompts` of `HideNumbers.run` needs a name of its own",
        ),
        (
            f"{HEAD}\nclass HideNumbers(Node):\n    async def run(self, call) -> int: ...",
            "m/nodes.py:4: `HideNumbers` needs a method `run(self, call, …)`, which returns its value",
        ),
        (
            f"{HEAD}\nclass HideNumbers(Node): ...",
            "m/nodes.py:4: `HideNumbers` needs a method `run(self, call, …)`, which returns its value",
        ),
        (
            f"from __future__ import annotations\n{HEAD}\nclass HideNumbers(Node):\n"
            "    def run(self, call, prompts: list[Promt]) -> int: ...",
            "m/nodes.py:5: the types of `HideNumbers` cannot be read: NameError: name 'Promt' is not defined",
        ),
        (
            f"{HEAD}\nclass HideNumbers(Node):\n    place = 'step'\n{RUN}return prompts",
            "m/nodes.py:4: `HideNumbers` is not for requests: leave out `place`, `body` and `ports_for`",
        ),
        (
            f"{HEAD}\nclass HideNumbers(Node):\n    class Config: ...\n{RUN}return prompts",
            "m/nodes.py:4: `HideNumbers.Config` must derive from `graphs.node.NodeConfig`",
        ),
        (
            f"{HEAD}from pipelines.values.stream_values import Stream\nclass HideNumbers(Node):\n"
            "    def run(self, call, prompts: list[Prompt]) -> Stream[int]: ...",
            "m/nodes.py:4: `HideNumbers.run` gives Stream[int]; a node of nodes.py gives values that come whole",
        ),
        (
            f"{HEAD}\nclass HidNumbers(Node):\n{RUN}return prompts",
            "m/graph.yaml:5: unknown node type `hide_numbers`; did you mean `hid_numbers`?",
        ),
        (
            f"{HEAD}\nclass HideNumbers(Node):\n    def run(self, call, prompts: bytes) -> list[Prompt]: ...",
            "m/graph.yaml:5: the input `prompts` of `hide_numbers` takes bytes, but `prompt` gives list[Prompt]",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, nodes, problem):
    assert found(tmp_path, nodes).problems == (problem,)


def test_an_import_without_end_is_a_problem_too(tmp_path, monkeypatch):
    monkeypatch.setattr(own_nodes, "IMPORT_S", 0.1)
    (problem,) = found(tmp_path, "\nwhile True:\n    x = 1").problems
    assert re.fullmatch(r"m/nodes.py:[23]: its import did not end within 0.1 s", problem)


def test_a_folder_with_a_problem_troubles_no_other(tmp_path):
    write_own_model(tmp_path / "bad", "raise ValueError")
    write_own_model(tmp_path / "good")
    assert [finding.graph is not None for finding in inspect(tmp_path)] == [False, True]


def test_without_leave_its_types_are_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.delenv(SETTING)
    assert found(tmp_path, HIDE_NUMBERS + "\nraise ValueError('it was run')").problems == (
        "m/graph.yaml:5: the node type `hide_numbers` cannot be used here: it is code of nodes.py, which is "
        "run only with BRAID_ALLOW_NODE_CODE=1",
    )


def test_without_leave_a_graph_that_needs_none_of_it_is_served(tmp_path, monkeypatch):
    monkeypatch.delenv(SETTING)
    folder = write_own_model(tmp_path / "m", "class Tokenize:\n    pass\n")
    (folder / "graph.yaml").write_text((folder / "graph.yaml").read_text().replace("hide_numbers", "trim"))
    assert "unknown node type `trim`" in inspect(folder)[0].problems[0]


@pytest.mark.parametrize("fault", ["return 1 // 0", "raise KeyboardInterrupt", "raise SystemExit(0)"])
def test_a_run_that_fails_names_its_place(tmp_path, fault):
    node = hide_numbers(tmp_path, fault)
    with pytest.raises(EngineError, match=r"`HideNumbers` failed at m/nodes.py:6; see the server's log"):
        node.run(None, prompts=[])


def test_a_run_may_refuse_its_request(tmp_path):
    node = hide_numbers(
        tmp_path, "raise RequestError('not this')", HEAD + "from pipelines.base.errors import RequestError\n"
    )
    with pytest.raises(RequestError, match="not this"):
        node.run(None, prompts=[])


def test_a_run_without_end_ends_at_its_limit(tmp_path, monkeypatch):
    monkeypatch.setenv(LIMIT_SETTING, "0.1")
    node = hide_numbers(tmp_path, "while True: pass")
    message = r"`HideNumbers` did not end within 0.1 s; it was at m/nodes.py:6"
    with pytest.raises(EngineError, match=message):
        node.run(None, prompts=[])


def test_what_it_makes_of_a_later_value_is_bounded_too(tmp_path, monkeypatch):
    monkeypatch.setenv(LIMIT_SETTING, "0.1")
    given = Deferred(None, (len,))
    node = hide_numbers(tmp_path, "return prompts.map(lambda value: [iter(int, 1) for _ in iter(int, 1)])")
    earlier, own = node.run(None, prompts=given).makers
    assert earlier is len
    assert own.takes_long
    with pytest.raises(EngineError, match="did not end within 0.1 s"):
        own([])


def test_a_worker_knows_that_it_takes_long(tmp_path):
    assert found(tmp_path).graph["hidden"].type.takes_long
    assert not found(tmp_path).graph["tokens"].type.takes_long


def test_a_node_that_cannot_be_made_is_a_problem_of_its_line(tmp_path):
    nodes = f"{HEAD}\nclass HideNumbers(Node):\n    def load(self, resources): self.folder.absent\n{RUN}return prompts"
    (problem,) = found(tmp_path, nodes).problems
    assert problem.startswith("graph.yaml:5: hidden (hide_numbers): ")
    assert problem.endswith("has no attribute 'absent'")
