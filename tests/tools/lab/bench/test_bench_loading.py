"""What the benchmark of loads serves and reads."""

from __future__ import annotations

from pipelines.loading.load import checked_graph, graphs_of
from pipelines.repository.model_folders import scan
from tools.lab.bench.loading import PATHS, copied, read_bytes


def test_each_copy_of_a_shipped_model_is_a_model_with_a_small_request(tmp_path):
    models = scan(copied(6, tmp_path / "models"))
    assert [model.name for model in models] == [
        "m00-braid-demo",
        "m01-braid-embed",
        "m02-braid-rerank",
        "m03-braid-sentiment",
        "m04-braid-topics",
        "m05-braid-demo",
    ]
    graphs = graphs_of(models)
    assert all(checked_graph(model, graphs) for model in models)
    assert all(model.name.rpartition("-")[2] in PATHS for model in models)


def test_all_weights_are_read(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "model.bin").write_bytes(bytes(2_000_000))
    (tmp_path / "a" / "tokenizer.json").write_bytes(bytes(3_000_000))
    assert read_bytes(tmp_path)["MB"] == 2.0
