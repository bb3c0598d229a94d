"""ONNX Runtime's CPU provider in the place of its CUDA provider: the same sessions, feeds, pools and buckets.

What is not the same: attention is the lowering in standard operators, nothing is asynchronous, and a graph
that is "captured" is computed like any other.  attention_metadata is an input that nobody reads, but here it
is held against the lengths that it bounds, in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from host_device import HostDevice
from small_onnx_decoders import write_small

from pipelines.adapters.weights import AdapterRoom
from pipelines.inference.backends.onnx.read_decoder import read_decoder
from pipelines.inference.backends.onnx.recurrent import find_recurrent
from pipelines.inference.backends.onnxruntime.cpu.lowering import lower_for_cpu
from pipelines.inference.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
from pipelines.inference.backends.onnxruntime.cuda.lora_linears import add_adapter_pools
from pipelines.inference.backends.onnxruntime.cuda.lowered_decoder import LoweredDecoder
from pipelines.inference.backends.onnxruntime.cuda.recurrent import lower_states, state_shapes
from pipelines.inference.backends.onnxruntime.cuda.state_library import state_library
from pipelines.inference.backends.onnxruntime.graph_writer import GraphWriter
from pipelines.inference.backends.onnxruntime.runtime import CPU, open_session
from pipelines.inference.backends.onnxruntime.step_input_names import CUMULATIVE, METADATA, PAST

BLOCK_TOKENS = 16
SHOWN = (METADATA, CUMULATIVE, PAST)


@dataclass
class HostRuntime:
    """`graph_ids` are those of the runs so far; `fails(graph_id)` raises, or not, before a run."""

    graphs: bool = True
    memory: str = "cpu"
    number: int = 0
    graph_ids: list[int] = field(default_factory=list)
    fails: Callable[[int], None] = lambda graph_id: None

    def open(self, lowered: LoweredDecoder) -> tuple[Any, bool]:
        return Watched(
            open_session(lowered.model, lowered.folder, [CPU], 1, {}, operators_of(lowered)), self
        ), self.graphs


def lower_for_host(
    path: Path,
    *,
    gathers: bool = False,
    targets: frozenset[str] | None = None,
    block_tokens: int = BLOCK_TOKENS,
) -> LoweredDecoder:
    """A model.onnx in standard operators, in which attention_metadata can be watched."""
    decoder = read_decoder(path)
    adapted = () if targets is None else add_adapter_pools(decoder.model.graph, targets)
    recurrent = find_recurrent(decoder.model.graph)
    lower_states(GraphWriter(decoder.model.graph), recurrent)
    model = lower_for_cpu(decoder, block_tokens)
    show(model.graph)
    return LoweredDecoder(
        model=ir.to_proto(model).SerializeToString(),
        folder=decoder.folder,
        layers=tuple(decoder.layers),
        vocab_size=decoder.vocab_size,
        max_context=decoder.max_context,
        element_type=decoder.element_type,
        block_tokens=block_tokens,
        kv_cache=decoder.element_type,
        gathers=gathers,
        adapted=adapted,
        state_shapes=state_shapes(recurrent),
    )


def operators_of(lowered: LoweredDecoder) -> Path | None:
    """The library that launches the kernels of states, on the CPU provider too."""
    return state_library() if lowered.state_shapes else None


class Watched:
    """A session that tells its runtime of its runs."""

    def __init__(self, session: Any, runtime: HostRuntime) -> None:
        self._session, self._runtime = session, runtime

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def run_with_iobinding(self, binding: Any, options: Any) -> None:
        graph_id = int(options.get_run_config_entry("gpu_graph_id"))
        self._runtime.fails(graph_id)
        self._runtime.graph_ids.append(graph_id)
        for name in SHOWN:
            binding.bind_output(f"shown.{name}")
        self._session.run_with_iobinding(binding, options)
        check_bounds(*(value.numpy() for value in binding.get_outputs()[-len(SHOWN) :]))


def show(graph: ir.Graph) -> None:
    """Let the graph give back what it was told of lengths."""
    graph.inputs.append(ir.val(METADATA, ir.DataType.INT32, [3]))
    inputs = {value.name: value for value in graph.inputs}
    for name in SHOWN:
        node = ir.node("Identity", [inputs[name]])
        (shown,) = node.outputs
        shown.name, shown.type, shown.shape = f"shown.{name}", inputs[name].type, inputs[name].shape
        graph.append(node)
        graph.outputs.append(shown)


def check_bounds(bounds: Any, cumulative: Any, past: Any) -> None:
    """What the operator's schema says of attention_metadata; a bound too small "may omit attention work"."""
    longest, at_most, at_least = bounds.tolist()
    num_new = np.diff(cumulative)
    contexts = past + num_new
    assert num_new.max() <= longest
    assert contexts.max() <= at_most
    assert at_least <= at_most
    assert at_least <= contexts.max() or not past.any(), "a bucket's sequences are shorter than it says"


def open_on_host(
    folder: Path,
    *,
    num_blocks: int = 24,
    num_host_blocks: int = 0,
    max_sequences: int = 8,
    max_scored: int = 0,
    element_type: str = "f32",
    gathers: bool = False,
    **settings: Any,
) -> tuple[OnnxCudaSession, HostRuntime, HostDevice]:
    """A small decoder's session, its cache allocated, with what it runs on."""
    runtime, device = HostRuntime(**settings), HostDevice()
    path = write_small(folder, element_type, rotary=True)
    session = OnnxCudaSession(lower_for_host(path, gathers=gathers), device, runtime)
    session.reserve(64, max_sequences, max_scored)
    session.allocate(num_blocks, num_host_blocks)
    runtime.graph_ids.clear()
    return session, runtime, device


def open_with_adapters(
    path: Path, targets: frozenset[str] | None = frozenset(), max_loaded: int = 3, max_rank: int = 8
) -> tuple[OnnxCudaSession, HostRuntime, HostDevice]:
    """The session of a model.onnx with room for adapters, without a cache, and what it runs on."""
    room = None if targets is None else AdapterRoom(targets, max_loaded, max_rank)
    runtime, device = HostRuntime(), HostDevice()
    return OnnxCudaSession(lower_for_host(path, targets=targets), device, runtime, room), runtime, device
