"""The graphs of docs/graphs.md that users copy from examples/ are the same in both."""

from pathlib import Path

ROOT = Path(__file__).parents[4]
COPIED = ("answers", "translated", "router", "versions", "voice")


def test_each_example_stands_in_the_documentation():
    page = (ROOT / "docs/graphs.md").read_text()
    assert [name for name in COPIED if (ROOT / f"examples/{name}/graph.yaml").read_text() not in page] == []
