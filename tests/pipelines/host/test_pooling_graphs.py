"""What a graph of texts must give for its task is seen when it is loaded."""

from __future__ import annotations

import pytest
from fake_encoder import FAKE_BATCHER, use_fake_encoders, write_fake_encoder

from pipelines.host.model import load_for_host
from pipelines.loading import BuildError
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
