"""A graph as plain data: the nodes of the drawing, with the lines that they are on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphs.compose import Graphs, GraphSource
from graphs.draw import text
from graphs.outline import outline
from pipelines.loading.inspection import inspect
from pipelines.nodes import VOCABULARY
from pipelines.values.tasks import TASKS

REPOSITORY = Path(__file__).parents[2] / "model_repo"
FOUND = {finding.name: finding for finding in inspect(REPOSITORY)}


@pytest.mark.parametrize("name", FOUND)
def test_every_node_is_on_the_line_that_it_names(name):
    lines = (REPOSITORY / name / "graph.yaml").read_text().splitlines()
    nodes = list(outline(FOUND[name].graph).walk())
    assert nodes
    for node in nodes:
        assert lines[node.line - 1].strip().startswith(f"{node.name}:")


@pytest.mark.parametrize("name", FOUND)
def test_the_nodes_are_those_of_the_drawing_in_its_order(name):
    drawn = [
        row.replace("│", " ").split()[1:3]
        for row in text(FOUND[name].graph).splitlines()
        if row.replace("│", " ").split()[:1] in (["●"], ["◆"])
    ]
    assert [[node.name, node.type] for node in outline(FOUND[name].graph).walk()] == drawn


def test_a_body_is_within_its_node_and_reads_the_step():
    drawn = outline(FOUND["braid-demo"].graph)
    (engine,) = [node for node in drawn.nodes if node.body]
    assert (engine.path, engine.root, engine.root_type, engine.process) == (
        "generated",
        "step",
        "StepContext",
        "engine host",
    )
    assert [node.path for node in engine.body] == ["generated.logits", "generated.allowed", "generated.next"]
    assert engine.settings["cache.memory_gb"] == 0.25
    assert (drawn.nodes[0].process, drawn.request, drawn.reply) == (
        "worker",
        "GenerationInput",
        "Stream[ReplyUpdate]",
    )


def test_it_is_written_with_the_words_of_the_file():
    written = json.loads(outline(FOUND["braid-demo"].graph).model_dump_json())
    assert written["nodes"][1]["from"] == {"prompts": "prompt"}


def test_a_node_that_is_another_graph_names_it():
    sources = {
        "inner": GraphSource((REPOSITORY / "braid-embed" / "graph.yaml").read_text()),
        "outer": GraphSource(
            "version: 1\ntask: embed\nnodes:\n  all: {type: graph, from: request, graph: inner}\n"
        ),
    }
    graph = Graphs(sources, VOCABULARY, TASKS)("outer")
    assert graph is not None
    (node,) = outline(graph).nodes
    assert (node.graphs, node.process, node.body) == (["inner"], "worker", [])
