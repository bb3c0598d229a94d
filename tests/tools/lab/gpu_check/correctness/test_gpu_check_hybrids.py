"""The checks of hybrid decoders and of gpt-oss without a GPU: kernels on the host, the graph on ONNX Runtime's CPU provider."""

import contextlib
import importlib.util
import re
from dataclasses import replace

import onnx
import onnx_ir as ir
import pytest
from breadth import after
from host_device import HostDevice

from pipelines.inference.backends.onnx.recurrent import find_recurrent
from pipelines.inference.backends.onnxruntime.cpu.lowering import lower_for_cpu
from pipelines.inference.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
from pipelines.inference.backends.onnxruntime.cuda.lowered_decoder import LoweredDecoder
from pipelines.inference.backends.onnxruntime.cuda.recurrent import lower_states, state_shapes
from pipelines.inference.backends.onnxruntime.cuda.state_library import state_library
from pipelines.inference.backends.onnxruntime.graph_writer import GraphWriter
from pipelines.inference.backends.onnxruntime.runtime import CPU, open_session
from tools.lab.gpu_check.base.setting import Failed, Setting
from tools.lab.gpu_check.correctness import hybrids
from tools.lab.gpu_check.packs.packed import NotPacked
from tools.lab.gpu_check.packs.packed_hybrids import HYBRIDS, WITH_SINKS, read_hybrid, write_hybrid

BLOCK_TOKENS = 32
LENGTHS = (45, 20, 17)
HAS_EXPORT = all(importlib.util.find_spec(name) for name in ("torch", "onnxscript"))
pytestmark = pytest.mark.skipif(not HAS_EXPORT, reason="needs the export extra")


class HostRuntime:
    memory, number = "cpu", 0

    def __init__(self, graphs):
        self.graphs = graphs

    def open(self, lowered):
        return open_session(lowered.model, lowered.folder, [CPU], 1, {}, state_library()), self.graphs


def lower_for_host(decoder):
    graph = decoder.model.graph
    recurrent = find_recurrent(graph)
    lower_states(GraphWriter(graph), recurrent)
    return LoweredDecoder(
        model=ir.to_proto(lower_for_cpu(decoder, BLOCK_TOKENS)).SerializeToString(),
        folder=decoder.folder,
        layers=tuple(decoder.layers),
        vocab_size=decoder.vocab_size,
        max_context=decoder.max_context,
        element_type=decoder.element_type,
        block_tokens=BLOCK_TOKENS,
        kv_cache=decoder.element_type,
        state_shapes=state_shapes(recurrent),
    )


@contextlib.contextmanager
def open_on_host(packed, graphs):
    session = OnnxCudaSession(packed.lowered, HostDevice(), HostRuntime(graphs))
    yield session
    session.close()


@contextlib.contextmanager
def open_without_rows(packed, graphs):
    """Every sequence begins with zeros."""
    with open_on_host(packed, graphs) as session:
        run = session.run
        session.run = lambda step: run(replace(step, states=None))
        yield session


@pytest.fixture(autouse=True)
def _kernels(kernel_folder, monkeypatch):
    monkeypatch.setenv("BRAID_KERNELS", str(kernel_folder))
    monkeypatch.setattr(hybrids, "CHUNKS", (48, 7, 1))
    monkeypatch.setattr(hybrids, "GRAPHS", (True,))


@pytest.fixture(scope="module", params=after(1, ["gguf.lfm2", "gguf.qwen35", "gguf.granitehybrid"]))
def packed(request):
    from tools.lab.gpu_check.packs.pack_hybrids import pack_hybrid

    return request.param, pack_hybrid(request.param, LENGTHS, lower_for_host)


def test_the_check_passes_and_names_what_is_wrong(packed, tmp_path, monkeypatch, capsys):
    name, decoder = packed
    write_hybrid(tmp_path, name, decoder)
    stored = read_hybrid(tmp_path, name)
    assert stored.lowered == replace(decoder.lowered, folder=tmp_path)
    assert [text.ids.tolist() for text in stored.texts] == [text.ids.tolist() for text in decoder.texts]
    monkeypatch.setattr(hybrids, "HYBRIDS", (name,))
    monkeypatch.setattr(hybrids, "open_on_gpu", open_on_host)
    setting = Setting(pack=tmp_path, work=tmp_path)
    hybrids.check_hybrids(setting)
    assert f"{name}, with CUDA graphs: worst " in capsys.readouterr().out
    errors = setting.figures[f"{name}, with CUDA graphs"]
    assert set(errors) == {
        *("chunks of 48", "chunks of 7", "chunks of 1", "rejected drafts"),
        *("shared prefixes", "preemption"),
    }
    assert max(errors.values()) < 2e-3
    monkeypatch.setattr(hybrids, "open_on_gpu", open_without_rows)
    with pytest.raises(Failed) as failed:
        hybrids.check_hybrids(setting)
    said = str(failed.value)
    assert f"{name}, with CUDA graphs, chunks of 7: error" in said
    assert "rejected drafts" in said
    assert "chunks of 48" not in said


def test_each_kind_of_layer_is_packed_in_both_forms(tmp_path):
    from tools.lab.gpu_check.packs.hybrid_files import ARCHITECTURES, FAMILIES

    forms = {"export": FAMILIES, "gguf": ARCHITECTURES}
    assert set(HYBRIDS) == {f"{form}.{name}" for form, names in forms.items() for name in names}
    with pytest.raises(NotPacked, match="gpu_check pack --out"):
        read_hybrid(tmp_path, HYBRIDS[0])


@contextlib.contextmanager
def open_without_sinks(packed, graphs):
    """A session whose sinks have the other sign: attention that reads them gives other logits."""
    model = onnx.load_from_string(packed.lowered.model)
    changed = 0
    for tensor in model.graph.initializer:
        if re.fullmatch(r"sinks\.\d+", tensor.name):
            tensor.CopyFrom(onnx.numpy_helper.from_array(-onnx.numpy_helper.to_array(tensor), tensor.name))
            changed += 1
    assert changed
    lowered = replace(packed.lowered, model=model.SerializeToString())
    with open_on_host(replace(packed, lowered=lowered), graphs) as session:
        yield session


@pytest.mark.parametrize("name", after(1, WITH_SINKS[::-1]))
def test_gpt_oss_passes_in_both_forms_and_its_sinks_matter(name, tmp_path, monkeypatch):
    from tools.lab.gpu_check.packs.pack_hybrids import pack_hybrid

    decoder = pack_hybrid(name, (110, 20, 17), lower_for_host)
    assert [layer.has_sinks for layer in decoder.lowered.layers] == [True] * 4
    assert [layer.window > 0 for layer in decoder.lowered.layers] == [True, False] * 2
    write_hybrid(tmp_path, name, decoder)
    monkeypatch.setattr(hybrids, "WITH_SINKS", (name,))
    monkeypatch.setattr(hybrids, "open_on_gpu", open_on_host)
    setting = Setting(pack=tmp_path, work=tmp_path)
    hybrids.check_sinks(setting)
    assert max(setting.figures[f"{name}, with CUDA graphs"].values()) < 2e-3
    monkeypatch.setattr(hybrids, "open_on_gpu", open_without_sinks)
    with pytest.raises(Failed, match=f"{name}, with CUDA graphs, chunks of 48: error"):
        hybrids.check_sinks(setting)
