"""NVRTC from its pip packages through ctypes; needs neither a GPU nor a driver nor cupy."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Compiled(NamedTuple):
    ok: bool
    log: str
    binary: bytes


@cache
def library() -> ctypes.CDLL | None:
    """NVRTC, or None where nvidia-cuda-nvrtc is not installed."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob("**/lib/libnvrtc.so.*")):
            return ctypes.CDLL(str(path))
    return None


def compile_cuda(text: str, options: tuple[str, ...]) -> Compiled:
    nvrtc = library()
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None) == 0
    passed = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    status = nvrtc.nvrtcCompileProgram(program, len(options), passed)
    log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
    binary = b"" if status else _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return Compiled(status == 0, log.decode(), binary)


def _read(size_of, read, program) -> bytes:
    size = ctypes.c_size_t()
    assert size_of(program, ctypes.byref(size)) == 0
    buffer = ctypes.create_string_buffer(size.value)
    assert read(program, buffer) == 0
    return buffer.raw
