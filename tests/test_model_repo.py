"""What the repository ships is right: its models' graphs, and every graph that a document shows."""

import re
from pathlib import Path

import pytest

from graphs.check import check
from graphs.errors import GraphError
from pipelines.build import graphs_of
from pipelines.inspection import inspect
from pipelines.nodes import VOCABULARY
from pipelines.repository import scan
from pipelines.tasks import TASKS

ROOT = Path(__file__).parent.parent
MAX_DEMO_BYTES = 6 << 20


def documents():
    return [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "model_repo").rglob("*.md")),
    ]


def graphs_in(text):
    """Fenced YAML that is a whole graph (it says `nodes:`)."""
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    return [block for block in blocks if re.search(r"^nodes:", block, re.MULTILINE)]


SHOWN = [(path.name, block) for path in documents() for block in graphs_in(path.read_text())]


@pytest.mark.parametrize("finding", inspect(ROOT / "model_repo"), ids=lambda finding: finding.name)
def test_a_shipped_model_has_no_problems(finding):
    assert finding.problems == ()


def test_the_readme_shows_graphs():
    assert [name for name, _ in SHOWN if name == "README.md"]


@pytest.mark.parametrize(
    ("document", "text"), SHOWN, ids=[f"{name}-{i}" for i, (name, _) in enumerate(SHOWN)]
)
def test_a_shown_graph_passes_the_check(document, text):
    shipped = graphs_of(scan(ROOT / "model_repo"))
    try:
        check(text, VOCABULARY, TASKS, folder=None, graphs=shipped, source=document)
    except GraphError as error:
        pytest.fail(str(error))


def test_the_demo_model_is_small():
    files = [path for path in (ROOT / "model_repo" / "braid-demo").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MAX_DEMO_BYTES
