"""On a GPU, where there is one: the real device and its exponential against numpy."""

import importlib.util

import numpy as np
import pytest
from test_cuda_step_inputs import SCRATCH, random_step

from ops import numpy_ops
from ops import pooling as host_pooling
from ops.contract import RowSampling
from ops.cuda import cache_blocks
from ops.cuda.device import STAGED_BYTES, CupyDevice, DeviceError
from ops.cuda.pooling import CudaPoolingOps
from ops.cuda.sampling import CudaSamplingOps
from ops.cuda.step_inputs import StepInputBuffers, StepInputs, new_step_inputs

F = np.float32
pytestmark = pytest.mark.gpu
if importlib.util.find_spec("cupy") is None:
    pytest.skip("needs cupy and an NVIDIA GPU", allow_module_level=True)


@pytest.fixture(scope="module")
def gpu():
    try:
        return CupyDevice(0)
    except DeviceError as error:
        pytest.skip(str(error))


def test_arrays_go_up_and_come_back_though_their_source_is_changed_at_once(gpu):
    for size in (0, 1, 1000, 3_000_000, STAGED_BYTES // 8 + 5):
        host_array = np.arange(size)
        sent = [gpu.upload(host_array + turn) for turn in range(6)]
        scratch = host_array.copy()
        changed = gpu.upload(scratch)
        scratch[:] = -1
        for turn, array in enumerate(sent):
            np.testing.assert_array_equal(gpu.download(array), host_array + turn)
        np.testing.assert_array_equal(gpu.download(changed), host_array)
    zeros = gpu.download(gpu.zeros((3, 5), np.float32))
    assert zeros.tolist() == [[0.0] * 5] * 3
    pinned = gpu.pinned((4,), np.int64)
    gpu.copy_to_host(gpu.upload(np.arange(4)), pinned)
    gpu.synchronize()
    assert pinned.tolist() == [0, 1, 2, 3]


def test_memory_is_counted_and_what_does_not_fit_is_an_error_that_leaves_the_device_usable(gpu):
    free, total = gpu.free_bytes()
    assert 0 < free <= total
    with pytest.raises(DeviceError, match="memory"):
        gpu.empty(2 * total, np.uint8)
    assert gpu.download(gpu.zeros(3, np.int32)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("vocab", "num"), [(50, 2000), (2000, 500), (32_000, 300), (151_936, 128), (200_019, 20)]
)
def test_tokens_are_numpys_but_for_a_rounding_in_thousands(gpu, vocab, num):
    random = np.random.default_rng(vocab)
    logits = (random.standard_normal((num, vocab)) * random.uniform(0.5, 6, (num, 1))).astype(F)
    batch = (
        random.choice(np.array([0, 0.3, 1, 1.7], F), num),
        random.choice(np.array([0, 0, 0.05, 0.3], F), num),
        random.choice(np.array([1, 5, 40, vocab, 2**31 - 1]), num),
        random.choice(np.array([0, 0.5, 0.95, 0.999, 1, 1], F), num),
        random.integers(0, 2**64, num, dtype=np.uint64),
        random.integers(0, 5000, num).astype(np.uint64),
    )
    on_gpu, ops = gpu.upload(logits), CudaSamplingOps(gpu)
    chosen = ops.choose(on_gpu, RowSampling(*batch))
    assert np.count_nonzero(chosen != numpy_ops.choose(logits, RowSampling(*batch))) <= 2
    assert chosen.tolist() == ops.choose(on_gpu, RowSampling(*batch)).tolist()
    order = random.permutation(num)
    again = ops.choose(gpu.upload(logits[order]), RowSampling(*(column[order] for column in batch)))
    assert again.tolist() == chosen[order].tolist()
    np.testing.assert_array_equal(gpu.download(on_gpu), logits)


def test_guesses_are_verified_where_tokens_are_chosen(gpu):
    random = np.random.default_rng(4)
    logits = random.standard_normal((700, 32_003)).astype(F)
    none, off, words = np.zeros(700, F), np.full(700, 32_003), np.zeros(700, np.uint64)
    batch = none, none, off, none + 1, words, words
    draft_tokens = np.where(
        random.random(700) < 0.3,
        -1,
        numpy_ops.choose(logits, RowSampling(*batch)) + (random.random(700) < 0.2),
    )
    draft_tokens[-1] = -1
    chosen = CudaSamplingOps(gpu).choose(gpu.upload(logits), RowSampling(*batch), draft_tokens)
    assert chosen.tolist() == numpy_ops.choose(logits, RowSampling(*batch), draft_tokens).tolist()


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, -np.inf])
def test_rows_of_one_value(gpu, value):
    num, vocab = 6, 151_936
    logits = np.full((num, vocab), value, F)
    temperature = np.array([0, 1, 1, 1, 1, 1], F)
    min_p, top_p = np.array([0, 0, 0.5, 0, 0, 0], F), np.array([1, 1, 1, 1, 0.5, 0.9], F)
    top_k, words = np.array([1, vocab, vocab, 1000, vocab, 50]), np.arange(num, dtype=np.uint64)
    batch = temperature, min_p, top_k, top_p, words, words
    assert (
        CudaSamplingOps(gpu).choose(gpu.upload(logits), RowSampling(*batch)).tolist()
        == numpy_ops.choose(logits, RowSampling(*batch)).tolist()
    )


