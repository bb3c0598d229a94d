"""PagedAttention nodes on the GPU against numpy: every kind of node on every kind of step.

Tensors are torch's: it has the element types that numpy lacks.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.inference.backends.onnxruntime.step_input_names import METADATA
from tools.lab.gpu_check.base.setting import Absent, Failed, Setting
from tools.lab.gpu_check.correctness.distance import Distance, distance
from tools.lab.gpu_check.packs.nodes import (
    KINDS,
    STEPS,
    Floats,
    NodeKind,
    PackedCase,
    Tensors,
    packed_case,
    random_tensors,
    reference,
)
from tools.lab.gpu_check.packs.packed import read_nodes

LIMITS = {"f16": 2e-3, "bf16": 1.6e-2, "i8": 1e-2, "f8": 6e-2}
"""Allowed root mean square error, relative; a quantized cache's kernels may compute in its precision."""
ONNX_TYPES = {"f32": 1, "f16": 10, "bf16": 16, "i8": 3, "f8": 17}
"""Numbers of onnx.TensorProto.DataType."""
TORCH_TYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "f8": "float8_e4m3fn"}
LOOK_AT = (
    "pipelines/inference/backends/onnxruntime/cuda/lowering.py: attributes and scales; "
    "nodes.py beside this file"
)


def check_attention(setting: Setting) -> None:
    """Every kind of node on every kind of step; fails with all that are off."""
    graphs = nodes(setting.pack)
    wrong: list[str] = []
    for kind in KINDS:
        model, scales = graphs[kind.name]
        outcome = _check_kind(kind, model, scales, setting)
        setting.note(kind.name, outcome["figures"])
        setting.say(f"{kind.name}: {outcome['words']}")
        wrong += outcome["wrong"]
    if wrong:
        raise Failed("\n".join(wrong), LOOK_AT)


def nodes(pack: Path) -> dict[str, tuple[bytes, tuple[float, float]]]:
    """From the pack; made here where there is none and onnx_ir is installed."""
    try:
        return read_nodes(pack)
    except FileNotFoundError as missing:
        try:
            from tools.lab.gpu_check.packs.node_graphs import cache_scales, cuda_graph
        except ImportError:
            raise Absent(str(missing)) from missing
        return {kind.name: (cuda_graph(kind), cache_scales(kind)) for kind in KINDS}


def _check_kind(
    kind: NodeKind, model: bytes, scales: tuple[float, float], setting: Setting
) -> dict[str, Any]:
    try:
        session = _open(model)
    except Exception as error:  # after any error of ONNX Runtime the next kind may still work
        return {"figures": {}, "words": "cannot be opened", "wrong": [f"{kind.name}: {error}"]}
    figures: dict[str, float] = {}
    wrong: list[str] = []
    for number, (name, sequences) in enumerate(STEPS.items()):
        case = packed_case(sequences, kind.block_tokens, seed=number)
        tensors = random_tensors(kind, case, scales, seed=100 + number)
        try:
            problems, off = compare(kind, case, tensors, scales, run_node(session, kind, case, tensors))
        except Exception as failed:
            wrong.append(f"{kind.name}, {name}: {type(failed).__name__}: {failed}")
            continue
        figures[name] = off.rms
        wrong += [f"{kind.name}, {name}: {problem}" for problem in problems]
    words = "relative error " + ", ".join(f"{name} {error:.1e}" for name, error in figures.items())
    return {"figures": figures, "words": words + ("  WRONG" if wrong else ""), "wrong": wrong}


def compare(
    kind: NodeKind,
    case: PackedCase,
    tensors: Tensors,
    scales: tuple[float, float],
    outputs: tuple[Floats, ...],
) -> tuple[list[str], Distance]:
    """(problems of attended, key pool and value pool as text, error of attended)."""
    expected = reference(kind, case, tensors, scales)
    real = case.num_tokens - case.num_padding
    error = distance(outputs[0][:real], expected[0][:real])
    limit = max(LIMITS.get(kind.cache, 1e-5), LIMITS.get(kind.element, 1e-5))
    problems = []
    if not error.within(limit):
        window = _other_window(kind, case, tensors, scales, outputs[0])
        problems.append(f"attended: {error}, at most {limit:g} allowed{window}")
    for name, pool, wanted in (("keys", outputs[1], expected[1]), ("values", outputs[2], expected[2])):
        steps = _cache_difference(kind, pool, wanted)
        if steps:
            problems.append(f"{name} in the cache: {steps}")
    return problems, error


