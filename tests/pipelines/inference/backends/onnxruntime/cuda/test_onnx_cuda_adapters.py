"""Adapters on the CUDA session without a GPU: its graph on ONNX Runtime's CPU provider, its memory on the host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from host_device import HostDevice
from host_runtime import BLOCK_TOKENS, open_with_adapters
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from small_adapters import ALL, made_for, write
from small_onnx_decoders import VOCABULARY
from small_steps import make_step

from ops.cuda.device import DeviceError
from pipelines.adapters.weights import AdapterRoom, AdapterWeights, LoraFactors
from pipelines.inference.backends.onnx.read_decoder import read_decoder
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.backends.onnxruntime.cuda import open_decoder as opening
from pipelines.inference.backends.onnxruntime.cuda.adapter_pools import (
    EVERY,
    AdapterPools,
    padded_rank,
    to_element,
)
from pipelines.inference.backends.onnxruntime.cuda.cuda_graphs import NO_GRAPH, RUNS_TO_CAPTURE, GraphShape
from pipelines.inference.backends.onnxruntime.cuda.lora_linears import add_adapter_pools
from pipelines.inference.backends.onnxruntime.cuda.lowered_decoder import LoraLinear
from pipelines.inference.backends.onnxruntime.cuda.lowering import lower
from pipelines.inference.backends.onnxruntime.cuda.step_parts import PartLimits, split_step
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.device_errors import ModelError, NothingToAdapt
from pipelines.inference.contracts.step import Step, no_pairs

NUM_BLOCKS = 24
NAMES = {1: "a", 2: "b", 3: "c"}


def step_of(sequences: list[tuple[int, int]], adapters: list[int]) -> Step:
    """Random tokens; sequence i owns blocks 4 * i to 4 * i + 3."""
    step = make_step(sequences, [1] * len(sequences))
    table = np.arange(4 * len(sequences), dtype=np.int32).reshape(-1, 4)[:, : step.num_blocks.max()]
    rng = np.random.default_rng(sum(past for past, _ in sequences))
    return replace(
        step,
        token_ids=rng.integers(0, VOCABULARY, step.num_tokens),
        block_table=np.ascontiguousarray(table),
        copies=no_pairs(),
        adapters=np.array(adapters, np.int32) if any(adapters) else np.zeros(0, np.int32),
    )


LIFE = [
    ([(0, 20), (0, 5), (0, 9), (0, 3)], [1, 0, 2, 3]),
    ([(20, 1), (5, 1), (9, 1), (3, 1)], [1, 0, 2, 3]),
    ([(21, 1), (6, 1), (10, 30), (4, 1)], [1, 0, 2, 3]),
    ([(22, 1), (7, 1)], [1, 0]),
    ([(23, 1), (8, 1)], [0, 0]),
    ([(0, 12), (0, 8), (0, 40)], [3, 3, 1]),
    ([(12, 1), (8, 1), (40, 1)], [3, 3, 1]),
    ([(0, 7), (0, 9)], [0, 0]),
]
"""Prompts, chunks and steps that only decode; sets of adapters that shrink, end and change."""


@pytest.fixture
def path(tmp_path) -> Path:
    return write(tmp_path / "base")


def opened(path: Path, **room: int):
    session, runtime, device = open_with_adapters(path, ALL, **room)
    session.reserve(64, 8)
    session.allocate(NUM_BLOCKS)
    runtime.graph_ids.clear()
    return session, runtime, device


def reference_of(path: Path) -> OnnxCpuSession:
    session = OnnxCpuSession(path, OnnxCpuSettings(1, BLOCK_TOKENS, ALL))
    session.allocate(NUM_BLOCKS)
    return session


def put_all(*sessions) -> None:
    for session in sessions:
        for number, name in NAMES.items():
            session.put_adapter(number, made_for(session.linears, name))


def live(session, life=LIFE) -> list[np.ndarray]:
    return [np.array(session.run(step_of(*one))) for one in life]


def largest(ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    return max(float(np.abs(one - other).max()) for one, other in zip(ours, theirs, strict=True))


def test_logits_of_mixed_steps_equal_the_cpu_sessions(path):
    session, _, _ = opened(path)
    reference = reference_of(path)
    assert session.linears == reference.linears
    put_all(session, reference)
    expected = live(reference)
    for _ in range(2):  # the second time from graphs
        assert largest(live(session), expected) < 5e-6
    bare = live(session, [(sequences, [0] * len(sequences)) for sequences, _ in LIFE])
    assert largest(bare[:1], expected[:1]) > 0.1


@pytest.mark.parametrize("bits", [4, 8])
def test_bases_of_few_bits_have_adapters_of_their_products_type(path, bits):
    quantizer = MatMulNBitsQuantizer(onnx.load(path), bits=bits, block_size=16, is_symmetric=True)
    quantizer.process()
    model = quantizer.model.model
    assert sum(node.op_type == "MatMulNBits" for node in model.graph.node) >= 8
    onnx.save(model, path)
    session, reference = opened(path)[0], reference_of(path)
    assert len(session.linears) == 8
    put_all(session, reference)
    assert largest(live(session), live(reference)) < 5e-5


def test_half_precision_computes_adapters_in_half_precision(tmp_path):
    full, half = (opened(write(tmp_path / kind, element_type=kind))[0] for kind in ("f32", "f16"))
    put_all(full, half)
    expected = live(full)
    assert largest(live(half), expected) < 0.1
    assert np.abs(expected[0]).max() > 2
    sizes = [sum(pool.nbytes for pool in session._pools.arrays.values()) for session in (full, half)]
    assert sizes == [
        2 * sizes[1],
        3 * 8 * 4 * sum(s.size_in + s.size_out for s in full.linears.values()) // 2,
    ]


@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
def test_pools_store_what_the_type_rounds_to(element):
    values = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32) * 1e-3
    values[0, :3] = 1 + 2.0**-8, 1 + 3 * 2.0**-8, -65504
    kind = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[element]
    np.testing.assert_array_equal(to_element(values, element).view(kind), values.astype(kind))


@pytest.mark.parametrize("element_type", ["f32", "f16", "bf16"])
def test_the_lowered_graph_is_valid_in_every_type(tmp_path, element_type):
    decoder = read_decoder(write(tmp_path / "base", element_type=element_type))
    adapted = add_adapter_pools(decoder.model.graph, frozenset({"q_proj", "o_proj"}))
    lowered = lower(decoder, None, adapted)
    assert {target.element for target in lowered.adapted} == {element_type}
    assert [target.name for target in adapted] == [
        f"layers.{layer}.self_attn.{name}" for layer in (0, 1) for name in ("q_proj", "o_proj")
    ]
    proto = onnx.load_from_string(lowered.model)
    onnx.checker.check_model(proto)
    onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    operators = [node.op_type for node in proto.graph.node]
    assert (operators.count("FusedMatMul"), operators.count("Equal"), lowered.uncapturable) == (4, 0, ())


def test_a_module_that_is_called_twice_has_one_pool(path):
    model = ir.load(path)
    first, second = (node.inputs[1] for node in [n for n in model.graph if n.op_type == "MatMul"][:2])
    rows = next(node for node in model.graph if node.op_type == "MatMul").inputs[0]
    again = ir.node("MatMul", [rows, first], name="again")
    model.graph.insert_after(next(node for node in model.graph if node.op_type == "MatMul"), [again])
    adapted = add_adapter_pools(model.graph, frozenset({"q_proj"}))
    assert len(adapted) == 2
    assert second.name.endswith("k_proj.weight")
    inputs = [value.name for value in model.graph.inputs]
    assert len(inputs) == len(set(inputs))
    operators = [node.op_type for node in model.graph]
    assert (operators.count("FusedMatMul"), operators.count("Gather") - operators.count("Add")) == (3, 1)


# Graphs and uploads


def watched(device: HostDevice, monkeypatch) -> list[int]:
    """Bytes of each upload from now on."""
    sizes, upload = [], device.upload
    monkeypatch.setattr(
        device, "upload", lambda host, into=None: (sizes.append(host.nbytes), upload(host, into))[1]
    )
    return sizes


def test_weights_are_uploaded_once_and_a_step_of_the_same_sequences_sends_nothing_of_adapters(
    path, monkeypatch
):
    session, _, device = opened(path)
    put_all(session)
    plain, _, other = open_with_adapters(path, None)
    plain.reserve(64, 8)
    plain.allocate(NUM_BLOCKS)
    sent, plainly = watched(device, monkeypatch), watched(other, monkeypatch)

    def uploads(adapters: list[int], past: int) -> int:
        """What a step uploads beyond that of a model without room for adapters."""
        sent.clear()
        plainly.clear()
        step = step_of([(past, 1)] * len(adapters), adapters)
        session.run(step)
        plain.run(replace(step, adapters=np.zeros(0, np.int32)))
        return len(sent) - len(plainly)

    weights = 2 * len(session.linears)
    assert uploads([0, 0], 1) == 0
    assert uploads([1, 0], 2) == weights + 1
    assert [uploads([1, 0], past) for past in (3, 4, 5)] == [0, 0, 0]
    assert uploads([0, 1], 6) == 1  # the sequences changed places
    assert uploads([1, 2], 7) == weights + 1
    assert [uploads([2, 1], 8), uploads([2, 1], 9), uploads([0, 0], 10)] == [1, 0, 0]
    for number in (1, 2):
        session.drop_adapter(number)
    session.put_adapter(4, made_for(session.linears, "b"))
    assert uploads([4, 0], 11) == weights + 1


def test_steps_of_the_base_keep_their_graphs_and_those_with_adapters_have_one_for_each_rank(path):
    session, runtime, _ = opened(path)
    while session.warm():
        pass
    put_all(session)
    assert {shape.rank for shape in session._bound} == {0}
    runtime.graph_ids.clear()
    decoding = [(20, 1), (5, 1), (9, 1)]
    session.run(step_of(decoding, [0, 0, 0]))
    base_id = session._buckets.known[GraphShape(4, 2)].graph_id
    for adapters in ([1, 0, 0], [1, 2, 0], [3, 0, 3], [2, 1, 3]):
        for _ in range(RUNS_TO_CAPTURE):
            session.run(step_of(decoding, adapters))
    session.run(step_of(decoding, [0, 0, 0]))
    mixed = runtime.graph_ids[1:-1]
    assert runtime.graph_ids[0] == runtime.graph_ids[-1] == base_id
    assert set(mixed) == {session._buckets.known[GraphShape(4, 2, 0, 16)].graph_id}
    assert base_id not in mixed
    assert NO_GRAPH not in mixed


def test_a_graphs_addresses_never_change_whatever_adapters_a_step_has(path):
    """A replay reads the rows where its capture did."""
    session, _, device = opened(path)
    put_all(session)
    decoding, addresses = [(20, 1), (5, 1), (9, 1)], []
    for adapters in ([1, 0, 0], [1, 2, 0], [0, 1, 3]):
        session.run(step_of(decoding, adapters))
        session.run(step_of([(0, 30), (0, 4)], [2, 3]))
        inputs = session._bound[GraphShape(4, 2, 0, 16)].adapters.inputs
        arrays = [*inputs.values(), *session._pools.arrays.values()]
        addresses.append([device.pointer(array) for array in arrays])
    assert all(address == addresses[0] for address in addresses)


def test_ranks_are_rounded_up_to_few():
    assert [padded_rank(rank) for rank in (0, 1, 16, 17, 64, 65)] == [0, 16, 16, 32, 64, 128]


def test_parts_of_a_step_have_their_own_sequences_adapters():
    step = step_of([(0, 5), (0, 6), (0, 7)], [1, 0, 3])
    parts = split_step(step, PartLimits(2))
    assert [part.step.adapters.tolist() for part in parts] == [[1, 0], [3]]
    plain = split_step(replace(step, adapters=np.zeros(0, np.int32)), PartLimits(2))
    assert [part.step.adapters.tolist() for part in plain] == [[], []]


# Memory


PRODUCT = LoraLinear("layers.0.q", 4, 6, "f32")


def ones(rank: int, *linears: str) -> AdapterWeights:
    lora = LoraFactors(np.ones((rank, 4), np.float32), np.ones((6, rank), np.float32))
    return AdapterWeights(rank, dict.fromkeys(linears, lora))


def test_a_place_is_used_again_and_holds_nothing_of_who_left():
    pools = AdapterPools(HostDevice(), [PRODUCT], AdapterRoom(ALL, 2, 3))
    assert {pool.shape for pool in pools.arrays.values()} == {(6, 4), (6, 6)}
    for number in (1, 2):
        pools.put(number, ones(3, "layers.0.q"))
    left = pools.rows_of(np.array([1, 2], np.int32)).rows[:3]
    pools.drop(1)
    pools.put(3, ones(2, "layers.0.k"))
    rows = pools.rows_of(np.array([3, 0, 2], np.int32))
    assert rows.owners[:5].tolist() == [2, 2, 2, 3, 3]
    assert rows.rows[3:5].tolist() == left[:2].tolist()
    for pool in pools.arrays.values():
        assert (pool[left[:2]] == 0).all()
        assert (pool[rows.rows[:3]] == 1).all()


def test_an_adapter_whose_upload_failed_is_uploaded_by_the_next_step(monkeypatch):
    device = HostDevice()
    pools = AdapterPools(device, [PRODUCT], AdapterRoom(ALL, 1, 3))
    pools.put(1, ones(3, "layers.0.q"))

    def fail(host, into=None):
        raise DeviceError("cannot copy to the GPU")

    with monkeypatch.context() as patched:
        patched.setattr(device, "upload", fail)
        with pytest.raises(DeviceError):
            pools.rows_of(np.array([1], np.int32))
    assert pools.rows_of(np.array([1], np.int32)).rank == 16
    assert all((pool == 1).all() for pool in pools.arrays.values())


def test_reserve_computes_steps_with_all_adapters_at_once_and_with_none(path, monkeypatch):
    session, runtime, device = open_with_adapters(path, ALL, max_loaded=5, max_rank=7)
    ranks, fill = [], AdapterPools.fill

    def watched_fill(pools, adapters, *parts):
        filled = fill(pools, adapters, *parts)
        ranks.append((set(adapters.tolist()), filled.rank))
        return filled

    monkeypatch.setattr(AdapterPools, "fill", watched_fill)
    session.reserve(64, 8)
    assert ranks == [({EVERY}, 64)] * 2 + [(set(), 0)] * 2
    assert runtime.graph_ids == [NO_GRAPH] * 4
    assert {len(pool) for pool in session._pools.arrays.values()} == {35}
    session.allocate(4)
    session.close()
    session.drop_adapter(1)


def test_room_that_the_gpu_lacks_is_a_model_error_that_names_it(path, monkeypatch):
    session, _, device = open_with_adapters(path, ALL, max_loaded=5, max_rank=7)
    zeros = device.zeros

    def too_much(shape, dtype):
        if shape[0] == 35:
            raise DeviceError("out of memory")
        return zeros(shape, dtype)

    monkeypatch.setattr(device, "zeros", too_much)
    with pytest.raises(
        ModelError, match=r"8 sequences, and 5 adapters of rank 7 \(`adapters`\): out of memory"
    ):
        session.reserve(64, 8)


def test_a_file_is_opened_with_room_for_its_targets(path, monkeypatch):
    sessions = []
    monkeypatch.setattr(opening, "require_cuda", lambda device: None)
    monkeypatch.setattr(opening, "start_device", lambda number: (number, "runtime"))
    monkeypatch.setattr(opening, "OnnxCudaSession", lambda *parts: sessions.append(parts))
    rooms = [None, AdapterRoom(frozenset({"v_proj"}), 2, 8)]
    for room in rooms:
        opening.open_decoder(path, DecoderSettings("cuda:1", room=room))
    assert [parts[1:] for parts in sessions] == [(1, "runtime", room) for room in rooms]
    assert [len(parts[0].adapted) for parts in sessions] == [0, 2]
    for targets in ({"up_proj"}, {"lm_head", "embed_tokens"}):
        with pytest.raises(NothingToAdapt, match="none of its linear layers is named as the `targets`"):
            opening.open_decoder(path, DecoderSettings("cuda:0", room=AdapterRoom(frozenset(targets), 2, 8)))
