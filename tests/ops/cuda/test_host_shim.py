"""What stands in for a GPU finds the faults that it is there to find, and computes what CUDA does."""

import numpy as np
import pytest
from host_device import BACKWARD, FORWARD, SHUFFLED, HostDevice

from ops.cuda.device import DeviceError

KERNELS = r"""
extern "C" __global__ void one_too_far(float* out, int size) { if ((int)threadIdx.x <= size) out[threadIdx.x] = 1; }

extern "C" __global__ void one_before(float* out) { if (threadIdx.x == 0) out[-1] = 1; }

extern "C" __global__ void some_leave(int* out) {
    if (threadIdx.x < 3) return;
    __syncthreads();
    out[0] = 1;
}

extern "C" __global__ void two_barriers(int* out) {
    if (threadIdx.x % 2) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    out[0] = 1;
}

extern "C" __global__ void half_a_warp_shuffles(int* out) {
    if (threadIdx.x % 32 < 16) out[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, (int)threadIdx.x, 1);
}

extern "C" __global__ void no_barrier(int* out) {
    __shared__ int box[64];
    box[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = box[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void written_too_early(int* out) {
    __shared__ int box[2];
    for (int round = 0; round < 3; round++) {
        int sum = threadIdx.x / 32;
        for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, by);
        if (threadIdx.x % 32 == 0) box[threadIdx.x / 32] = sum + round;
        __syncthreads();
        out[threadIdx.x] += box[0] + box[1];
    }
}

extern "C" __global__ void with_barrier(int* out) {
    __shared__ int box[64];
    box[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = box[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(64) warp_words(int* sums, unsigned int* bits, int* total) {
    int value = threadIdx.x;
    for (int by = 16; by > 0; by /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, by);
    sums[threadIdx.x] = value + __shfl_up_sync(0xFFFFFFFFu, (int)threadIdx.x, 1);
    bits[threadIdx.x] = __ballot_sync(0xFFFFFFFFu, threadIdx.x % 3 == 0);
    __syncwarp();
    if (__any_sync(0xFFFFFFFFu, threadIdx.x == 40)) atomicAdd(total, 1);
    if (__all_sync(0xFFFFFFFFu, threadIdx.x >= 32)) atomicMax(total + 1, (int)threadIdx.x);
}

extern "C" __global__ void poisoned(unsigned int* out) {
    __shared__ unsigned int box[32];
    out[threadIdx.x] = box[threadIdx.x];
    box[threadIdx.x] = 0;
}
"""
KERNELS = KERNELS.replace("unsigned int", "u32")
KERNELS = "typedef unsigned int u32;\n" + KERNELS


@pytest.fixture(scope="module", params=[FORWARD, BACKWARD, SHUFFLED])
def shim(request):
    return HostDevice(request.param, KERNELS)


@pytest.mark.parametrize("size", [0, 1, 7, 64])
def test_a_write_beside_an_array_is_found(shim, size):
    out = shim.empty(size, np.float32)
    with pytest.raises(DeviceError, match="one_too_far: wrote outside"):
        shim.launch("one_too_far", 1, 96, out, np.int32(size))
    out = shim.empty(8, np.float32)
    with pytest.raises(DeviceError, match="outside an array of 32 bytes"):
        shim.launch("one_before", 1, 32, out[:4])


@pytest.mark.parametrize("kernel", ["some_leave", "two_barriers", "half_a_warp_shuffles"])
def test_a_barrier_that_not_all_threads_reach_is_found(shim, kernel):
    found = {"some_leave": "exited while others wait", "two_barriers": "different barriers"}
    out = shim.zeros(32, np.int32)
    for _ in range(2):  # and the next launch is not disturbed by threads that were given up
        with pytest.raises(DeviceError, match=found.get(kernel, "divergent threads")):
            shim.launch(kernel, 2, 32, out)
    good = shim.zeros(64, np.int32)
    shim.launch("with_barrier", 1, 64, good)
    assert good.tolist() == list(range(63, -1, -1))


def test_a_barrier_that_is_missing_shows(shim):
    out = shim.zeros(64, np.int32)
    shim.launch("no_barrier", 1, 64, out)
    assert out.tolist() != list(range(63, -1, -1))


def test_a_warp_that_is_ahead_of_the_others_shows_what_it_overwrites(shim):
    """The barrier behind the reading is missing: the next round's sums may come before it."""
    out = shim.zeros(64, np.int32)
    shim.launch("written_too_early", 1, 64, out)
    assert not (out == sum(32 + 2 * turn for turn in range(3))).all()


def test_warps_exchange_what_cuda_exchanges(shim):
    sums, bits, total = shim.zeros(64, np.int32), shim.zeros(64, np.uint32), shim.zeros(2, np.int32)
    shim.launch("warp_words", 2, 64, sums, bits, total)
    before = [max(i - 1, i // 32 * 32) for i in range(64)]
    assert sums.tolist() == [(496 if i < 32 else 1520) + before[i] for i in range(64)]
    words = [sum(1 << i for i in range(32) if (base + i) % 3 == 0) for base in (0, 32)]
    assert bits.tolist() == [words[i // 32] for i in range(64)]
    assert total.tolist() == [64, 63]


def test_memory_that_was_not_written_is_poisoned(shim):
    assert np.isnan(shim.empty(5, np.float32)).all()
    out = shim.zeros(32, np.uint32)
    for _ in range(2):
        shim.launch("poisoned", 2, 32, out)
        assert (out == 2**32 - 1).all()


def test_launches_that_a_gpu_would_refuse_or_misread_are_refused(shim):
    out = shim.zeros(64, np.int32)
    with pytest.raises(DeviceError, match="cannot launch"):
        shim.launch("with_barrier", 1, 1025, out)
    with pytest.raises(DeviceError, match="cannot launch"):
        shim.launch("warp_words", 1, 128, out, out.view(np.uint32), out)
    with pytest.raises(TypeError, match="takes 1 arguments"):
        shim.launch("with_barrier", 1, 32)
    with pytest.raises(TypeError, match="array of float32"):
        shim.launch("with_barrier", 1, 32, shim.zeros(64, np.float32))
    with pytest.raises(TypeError, match="does not lie on the device"):
        shim.launch("with_barrier", 1, 32, np.zeros(64, np.int32))
    with pytest.raises(TypeError, match="no contiguous array"):
        shim.launch("with_barrier", 1, 32, out[::2])
    with pytest.raises(TypeError, match=r"\(int\): got int64"):
        shim.launch("one_too_far", 1, 32, shim.zeros(64, np.float32), np.int64(3))