def _cache_difference(kind: NodeKind, pool: Floats, expected: Floats) -> str:
    """The difference of the pools except the scratch block: none, or one unit of a quantized type."""
    off = np.abs(pool[:-1] - expected[:-1])
    allowed = {"i8": np.ones_like(off), "f8": np.abs(expected[:-1]) / 8 + 2.0**-9}.get(kind.cache, 0)
    beyond = ~(off <= allowed)
    if not beyond.any():
        return ""
    at = tuple(int(one) for one in np.argwhere(beyond)[0])
    where = "(block, token, head, number)"
    return f"{int(beyond.sum())} numbers differ, first at {where} {at}: {pool[at]} for {expected[at]}"


def _other_window(
    kind: NodeKind, case: PackedCase, tensors: Tensors, scales: tuple[float, float], attended: Floats
) -> str:
    """Whether a window one shorter or longer would explain it."""
    if kind.window < 1:
        return ""
    real = case.num_tokens - case.num_padding
    distances = []
    for window in (kind.window - 1, kind.window + 1):
        other = reference(replace(kind, window=window), case, tensors, scales)[0]
        distances.append(f"{window}: {distance(attended[:real], other[:real]).rms:.2g}")
    return f"; with a window of {', '.join(distances)}"


def _open(model: bytes) -> Any:
    import torch  # noqa: F401, I001  first: it brings the CUDA libraries
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CUDAExecutionProvider"])
    if "CUDAExecutionProvider" not in session.get_providers():
        raise Failed("ONNX Runtime could not start its CUDA provider")
    return session


def run_node(
    session: Any, kind: NodeKind, case: PackedCase, tensors: Tensors, where: str = "cuda"
) -> tuple[Floats, ...]:
    """One run of the node: attended, key pool, value pool as float32."""
    import torch

    def place(values: np.ndarray, element: str | None = None) -> Any:
        tensor = torch.from_numpy(np.array(values, order="C")).to(where)
        return tensor.to(getattr(torch, TORCH_TYPES[element])) if element else tensor

    pools = [place(pool, kind.cache) for pool in (tensors.key_pool, tensors.value_pool)]
    fed = {name: place(values) for name, values in _inputs(case, tensors).items()}
    inputs, outputs = (
        {value.name for value in many} for many in (session.get_inputs(), session.get_outputs())
    )
    attended = torch.full((case.num_tokens, kind.num_heads * kind.head_size), torch.nan, device=where)
    binding = session.io_binding()
    for name in fed.keys() & inputs:
        shape, address = list(fed[name].shape), fed[name].data_ptr()
        binding.bind_input(name, where, 0, _numpy_type(fed[name]), shape, address)
    for side, pool in zip(("key", "value"), pools, strict=True):
        how = (where, 0, ONNX_TYPES[kind.cache], list(pool.shape), pool.data_ptr())
        binding.bind_input(f"{side}_cache.0", *how)
        if f"{side}_cache_out.0" in outputs:  # of graphs that do not write to their inputs
            binding.bind_output(f"{side}_cache_out.0", *how)
    if METADATA in inputs:
        binding.bind_cpu_input(METADATA, case.metadata)
    binding.bind_output("logits", where, 0, np.float32, list(attended.shape), attended.data_ptr())
    if where == "cuda":
        torch.cuda.synchronize()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    return attended.cpu().numpy(), *(pool.float().cpu().numpy() for pool in pools)


def _inputs(case: PackedCase, tensors: Tensors) -> dict[str, np.ndarray]:
    """The lowered node's inputs by name, except the caches and the metadata."""
    heads = {"query": tensors.query, "key": tensors.key, "value": tensors.value}
    zeros = np.zeros(case.num_tokens, np.int64)
    return {
        **{name: values.transpose(1, 0, 2)[None] for name, values in heads.items()},
        "cumulative_sequence_length": case.cumulative,
        "past_seqlens": case.past,
        "block_table": case.block_table,
        "slot_mapping": np.where(case.stored, case.slots, -1).astype(np.int32),
        "logits_indices": np.arange(case.num_tokens),
        "input_ids": zeros,
        "position_ids": zeros,
    }


def _numpy_type(tensor: Any) -> Any:
    import torch

    return {torch.float32: np.float32, torch.int64: np.int64, torch.int32: np.int32}[tensor.dtype]
