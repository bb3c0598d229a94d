"""Opens sessions of ONNX Runtime, and detects what the installed version supports.

This is the only file that names its options and interprets its errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as native

from pipelines.base.cpu_cores import num_confined_cores
from pipelines.inference.contracts.device_errors import ModelError

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
"""Where a model given as bytes finds its external data; the files are mapped, not copied."""
ERRORS_ONLY = 3  # of ONNX Runtime's severities 0 (verbose) to 4 (fatal)

PAGED_ATTENTION = "com.microsoft", "PagedAttention"
PAGED_ATTENTION_NEEDS = frozenset({"block_table", "slot_mapping", "k_scale", "v_scale", "attention_metadata"})
"""Inputs of the contrib operator that were added last, in ONNX Runtime 1.29 and 1.30."""
CUDA_ADVICE = "install braid-server[cuda] (onnxruntime-gpu >= 1.30)"

RUNTIME_ERRORS = (
    native.EPFail,
    native.Fail,
    native.InvalidArgument,
    native.InvalidGraph,
    native.InvalidProtobuf,
    native.NoSuchFile,
    native.NotImplemented,
    native.RuntimeException,
    RuntimeError,  # a provider that is there and cannot start
)
"""Exceptions of ONNX Runtime; its own classes share no base but Exception."""


def open_session(
    model: bytes,
    folder: Path,
    providers: Sequence[str | tuple[str, Mapping[str, Any]]],
    threads: int | None,
    entries: Mapping[str, str],
    operators: Path | None = None,
) -> ort.InferenceSession:
    """A session over a serialized model whose external data is in `folder`.

    `providers` are in order of preference, and the first must work: ONNX Runtime alone would fall back to the
    next without an error.  `threads` None is one for each core that this process may use.  `entries` are
    further session config entries; `operators` is a library of operators.  Raises `ModelError`.
    """
    options = _options(folder, threads, entries)
    try:
        if operators is not None:
            options.register_custom_ops_library(str(operators))
        session = ort.InferenceSession(model, options, providers=list(providers))
    except RUNTIME_ERRORS as error:
        raise ModelError(
            f"ONNX Runtime {ort.__version__} cannot open the model: {error_text(error)}"
        ) from error
    wanted = providers[0] if isinstance(providers[0], str) else providers[0][0]
    if wanted not in session.get_providers():
        raise ModelError(
            f"ONNX Runtime {ort.__version__} could not start its {wanted}: a library that it needs is "
            "missing or too old, or the device is absent."
        )
    return session


def _options(folder: Path, threads: int | None, entries: Mapping[str, str]) -> ort.SessionOptions:
    """Memory patterns are off: each would be planned, and retained, for one shape of step.

    Left to itself ONNX Runtime has a thread on each core of the machine, also on those that this process may
    not use.
    """
    options = ort.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    options.enable_mem_pattern = False
    if threads is None:
        threads = num_confined_cores()
    if threads is not None:
        options.intra_op_num_threads = threads
    for name, value in {WEIGHTS_FOLDER: str(folder.resolve()), **entries}.items():
        options.add_session_config_entry(name, value)
    return options


def error_text(error: Exception) -> str:
    """The message of an ONNX Runtime exception without its code, `[ONNXRuntimeError] : 9 : NAME :
    message`.
    """
    return str(error).split(" : ", 3)[-1].strip()


def version() -> str:
    return str(ort.__version__)


def providers() -> list[str]:
    """The execution providers of this build of ONNX Runtime."""
    return list(ort.get_available_providers())


@cache
def operator_inputs(domain: str, name: str) -> frozenset[str]:
    """The names of an operator's inputs in this build; empty when the build lacks the operator."""
    schemas = [one for one in native.get_all_operator_schema() if (one.domain, one.name) == (domain, name)]
    newest = max(schemas, key=lambda schema: schema.since_version, default=None)
    return frozenset() if newest is None else frozenset(one.name for one in newest.inputs)


def require_provider(device: str) -> None:
    """Raise `ModelError` when this build cannot run models on `device` ("cuda:0")."""
    if CUDA not in providers():
        raise ModelError(f"device {device}: this onnxruntime has no {CUDA}; {CUDA_ADVICE}.")


def require_cuda(device: str) -> None:
    """Raise `ModelError` when this build cannot run a paged decoder on `device` ("cuda:0")."""
    require_provider(device)
    lacking = PAGED_ATTENTION_NEEDS - operator_inputs(*PAGED_ATTENTION)
    if lacking:
        raise ModelError(
            f"device {device}: PagedAttention of onnxruntime {version()} has no "
            f"{', '.join(sorted(lacking))}; {CUDA_ADVICE}."
        )
