"""Braid's CUDA session over a packed model, as the end-to-end check drives it, on stand-ins for GPU and runtime.

Kernels run on the host, the model in standard ops on ONNX Runtime's CPU provider; everything between is what
runs on a GPU.
"""

import contextlib
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import onnx_ir as ir
import pytest
from host_device import HostDevice
from patience import PATIENCE_S
from traced_shapes import traced

from pipelines.inference.backends.onnxruntime.cpu.lowering import lower_for_cpu
from pipelines.inference.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
from pipelines.inference.backends.onnxruntime.runtime import CPU, open_session
from tools.lab.gpu_check.base.setting import Failed, Setting
from tools.lab.gpu_check.correctness import end_to_end
from tools.lab.gpu_check.correctness.end_to_end import differences, judge, run_scenarios, scenarios
from tools.lab.gpu_check.packs import sessions
from tools.lab.gpu_check.packs.models import SHAPES, random_model
from tools.lab.gpu_check.packs.packed import PackedModel, write_model
from tools.lab.gpu_check.packs.weights import FILE
from tools.lab.gpu_check.speed import bench

ROOT = Path(__file__).parents[5]
SHAPE, BLOCK_TOKENS = replace(SHAPES["tiny"], layers=2), 16
MIXTURE = replace(SHAPE, experts=4, used=2)


@pytest.fixture(autouse=True, scope="module")
def _third_party_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch and transformers warn of themselves while they are imported
        yield


class HostRuntime:
    """ONNX Runtime's CPU provider in the place of CUDA's."""

    memory, number = "cpu", 0

    def __init__(self, graphs):
        self.graphs = graphs

    def open(self, lowered):
        return open_session(lowered.model, lowered.folder, [CPU], 1, {}), self.graphs


def pack_of(shape, folder):
    """The shape lowered for the CPU, in a pack's files."""
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    from tools.lab.gpu_check.packs.pack import detach_weights

    decoder = traced(shape)
    layers = [dict(layer.__dict__) for layer in decoder.layers]
    lowered = lower_for_cpu(decoder, BLOCK_TOKENS)
    places = detach_weights(lowered, shape)
    model = ir.to_proto(lowered).SerializeToString()
    write_model(
        folder,
        "tiny",
        PackedModel(model, places, layers, shape.vocab, shape.context, "f32", "f32", BLOCK_TOKENS),
    )
    return folder


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    return pack_of(SHAPE, tmp_path_factory.mktemp("pack"))


@pytest.fixture(scope="module")
def checked(packed, tmp_path_factory):
    """Every scenario with graphs and without, and the model that judges."""
    setting = Setting(pack=packed, work=tmp_path_factory.mktemp("work"))
    model = random_model(SHAPE, "cpu", "float32", attention="eager")
    scenarios_found = scenarios(SHAPE, BLOCK_TOKENS, quick=True)
    runs, problems = {}, []
    with sessions.weights_of("tiny", model, setting) as written:
        for graphs in (True, False):
            session = OnnxCudaSession(sessions.lowered(written), HostDevice(), HostRuntime(graphs))
            session.reserve(max(scenario.room.max_step_tokens for scenario in scenarios_found), 16)
            session.allocate(max(scenario.room.num_blocks for scenario in scenarios_found), 48)
            runs[graphs] = run_scenarios(session, scenarios_found, problems, lambda name, value: None)
            session.close()
        weights = written.folder / FILE
        assert weights.exists()
    return SimpleNamespace(
        runs=runs, problems=problems, scenarios=scenarios_found, model=model, weights=weights
    )


@pytest.mark.breadth
def test_every_scenario_happens_swapping_too(checked):
    assert checked.problems == []
    assert set(checked.runs[True]) == {scenario.name for scenario in checked.scenarios}


@pytest.mark.breadth
def test_its_tokens_are_transformers(checked):
    for scenario in checked.scenarios:
        judged = judge(checked.model, checked.model, scenario.requests, checked.runs[True][scenario.name])
        assert judged.good, scenario.name
        assert judged.agreeing == judged.positions


@pytest.mark.breadth
def test_graphs_change_nothing(checked):
    assert differences(checked.runs[True], checked.runs[False]) == []


@pytest.mark.breadth
def test_the_weights_are_removed(checked):
    assert not checked.weights.exists()


