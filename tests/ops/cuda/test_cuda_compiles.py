"""The kernels compile for every GPU that is meant, without a warning, with the options that serving uses."""

import re
import shutil
import subprocess

import pytest
from breadth import after
from host_device import read_kernels
from nvrtc_compiler import Compiled, compile_cuda, library

from ops.cuda.device import CupyDevice, DeviceError
from ops.cuda.kernel_sources import FILES, FOLDER, OPTIONS, kernel_names, source

ARCHITECTURES = ("sm_90", "sm_80", "sm_100")
STRICT = ("-Werror", "all-warnings")
CUPY = ("-ftz=true", "--device-as-default-execution-space")
"""What cupy 14 adds to the options of a RawModule."""
SHARED_BYTES = 48 * 1024


@pytest.mark.parametrize("architecture", after(1, ARCHITECTURES))
def test_all_kernels_compile_without_a_warning(architecture, tmp_path):
    arch, verbose = f"-arch={architecture}", ("-Xptxas", "-v")
    if library() is not None:
        compiled = compile_cuda(source(), (*OPTIONS, *CUPY, arch, *STRICT, *verbose))
    elif shutil.which("nvcc"):
        compiled = compile_with_nvcc(tmp_path, (*OPTIONS, arch, *STRICT, *verbose))
    else:
        pytest.skip("neither nvidia-cuda-nvrtc nor nvcc is installed")
    assert compiled.ok, compiled.log
    assert "warning" not in compiled.log
    assert all(name.encode() in compiled.binary for name in read_kernels(source()))
    # Nothing is kept in local memory for want of registers, and what is shared fits without asking for more.
    assert set(re.findall(r"(\d+) bytes spill", compiled.log)) == {"0"}
    assert max(map(int, re.findall(r"(\d+) bytes smem", compiled.log))) <= SHARED_BYTES


def compile_with_nvcc(folder, options) -> Compiled:
    (folder / "kernels.cu").write_text(source())
    command = ["nvcc", *options, "-cubin", "-o", "kernels.cubin", "kernels.cu"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    binary = folder / "kernels.cubin"
    return Compiled(done.returncode == 0, done.stderr, binary.read_bytes() if binary.exists() else b"")


def test_a_warning_is_a_failure():
    if library() is None:
        pytest.skip("nvidia-cuda-nvrtc is not installed")
    unused = 'extern "C" __global__ void k(int* a) { int unused; }'
    assert not compile_cuda(unused, (*OPTIONS, *STRICT)).ok
    assert compile_cuda(unused, OPTIONS).ok


def test_every_file_is_compiled():
    assert {path.name for path in FOLDER.glob("*.cu")} == {name for name in FILES if name.endswith(".cu")}


def test_every_kernel_says_how_many_threads_it_takes():
    kernels = read_kernels(source())
    assert set(kernels) == set(kernel_names())
    assert len(kernels) == source().count("__global__")
    assert {kernel.max_threads for kernel in kernels.values()} == {256, 1024}
    assert source().count("__launch_bounds__") == len(kernels)


def test_a_machine_without_gpu_is_told_what_to_install():
    try:
        CupyDevice(0)
    except DeviceError as error:
        assert re.search(r"cupy|GPU", str(error))  # noqa: PT017
    else:
        pytest.skip("this machine has a GPU")
