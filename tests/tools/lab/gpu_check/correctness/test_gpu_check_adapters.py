"""The checks of adapters on stand-ins for GPU and runtime: the tiny shape, in standard ops, on the host."""

import contextlib
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import onnx_ir as ir
import pytest
from host_device import HostDevice
from later import missing
from traced_shapes import traced

from pipelines.adapters.weights import LinearShape
from pipelines.inference.backends.onnxruntime.cpu.lowering import lower_for_cpu
from pipelines.inference.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
from pipelines.inference.backends.onnxruntime.cuda.lora_linears import add_adapter_pools
from pipelines.inference.backends.onnxruntime.runtime import CPU, open_session
from tools.lab.gpu_check.base.setting import Failed, Setting
from tools.lab.gpu_check.correctness import adapters as checking
from tools.lab.gpu_check.packs import sessions
from tools.lab.gpu_check.packs.models import SHAPES, WITH_ADAPTERS, random_model
from tools.lab.gpu_check.packs.packed import PackedModel, write_model
from tools.lab.gpu_check.packs.random_adapters import merge, random_adapter
from tools.lab.gpu_check.report import markdown
from tools.lab.gpu_check.speed import adapters as measuring

SHAPE, BLOCK_TOKENS = replace(SHAPES["tiny"], layers=2), 16
if missing("torch") or missing("onnxscript"):
    pytest.skip("needs the extra export", allow_module_level=True)


@pytest.fixture(autouse=True, scope="module")
def _third_party_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch and transformers warn of themselves while they are imported
        yield


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The tiny shape lowered for the CPU, without room for adapters and with, in a pack's files."""
    from tools.lab.gpu_check.packs.pack import detach_weights

    folder = tmp_path_factory.mktemp("pack")
    for name in ("tiny", "tiny" + WITH_ADAPTERS):
        decoder = traced(SHAPE)
        adapted = add_adapter_pools(decoder.model.graph, frozenset()) if name != "tiny" else ()
        lowered = lower_for_cpu(decoder, BLOCK_TOKENS)
        places = detach_weights(lowered, SHAPE)
        model, layers = (
            ir.to_proto(lowered).SerializeToString(),
            [dict(layer.__dict__) for layer in decoder.layers],
        )
        facts = (
            SHAPE.vocab,
            SHAPE.context,
            "f32",
            "f32",
            BLOCK_TOKENS,
            [target._asdict() for target in adapted],
        )
        write_model(folder, name, PackedModel(model, places, layers, *facts))
    return folder


class HostRuntime:
    """ONNX Runtime's CPU provider in the place of CUDA's."""

    memory, number = "cpu", 0

    def __init__(self, graphs):
        self.graphs = graphs

    def open(self, lowered):
        return open_session(lowered.model, lowered.folder, [CPU], 1, {}), self.graphs


@pytest.fixture
def on_host(packed, tmp_path, monkeypatch):
    """A setting under which the checks run on the tiny shape; `spoil(step)` changes what sessions are given."""
    spoiled = SimpleNamespace(change=lambda step: step)

    @contextlib.contextmanager
    def session(written, *, graphs, max_tokens, max_sequences, room):
        opened = OnnxCudaSession(sessions.lowered(written), HostDevice(), HostRuntime(graphs), room)
        opened.reserve(max_tokens, max_sequences)
        run = opened.run
        opened.run = lambda step: run(spoiled.change(step))
        yield opened
        opened.close()

    def weights(name, model, setting):
        return sessions.weights_of("tiny" + WITH_ADAPTERS * name.endswith(WITH_ADAPTERS), model, setting)

    for module in (checking, measuring):
        monkeypatch.setattr(module, "SHAPES", dict.fromkeys(("small", "qwen3-0.6b"), SHAPE))
        monkeypatch.setattr(module, "random_model", lambda *parts: random_model(SHAPE, "cpu", "float32"))
        monkeypatch.setattr(module, "cuda_session", session)
        monkeypatch.setattr(module, "weights_of", weights)
    setting = Setting(pack=packed, work=tmp_path, quick=True)
    return SimpleNamespace(setting=setting, spoil=lambda change: setattr(spoiled, "change", change))


@pytest.mark.breadth
def test_every_adapters_tokens_are_those_of_a_merged_model(on_host):
    checking.check_adapters(on_host.setting)
    judged = on_host.setting.figures
    assert len(judged) == 2 * (4 + 4)
    assert all(each["good"] and each["agreeing"] == each["positions"] for each in judged.values())
    assert {"changed, adapter 4, with CUDA graphs", "mixed, the base, without CUDA graphs"} <= set(judged)


@pytest.mark.breadth
def test_a_step_with_another_ones_adapter_is_found(on_host):
    """Every sequence of adapter 2 is computed with 3."""
    on_host.spoil(lambda step: replace(step, adapters=np.where(step.adapters == 2, 3, step.adapters)))
    with pytest.raises(Failed) as failed:
        checking.check_adapters(on_host.setting)
    said = str(failed.value)
    assert "mixed, adapter 2, with CUDA graphs: " in said
    assert "adapter 3," not in said
    assert "mixed: all say the same" in said
    assert "adapter_pools.py" in failed.value.look_at


@pytest.mark.breadth
def test_steps_are_measured_beside_those_without_the_line(on_host, monkeypatch):
    for name, value in {"BATCHES": (1, 5), "CONTEXT": 20, "NEW_TOKENS": 12, "STEP": 64}.items():
        monkeypatch.setattr(measuring, name, value)
    monkeypatch.setattr("torch.cuda.empty_cache", lambda: None)
    measuring.check_adapter_speed(on_host.setting)
    figures = on_host.setting.figures
    assert list(figures["decode 5"]) == ["without the line", "0 adapters", "1 adapters", "4 adapters"]
    assert list(figures["decode 1"]) == ["without the line", "0 adapters", "1 adapters"]
    result = {"name": "adapter_speed", "state": "pass", "seconds": 1.0, "why": "", "figures": figures}
    text = markdown({"date": "2000-01-01", "command": "x", "results": [result]})
    (row,) = (line for line in text.splitlines() if line.startswith("| 5 |"))
    assert row.count("(") == 3


def test_a_merged_model_is_the_sum():
    model = random_model(SHAPE, "cpu", "float32")
    name = "layers.1.mlp.down_proj"
    adapter = random_adapter({name: LinearShape(SHAPE.intermediate, SHAPE.hidden)}, 3, seed=1)
    weight = model.get_parameter(f"model.{name}.weight")
    before = weight.detach().clone().numpy()
    merge(model, adapter)
    each = adapter.linears[name]
    np.testing.assert_allclose(weight.detach().numpy(), before + each.b @ each.a, atol=1e-6)
    assert (each.a.astype(np.float16) == each.a).all()
