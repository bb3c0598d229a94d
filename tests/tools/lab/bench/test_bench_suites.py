"""Which systems run against each other, and how Braid is served in each."""

import pytest

from graphs.check import check
from pipelines.nodes import VOCABULARY
from pipelines.values.tasks import TASKS
from tools.lab.bench.base.load import Settings
from tools.lab.bench.braid import VARIANTS, repository
from tools.lab.bench.entries import ALL_PEERS, NAMES
from tools.lab.bench.model import Model, NotMade
from tools.lab.bench.shapes import DRAFTS, SHAPES
from tools.lab.bench.suites import COMPARED, QUICK_SUITES, SUITES, alone
from tools.lab.bench.workloads import QUICK, WORKLOADS


def test_suites_are_made_of_what_there_is():
    for suites, workloads in ((SUITES, WORKLOADS), (QUICK_SUITES, QUICK), (alone(NAMES[:2]), WORKLOADS)):
        for suite in suites.values():
            assert set(suite.systems) <= set(NAMES)
            assert len(set(suite.systems)) == len(suite.systems)
            assert suite.workloads
            assert set(suite.workloads) <= set(workloads)


def test_every_feature_runs_in_one_heat_with_what_it_is_compared_with():
    together = [
        pair for pair in COMPARED if any(set(pair) <= set(suite.systems) for suite in SUITES.values())
    ]
    assert set(COMPARED) - set(together) == {("braid-engine", "braid")}


def test_a_workload_beside_another_is_in_the_same_suites():
    for suite in (*SUITES.values(), *QUICK_SUITES.values()):
        known = WORKLOADS | QUICK
        assert {known[name].beside for name in suite.workloads} - {""} <= set(suite.workloads)


@pytest.fixture
def model(tmp_path):
    """`tiny` with empty files in the place of its forms."""
    tiny_model = Model(tmp_path, "tiny", lambda stage: None)
    forms = [tmp_path / f"models-{weights}" / "tiny" / "model" for weights in ("int8", "fp16", "gguf")]
    (tmp_path / "huggingface").mkdir()
    for folder in (*forms, tmp_path / "draft"):
        folder.mkdir(parents=True)
        for name in ("openvino_model.xml", "model.onnx", "tokenizer.json"):
            (folder / name).touch()
        folder.with_name(f"{folder.name}.block_bytes.u8").write_text("1000")
    return tiny_model


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_is_a_graph_without_problems(tmp_path, model, name):
    folder = tmp_path / "served" / "tiny"
    for _ in range(2):  # what an earlier run left is replaced
        repository(folder, model, VARIANTS[name], Settings())
    graph = check((folder / "graph.yaml").read_text(), VOCABULARY, TASKS, folder)
    (engine,) = (one for one in graph.bindings if one.body)
    assert ("drafted" in [line.name for line in engine.body]) == bool(VARIANTS[name].drafted)
    blocks = engine.config.cache.memory_gb * (1 << 30) / (2000 if VARIANTS[name].reads_draft else 1000)
    assert blocks == pytest.approx(Settings().num_blocks)


def test_the_demo_has_no_draft(tmp_path):
    with pytest.raises(NotMade, match="no draft"):
        Model(tmp_path, "braid-demo", lambda stage: None).draft()


def test_a_draft_has_its_models_vocabulary():
    for name, shape in DRAFTS.items():
        assert shape["vocab_size"] == SHAPES[name]["vocab_size"]


def test_another_shape_is_another_folder(tmp_path, monkeypatch):
    before = Model.within(tmp_path, "tiny", print).folder
    assert Model.within(tmp_path, "tiny", print).folder == before
    monkeypatch.setitem(SHAPES, "tiny", SHAPES["tiny"] | {"num_hidden_layers": 3})
    assert Model.within(tmp_path, "tiny", print).folder != before


def test_only_what_a_token_reads_bounds_it(tmp_path):
    """The embedding of a model with a head of its own is looked up."""
    shape = SHAPES["tiny"]
    model = Model(tmp_path, "tiny", print)
    assert model.gathered_values == model.embedding_values == shape["vocab_size"] * shape["hidden_size"]
    assert Model(tmp_path, "braid-demo", print).gathered_values == 0
    assert all(peer.embedding_bytes >= 1 for peer in ALL_PEERS.values())
