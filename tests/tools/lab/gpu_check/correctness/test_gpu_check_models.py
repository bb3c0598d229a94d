"""What is packed for the GPU machine, proved on the CPU: nodes, weights, and the end-to-end check's judgement."""

import importlib.util
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from later import missing
from traced_shapes import traced

from pipelines.inference.backends.onnxruntime.cpu.lowering import lower_for_cpu
from pipelines.wire.logprobs import TokenLogprobs
from tools.lab.gpu_check.base.setting import Failed, Setting
from tools.lab.gpu_check.correctness import attention
from tools.lab.gpu_check.correctness.attention import compare, run_node
from tools.lab.gpu_check.correctness.distance import distance
from tools.lab.gpu_check.correctness.end_to_end import differences, judge, run_scenarios, scenarios
from tools.lab.gpu_check.packs.driving import Answer, EngineLimits, decode, prefill_s, start_decoding
from tools.lab.gpu_check.packs.models import SHAPES, random_model, random_prompts
from tools.lab.gpu_check.packs.node_graphs import cache_scales, cuda_graph, node_decoder
from tools.lab.gpu_check.packs.nodes import (
    KINDS,
    SMALL_STEPS,
    encode,
    packed_case,
    random_tensors,
    reference,
    rounded,
)
from tools.lab.gpu_check.packs.packed import (
    NotPacked,
    PackedModel,
    read_model,
    read_nodes,
    write_model,
    write_nodes,
)
from tools.lab.gpu_check.packs.weights import write_weights
from tools.lab.gpu_check.report import markdown
from tools.lab.gpu_check.speed import bench

needs_export = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torch", "transformers", "onnxscript")),
    reason="needs the export extra",
)


@pytest.fixture(autouse=True, scope="module")
def _third_party_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch and transformers warn of themselves while they are imported
        yield


# Single attention nodes

if missing("torch"):
    pytest.skip("needs the extra export", allow_module_level=True)

EXACT = sorted(
    {replace(kind, element="f32", cache="f32", absmax=0.0) for kind in KINDS}, key=lambda kind: kind.name
)


def run_on_cpu(kind, case, tensors):
    """The node in standard ops, bound as on a GPU: attended, key pool, value pool."""
    lowered = ir.to_proto(lower_for_cpu(node_decoder(kind), kind.block_tokens)).SerializeToString()
    session = ort.InferenceSession(lowered, providers=["CPUExecutionProvider"])
    return run_node(session, kind, case, tensors, where="cpu")


@pytest.mark.parametrize("steps", SMALL_STEPS)
@pytest.mark.parametrize("kind", EXACT, ids=lambda kind: kind.name)
def test_standard_ops_agree_with_the_reference(kind, steps):
    case = packed_case(SMALL_STEPS[steps], kind.block_tokens, seed=1)
    tensors = random_tensors(kind, case, (1.0, 1.0), seed=2)
    problems, error = compare(kind, case, tensors, (1.0, 1.0), run_on_cpu(kind, case, tensors))
    assert problems == []
    assert error.rms < 1e-5


def expected_of(kind):
    case = packed_case(SMALL_STEPS["mixed"], kind.block_tokens, seed=1)
    scales = cache_scales(kind)
    tensors = random_tensors(kind, case, scales, seed=2)
    return case, tensors, scales, reference(kind, case, tensors, scales)


@pytest.fixture
def nodes_on_cpu(monkeypatch):
    """The check of nodes, in standard ops and over few kinds and small steps."""
    plain = replace(KINDS[0], element="f32", cache="f32")
    kinds = [plain, replace(plain, window=32)]
    lowered = {kind.name: ir.to_proto(lower_for_cpu(node_decoder(kind), kind.block_tokens)) for kind in kinds}
    graphs = {name: (proto.SerializeToString(), (1.0, 1.0)) for name, proto in lowered.items()}
    monkeypatch.setattr(attention, "KINDS", kinds)
    monkeypatch.setattr(attention, "STEPS", SMALL_STEPS)
    monkeypatch.setattr(attention, "nodes", lambda pack: graphs)
    monkeypatch.setattr(attention, "_open", ort.InferenceSession)
    run = attention.run_node
    monkeypatch.setattr(attention, "run_node", lambda *parts: run(*parts, where="cpu"))
    return graphs


