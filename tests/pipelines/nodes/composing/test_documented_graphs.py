"""The graphs in examples/ are those of docs/graphs.md."""

from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_each_example_stands_in_the_documentation():
    page = (ROOT / "docs/graphs.md").read_text()
    shipped = sorted((ROOT / "examples").glob("*/graph.yaml"))
    assert len(shipped) >= 4
    assert [path.parent.name for path in shipped if path.read_text() not in page] == []
