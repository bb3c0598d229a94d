"""What a graph of texts must give for its task is seen when it is loaded."""

from __future__ import annotations

import pytest
from fake_encoder import FAKE_BATCHER, use_fake_encoders, write_fake_encoder

from pipelines.host.models.model import load_for_host
from pipelines.loading.load import BuildError
from pipelines.repository.model_folders import scan


def load(folder, monkeypatch, task, per_token):
    opened = use_fake_encoders(monkeypatch)
    write_fake_encoder(folder / "one", FAKE_BATCHER.replace("embed", task), per_token=per_token)
    (model,) = scan(folder)
    return opened, load_for_host(model)


@pytest.mark.parametrize(("task", "per_token"), [("embed", False), ("token_embed", True)])
def test_outputs_that_fit_the_task_are_loaded(tmp_path, monkeypatch, task, per_token):
    (encoder,), model = load(tmp_path, monkeypatch, task, per_token)
    assert (model.task, model.max_context) == (task, encoder.max_tokens)
    model.close()


@pytest.mark.parametrize(
    ("task", "per_token", "advice"), [("embed", True, "add a pool line"), ("token_embed", False, "how: none")]
)
def test_other_rows_are_refused_at_load(tmp_path, monkeypatch, task, per_token, advice):
    with pytest.raises(BuildError, match=advice) as raised:
        load(tmp_path, monkeypatch, task, per_token)
    assert raised.value.problems[0].startswith("graph.yaml:5: rows (batcher)")


def test_images_of_a_model_that_reads_texts_alone_are_refused_at_load(tmp_path, monkeypatch):
    use_fake_encoders(monkeypatch)
    seen = """\
  seen:
    type: batcher
    from: tokens
    body:
      hidden: {type: encoder, from: batch, path: encoder.fake}
"""
    before, rows = FAKE_BATCHER.split("  rows:")
    graph = f"{before}{seen}  rows:{rows.replace('from: tokens', 'from: {tokens: tokens, images: seen}')}"
    write_fake_encoder(tmp_path / "one", graph.replace("embed", "token_embed"), per_token=True)
    (model,) = scan(tmp_path)
    with pytest.raises(BuildError, match="images: its model reads token ids alone; remove it"):
        load_for_host(model)