def test_the_check_of_nodes_passes(nodes_on_cpu, capsys):
    setting = Setting()
    attention.check_attention(setting)
    assert all(set(found) == set(SMALL_STEPS) for found in setting.figures.values())
    assert capsys.readouterr().out.count("relative error") == 2


def test_the_check_of_nodes_names_every_kind_that_is_wrong(nodes_on_cpu):
    """The second kind computes what the first does, without a window."""
    (good, scales), *_ = nodes_on_cpu.values()
    name = list(nodes_on_cpu)[1]
    nodes_on_cpu[name] = good, scales
    with pytest.raises(Failed) as failed:
        attention.check_attention(Setting())
    lines = str(failed.value).splitlines()
    assert lines
    assert all(line.startswith(name) for line in lines)


def test_a_node_that_cannot_be_opened_does_not_end_the_check(nodes_on_cpu):
    names = list(nodes_on_cpu)
    nodes_on_cpu[names[0]] = b"no model", (1.0, 1.0)
    setting = Setting()
    with pytest.raises(Failed, match=f"{names[0]}: "):
        attention.check_attention(setting)
    assert setting.figures[names[1]]


def test_a_window_off_by_one_is_named():
    """What a kernel gives that sees one token more is told from what is asked for."""
    kind = next(kind for kind in KINDS if kind.window == 32)
    case, tensors, scales, _ = expected_of(kind)
    given = reference(replace(kind, window=33), case, tensors, scales)
    problems, _ = compare(kind, case, tensors, scales, given)
    assert len(problems) == 1
    assert "33: 0" in problems[0]


def test_a_softcap_that_is_forgotten_is_found():
    kind = next(kind for kind in KINDS if kind.softcap and kind.window < 0)
    case, tensors, scales, _ = expected_of(kind)
    given = reference(replace(kind, softcap=0.0), case, tensors, scales)
    assert compare(kind, case, tensors, scales, given)[0]


@pytest.mark.parametrize("cache", ["f16", "i8", "f8"])
def test_a_cache_that_is_written_elsewhere_is_found(cache):
    kind = next(kind for kind in KINDS if kind.cache == cache)
    case, tensors, scales, (attended, keys, values) = expected_of(kind)
    assert compare(kind, case, tensors, scales, (attended, keys, values))[0] == []
    block = int(case.block_table[0, 0])
    keys[block, 3] += 3 * np.abs(keys).max()
    (problem,) = compare(kind, case, tensors, scales, (attended, keys, values))[0]
    assert problem.startswith(f"keys in the cache: {kind.num_kv_heads * kind.head_size} numbers differ")


def test_what_is_not_stored_leaves_the_cache_alone():
    case = packed_case([(5, 20)], 16, seed=1)
    assert (~case.stored[:20]).sum() == 8
    kind = replace(KINDS[0], block_tokens=16)
    tensors = random_tensors(kind, case, (1.0, 1.0), seed=3)
    _, keys, _ = reference(kind, case, tensors, (1.0, 1.0))
    given = run_on_cpu(replace(kind, element="f32", cache="f32"), case, tensors)[1]
    assert np.array_equal(keys[:-1], given[:-1])  # the last block is scratch


def test_roundings_are_torchs():
    torch = pytest.importorskip("torch")
    values = 10 * np.random.default_rng(0).standard_normal(50_000).astype(np.float32)
    values[:6] = [0, 1e-9, 1e-3, -0.0155, 448, -500]
    tensor = torch.from_numpy(values)
    assert np.array_equal(rounded(values, "bf16"), tensor.bfloat16().float().numpy())
    assert np.array_equal(rounded(values, "f16"), tensor.half().float().numpy())
    held = tensor.clamp(-448, 448).to(torch.float8_e4m3fn).float().numpy()
    assert np.array_equal(encode(values, "f8", 1.0), held)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_infinitely_far(odd):
    given = np.ones(4, np.float32)
    given[2] = odd
    assert not distance(given, np.ones(4, np.float32)).within(1e9)
    assert distance(given, np.ones(4, np.float32)).at == (2,)