@pytest.mark.parametrize(("vocab", "k"), [(50, 50), (151_936, 20), (151_936, 64), (3000, 100)])
def test_logprobs_are_numpys(gpu, vocab, k):
    random = np.random.default_rng(k)
    logits = np.round(random.standard_normal((40, vocab)) * 3, 2).astype(F)
    rows, tokens = random.integers(0, 40, 30), random.integers(0, vocab, 30)
    found = CudaSamplingOps(gpu).gather_logprobs(gpu.upload(logits), rows, tokens, k)
    expected = numpy_ops.gather_logprobs(logits, rows, tokens, k)
    assert found.ranks.tolist() == expected.ranks.tolist()
    assert found.top_ids.tolist() == expected.top_ids.tolist()
    np.testing.assert_allclose(found.chosen, expected.chosen, rtol=2e-6, atol=4e-6)
    np.testing.assert_allclose(found.top, expected.top, rtol=2e-6, atol=4e-6)


def test_single_logits_are_changed_bit_by_bit_as_numpy_changes_them(gpu):
    random = np.random.default_rng(0)
    logits = (random.standard_normal((8, 32_003)) * 4).astype(F)
    rows, ids = np.divmod(random.permutation(logits.size)[:50_000], logits.shape[1])
    some = [random.standard_normal(len(rows)).astype(F) for _ in range(3)]
    bits = random.integers(0, 2**32, (3, 1001), dtype=np.uint32)
    for name, *args in (
        ("add_bias", rows, ids, some[0]),
        ("ban", rows, ids),
        ("allow_only", rows, ids),
        ("penalise_repetition", rows, ids, np.abs(some[0]) + F(0.3)),
        ("penalise_presence_and_frequency", rows, ids, *some),
        ("apply_bitmask", np.array([5, 0, 7]), bits),
    ):
        on_gpu, expected = gpu.upload(logits), logits.copy()
        getattr(CudaSamplingOps(gpu), name)(on_gpu, *args)
        getattr(numpy_ops, name)(expected, *args)
        np.testing.assert_array_equal(gpu.download(on_gpu), expected, err_msg=name)
    taken = CudaSamplingOps(gpu).take(gpu.upload(logits), rows[:20])
    np.testing.assert_array_equal(gpu.download(taken), logits[rows[:20]])


def test_feeds_are_those_of_the_host(gpu, one_device):
    step = random_step(np.random.default_rng(1), 300, 16)
    tokens, columns = len(step.token_ids) + 20, step.block_table.shape[1]
    padded = (16, tokens, 320, columns, SCRATCH)
    expected = StepInputBuffers(one_device, 8, 8, 8).bind(step, *padded)
    feeder = StepInputBuffers(gpu, 8, 8, 8)
    for into in (None, new_step_inputs(gpu, tokens, 320, columns, len(expected.logits_indices))):
        found = feeder.bind(step, *padded, into)
        for name in StepInputs.__dataclass_fields__:
            np.testing.assert_array_equal(gpu.download(getattr(found, name)), getattr(expected, name))


@pytest.mark.parametrize("shape", [(3,), (16, 8, 128)])
def test_blocks_are_copied_and_swapped_through_pinned_memory(gpu, shape):
    random = np.random.default_rng(2)
    before = [random.integers(0, 60_000, (10, *shape)).astype(np.uint16) for _ in range(4)]
    pools, pinned = (
        [gpu.upload(array) for array in before],
        [gpu.pinned((3, *shape), np.uint16) for _ in before],
    )
    cache_blocks.swap_out(gpu, pools, pinned, np.array([[9, 0], [4, 2]], np.int32))
    cache_blocks.copy_blocks(gpu, pools, np.array([[0, 9], [1, 4]], np.int32))
    cache_blocks.swap_in(gpu, pools, pinned, np.array([[0, 1], [2, 0]], np.int32))
    gpu.synchronize()
    for pool, kept, old in zip(pools, pinned, before, strict=True):
        np.testing.assert_array_equal(kept[[0, 2]], old[[9, 4]])
        expected = old.copy()
        expected[[9, 4, 1, 0]] = old[[0, 1, 9, 4]]
        np.testing.assert_array_equal(gpu.download(pool), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_texts_are_pooled_and_projected_as_numpy_does(gpu, dtype):
    random, ops = np.random.default_rng(3), CudaPoolingOps(gpu)
    values = random.standard_normal((20, 300, 384)).astype(dtype)
    lengths, where = random.integers(1, 301, 20), np.arange(20) % 3 != 0
    weight, bias = random.standard_normal((130, 384)).astype(F), random.standard_normal(130).astype(F)
    for how in host_pooling.POOLINGS:
        pooled, expected = (
            pooling_ops.pool(values, lengths, how)
            for pooling_ops, values in ((ops, gpu.upload(values)), (host_pooling, values.astype(F)))
        )
        np.testing.assert_allclose(ops.fetch(pooled), expected, rtol=2e-5, atol=2e-6, err_msg=how)
        wide = ops.dense(pooled, ops.load(weight), ops.load(bias), "tanh")
        expected = host_pooling.dense(expected, weight, bias, "tanh")
        np.testing.assert_allclose(ops.fetch(wide), expected, rtol=1e-4, atol=1e-4, err_msg=how)
        for name in ("normalize", "sigmoid", "softmax"):
            np.testing.assert_allclose(
                ops.fetch(getattr(ops, name)(wide, where)),
                getattr(host_pooling, name)(expected, where),
                rtol=1e-4,
                atol=1e-4,
            )
