"""The model node opens a file by its kind, once per setting, and hands rows of logits on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from small_onnx_decoders import write_small
from stub_openers import use_openers

from ops import numpy_ops
from pipelines.adapters.weights import AdapterRoom
from pipelines.inference.backends.fake_decoder import FakeSession
from pipelines.inference.backends.open_model import open_decoder
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.device_errors import ModelError, NothingToAdapt, Unsupported
from pipelines.inference.sampling.step_context import StepContext
from pipelines.nodes.adapters_config import AdaptersConfig
from pipelines.nodes.generation.body.draft import Draft
from pipelines.nodes.generation.body.model import Model


class Shared:
    """Resources that remember what was asked for."""

    device = prepared = None

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
    session = open_decoder(fake / "fake.json", Model.Config(path="fake.json", device="fake").settings())
    assert isinstance(session, FakeSession)
    assert session.shape.vocab_size == 11


def test_a_node_shares_its_session_by_file_and_settings(fake):
    config = Model.Config(path="fake.json", device="fake")
    node, resources = Model(config, fake), Shared()
    node.load(resources)
    assert resources.asked == [(open_decoder, fake / "fake.json", (config.settings(),))]
    assert node.session.shape.vocab_size == 11


def test_logits_come_with_their_step(fake):
    class Session:
        ops = numpy_ops

        def run(self, step):
            return np.ones((2, 3), np.float32)

    node, context = Model(Model.Config(path="fake.json", device="fake"), fake), StepContext(object(), None)
    node.session = Session()
    logits = node.run(context)
    assert logits.context is context
    assert logits.ops is numpy_ops
    assert logits.values.shape == (2, 3)


def test_a_setting_that_the_fake_device_would_ignore_is_refused(fake):
    with pytest.raises(ModelError, match=r"device fake has no kv_cache, threads"):
        open_decoder(
            fake / "fake.json", Model.Config(path="f", device="fake", kv_cache="u8", threads=2).settings()
        )


def test_a_kind_of_file_that_nothing_opens_says_how_to_export():
    with pytest.raises(
        ModelError, match=r"model\.gguf: decoders are opened from \.xml, \.onnx.*braid export"
    ):
        open_decoder(Path("model.gguf"), Model.Config(path="model.gguf").settings())


def test_a_device_given_from_outside_stands_for_the_graphs(fake):
    node, resources = Model(Model.Config(path="fake.json", device="cuda:0"), fake), Shared()
    resources.device = "fake"
    node.load(resources)
    assert isinstance(node.session, FakeSession)


@pytest.mark.parametrize(
    ("file", "settings", "words"),
    [
        ("openvino_model.xml", {"device": "cuda:0"}, r"NVIDIA GPUs run model\.onnx.*--format onnx"),
        ("openvino_model.xml", {"engine": "onnxruntime"}, r"onnxruntime runs model\.onnx.*--format onnx"),
        ("model.onnx", {"device": "cuda:1", "engine": "openvino"}, r"cuda:1 is run by onnxruntime"),
        ("model.onnx", {"device": "cuda:0", "threads": 2}, r"device cuda:0 has no threads"),
        ("model.onnx", {"engine": "onnxruntime", "kv_cache": "u8"}, r"onnxruntime on cpu has no kv_cache"),
    ],
)
def test_what_a_file_cannot_be_run_by_is_said_with_what_to_do(file, settings, words):
    with pytest.raises(ModelError, match=words):
        open_decoder(Path(file), Model.Config(path=file, **settings).settings())


def write_tensors(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text("{}")
    save_file({name: np.zeros((1, 1), np.float32) for name in names}, folder / "adapter_model.safetensors")


def test_targets_of_adapters_are_those_of_the_folder_unless_they_are_set(fake):
    module = "base_model.model.model.layers.0.self_attn.v_proj"
    write_tensors(fake / "adapters" / "one", *(f"{module}.lora_{side}.weight" for side in "AB"))
    opened = []
    for targets, wanted in (((), {"v_proj"}), (("q_proj",), {"q_proj"})):
        settings = AdaptersConfig(folder="adapters", targets=targets)
        node = Model(Model.Config(path="fake.json", device="fake", adapters=settings), fake)
        resources = Shared()
        node.load(resources)
        opened.append(resources.asked[0][2][0].targets)
        assert opened[-1] == wanted
    assert Model.Config(path="fake.json").settings().targets is None


def test_a_model_is_opened_for_all_products_where_its_adapters_change_none(fake, monkeypatch):
    write_tensors(fake / "adapters" / "one", "base_model.model.lm_head.weight")
    opened = []

    def on_cuda(path, config):
        opened.append(config.targets)
        if config.targets:
            raise NothingToAdapt("none of its linear layers")
        return FakeSession()

    use_openers(monkeypatch, "DECODERS", ".onnx", openvino=on_cuda, cuda=on_cuda)
    for device in ("cuda", "cpu"):
        config = {"path": "model.onnx", "device": device, "adapters": {"folder": "adapters"}}
        Model(Model.Config(**config), fake).load(Shared())
        assert opened == [{"lm_head"}, frozenset()]
        opened.clear()
        config["adapters"]["targets"] = ["lm_head"]  # by hand: that is a fault of the graph
        with pytest.raises(ModelError, match="none of its linear layers"):
            Model(Model.Config(**config), fake).load(Shared())
        assert opened == [{"lm_head"}]
        opened.clear()


def test_room_for_adapters_is_that_of_the_line_and_a_draft_has_none(monkeypatch):
    settings = {
        "path": "model.onnx",
        "adapters": {"folder": "adapters", "max_loaded": 3, "targets": ["q_proj"]},
    }
    opened = []
    use_openers(monkeypatch, "DECODERS", ".onnx", cuda=lambda path, settings: opened.append(settings))
    for config in (Model.Config(**settings, device="cuda:1"), Draft.Config(path="model.onnx", device="cuda")):
        open_decoder(Path("model.onnx"), config.settings())
    assert [(settings.device, settings.room) for settings in opened] == [
        ("cuda:1", AdapterRoom(frozenset({"q_proj"}), 3, 64)),
        ("cuda", None),
    ]
    with pytest.raises(ValueError, match="Extra inputs are not permitted"):
        Draft.Config(**settings)


def test_without_a_gpu_the_error_says_what_is_missing(tmp_path):
    with pytest.raises(ModelError, match=r"cuda:0: this onnxruntime has no CUDAExecutionProvider; install"):
        open_decoder(
            write_small(tmp_path, rotary=True), Model.Config(path="model.onnx", device="cuda:0").settings()
        )


def test_on_cpu_the_first_engine_that_can_opens_the_file(monkeypatch):
    def cannot(path, config):
        raise Unsupported("no softcap here")

    def missing(path, config):
        raise ImportError("not installed")

    opened = object()
    engines = {"openvino": cannot, "cuda": missing, "other": missing}
    use_openers(monkeypatch, "DECODERS", ".onnx", **engines, onnxruntime=lambda path, settings: opened)
    assert open_decoder(Path("model.onnx"), DecoderSettings()) is opened
    use_openers(monkeypatch, "DECODERS", ".onnx", **engines, onnxruntime=cannot)
    with pytest.raises(ModelError, match=r"no softcap here; not installed; no softcap here"):
        open_decoder(Path("model.onnx"), DecoderSettings())


def test_an_engine_that_the_graph_names_is_not_replaced(monkeypatch):
    def cannot(path, config):
        raise Unsupported("no softcap here")

    use_openers(monkeypatch, "DECODERS", ".onnx", openvino=cannot, onnxruntime=lambda path, config: object())
    with pytest.raises(Unsupported):
        open_decoder(Path("model.onnx"), Model.Config(path="model.onnx", engine="openvino").settings())
