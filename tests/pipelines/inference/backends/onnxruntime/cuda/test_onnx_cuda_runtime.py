"""What ONNX Runtime's CUDA provider is asked for, and what happens when it will not capture graphs."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest
from small_onnx_decoders import small_decoder

from pipelines.inference.backends.onnxruntime.cuda import provider
from pipelines.inference.backends.onnxruntime.cuda.lowered_decoder import ELEMENTS
from pipelines.inference.backends.onnxruntime.cuda.lowering import lower, uncapturable
from pipelines.inference.backends.onnxruntime.cuda.provider import CudaRuntime
from pipelines.inference.contracts.device_errors import ModelError

REFUSAL = (
    "ONNX Runtime 1.31.1 cannot open the model: This session cannot use the graph capture feature as "
    "requested by the user as all compute graph nodes have not been partitioned to the CUDAExecutionProvider"
)


@pytest.fixture
def opened(monkeypatch):
    """Provider options of the sessions that were opened; `opened.refuse` is raised where graphs are wanted."""

    class Opened(list[dict[str, str]]):
        refuse: str | None = None
        operators: Path | None = None

    seen = Opened()

    def open_session(
        model: bytes, folder: Path, providers: Any, threads: int, entries: Any, operators: Path | None
    ) -> str:
        (cuda, options), cpu = providers
        assert (cuda, cpu) == ("CUDAExecutionProvider", "CPUExecutionProvider")
        seen.append(dict(options))
        seen.operators = operators
        if seen.refuse and options["enable_cuda_graph"] == "1":
            raise ModelError(seen.refuse)
        return "a session"

    monkeypatch.setattr(provider, "open_session", open_session)
    return seen


@pytest.fixture
def runtime():
    return CudaRuntime(1, 0x7F00)


@pytest.fixture
def lowered():
    return lower(small_decoder("f16"))


def test_everything_runs_on_the_devices_stream(opened, runtime, lowered):
    assert runtime.open(lowered) == ("a session", True)
    assert opened == [
        {
            "device_id": "1",
            "user_compute_stream": str(0x7F00),
            "enable_cuda_graph": "1",
            "arena_extend_strategy": "kSameAsRequested",
            "use_tf32": "0",
        }
    ]


def test_a_decoder_with_states_gets_their_operators(opened, runtime, lowered, monkeypatch):
    monkeypatch.setattr(provider, "state_library", lambda: Path("libbraid_onnxruntime.so"))
    assert runtime.open(lowered) == ("a session", True)
    assert opened.operators is None
    assert runtime.open(replace(lowered, state_shapes=((4, 3),))) == ("a session", True)
    assert opened.operators == Path("libbraid_onnxruntime.so")


def test_a_model_that_cannot_be_captured_is_opened_without_graphs(opened, runtime, lowered, caplog):
    opened.refuse = REFUSAL
    with caplog.at_level(logging.WARNING):
        assert runtime.open(lowered) == ("a session", False)
    assert [options["enable_cuda_graph"] for options in opened] == ["1", "0"]
    assert "decode steps run without CUDA graphs" in caplog.text
    assert "partitioned" in caplog.text


def test_any_other_refusal_is_the_models_error(opened, runtime, lowered):
    opened.refuse = "ONNX Runtime 1.31.1 cannot open the model: Protobuf parsing failed."
    with pytest.raises(ModelError, match="Protobuf"):
        runtime.open(lowered)
    assert len(opened) == 1


def test_operators_that_replay_wrongly_are_not_captured(opened, runtime, lowered, caplog):
    """ONNX Runtime would capture them without a word."""
    model = small_decoder("f16").model
    model.graph.append(ir.node("GatherND", [model.graph.inputs[0], model.graph.inputs[0]]))
    assert uncapturable(model) == ["GatherND"]
    lowered = replace(lowered, uncapturable=("GatherND",))
    assert runtime.open(lowered) == ("a session", False)
    assert [options["enable_cuda_graph"] for options in opened] == ["0"]
    assert "GatherND" in caplog.text


@pytest.mark.parametrize(
    ("element_type", "kv_cache", "expected"),
    [
        ("f32", None, ("f16", 256, False)),
        ("f16", None, ("f16", 256, False)),
        ("bf16", None, ("bf16", 256, False)),
        ("bf16", "f8", ("f8", 128, True)),
        ("f16", "i8", ("i8", 128, True)),
    ],
)
def test_cache_and_blocks_are_chosen_together(element_type, kv_cache, expected):
    decoder = small_decoder(element_type, key_absmax=2.0, value_absmax=3.0)
    found = lower(decoder, kv_cache)
    assert (found.kv_cache, found.block_tokens, found.gathers) == expected
    graph = ir.from_proto(onnx.load_from_string(found.model)).graph
    pool = next(one for one in graph.inputs if one.name == "key_cache.0")
    assert (int(pool.dtype), pool.shape[1]) == (found.element.number, found.block_tokens)
    assert found.uncapturable == ()


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_are_those_of_onnx(name):
    names = {"f32": "FLOAT", "f16": "FLOAT16", "bf16": "BFLOAT16", "i8": "INT8", "f8": "FLOAT8E4M3FN"}
    dtype = ir.DataType[names[name]]
    assert (int(dtype), dtype.itemsize) == ELEMENTS[name]
