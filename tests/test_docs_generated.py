"""Pages of docs/ that are generated from the code are current; `make docs` writes them again."""

from functools import cache
from pathlib import Path

import pytest
from every_case import every_case

from pipelines.nodes import NODE_TYPES, VOCABULARY
from pipelines.values.tasks import TASKS
from server.base.settings import Settings
from tools.lab.reference import apis, graphs, settings
from tools.lab.reference.setting_rows import default_text, setting_rows, table, type_text

DOCS = Path(__file__).parent.parent / "docs"
REFERENCE = cache(graphs.page)


@pytest.mark.parametrize(
    ("page", "file"),
    [(REFERENCE, "graph_reference.md"), (settings.page, "settings.md")],
    ids=["graph reference", "settings"],
)
def test_a_generated_page_is_current(page, file):
    assert (DOCS / file).read_text() == page(), "run `make docs`"


def test_the_table_of_api_families_is_current():
    page = (DOCS / "api.md").read_text()
    assert apis.BEGIN in page
    assert apis.with_table(page) == page, "run `make docs`"


@every_case("name", NODE_TYPES)
def test_every_node_type_has_a_section_and_says_what_it_is_for(name):
    assert f"\n#### {name}\n" in REFERENCE()
    assert graphs.first_paragraph(VOCABULARY[name])


@every_case("model", [Settings, *(VOCABULARY[name].Config for name in NODE_TYPES)])
def test_every_setting_has_a_description(model):
    assert [name for name, _, _, description in setting_rows(model) if not description] == []


def test_every_task_is_on_the_page():
    assert all(f"| `{task}` |" in REFERENCE() for task in TASKS)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 4096}, "integer ≥ 1, ≤ 4,096"),
        ({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]}, "number > 0"),
        ({"enum": ["a", "b"], "type": "string"}, "`a`, `b`"),
        ({"const": "cpu"}, "`cpu`"),
        ({"type": "array", "items": {"type": "integer"}}, "list of integer"),
        ({"type": "string", "format": "path"}, "path"),
        ({"type": "boolean"}, "true or false"),
        ({}, "any"),
    ],
)
def test_types_in_words(schema, words):
    assert type_text(schema) == words


def test_defaults_are_written_as_in_a_graph_file():
    assert [default_text(value) for value in (0, False, "auto", None, {})] == [
        "`0`",
        "`false`",
        "`auto`",
        "",
        "",
    ]


def test_a_bar_in_a_cell_does_not_end_it():
    assert table(("type",), [("a | b",)]).splitlines()[-1] == "| a \\| b |"
