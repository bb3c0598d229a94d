"""The tables of backends: what they name exists, and what graphs and settings take of them."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from pipelines.inference.backends import registry
from pipelines.inference.backends.registry import CPU, CUDA, DECODERS, ENCODERS, INTEL_GPU, TENSORS, Opener
from pipelines.inference.contracts.tensor_settings import TensorSettings


@pytest.mark.parametrize(
    "opener", {each.function: each for each in (*DECODERS, *ENCODERS, *TENSORS)}.values()
)
def test_each_function_is_there_also_without_a_gpu(opener):
    module, _, name = opener.function.partition(":")
    assert callable(getattr(import_module(f"pipelines.inference.backends.{module}"), name))


@pytest.mark.parametrize(
    ("openers", "engine", "devices"),
    [
        (DECODERS, registry.DecoderEngine, {"cpu", "cuda", "cuda:1", "gpu", "gpu.0", "fake"}),
        (ENCODERS, registry.EncoderEngine, {"cpu", "cuda", "cuda:1"}),
        (TENSORS, registry.TensorEngine, {"cpu", "cuda", "cuda:1", "gpu", "gpu.0"}),
    ],
    ids=["decoders", "encoders", "tensors"],
)
def test_graphs_may_name_the_engines_and_devices_of_their_kind_of_model(openers, engine, devices):
    assert get_args(engine)[:2] == ("openvino", "onnxruntime")
    assert None not in get_args(engine), "what its device alone chooses has no name"
    pattern = re.compile(registry.device_pattern(openers))
    candidates = {"cpu", "cuda", "cuda:1", "gpu", "gpu.0", "fake", "", "cpu:0", "cuda:x", "gpu:0", "fakes"}
    assert {device for device in candidates if pattern.search(device)} == devices


def test_a_whole_server_runs_on_devices_of_every_kind_of_model():
    assert registry.devices_of_all() == [CPU, CUDA]


def test_libraries_of_engines_are_named_once():
    names = registry.libraries()
    assert names[:3] == ("openvino", "onnxruntime", "onnxruntime-gpu")
    assert len({*names}) == len(names)


def test_an_opener_knows_its_files_and_devices():
    opener = Opener("one", (".xml", "saved_model.pb"), (CPU, INTEL_GPU), "one:open_one")
    files = {"model.xml": True, "a/saved_model.pb": True, "other.pb": False, "xml": False}
    assert {file: opener.opens(Path(file)) for file in files} == files
    devices = {"cpu": True, "gpu": True, "gpu.1": True, "gpu:1": False, "cuda": False}
    assert {device: opener.runs_on(device) for device in devices} == devices


def test_what_an_engine_lacks_are_settings():
    for name in (name for each in TENSORS for name in each.lacks):
        assert not getattr(TensorSettings(), name), "its default is that it is not set"