def test_packed_nodes_are_read_back(tmp_path):
    some = KINDS[:2]
    write_nodes(
        tmp_path, {kind.name: cuda_graph(kind) for kind in some}, {kind.name: (1.0, 0.5) for kind in some}
    )
    assert read_nodes(tmp_path) == {kind.name: (cuda_graph(kind), (1.0, 0.5)) for kind in some}


def test_a_pack_that_is_not_there_says_how_to_make_it(tmp_path):
    with pytest.raises(NotPacked, match=f"pack --out {tmp_path}"):
        read_model(tmp_path, "small")


# Models: exported without weights, weights written from a live model

SHAPE = replace(SHAPES["tiny"], layers=2)


@pytest.fixture(scope="module")
def tied():
    return replace(SHAPE, tied=True, layers=1)


def written(shape, folder):
    """A form of random weights in `folder`, and the model they are from."""
    from tools.lab.gpu_check.packs.pack import detach_weights

    decoder = traced(shape)
    places = detach_weights(decoder.model, shape)
    model = random_model(shape, "cpu", "float32", attention="eager")
    model.config.save_pretrained(folder)
    (folder / "model.onnx").write_bytes(ir.to_proto(decoder.model).SerializeToString())
    write_weights(model, places, folder)
    return model


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    if not importlib.util.find_spec("onnxscript"):
        pytest.skip("needs the export extra")
    folder = tmp_path_factory.mktemp("tiny")
    return SimpleNamespace(folder=folder, model=written(SHAPE, folder))


@pytest.fixture(scope="module")
def session(tiny):
    from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings

    session = OnnxCpuSession(tiny.folder / "model.onnx", OnnxCpuSettings(threads=1))
    session.allocate(
        max(one.room.num_blocks for one in scenarios(SHAPE, session.shape.block_tokens, quick=True))
    )
    yield session
    session.close()


@pytest.fixture(scope="module")
def run(session):
    problems = []
    found = scenarios(SHAPE, session.shape.block_tokens, quick=True)
    run = run_scenarios(session, found, problems, lambda name, value: None)
    return SimpleNamespace(answers=run, problems=problems, scenarios=found)


@pytest.mark.breadth
def test_every_scenario_happens(run):
    assert run.problems == []
    assert set(run.answers) == {"mixed", "prefixes", "recompute", "long"}  # nothing to swap to on the CPU


@pytest.mark.breadth
def test_the_weights_map_gives_transformers_logits(tiny, run):
    """Every scenario's log-probabilities are those of the model the weights were written from."""
    for scenario in run.scenarios:
        if scenario.name in run.answers:
            judged = judge(tiny.model, tiny.model, scenario.requests, run.answers[scenario.name])
            assert judged.good, scenario.name
            assert judged.worst < 1e-5
            assert judged.agreeing == judged.positions > 0


@pytest.mark.breadth
def test_another_models_answers_are_not_good(tiny, run):
    """A judge that accepted these would accept anything."""
    other = random_model(SHAPE, "cpu", "float32", seed=1, attention="eager")
    scenario = run.scenarios[0]
    assert not judge(other, other, scenario.requests, run.answers[scenario.name]).good


@pytest.mark.breadth
def test_a_wrong_token_is_not_good(tiny, run):
    scenario = run.scenarios[-1]
    (answer,) = run.answers[scenario.name]
    tokens = [*answer.tokens[:-1], (answer.tokens[-1] + 1) % SHAPE.vocab]
    judged = judge(tiny.model, tiny.model, scenario.requests, [replace(answer, tokens=tokens)])
    assert judged.agreeing == judged.positions - 1
    assert not judged.good


@pytest.mark.breadth
def test_a_tied_head_is_written_once(tied, tmp_path):
    pytest.importorskip("onnxscript")
    from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings

    model = written(tied, tmp_path)
    sizes = sum(parameter.nbytes for parameter in model.parameters())
    assert (tmp_path / "weights.bin").stat().st_size < 1.1 * sizes + 4096 * 20
    session = OnnxCpuSession(tmp_path / "model.onnx", OnnxCpuSettings(threads=1))
    scenarios_found = [scenarios(tied, session.shape.block_tokens, quick=True)[0]]
    session.allocate(scenarios_found[0].room.num_blocks)
    run = run_scenarios(session, scenarios_found, [], lambda name, value: None)
    assert judge(model, model, scenarios_found[0].requests, run["mixed"]).good


