"""Blocks of GGUF files packed for the CPU kernels: the same bytes as through codes and scales."""

import ctypes

import gguf
import numpy as np
import pytest
from kernel_library import INSTRUCTION_SETS, Format, kernel_library

from pipelines.gguf.codebook_readers import read_mxfp4_places
from pipelines.gguf.tensor_types import PACKED_TYPES, TENSOR_TYPES

K = {32: 7 * 32, 256: 3 * 256}
QUANTIZED = {number: kind for number, kind in TENSOR_TYPES.items() if kind.name in PACKED_TYPES}


@pytest.fixture(scope="module")
def library():
    """The kernels' library, with the functions of gguf_blocks.h."""
    library, size, pointer, number = kernel_library(), ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    for name, result, arguments in (
        ("bl_gguf_format", number, (number, ctypes.POINTER(Format))),
        ("bl_gguf_row_bytes", size, (number, size)),
        ("bl_gguf_pack", None, (number, size, size, pointer, size, size, pointer)),
        ("bl_gguf_unpack", None, (number, size, pointer, pointer)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def random_rows(kind, rows, seed):
    """uint8[rows, bytes]: any bytes, but finite scales that are not 0."""
    rng = np.random.default_rng(seed)
    count = K[kind.weights] // kind.weights
    raw = rng.integers(0, 256, (rows, count, kind.bytes), np.uint8)
    if kind.name == "MXFP4":
        raw[..., 0] = rng.integers(110, 130, (rows, count), np.uint8)
        return raw
    for at in (208,) if kind.name == "Q6_K" else (0, 2) if kind.has_zeros else (0,):
        halves = rng.uniform(1e-3, 1e-2, (rows, count, 1)) * rng.choice([-1, 1], (rows, count, 1))
        raw[..., at : at + 2] = halves.astype(np.float16).view(np.uint8)
    if kind.name in ("Q4_K", "Q5_K"):  # no scale of 6 bits is 0, where the reader of files clears codes
        raw[..., 4:8] |= 1
        raw[..., 12:16] |= 1
    return raw


def six_bits(kind, raw):
    """Codes, a byte each, of 5 and 6 bits, by the reader of files."""
    with np.errstate(all="ignore"):
        codes = kind.read(raw).codes
    return codes - np.uint8(112 if kind.has_zeros else 96)


def halves_at(raw, at):
    return np.ascontiguousarray(raw[..., at : at + 2])


def numbers_of(kind, raw):
    """Scales and minimums as `bl_pack` takes them."""
    if kind.name == "Q6_K":
        return raw[..., 192:208].tobytes() + halves_at(raw, 208).tobytes(), b""
    if kind.name == "MXFP4":
        return np.ascontiguousarray(raw[..., 0]).tobytes(), b""
    if kind.weights == 32:
        return halves_at(raw, 0).tobytes(), halves_at(raw, 2).tobytes()
    twelve = raw[..., 4:16]
    first, second, rest = twelve[..., :4], twelve[..., 4:8], twelve[..., 8:]
    scales = np.concatenate([first & 63, rest & 15 | first >> 6 << 4], -1)
    minimums = np.concatenate([second & 63, rest >> 4 | second >> 6 << 4], -1)
    negative = (-halves_at(raw, 2).view(np.float16)).tobytes()
    return scales.tobytes() + halves_at(raw, 0).tobytes(), minimums.tobytes() + negative


def packed_by_parts(library, kind, raw):
    form = Format()
    assert library.bl_gguf_format(number_of(kind), ctypes.byref(form))
    n, k = len(raw), K[kind.weights]
    read = read_mxfp4_places if kind.name == "MXFP4" else kind.read
    codes = read(raw).codes if form.bits in (4, 8) else six_bits(kind, raw)
    scales, zeros = numbers_of(kind, raw)
    packed = np.full(library.bl_packed_bytes(ctypes.byref(form), n, k), 255, np.uint8)
    codes = np.ascontiguousarray(codes)
    library.bl_pack(
        ctypes.byref(form), n, k, codes.ctypes.data, scales, zeros, 0, -(-n // 16), packed.ctypes.data
    )
    return packed


def number_of(kind):
    return next(number for number, each in QUANTIZED.items() if each is kind)


@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
@pytest.mark.parametrize("kind", QUANTIZED.values(), ids=lambda kind: kind.name)
def test_packed_as_through_codes_and_scales(library, kind, isa):
    own = library.bl_isa()
    if not library.bl_set_isa(isa.encode()):
        pytest.skip(f"this processor has no {isa}")
    parts = [random_rows(kind, rows, seed) for seed, rows in enumerate((37, 9))]
    order = np.random.default_rng(2).permutation(37)
    expected = packed_by_parts(library, kind, np.concatenate([parts[0][order], parts[1]]))
    addresses = [part.ctypes.data + np.arange(len(part)) * part[0].nbytes for part in parts]
    rows = np.concatenate([addresses[0][order], addresses[1]]).astype(np.uintp)
    packed = np.full(len(expected), 255, np.uint8)
    for begin in range(3):  # as three threads would
        library.bl_gguf_pack(
            number_of(kind), 46, K[kind.weights], rows.ctypes.data, begin, begin + 1, packed.ctypes.data
        )
    library.bl_set_isa(own)
    assert packed.tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", QUANTIZED.values(), ids=lambda kind: kind.name)
def test_a_row_is_what_the_gguf_package_reads(library, kind):
    raw = random_rows(kind, 3, 1)
    weights = np.empty((3, K[kind.weights]), np.float32)
    for row in range(3):
        library.bl_gguf_unpack(
            number_of(kind), K[kind.weights], raw[row].ctypes.data, weights[row].ctypes.data
        )
    expected = gguf.quants.dequantize(raw.reshape(3, -1), gguf.GGMLQuantizationType(number_of(kind)))
    assert np.array_equal(weights, expected)


def test_sizes_of_rows(library):
    for number, kind in QUANTIZED.items():
        assert library.bl_gguf_row_bytes(number, 512) == 512 // kind.weights * kind.bytes
        assert library.bl_gguf_row_bytes(number, 512 + 16) == 0
    assert not library.bl_gguf_format(0, ctypes.byref(Format()))
