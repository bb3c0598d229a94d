"""What the repository ships is right: its models' graphs, and every graph that a document shows."""

import re
from pathlib import Path

import pytest
from speech_graphs import READER, VOICE_GRAPH

from graphs.check import check
from graphs.compose import GraphSource
from graphs.errors import GraphError
from pipelines.adapters.read_adapter import read_adapter
from pipelines.adapters.weights import LinearShape
from pipelines.host.models.passed_models import folder_digest, shipped
from pipelines.loading.inspection import inspect
from pipelines.loading.load import Sources, graphs_from
from pipelines.nodes import VOCABULARY
from pipelines.repository.model_folders import scan
from pipelines.retrieval.index_graph import index_graph
from pipelines.values.tasks import TASKS

ROOT = Path(__file__).parent.parent
MAX_DEMO_BYTES = 6 << 20
POOLING_DEMOS = ("braid-embed", "braid-rerank", "braid-sentiment", "braid-topics")
MAX_POOLING_BYTES = 12 << 20
"""Of all of them together."""


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
    known = Sources(scan(ROOT / "model_repo"))
    named = {
        "smollm2": GraphSource(known["braid-demo"].text),
        "whisper": GraphSource(READER),
        "joe": GraphSource(VOICE_GRAPH),
        "handbook": GraphSource(index_graph("braid-embed", "braid-rerank", {}, "docs")),
    }
    graphs = graphs_from({**known, **named})
    try:
        check(text, VOCABULARY, TASKS, folder=None, graphs=graphs, source=document)
    except GraphError as error:
        pytest.fail(str(error))


@pytest.mark.parametrize(
    "folder", sorted((ROOT / "model_repo").glob("braid-*")), ids=lambda folder: folder.name
)
def test_a_shipped_model_needs_no_first_run(folder):
    assert folder_digest(folder) in shipped(), (
        "after a change of its files, this digest belongs in pipelines/host/models/shipped.txt"
    )


@pytest.mark.parametrize("name", ["french", "pirate"])
def test_an_adapter_of_the_demo_is_read_and_small(name):
    folder = ROOT / "model_repo" / "braid-demo" / "adapters" / name
    products = {f"layers.{number}.mlp.down_proj": LinearShape(448, 192) for number in range(4)}
    adapter = read_adapter(folder, products, max_rank=24)
    assert (adapter.linears.keys(), adapter.rank) == (products.keys(), 24)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 200_000


def num_bytes(name):
    return sum(path.stat().st_size for path in (ROOT / "model_repo" / name).rglob("*") if path.is_file())


def test_the_demo_models_are_small():
    assert max(num_bytes(name) for name in ("braid-demo", *POOLING_DEMOS)) < MAX_DEMO_BYTES
    assert sum(num_bytes(name) for name in POOLING_DEMOS) < MAX_POOLING_BYTES


@pytest.mark.parametrize("name", POOLING_DEMOS)
def test_a_pooling_demo_has_a_card_with_figures(name):
    card = (ROOT / "model_repo" / name / "README.md").read_text()
    assert f"# {name}" in card
    assert re.search(r"\d of \d+", card)