def test_differences_are_counted():
    one = Answer([1, 2], [TokenLogprobs(-0.5, 1, [1], [-0.5])], 0)
    assert differences({"mixed": [one, one]}, {"mixed": [one, one]}) == []
    found = differences({"mixed": [one, one]}, {"mixed": [one, replace(one, tokens=[1, 3])]})
    assert found == ["mixed: 1 of 2 requests differ in tokens, 0 in log-probabilities"]


@pytest.mark.breadth
def test_decoding_is_timed_step_by_step(session):
    prompts = random_prompts(SHAPE, [20] * 3, seed=1)
    found = decode(session, EngineLimits(24, max_sequences=3, max_step_tokens=128), prompts, 9)
    assert len(found.step_s) == len(found.run_s) == 6
    assert all(host > 0 for host in found.host_s)
    assert found.prompt_s + sum(found.step_s) < found.whole_s
    made = start_decoding(session, EngineLimits(24, max_sequences=3, max_step_tokens=32), prompts, 9)
    assert len(made.step()) == 3
    assert prefill_s(session, EngineLimits(24, max_sequences=1, max_step_tokens=32), [1] * 100) > 0


@pytest.mark.breadth
def test_the_benchmark_measures_what_it_says(session, monkeypatch, capsys):
    """On the CPU nothing runs on a device, but every figure is there."""
    for name, value in {
        "CONTEXT": 20,
        "NEW_TOKENS": 12,
        "COUNTED_STEPS": 8,
        "LONG_PROMPT": 100,
        "LONG_STEP": 64,
    }.items():
        monkeypatch.setattr(bench, name, value)
    monkeypatch.setattr(bench, "_wait", lambda: None)
    monkeypatch.setattr(bench, "PROFILED", (1, 2))
    setting = Setting()
    for batch in (1, 3):
        bench.measure(session, SHAPE, batch, 10.0, True, setting)
    bench.measure(session, SHAPE, 1, 10.0, False, setting)
    bench.prefill(session, SHAPE, setting)
    bench.profile(session, SHAPE, "profile {}", setting)
    assert set(setting.figures) == {
        "decode 1",
        "decode 3",
        "decode 1 without graphs",
        "prefill",
        "profile 1",
        "profile 2",
    }
    figure = setting.figures["decode 3"]
    assert figure["tokens_s"] == pytest.approx(3 / figure["step_ms"] * 1e3)
    assert 0 < figure["whole_tokens_s"] < 2 * figure["tokens_s"]  # steps of a busy machine differ
    assert setting.figures["profile 1"]["launches"] == 0  # there is no device
    report = {"date": "", "command": "", "results": [{**RESULT, "figures": setting.figures}]}
    assert "| 1 | no |" in markdown(report)
    assert "3 sequences: " in capsys.readouterr().out


RESULT = {"name": "decode_8b", "state": "pass", "seconds": 1, "why": "", "look_at": ""}


@pytest.fixture(scope="module")
def packed():
    pytest.importorskip("onnxscript")
    from tools.lab.gpu_check.packs.pack import pack_model

    return pack_model(SHAPE)


@pytest.mark.breadth
def test_a_packed_model_is_read_back_and_small(packed, tmp_path):
    files = write_model(tmp_path, "tiny", packed)
    assert sum(path.stat().st_size for path in files) < 20_000
    assert read_model(tmp_path, "tiny") == packed
    assert isinstance(packed, PackedModel)
    ends = [place.offset + place.length for place in packed.places]
    assert all(place.offset >= end for place, end in zip(packed.places[1:], ends, strict=False))


@pytest.mark.breadth
def test_weights_of_another_shape_are_refused(packed, tmp_path):
    other = random_model(replace(SHAPE, intermediate=128), "cpu", "float32")
    with pytest.raises(ValueError, match="not"):
        write_weights(other, packed.places, tmp_path)
