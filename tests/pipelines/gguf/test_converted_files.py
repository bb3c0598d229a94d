"""The cache of converted GGUF files: made once, again after a change, whole or not at all, and swept."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf_files import write_llama_like

from graphs.errors import GraphError
from pipelines.base import load_progress
from pipelines.gguf import convert as conversion
from pipelines.gguf import weight_writer
from pipelines.gguf.attention_heads import interleaved_rows
from pipelines.gguf.convert import convert
from pipelines.gguf.converted_files import converted, with_codes
from pipelines.gguf.errors import GgufError
from pipelines.gguf.reader import read_gguf
from pipelines.gguf.weight_writer import WeightPart
from pipelines.onnx_format.gguf_source import NAME, GgufSource
from pipelines.repository.model_folders import scan
from tools.lab.bench.random_gguf import SHAPES, write


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_llama_like(path)
    return path.read_bytes()


@pytest.fixture
def source(whole, tmp_path):
    path = tmp_path / "repo" / "small" / "Tiny.F32.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(whole)
    return path


def entries(cache):
    return sorted(path for path in (cache / "gguf").glob("*/*"))


def test_a_file_is_converted_once(source, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    first = converted(source, cache)
    assert {"model.onnx", "tokenizer.json", "chat_template.jinja"} <= {path.name for path in first.iterdir()}
    monkeypatch.setattr(conversion, "convert", lambda *_: pytest.fail("converted again"))
    assert converted(source, cache) == first


def test_a_file_that_was_converted_is_opened_without_onnx(source, tmp_path):
    folder = converted(source, tmp_path)
    code = (
        "import sys; from pathlib import Path; from pipelines.repository.model_folders import scan\n"
        "(found,) = scan(Path(sys.argv[1]), cache=Path(sys.argv[2]))\n"
        "print(found.opened().path); print({'numpy', 'onnx', 'onnx_ir'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code, str(source.parents[1]), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(folder), "set()"]


def test_the_template_for_tools_stands_where_transformers_has_it(tmp_path):
    write_llama_like(
        tmp_path / "tools.gguf",
        more=lambda model: model.writer.add_string("tokenizer.chat_template.tool_use", "<tool_call>"),
    )
    folder = converted(tmp_path / "tools.gguf", tmp_path / "cache")
    assert (folder / "additional_chat_templates" / "tool_use.jinja").read_text() == "<tool_call>"


def test_a_changed_file_replaces_its_conversion(source, tmp_path):
    cache = tmp_path / "cache"
    first = converted(source, cache)
    os.utime(source, ns=(1, 1))
    second = converted(source, cache)
    assert second != first
    assert entries(cache) == [second.parent]


def test_another_model_of_the_same_size_and_time_is_another_one(source, tmp_path):
    """Images of containers have such files: all have one time."""
    first, stat = converted(source, tmp_path / "cache"), source.stat()
    content = source.read_bytes()
    last = len(content) // 8 * 4
    source.write_bytes(content[:-last] + (-np.frombuffer(content[-last:], np.float32)).tobytes())
    os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert source.stat().st_size == stat.st_size
    assert converted(source, tmp_path / "cache") != first


def test_a_removed_file_loses_its_conversion_with_the_next_one(source, whole, tmp_path):
    cache = tmp_path / "cache"
    converted(source, cache)
    source.unlink()
    other = source.with_name("other.gguf")
    other.write_bytes(whole)
    newer = converted(other, cache)
    assert entries(cache) == [newer.parent]
    assert len(list((cache / "gguf").iterdir())) == 1


def test_what_killed_processes_left_is_removed(source, tmp_path):
    cache = tmp_path / "cache"
    left = cache / "gguf" / "some-1" / ".unfinished-4194305-x"
    left.mkdir(parents=True)
    converted(source, cache)
    assert not left.exists()


def test_what_cannot_be_removed_is_no_fault_of_the_file(source, tmp_path):
    cache = tmp_path / "cache"
    (cache / "gguf").mkdir(parents=True)
    (cache / "gguf" / ".DS_Store").touch()
    assert (converted(source, cache) / "model.onnx").exists()


def test_a_file_that_cannot_be_converted_leaves_nothing(source, tmp_path):
    cache = tmp_path / "cache"
    source.write_bytes(source.read_bytes()[:5000])
    with pytest.raises(GgufError, match=r"^Tiny.F32.gguf "):
        converted(source, cache)
    assert entries(cache) == []


def test_a_file_that_changes_meanwhile_has_no_entry(source, tmp_path, monkeypatch):
    cache = tmp_path / "cache"

    def slow(path, folder, level, *more):
        convert(path, folder, level)
        os.utime(path, ns=(2, 2))

    monkeypatch.setattr(conversion, "convert", slow)
    with pytest.raises(GgufError, match=r"changed while it was read"):
        converted(source, cache)
    assert entries(cache) == []


def test_a_file_that_is_gone_is_no_fault_of_the_cache(source, tmp_path, monkeypatch):
    def removed(path, folder, level, *more):
        convert(path, folder, level)
        path.unlink()

    monkeypatch.setattr(conversion, "convert", removed)
    for _ in range(2):  # removed while it is read, and before
        with pytest.raises(GgufError, match=r"^Tiny.F32.gguf cannot be read: .*No such file") as raised:
            converted(source, tmp_path / "cache")
        assert "BRAID_CACHE" not in str(raised.value)


def test_a_cache_that_cannot_be_written_is_named(source, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GgufError, match=r"cannot be converted in .*file.*BRAID_CACHE names another folder"):
        converted(source, tmp_path / "file")


def test_a_folder_with_one_file_is_a_model(source, tmp_path):
    (model,) = scan(source.parent.parent, tmp_path / "cache")
    assert (model.name, model.path) == ("small", source)
    assert model.home == source.parent
    opened = model.opened()
    assert opened.fingerprint == model.fingerprint
    text = opened.graph_text()
    assert "task: chat" in text
    assert "path: model.onnx" in text


def test_several_files_have_their_own_names(source, whole, tmp_path):
    repository = source.parent.parent
    for name in ("small/Tiny.Q8.gguf", "loose.gguf"):
        (repository / name).write_bytes(whole)
    models = scan(repository)
    assert [model.name for model in models] == ["loose", "small/Tiny.F32", "small/Tiny.Q8"]
    assert [model.home for model in models] == [model.path for model in models]


def test_a_file_alone_is_a_repository(source):
    (model,) = scan(source)
    assert (model.name, model.path, model.home) == ("Tiny.F32", source, source)
    assert model.refreshed() == model
    os.utime(source, ns=(1, 1))
    assert model.refreshed().fingerprint != model.fingerprint


@pytest.mark.parametrize("stem", ["n" * 240, "ü" * 120, os.fsdecode(b"x\xff"), "a b\n[c]*"])
def test_names_of_files_may_be_long_or_of_any_bytes(source, tmp_path, stem):
    file = source.rename(source.with_name(f"{stem}.gguf"))
    folder = converted(file, tmp_path / "cache")
    assert (folder / "tokenizer.json").is_file()
    str(folder).encode()


def test_names_that_differ_in_bytes_of_no_text_have_their_own_folders(source, tmp_path):
    places = set()
    for name in (b"x\xfe.gguf", b"x\xff.gguf"):
        source = source.rename(source.with_name(os.fsdecode(name)))
        places.add(converted(source, tmp_path / "cache").parents[1])
    assert len(places) == 2


def test_the_name_of_a_model_is_of_unicode(source, tmp_path):
    file = source.rename(source.with_name(os.fsdecode(b"x\xff.gguf")))
    (model,) = scan(file, tmp_path / "cache")
    assert (model.name, model.path) == ("x\\xff", file)


def test_versions_may_be_files(source, whole):
    later = source.parent / "2"
    later.mkdir()
    source.rename(later / source.name)
    (model,) = scan(source.parent.parent)
    assert (model.name, model.version, model.path) == ("small", 2, later / source.name)
    assert model.home == source.parent


def test_a_file_that_is_refused_is_a_problem_of_its_model(source, tmp_path):
    source.write_bytes(b"GGUF" + bytes(100))
    (model,) = scan(source, tmp_path / "cache")
    with pytest.raises(GraphError) as raised:
        model.opened()
    assert "Tiny.F32.gguf is of GGUF version 0" in str(raised.value)


def test_a_disk_without_room_is_named_before_a_weight_is_read(source, tmp_path, monkeypatch):
    monkeypatch.setattr(weight_writer.shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    monkeypatch.setattr(weight_writer, "_write_columns", lambda *_: pytest.fail("weights were read"))
    with pytest.raises(GgufError, match=r"it takes \d+ MB, of which 1 are free; BRAID_CACHE names another"):
        converted(source, tmp_path / "cache")
    assert entries(tmp_path / "cache") == []


def test_a_long_conversion_reports_how_far_it_is(source, tmp_path, monkeypatch):
    monkeypatch.setattr(load_progress, "MIN_INTERVAL_S", 0.0)
    heard = []
    with load_progress.watched(lambda what, share: heard.append((what, share))):
        converted(source, tmp_path)
    shares = [share for _, share in heard]
    assert {what for what, _ in heard} == {f"converting {source.name}"}
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert len(set(shares)) > 3


def test_a_conversion_holds_few_pieces_in_memory(tmp_path):
    path = tmp_path / "wide.gguf"
    write(path, replace(SHAPES["qwen3-0.6b"], layers=1, tokens=300, inner=30_720), "Q4_0")
    tracemalloc.start()
    try:
        convert(path, tmp_path / "folder")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 55e6
    assert peak < 40e6


@pytest.fixture
def quantized(source):
    write_llama_like(source, kind=GGMLQuantizationType.Q4_0)
    return source


def test_weights_of_linear_layers_stay_in_the_file(quantized, tmp_path):
    model = converted(quantized, tmp_path / "cache") / "model.onnx"
    assert GgufSource.read(model.parent) == GgufSource.of([quantized])
    codes_file = with_codes(model)
    assert GgufSource.read(codes_file.parent) is None
    assert codes_file == with_codes(model) == with_codes(codes_file)
    assert codes_file.is_relative_to(model.parent.parent)
    sizes = [file.with_name("model.onnx.data").stat().st_size for file in (model, codes_file)]
    assert sizes[0] < sizes[1] / 4
    assert {path.name for path in codes_file.parent.iterdir()} | {NAME} == {
        path.name for path in model.parent.iterdir()
    }


def test_codes_that_no_engine_opens_are_removed(quantized, whole, tmp_path):
    cache = tmp_path / "cache"
    kept, unused = converted(quantized, cache), None
    with_codes(kept / "model.onnx")
    other = quantized.with_name("other.gguf")
    write_llama_like(other, kind=GGMLQuantizationType.Q4_0)
    unused = converted(other, cache)
    codes = with_codes(unused / "model.onnx").parents[1]
    os.utime(codes, (1, 1))
    last = quantized.with_name("last.gguf")
    last.write_bytes(whole)
    converted(last, cache)
    assert (kept.parent / "codes").is_dir()
    assert unused.is_dir()
    assert not codes.exists()


def test_a_cache_without_room_for_codes_is_named(quantized, tmp_path, monkeypatch):
    model = converted(quantized, tmp_path / "cache") / "model.onnx"
    monkeypatch.setattr(weight_writer.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1))
    wanted = f"{quantized.name} cannot be converted in {tmp_path}/cache/gguf: .* BRAID_CACHE names another"
    with pytest.raises(GgufError, match=wanted):
        with_codes(model)


def test_codes_of_a_file_that_has_changed_are_not_made(quantized, tmp_path):
    model = converted(quantized, tmp_path / "cache") / "model.onnx"
    os.utime(quantized, ns=(1, 1))
    with pytest.raises(GgufError, match=r"Tiny.F32.gguf changed while it was read"):
        with_codes(model)
    assert sorted(each.name for each in model.parent.parent.iterdir()) == ["model", "source.txt"]


def test_runs_name_each_row_of_a_weight_in_its_order(quantized):
    tensor = read_gguf(quantized).tensors["blk.0.attn_q.weight"]
    content, row_bytes = quantized.read_bytes(), tensor.row_bytes
    rng = np.random.default_rng(1)
    for order in (
        None,
        interleaved_rows(4, tensor.rows, tensor.rows // 4),
        rng.permutation(tensor.rows),
        np.arange(7)[::-1],
    ):
        part = WeightPart(replace(tensor, rows=tensor.rows if order is None else len(order)), order)
        runs = np.reshape(list(part.runs()), (-1, 3)).tolist()
        begins = [begin + step * number for begin, step, count in runs for number in range(count)]
        rows = [content[begin : begin + row_bytes] for begin in begins]
        wanted = tensor.read() if order is None else tensor.read(order)
        assert rows == [row.tobytes() for row in wanted]
    assert len(list(WeightPart(tensor, interleaved_rows(4, tensor.rows, tensor.rows // 4)).runs())) == 3 * 8
