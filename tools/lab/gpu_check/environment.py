"""Describes this machine: GPU, driver, libraries, and whether ONNX Runtime has the op that Braid needs."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.lab.gpu_check.base.setting import Failed, Setting
from tools.lab.gpu_check.packs.packed import NotPacked, read_nodes

MODULES = {
    "numpy": "pip install numpy",
    "torch": "pip install torch (a CUDA build)",
    "transformers": "pip install transformers",
    "cupy": "pip install 'cupy-cuda13x[ctk]'",
    "onnxruntime": "pip install onnxruntime-gpu, or --onnxruntime FOLDER with an unpacked wheel",
}
"""Modules that the checks import, and their packages."""
PACKAGES = ("numpy", "torch", "transformers", "tokenizers", "triton", "cupy-cuda13x", "cupy-cuda12x")
OP, NUM_INPUTS = "PagedAttention", 17
NVIDIA_SMI = (
    "name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit,ecc.mode.current,pstate"
)


def missing() -> list[str]:
    """What the checks need and this machine lacks, one line each; [] when nothing is missing."""
    lacking = [f"no {name}: {how}" for name, how in MODULES.items() if importlib.util.find_spec(name) is None]
    driver = _driver_problem()
    return ([f"no GPU: {driver}"] if driver else []) + lacking


def _driver_problem() -> str | None:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver (libcuda.so.1)"
    status, count = driver.cuInit(0), ctypes.c_int()
    if status:
        return f"the NVIDIA driver does not start (cuInit gives {status})"
    driver.cuDeviceGetCount(ctypes.byref(count))
    return None if count.value else "the NVIDIA driver sees no device"


def check_environment(setting: Setting) -> None:
    """Record the versions of all libraries.  Fails when ONNX Runtime lacks CUDA or the op's schema."""
    known = facts()
    for name, value in known.items():
        setting.note(name, value)
        setting.say(f"{name}: {value}")
    if "CUDAExecutionProvider" not in known["onnxruntime providers"]:
        raise Failed(
            f"onnxruntime at {known['onnxruntime file']} has no CUDA provider",
            "another onnxruntime is before onnxruntime-gpu on the path; use --onnxruntime FOLDER",
        )
    if known[OP] is None or len(known[OP]["inputs"]) < NUM_INPUTS:
        raise Failed(
            f"com.microsoft::{OP} does not have the {NUM_INPUTS} inputs that Braid binds: {known[OP]}"
        )
    if not _starts(setting.pack):
        raise Failed(
            "ONNX Runtime's CUDA provider does not start; its own lines above name the library it misses",
            "pip install 'onnxruntime-gpu[cuda,cudnn]', or a torch whose CUDA libraries are of its version",
        )


def _starts(pack: Path) -> bool:
    """Whether the CUDA provider runs; otherwise ONNX Runtime falls back to the CPU and logs the reason."""
    import onnxruntime

    try:
        model, _ = next(iter(read_nodes(pack).values()))
    except NotPacked:
        return True  # the check `attention` will see
    session = onnxruntime.InferenceSession(model, providers=["CUDAExecutionProvider"])
    return "CUDAExecutionProvider" in session.get_providers()


def facts() -> dict[str, Any]:
    """Facts about the machine for readers of the figures, by name."""
    import torch  # first: it brings the CUDA libraries that cupy and onnxruntime then find

    properties = torch.cuda.get_device_properties(0)
    known: dict[str, Any] = {
        "GPU": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "memory GiB": round(properties.total_memory / 2**30, 1),
        "compute capability": f"{properties.major}.{properties.minor}",
        "nvidia-smi": _output(["nvidia-smi", f"--query-gpu={NVIDIA_SMI}", "--format=csv,noheader"]),
        "python": platform.python_version(),
        "cuda of torch": torch.version.cuda,
        "cudnn of torch": torch.backends.cudnn.version(),
    }
    return {**known, **_versions(), **_cupy(), **_onnxruntime()}


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _cupy() -> dict[str, Any]:
    import cupy

    runtime = cupy.cuda.runtime
    return {
        "cupy": cupy.__version__,
        "driver CUDA": runtime.driverGetVersion(),
        "cupy CUDA runtime": runtime.runtimeGetVersion(),
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
    }


def _onnxruntime() -> dict[str, Any]:
    import onnxruntime

    return {
        "onnxruntime": onnxruntime.__version__,
        "onnxruntime file": onnxruntime.__file__,
        "onnxruntime providers": onnxruntime.get_available_providers(),
        OP: op_schema(),
    }


def op_schema() -> dict[str, list[str]] | None:
    """Inputs and attributes of com.microsoft::PagedAttention in this build; None without the op."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    for schema in state.get_all_operator_schema():
        if schema.name == OP and schema.domain == "com.microsoft":
            return {
                "inputs": [value.name for value in schema.inputs],
                "attributes": sorted(schema.attributes),
            }
    return None


def _output(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown ({error})"
