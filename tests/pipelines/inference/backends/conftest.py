"""Exports of tiny decoders, made once per run."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import one_thread
import pytest
from stored_exports import stored_export

if TYPE_CHECKING:
    from pipelines.inference.backends.openvino.model.operator_library import LinearKernels

HAS_EXPORT = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "optimum"))


@pytest.fixture
def kernels(kernel_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], LinearKernels | None]:
    """`kernels(levels)` → Braid's own kernels of this checkout, for OpenVINO's linear layers.

    They are tried with as many threads as OpenVINO takes of itself.
    """
    from pipelines.inference.backends.openvino.model.operator_library import find_kernels

    monkeypatch.setenv("BRAID_KERNELS", str(kernel_folder))
    monkeypatch.setattr(one_thread, "DEFAULTS", {})
    return find_kernels


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`source(family)` → a Hugging Face folder."""
    if not HAS_EXPORT:
        pytest.skip("needs the export extra")
    from tiny_decoders import write_decoder

    return _written(write_decoder, tmp_path_factory.mktemp("decoders"))


@pytest.fixture(scope="session")
def exported(source: Callable[[str], Path]) -> Callable[[str], tuple[Path, Path]]:
    """`exported(family)` → (Hugging Face folder, folder with openvino_model.xml in float32)."""

    def make(family: str) -> tuple[Path, Path]:
        return source(family), _export(source(family), "openvino", "fp32")

    return cache(_quiet(make))


@pytest.fixture(scope="session")
def exported_onnx(source: Callable[[str], Path]) -> Callable[[str], Path]:
    """`exported_onnx(family)` → the model.onnx of its export in float32."""

    return cache(_quiet(lambda family: _export(source(family), "onnx", "fp32") / "model.onnx"))


@pytest.fixture(scope="session")
def few_bits(
    source: Callable[[str], Path], exported: Callable[[str], tuple[Path, Path]]
) -> Callable[[str, str], Path]:
    """`few_bits(form, weights)` → the file of an export with weights of int8 or int4; not to be changed.

    In OpenVINO's form that of llama, which other tests export too, compressed.
    """

    def make(form: str, weights: str) -> Path:
        if form == "onnx":
            return _export(source("qwen3"), form, weights) / "model.onnx"
        return _compressed(exported("llama")[1], weights) / "openvino_model.xml"

    return cache(_quiet(make))


@pytest.fixture(scope="session")
def generated(source: Callable[[str], Path]) -> Callable[[str], list[list[int]]]:
    """`generated(family)` → what transformers makes of each of `prompts()` alone, greedily in float32."""
    from greedy_batches import NUM_TOKENS
    from tiny_decoders import generate_alone, prompts

    return cache(_quiet(lambda family: generate_alone(source(family), prompts(), NUM_TOKENS)))


@pytest.fixture(scope="session")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`encoders(family)` → a folder with model.onnx, openvino_model.xml in float32 and config.json."""
    if not HAS_EXPORT:
        pytest.skip("needs the export extra")
    from tiny_encoders import write_encoder

    return _written(write_encoder, tmp_path_factory.mktemp("encoders"))


def _export(source: Path, form: Any, weights: str) -> Path:
    """The folder beside `source` with its export."""
    from tools.export.decoders.decoder import export_decoder

    folder = source.with_name(f"{source.name}-{form}-{weights}")
    return stored_export(
        source, folder, lambda: export_decoder(str(source), folder, weights, form=form), form, weights
    )


def _compressed(traced: Path, weights: str) -> Path:
    """The folder beside an export of OpenVINO's form with its weights in few bits."""
    from optimum.intel import OVModelForCausalLM

    from tools.export.decoders.openvino_decoder import compress

    folder = traced.with_name(weights)
    return stored_export(traced, folder, lambda: compress(OVModelForCausalLM, traced, weights), weights)


def _written(write: Callable[[str, Path], object], root: Path) -> Callable[[str], Path]:
    """`made(family)` → the folder in `root` that `write` filled, once."""

    def make(family: str) -> Path:
        write(family, root / family)
        return root / family

    return cache(_quiet(make))


def _quiet(make: Callable[..., Any]) -> Callable[..., Any]:
    """torch and transformers warn of themselves while they trace and generate."""

    def quietly(*names: str) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make(*names)

    return quietly