def test_weights_go_where_there_is_room(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sessions._roomy(tmp_path / "work", 1000) == tmp_path / "work"
    assert sessions._roomy(tmp_path / "work", 2**60) == Path("build/gpu_check_weights")


# The checks themselves, their GPU replaced


@pytest.fixture(params=[SHAPE], ids=["dense"])
def on_host(request, tmp_path_factory, tmp_path, monkeypatch):
    """A setting under which the checks run on a tiny shape and the host; `spoil` spoils one session."""
    shape = request.param
    packed = pack_of(shape, tmp_path_factory.mktemp("pack"))
    spoiled = SimpleNamespace(graphs=None)

    @contextlib.contextmanager
    def session(written, *, graphs, max_tokens, max_sequences):
        opened = OnnxCudaSession(sessions.lowered(written), HostDevice(), HostRuntime(graphs))
        opened.reserve(max_tokens, max_sequences)
        if spoiled.graphs is graphs:
            run = opened.run
            opened.run = lambda step: run(replace(step, positions=step.positions // 2))
        yield opened
        opened.close()

    def model(shape, device, dtype, **others):
        return random_model(shape, "cpu", "float32", attention="eager")

    for module in (end_to_end, bench):
        monkeypatch.setattr(module, "SHAPES", dict.fromkeys(("small", "mixture", "qwen3-8b"), shape))
        monkeypatch.setattr(module, "random_model", model)
        monkeypatch.setattr(module, "cuda_session", session)
        monkeypatch.setattr(
            module, "weights_of", lambda name, model, setting: sessions.weights_of("tiny", model, setting)
        )
    setting = Setting(pack=packed, work=tmp_path, quick=True)
    return SimpleNamespace(setting=setting, spoil=lambda graphs: setattr(spoiled, "graphs", graphs))


@pytest.mark.breadth
@pytest.mark.parametrize("on_host", [MIXTURE], indirect=True, ids=["mixture"])
def test_the_check_of_a_mixture_passes_and_finds_a_fault(on_host, capsys):
    end_to_end.check_mixture(on_host.setting)
    assert "swap, routed: " in capsys.readouterr().out
    on_host.spoil(graphs=False)
    with pytest.raises(Failed, match="mixed, routed"):
        end_to_end.check_mixture(on_host.setting)


def test_weights_of_experts_have_one_name_in_both_forms_of_transformers():
    torch = pytest.importorskip("torch")
    from tools.lab.gpu_check.packs.weights import parameters_of

    both, down = torch.arange(24.0).reshape(2, 4, 3), torch.arange(12.0).reshape(2, 3, 2)
    stacked = {"gate_up_proj": torch.nn.Parameter(both), "down_proj": torch.nn.Parameter(down)}
    model = torch.nn.ModuleDict({"mlp": torch.nn.ModuleDict({"experts": torch.nn.ParameterDict(stacked)})})
    parameters = dict(parameters_of(model))
    assert len(parameters) == 6
    assert torch.equal(parameters["mlp.experts.1.gate_proj.weight"], both[1, :2])
    assert torch.equal(parameters["mlp.experts.1.up_proj.weight"], both[1, 2:])
    assert torch.equal(parameters["mlp.experts.0.down_proj.weight"], down[0])


@pytest.mark.breadth
def test_the_end_to_end_check_passes(on_host, capsys):
    end_to_end.check_end_to_end(on_host.setting)
    said = capsys.readouterr().out
    assert "swap, with CUDA graphs: " in said
    judged = {name: what for name, what in on_host.setting.figures.items() if "good" in what}
    assert len(judged) == 10
    assert all(what["good"] for what in judged.values())


@pytest.mark.breadth
def test_the_end_to_end_check_names_what_is_wrong(on_host, monkeypatch):
    """Wrong positions in steps that are replayed: a scenario fails on that side, and the sides differ."""
    monkeypatch.setattr(end_to_end, "scenarios", lambda *parts, **more: scenarios(*parts, **more)[:1])
    on_host.spoil(True)
    with pytest.raises(Failed) as failed:
        end_to_end.check_end_to_end(on_host.setting)
    said = str(failed.value)
    assert "mixed, with CUDA graphs: " in said
    assert "mixed, without CUDA graphs: " not in said
    assert "with and without CUDA graphs, mixed: " in said
    assert "pipelines/inference/backends/onnxruntime/cuda/decoder_session.py" in said


@pytest.mark.breadth
def test_the_benchmark_runs_with_graphs_and_without(on_host, monkeypatch, capsys):
    sizes = {"CONTEXT": 20, "NEW_TOKENS": 12, "COUNTED_STEPS": 8, "LONG_PROMPT": 100, "LONG_STEP": 64}
    others = {"BATCHES": (1, 3, 4), "PROFILED": (1,), "WITHOUT_GRAPHS": (1,)}
    for name, value in {**sizes, **others}.items():
        monkeypatch.setattr(bench, name, value)
    monkeypatch.setattr(bench, "_wait", lambda: None)
    monkeypatch.setattr(bench, "bandwidth", lambda: (10.0, 8.0))
    bench.check_8b(on_host.setting)
    assert set(on_host.setting.figures) == {
        "bandwidth GB/s",
        "decode 1",
        "decode 4",
        "decode 1 without graphs",
        "prefill",
        "profile 1",
        "profile 1 without graphs",
    }
    assert capsys.readouterr().out.count("session opened") == 2


# A machine that has only what a GPU image has

BARE = """
import importlib.machinery, sys

BLOCKED = {
    "onnx", "onnx_ir", "onnxscript", "pydantic", "pydantic_core", "yaml", "click", "rich", "falcon",
    "gunicorn", "uvicorn", "openvino", "optimum", "hypothesis", "pytest", "psutil", "prometheus_client",
    "ml_dtypes",
}

class Bare(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, *others):
        return None if name.split(".")[0] in BLOCKED else super().find_spec(name, *others)

sys.meta_path[:] = [Bare if one is importlib.machinery.PathFinder else one for one in sys.meta_path]
"""
EVERY_MODULE = """
from tools.lab.gpu_check import __main__, child
from tools.lab.gpu_check.correctness import sanitizer
from tools.lab.gpu_check.packs import sessions
from tools.lab.gpu_check.base import tracing
from tools.lab.gpu_check.checks import CHECKS
for check in CHECKS:
    check.load()
import ops.cuda.device, ops.cuda.sampling, ops.cuda.step_inputs, ops.cuda.cache_blocks
import pipelines.inference.backends.onnxruntime.cuda.decoder_session, pipelines.inference.backends.onnxruntime.cuda.provider
"""
OPEN = """
import json, pathlib
from host_device import HostDevice
from pipelines.inference.backends.onnxruntime.runtime import CPU, open_session
from pipelines.inference.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
from tools.lab.gpu_check.packs import sessions
from tools.lab.gpu_check.packs.packed import read_model
import tools.lab.gpu_check.packs.driving as driving
class Runtime:
    memory, number = "cpu", 0
    def open(self, lowered):
        return open_session(lowered.model, lowered.folder, [CPU], 1, {}), True
folder = pathlib.Path(sys.argv[1])
packed = read_model(folder, "tiny")
import numpy
(folder / "weights.bin").write_bytes(numpy.full(3_000_000, 0.01, "float32").tobytes())
session = OnnxCudaSession(sessions.lowered(sessions.ModelWithWeights(packed, folder)), HostDevice(), Runtime())
session.reserve(64, 4)
session.allocate(24, 4)
engine = driving.engine(session, driving.EngineLimits(24, max_sequences=4, max_step_tokens=64))
given, counts = driving.answers(engine, [driving.Request([1, 2, 3], 5), driving.Request([7] * 40, 5, at=2)])
print(json.dumps([len(answer.tokens) for answer in given]))
"""


NOT_PACKED = """
import pathlib
from tools.lab.gpu_check.correctness import attention
from tools.lab.gpu_check.packs import sessions
from tools.lab.gpu_check.base.setting import Absent, Setting
here = pathlib.Path(sys.argv[2])
for make in (lambda: sessions.packed_model("small", Setting(pack=here)), lambda: attention.nodes(here)):
    try:
        make()
    except (FileNotFoundError, Absent) as missing:
        print(missing)
"""


@pytest.mark.breadth
def test_packs_are_read_and_missed_on_a_bare_machine(packed, tmp_path):
    """Only torch, numpy, cupy, transformers, tokenizers, jinja2, onnxruntime and msgspec may be imported there.

    One process imports every module of the checks, runs a packed model, and looks for packs that are missing.
    """
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "fixtures")])
    done = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-c", BARE + EVERY_MODULE + OPEN + NOT_PACKED),
            *(str(packed), str(tmp_path)),
        ],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    printed, *missing = done.stdout.strip().splitlines()
    assert printed == "[5, 5]"
    assert "\n".join(missing).count(f"python -m tools.lab.gpu_check pack --out {tmp_path}") == 2
