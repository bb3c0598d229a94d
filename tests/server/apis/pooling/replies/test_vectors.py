"""Rows in every type: the codes of small floats are those that torch and ml_dtypes give."""

from __future__ import annotations

import base64
import json
import sys

import ml_dtypes
import numpy as np
import pytest
from one_test import in_one_test

from server.apis.pooling.replies.reply_models import ReplyContext
from server.apis.pooling.replies.vectors import DTYPES, VectorFormat, encode_vectors

HEAD = ReplyContext("x-1", "tiny", 1, 7)
ROWS = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
TOKENS = [ROWS[:2], ROWS]
LIMITS = {"bfloat16": np.inf, "fp8_e4m3": 448, "fp8_e5m2": 57344}
TYPES = {
    "bfloat16": ml_dtypes.bfloat16,
    "fp8_e4m3": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
}


def numbers():
    """Every kind of float32: all exponents, ties between neighbours, zeros, numbers below the normal ones."""
    rng = np.random.default_rng(1)
    anything = rng.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    usual = (rng.standard_normal(200_000) * 10.0 ** rng.integers(-6, 5, 200_000)).astype(np.float32)
    ties = np.arange(-2048, 2048, dtype=np.float32) / 1024
    return np.concatenate([anything[np.isfinite(anything)], usual, ties, np.float32([0.0, -0.0])])


@pytest.mark.parametrize("dtype", TYPES)
def test_codes_are_the_nearest_numbers(dtype):
    values = numbers()
    values = values[np.abs(values) <= LIMITS[dtype]]
    wanted = values.astype(TYPES[dtype])
    codes = DTYPES[dtype](values)
    assert codes.itemsize == wanted.itemsize
    np.testing.assert_array_equal(codes, wanted.view(codes.dtype))


@pytest.mark.parametrize(
    ("dtype", "codes"),
    [
        ("bfloat16", [0x7F80, 0xFF80, 0x7F80]),
        ("fp8_e4m3", [0x7E, 0xFE, 0x7E]),  # it has no infinity: the largest number
        ("fp8_e5m2", [0x7C, 0xFC, 0x7C]),
    ],
)
def test_what_is_too_large_is_infinite_or_the_largest(dtype, codes):
    values = np.float32([np.inf, -np.inf, 3.4028235e38])
    assert DTYPES[dtype](values).tolist() == codes


@pytest.mark.parametrize("dtype", TYPES)
def test_no_number_stays_none(dtype):
    [code] = DTYPES[dtype](np.float32([np.nan])).view(TYPES[dtype])
    assert np.isnan(np.float32(code))


def test_halves_are_numpys():
    np.testing.assert_array_equal(DTYPES["float16"](np.float32([0.1, 1e6])), np.float16([0.1, np.inf]))


@in_one_test("endianness", ["native", "little", "big"])
@in_one_test("dtype", DTYPES)
def test_bytes_come_in_the_order_asked_for(dtype, endianness):
    order = sys.byteorder if endianness == "native" else endianness
    written = encode_vectors(HEAD, ROWS, VectorFormat("bytes", dtype, endianness), "embedding", "embedding")
    codes = DTYPES[dtype](ROWS)
    assert written.data == codes.astype(codes.dtype.newbyteorder(order)).tobytes()


@pytest.mark.parametrize("rows", [ROWS, TOKENS], ids=["texts", "tokens"])
def test_the_header_says_where_each_lies(rows):
    written = encode_vectors(HEAD, rows, VectorFormat("bytes", "float16"), "data", "pooling")
    told = json.loads(written.headers["metadata"])
    for row, place in zip(rows, told["data"], strict=True):
        part = np.frombuffer(written.data[place["start"] : place["end"]], np.float16)
        np.testing.assert_array_equal(part.reshape(place["shape"]), row.astype(np.float16))
    assert told["data"][-1]["end"] == len(written.data)
    assert told["usage"] == {"prompt_tokens": 7, "total_tokens": 7}


def test_matrices_of_tokens_are_written_whole():
    found = json.loads(encode_vectors(HEAD, TOKENS, VectorFormat(), "data", "pooling").data)["data"]
    assert [each["data"] for each in found] == [each.tolist() for each in TOKENS]
    coded = json.loads(encode_vectors(HEAD, TOKENS, VectorFormat("base64"), "data", "pooling").data)["data"]
    assert [base64.b64decode(each["data"]) for each in coded] == [each.tobytes() for each in TOKENS]


def test_a_name_may_look_like_json():
    head = ReplyContext('x"data":[]', '"data":[]', 1, 7)
    reply = json.loads(encode_vectors(head, ROWS, VectorFormat(), "embedding", "embedding").data)
    assert (reply["id"], reply["model"], len(reply["data"])) == ('x"data":[]', '"data":[]', 3)


def test_no_text_is_an_empty_list():
    reply = json.loads(encode_vectors(HEAD, [], VectorFormat(), "data", "pooling").data)
    assert (reply["data"], reply["usage"]["prompt_tokens"]) == ([], 7)
