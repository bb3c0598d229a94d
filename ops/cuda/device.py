"""The device: memory, transfers and kernel launches on one stream.  The only module that uses cupy."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ops.cuda.kernel_sources import OPTIONS, kernel_names, source

Array = Any
"""An array on the device: slices, `.reshape`, `.view`, `.shape`, `.dtype`, `.nbytes` work as numpy's do."""

DRIVER = "libcuda.so.1"
STAGING_BUFFERS = 4
"""Pinned staging buffers, used in turn; the fifth upload waits until the first has finished."""
STAGED_BYTES = 32 * 2**20
"""Larger transfers do not use a staging buffer, and wait."""
ADVICE = "install the CUDA extra: pip install 'braid-server[cuda]' (cupy-cuda13x[ctk]; driver 580 or newer)"
NO_GPU_ADVICE = "it takes an NVIDIA GPU and its driver, 580 or newer; `nvidia-smi` shows both"


class DeviceError(RuntimeError):
    """The device is missing or has failed; the message states what to install or to check."""


class Launcher(NamedTuple):
    """The address of a function with the parameters of cuLaunchKernel, and those of kernels for it, in order.

    `owner` is what has to stay alive meanwhile.
    """

    launch: int
    kernels: list[int]
    owner: Any = None


class Device(Protocol):
    """One GPU, or a stand-in for tests.  Everything runs in order on one stream, which the device owns.

    One thread at a time uses a device.  Memory from `empty` is undefined.
    """

    name: str

    @property
    def stream(self) -> int:
        """The stream as a pointer, for libraries that must run in the same order."""

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Array: ...

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Array: ...

    def upload(self, host: NDArray[Any], into: Array | None = None) -> Array:
        """Copy to the device, in the stream's order; `host` may be changed when this returns.

        `into` is C-contiguous and has the shape and dtype of `host`.
        """

    def download(self, array: Array) -> NDArray[Any]:
        """A copy on the host; waits for the stream."""

    def pinned(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Host memory that kernels can access at `pointer(array)`; freed with the array."""

    def copy_to_host(self, array: Array, into: NDArray[Any]) -> None:
        """Start a copy into pinned memory; it is complete after `synchronize`."""

    def pointer(self, array: Array) -> int:
        """The address of the first element, of device or pinned memory, for kernels."""

    def launch(self, kernel: str, blocks: int, threads: int, *args: Any, shared_bytes: int = 0) -> None:
        """Run a kernel: `args` are arrays, None (a null pointer) or numpy scalars of exactly the C types.

        Nothing is launched when `blocks` is 0.
        """

    def launcher(self, kernels: Sequence[str]) -> Launcher:
        """Addresses by which libraries launch these kernels on this device; alive as long as the device."""

    def synchronize(self) -> None:
        """Wait until all work so far is done; raises DeviceError when something failed."""

    def free_bytes(self) -> tuple[int, int]:
        """Bytes that can still be allocated, and all bytes of the device."""


class CupyDevice:
    """A GPU through cupy.

    Memory comes from a pool of its own, which is freed with the device.  Pool memory is reused in the
    stream's order, so an array may be dropped while kernels on it are still queued.  Kernels are compiled
    once by NVRTC and cached by cupy on disk under a hash of source and options.
    """

    def __init__(self, index: int = 0) -> None:
        """Raises DeviceError when cupy, the driver or the GPU is missing, or the kernels do not compile."""
        self._cupy = _import_cupy()
        self._index = index
        _check_gpu(self._cupy, index)
        with _any_failure("cannot start the GPU"), self._cupy.cuda.Device(index):
            self._stream = self._cupy.cuda.Stream(non_blocking=True)
            self._pool = self._cupy.cuda.MemoryPool()
            facts = self._cupy.cuda.runtime.getDeviceProperties(index)
            self.name = facts["name"].decode()
            self.architecture = f"sm_{facts['major']}{facts['minor']}"
            self._kernels = _load(self._cupy.RawModule(code=source(), options=OPTIONS, backend="nvrtc"))
            self._stages = [self._stage(1 << 16) for _ in range(STAGING_BUFFERS)]
        self._turn = 0

    @property
    def stream(self) -> int:
        return int(self._stream.ptr)

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
        with self._current("cannot allocate GPU memory"):
            memory = self._pool.malloc(max(1, num_bytes(shape, dtype)))
            sizes = (shape,) if isinstance(shape, int) else tuple(shape)
            return self._cupy.ndarray(sizes, np.dtype(dtype), memptr=memory)

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
        array = self.empty(shape, dtype)
        with self._current("cannot clear GPU memory"):
            array.data.memset_async(0, array.nbytes, self._stream)
        return array

    def upload(self, host: NDArray[Any], into: Array | None = None) -> Array:
        host = np.ascontiguousarray(host)
        target = self.empty(host.shape, host.dtype) if into is None else into
        check_same(host, target)
        if host.nbytes:
            with self._current("cannot copy to the GPU"):
                self._send(host, target)
        return target

    def download(self, array: Array) -> NDArray[Any]:
        with self._current("cannot copy from the GPU"):
            if array.nbytes > STAGED_BYTES or not array.flags.c_contiguous:
                large: NDArray[Any] = array.get(stream=self._stream, blocking=True)
                return large
            stage = self._next_stage(array.nbytes)
            found: NDArray[Any] = stage.memory[: array.nbytes].view(array.dtype).reshape(array.shape)
            self.copy_to_host(array, found)
            self._stream.synchronize()
            return found.copy()

    def pinned(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        with self._current("cannot allocate pinned host memory"):
            pinned: NDArray[Any] = self._pin(num_bytes(shape, dtype)).view(dtype).reshape(shape)
        return pinned

    def copy_to_host(self, array: Array, into: NDArray[Any]) -> None:
        check_same(array, into)
        if array.nbytes:
            with self._current("cannot copy from the GPU"):
                array.data.copy_to_host_async(into.ctypes.data, array.nbytes, self._stream)

    def pointer(self, array: Array) -> int:
        return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)

    def launch(self, kernel: str, blocks: int, threads: int, *args: Any, shared_bytes: int = 0) -> None:
        if not blocks:
            return
        with self._current(f"kernel {kernel} failed"):
            passed = tuple(np.uint64(0) if arg is None else arg for arg in args)
            self._kernels[kernel]((blocks,), (threads,), passed, shared_mem=shared_bytes)

    def launcher(self, kernels: Sequence[str]) -> Launcher:
        with self._current("cannot read the addresses of kernels"):
            driver = ctypes.CDLL(DRIVER)
            launch = ctypes.cast(driver.cuLaunchKernel, ctypes.c_void_p).value or 0
            return Launcher(launch, [int(self._kernels[name].kernel.ptr) for name in kernels], driver)

    def synchronize(self) -> None:
        with self._current("the GPU failed"):
            self._stream.synchronize()

    def free_bytes(self) -> tuple[int, int]:
        with self._current("cannot read the free memory of the GPU"):
            free, total = self._cupy.cuda.runtime.memGetInfo()
            return int(free + self._pool.free_bytes()), int(total)

    def _send(self, host: NDArray[Any], target: Array) -> None:
        if host.nbytes > STAGED_BYTES:
            target.data.copy_from_host_async(host.ctypes.data, host.nbytes, self._stream)
            self._stream.synchronize()
            return
        stage = self._next_stage(host.nbytes)
        stage.memory[: host.nbytes] = host.reshape(-1).view(np.uint8)
        target.data.copy_from_host_async(stage.memory.ctypes.data, host.nbytes, self._stream)
        stage.left.record(self._stream)

    def _next_stage(self, size: int) -> _StagingBuffer:
        """A staging buffer that no transfer uses any more."""
        self._turn = (self._turn + 1) % STAGING_BUFFERS
        stage = self._stages[self._turn]
        stage.left.synchronize()
        if len(stage.memory) < size:
            stage = self._stages[self._turn] = self._stage(1 << (size - 1).bit_length())
        return stage

    def _stage(self, size: int) -> _StagingBuffer:
        return _StagingBuffer(self._pin(size), self._cupy.cuda.Event(disable_timing=True))

    def _pin(self, size: int) -> NDArray[np.uint8]:
        """Pinned bytes, not from cupy's pinned pool, which rounds sizes up to powers of two."""
        memory = self._cupy.cuda.PinnedMemory(max(1, size))
        return np.frombuffer(self._cupy.cuda.PinnedMemoryPointer(memory, 0), np.uint8)[:size]

    @contextmanager
    def _current(self, failure: str) -> Iterator[None]:
        """Make this GPU and stream cupy's current ones, in any thread."""
        with self._failures(failure), self._cupy.cuda.Device(self._index), self._stream:
            yield

    @contextmanager
    def _failures(self, failure: str) -> Iterator[None]:
        cuda = self._cupy.cuda
        try:
            yield
        except (
            cuda.runtime.CUDARuntimeError,
            cuda.driver.CUDADriverError,
            cuda.memory.OutOfMemoryError,
            cuda.compiler.CompileException,
        ) as error:
            raise DeviceError(f"{failure}: {error}") from error


class _StagingBuffer:
    """Pinned bytes (uint8), and the event after which the last transfer no longer uses them."""

    def __init__(self, memory: NDArray[np.uint8], left: Any) -> None:
        self.memory = memory
        self.left = left


def num_bytes(shape: int | tuple[int, ...], dtype: DTypeLike) -> int:
    """Bytes of a contiguous array."""
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize


def check_same(one: Array, other: Array) -> None:
    """Raises ValueError unless both arrays are contiguous, of one shape and type, to be copied as bytes."""
    if one.shape != other.shape or one.dtype != other.dtype:
        raise ValueError(f"cannot copy {one.dtype}{one.shape} into {other.dtype}{other.shape}")
    if not (one.flags.c_contiguous and other.flags.c_contiguous):
        raise ValueError("cannot copy arrays that are not contiguous")


def _import_cupy() -> Any:
    try:
        import cupy
    except Exception as error:  # a broken installation raises more than ImportError, and at length
        raise DeviceError(f"cannot import cupy ({error.__cause__ or error}); {ADVICE}") from error
    return cupy


@contextmanager
def _any_failure(failure: str) -> Iterator[None]:
    """During the start, loading libraries and compiling kernels raise many kinds of exceptions."""
    try:
        yield
    except Exception as error:
        raise DeviceError(f"{failure}: {error}; {ADVICE}") from error


def _load(module: Any) -> dict[str, Any]:
    """All kernels, compiled and loaded on the GPU.

    CUDA would load each at its first launch, perhaps while another thread captures a graph, which loading
    invalidates.
    """
    kernels = {name: module.get_function(name) for name in kernel_names()}
    for kernel in kernels.values():
        _ = kernel.num_regs  # reading the attribute loads the kernel
    return kernels


def _check_gpu(cupy: Any, index: int) -> None:
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(f"no NVIDIA GPU can be used ({error}); {NO_GPU_ADVICE}") from error
    if index >= count:
        raise DeviceError(f"there is no GPU {index}: this machine has {count}")
