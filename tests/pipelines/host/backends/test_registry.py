"""The tables of backends: what they name exists, and what graphs and settings take of them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from pipelines.host.backends import registry
from pipelines.host.backends.registry import CPU, CUDA, DECODERS, ENCODERS, INTEL_GPU, TENSORS, Opener
from pipelines.host.contracts.tensor_settings import TensorSettings


@pytest.mark.parametrize(
    "opener", {each.function: each for each in (*DECODERS, *ENCODERS, *TENSORS)}.values()
)
def test_each_function_is_there_also_without_a_gpu(opener):
    module, _, name = opener.function.partition(":")
    assert callable(getattr(import_module(f"pipelines.host.backends.{module}"), name))


def test_graphs_name_the_engines_and_devices_of_their_kind_of_model():
    for engines in (registry.DecoderEngine, registry.EncoderEngine, registry.TensorEngine):
        assert get_args(engines) == ("openvino", "onnxruntime")
    assert registry.device_pattern(DECODERS) == r"^(cpu|gpu(\.\d+)?|cuda(:\d+)?|fake)$"
    assert registry.device_pattern(ENCODERS) == r"^(cpu|cuda(:\d+)?)$"
    assert registry.device_pattern(TENSORS) == r"^(cpu|gpu(\.\d+)?|cuda(:\d+)?)$"
    assert registry.devices_of_all() == [CPU, CUDA]


def test_libraries_of_engines_are_named_once():
    assert registry.libraries() == ("openvino", "onnxruntime", "onnxruntime-gpu")


def test_an_opener_knows_its_files_and_devices():
    opener = Opener("one", (".xml", "saved_model.pb"), (CPU, INTEL_GPU), "one:open_one")
    files = {"model.xml": True, "a/saved_model.pb": True, "other.pb": False, "xml": False}
    assert {file: opener.opens(Path(file)) for file in files} == files
    devices = {"cpu": True, "gpu": True, "gpu.1": True, "gpu:1": False, "cuda": False}
    assert {device: opener.runs_on(device) for device in devices} == devices


def test_what_an_engine_lacks_are_settings():
    for name in (name for each in TENSORS for name in each.lacks):
        assert not getattr(TensorSettings(), name), "its default is that it is not set"
