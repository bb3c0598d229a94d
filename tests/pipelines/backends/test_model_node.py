"""The model node opens a file by its kind, once per setting, and hands rows of logits on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipelines.backends.errors import ModelError
from pipelines.backends.fake import FakeSession
from pipelines.nodes.model import Model, open_session


class Shared:
    """Resources that remember what was asked for."""

    def __init__(self) -> None:
        self.asked = []

    def shared(self, open_file, path, *settings):
        self.asked.append((open_file, path, settings))
        return open_file(path, *settings)


@pytest.fixture
def fake(tmp_path) -> Path:
    (tmp_path / "fake.json").write_text(json.dumps({"vocab_size": 11}))
    return tmp_path


def test_the_fake_device_opens_a_fake_session(fake):
    session = open_session(fake / "fake.json", Model.Config(path="fake.json", device="fake"))
    assert isinstance(session, FakeSession)
    assert session.vocab_size == 11


def test_a_node_shares_its_session_by_file_and_settings(fake):
    config = Model.Config(path="fake.json", device="fake")
    node, resources = Model(config, fake), Shared()
    node.load(resources)
    assert resources.asked == [(open_session, fake / "fake.json", (config,))]
    assert node.session.vocab_size == 11


def test_logits_come_with_their_step(fake):
    class Session:
        def run(self, step):
            return np.ones((2, 3), np.float32)

    node, step = Model(Model.Config(path="fake.json", device="fake"), fake), object()
    node.session = Session()
    logits = node.run(step)
    assert logits.step is step
    assert logits.values.shape == (2, 3)


def test_a_setting_that_the_fake_device_would_ignore_is_refused(fake):
    with pytest.raises(ModelError, match=r"device fake has no kv_cache, threads"):
        open_session(fake / "fake.json", Model.Config(path="f", device="fake", kv_cache="u8", threads=2))


def test_a_kind_of_file_that_nothing_opens_says_how_to_export():
    with pytest.raises(ModelError, match=r"model\.onnx: decoders are opened from \.xml.*braid export"):
        open_session(Path("model.onnx"), Model.Config(path="model.onnx"))
