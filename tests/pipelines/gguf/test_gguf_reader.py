"""Damaged GGUF files: a clear error each, in little memory."""

from __future__ import annotations

import os
import random
import struct
import time
import tracemalloc

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf_files import write_llama_like

from pipelines.gguf import weight_writer
from pipelines.gguf.convert import convert
from pipelines.gguf.errors import GgufError
from pipelines.gguf.reader import read_gguf
from pipelines.gguf.tensor_types import OTHER_TYPES, TENSOR_TYPES
from pipelines.gguf.weight_writer import WeightWriter
from pipelines.gguf.weights import read_any

EXTREMES = (0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, 1 << 62, (1 << 63) - 1, (1 << 64) - 1)
OWN_BYTES = 8 << 20
"""What converting takes however small the file is: graph, tokenizer, libraries' own state."""
LONGEST_S = 20.0
NUM_MUTATED = int(os.environ.get("BRAID_MUTATED_FILES", 1000))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_llama_like(path, kind=Type.Q4_1)
    return path.read_bytes()


def header_bytes(whole):
    """Where the metadata and the descriptions of tensors end, about."""
    return whole.index(b"output.weight") + 64


def mutated(whole, seed):
    """`whole` with bytes, numbers or lengths changed, most of them in its header, or cut, or grown."""
    chance = random.Random(seed)
    data = bytearray(whole)
    for _ in range(chance.choice((1, 1, 2, 5))):
        end = header_bytes(whole) if chance.random() < 0.9 else len(data)
        at = chance.randrange(min(end, len(data) - 8))
        match chance.randrange(6):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                data[at : at + 8] = struct.pack("<Q", chance.choice(EXTREMES))
            case 2:
                data[at : at + 4] = struct.pack("<I", chance.choice(EXTREMES) & 0xFFFFFFFF)
            case 3:
                del data[at : at + chance.randrange(1, 64)]
            case 4:
                data[at:at] = chance.randbytes(chance.randrange(1, 64))
            case 5:
                del data[at if chance.random() < 0.2 else len(data) - chance.randrange(1, len(data) // 2) :]
        if len(data) < 64:
            break
    return bytes(data)


def run(path, data, folder):
    """The error of converting `data`; None when it is still a model."""
    path.write_bytes(data)
    tracemalloc.start()
    begin_s = time.thread_time()
    try:
        convert(path, folder)
    except GgufError as error:
        return str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4 * len(data) + OWN_BYTES
        assert time.thread_time() - begin_s < LONGEST_S
    return None


def check_mutations(whole, tmp_path, seeds):
    refused = 0
    for seed in seeds:
        error = run(tmp_path / "bad.gguf", mutated(whole, seed), tmp_path / f"model-{seed}")
        if error is not None:
            refused += 1
            assert error.startswith("bad.gguf ")
            assert "\n" not in error
    return refused


def test_mutated_files_give_an_error_or_a_model(whole, tmp_path):
    assert check_mutations(whole, tmp_path, range(120)) > 60


@pytest.mark.breadth
@pytest.mark.slow
def test_many_mutated_files(whole, tmp_path):
    assert check_mutations(whole, tmp_path, range(NUM_MUTATED)) > NUM_MUTATED // 2


def test_every_prefix_of_the_header_is_refused(whole, tmp_path):
    path = tmp_path / "cut.gguf"
    for size in range(0, header_bytes(whole), 97):
        path.write_bytes(whole[:size])
        with pytest.raises(GgufError):
            read_gguf(path)


def test_what_the_package_reads_is_what_is_read(whole, tmp_path):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(whole)
    ours, theirs = read_gguf(path), gguf.GGUFReader(path)
    assert set(ours.tensors) == {tensor.name for tensor in theirs.tensors}
    for tensor in theirs.tensors:
        mine = ours.tensors[tensor.name]
        assert (mine.width, mine.rows) == (tensor.shape[0], int(np.prod(tensor.shape[1:])))
        assert mine.type.name == tensor.tensor_type.name
        assert mine.read().tobytes() == tensor.data.tobytes()
    for key, value in ours.fields.items():
        contents = theirs.fields[key].contents()
        assert (value.tolist() if isinstance(value, np.ndarray) else value) == pytest.approx(contents)


def test_the_table_of_types_has_the_sizes_of_the_package():
    for number, kind in TENSOR_TYPES.items():
        if kind.name == "Q2_0":
            continue  # newer than the package
        assert gguf.GGML_QUANT_SIZES[Type(number)] == (kind.weights, kind.bytes)
        assert Type(number).name == kind.name
    assert all(Type(number).name == name for number, name in OTHER_TYPES.items())


def test_weights_that_are_not_finite_are_refused(tmp_path):
    weight = np.ones((2, 64), np.float32)
    weight[1, 3] = np.inf
    for kind in (Type.F32, Type.BF16, Type.Q8_0):
        with np.errstate(all="ignore"):
            raw = gguf.quants.quantize(weight, kind)
        _write(tmp_path / "inf.gguf", tensor=raw, kind=kind)
        tensor = read_gguf(tmp_path / "inf.gguf").tensors["token_embd.weight"]
        with pytest.raises(GgufError, match=r"token_embd.weight holds weights that are not finite"):
            read_any(tensor)


@pytest.mark.parametrize("kind", [Type.Q4_1, Type.F16], ids=lambda kind: kind.name)
def test_a_file_that_is_cut_while_it_is_converted_is_an_error(tmp_path, monkeypatch, kind):
    """Of a mapped file the pages behind its end are a signal, which ends the process."""
    path = tmp_path / "cut.gguf"
    write_llama_like(path, kind=kind)
    write = WeightWriter.write

    def cut_and_write(weights):
        os.truncate(path, path.stat().st_size // 3)
        write(weights)

    monkeypatch.setattr(WeightWriter, "write", cut_and_write)
    with pytest.raises(GgufError, match=r"^cut.gguf was cut short to \d+ of \d+ bytes while it was read$"):
        convert(path, tmp_path / "model")


def test_rows_are_read_in_any_order(whole, tmp_path):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(whole)
    tensor = read_gguf(path).tensors["token_embd.weight"]
    rows = tensor.read()
    for order in (np.arange(tensor.rows)[::-1], np.array([5, 5, 3]), np.array([0, tensor.rows - 1])):
        np.testing.assert_array_equal(tensor.read(order), rows[order])
    np.testing.assert_array_equal(tensor.read(slice(2, 7)), rows[2:7])


def test_columns_are_the_same_in_one_piece_and_in_several(tmp_path, monkeypatch):
    path = tmp_path / "tiny.gguf"
    write_llama_like(path, kind=Type.F16)
    convert(path, tmp_path / "whole")
    monkeypatch.setattr(weight_writer, "TURNED_WEIGHTS", 1000)
    convert(path, tmp_path / "pieces")
    whole, pieces = ((tmp_path / each / "model.onnx.data").read_bytes() for each in ("whole", "pieces"))
    assert whole == pieces


def _write(path, architecture="llama", tensor=None, kind=None, **fields):
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in fields.items():
        writer.add_key_value(key.replace("__", "."), value, gguf.GGUFValueType.get_type(value))
    if tensor is not None:
        writer.add_tensor("token_embd.weight", tensor, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


REFUSED = {
    "is of architecture mamba; GGUF files of llama": {"architecture": "mamba"},
    "holds part 1 of 3 in no.gguf": {"split__count": 3},
    "is a mixture of experts": {"architecture": "gemma", "gemma__expert_count": 8},
    "has no llama.expert_used_count": {"llama__expert_count": 8},
    "has no llama.embedding_length": {},
    "has no tensor token_embd.weight": {
        "llama__embedding_length": 64,
        "llama__attention__head_count": 2,
        "llama__block_count": 1,
        "llama__context_length": 64,
        "llama__attention__layer_norm_rms_epsilon": 1e-5,
    },
}


def test_an_error_is_one_line_whatever_a_file_holds(tmp_path):
    _write(tmp_path / "no.gguf", architecture="ma\nmba\x1b")
    with pytest.raises(GgufError, match="is of architecture ma�mba�; "):
        convert(tmp_path / "no.gguf", tmp_path / "model")


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_served_is_named(tmp_path, text):
    _write(tmp_path / "no.gguf", **REFUSED[text])
    with pytest.raises(GgufError, match=f"no.gguf {text}"):
        convert(tmp_path / "no.gguf", tmp_path / "model")


def test_a_type_that_is_not_served_is_named(tmp_path):
    _write(tmp_path / "no.gguf", tensor=np.zeros((4, 8)), kind=Type.F64)
    with pytest.raises(GgufError, match=r"token_embd.weight is of type F64, which is not served"):
        convert(tmp_path / "no.gguf", tmp_path / "model")


def test_metadata_and_tensors_that_would_be_left_out_are_named(tmp_path):
    write_llama_like(
        tmp_path / "a.gguf", more=lambda model: model.writer.add_float32("llama.logit_scale", 2.0)
    )
    with pytest.raises(GgufError, match=r"says llama.logit_scale"):
        convert(tmp_path / "a.gguf", tmp_path / "model-a")
    write_llama_like(
        tmp_path / "b.gguf",
        more=lambda model: model.writer.add_tensor("blk.0.ffn_sub_norm.weight", np.ones(8, np.float32)),
    )
    with pytest.raises(GgufError, match=r"has blk.0.ffn_sub_norm.weight"):
        convert(tmp_path / "b.gguf", tmp_path / "model-b")
