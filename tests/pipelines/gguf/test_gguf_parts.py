"""GGUF files in several parts, as the `gguf` package writes them: one model, however it is named."""

from __future__ import annotations

import os
import shutil

import gguf
import numpy as np
import pytest
from gguf_files import write_llama_like

from graphs.errors import GraphError
from pipelines.gguf.convert import convert
from pipelines.gguf.converted_files import converted
from pipelines.gguf.errors import GgufError
from pipelines.gguf.parts import all_parts, model_name
from pipelines.gguf.reader import read_gguf
from pipelines.onnx_format.gguf_source import GgufSource
from pipelines.repository.model_folders import scan

FIRST, SECOND = "Tiny-Q8_0-00001-of-00004.gguf", "Tiny-Q8_0-00002-of-00004.gguf"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with a whole file and one with its four parts."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "parts").mkdir()
    write_llama_like(folder / "Tiny-Q8_0.gguf", kind=gguf.GGMLQuantizationType.Q8_0)
    write_llama_like(
        folder / "parts" / "Tiny-Q8_0.gguf", kind=gguf.GGMLQuantizationType.Q8_0, tensors_in_a_part=6
    )
    assert len(list((folder / "parts").iterdir())) == 4
    return folder


@pytest.fixture
def parts(written, tmp_path):
    return shutil.copytree(written / "parts", tmp_path / "repo")


def test_parts_hold_the_tensors_of_the_whole_file(written):
    whole = read_gguf(written / "Tiny-Q8_0.gguf")
    for path in sorted((written / "parts").iterdir()):
        joined = read_gguf(path)
        assert joined.tensors.keys() == whole.tensors.keys()
        for name, tensor in whole.tensors.items():
            np.testing.assert_array_equal(joined.tensors[name].read(), tensor.read())
        assert joined.fields["tokenizer.ggml.tokens"] == whole.fields["tokenizer.ggml.tokens"]


def test_any_part_or_the_folder_is_the_model(parts, tmp_path):
    for place in (parts, *sorted(parts.iterdir())):
        (model,) = scan(place, tmp_path / "cache")
        assert (model.name, model.path, model.home) == ("Tiny-Q8_0", parts / FIRST, parts / FIRST)
        assert sorted(model.files()) == sorted(parts.iterdir())
    assert "task: chat" in model.opened().graph_text()


def test_a_folder_with_parts_alone_names_them(parts):
    place = parts / "org" / "tiny"
    place.mkdir(parents=True)
    for part in parts.glob("*.gguf"):
        part.rename(place / part.name)
    (model,) = scan(parts)
    assert (model.name, model.path, model.home) == ("org/tiny", place / FIRST, place)


def test_a_change_of_any_part_is_a_change_of_the_model(parts, tmp_path):
    (model,) = scan(parts, tmp_path / "cache")
    first = converted(model.path, tmp_path / "cache")
    for part in sorted(parts.iterdir()):
        os.utime(part, ns=(1, 1))
        (changed,) = scan(parts, tmp_path / "cache")
        assert changed.fingerprint != model.fingerprint
        second = converted(model.path, tmp_path / "cache")
        assert second != first
        model, first = changed, second


@pytest.mark.parametrize("missing", [FIRST, SECOND])
def test_a_missing_part_is_named(parts, tmp_path, missing):
    (parts / missing).unlink()
    (model,) = scan(parts, tmp_path / "cache")
    assert model.name == "Tiny-Q8_0"
    with pytest.raises(GraphError) as raised:
        model.opened()
    assert f"is one of 4 parts, of which {missing} are missing" in str(raised.value)


def test_parts_may_be_links_to_files_of_other_names(parts, tmp_path):
    """As in the cache of Hugging Face's hub."""
    (parts / "blobs").mkdir()
    for part in sorted(parts.glob("*.gguf")):
        part.symlink_to(part.rename(parts / "blobs" / part.name[-19:-14]))
    for part in sorted(parts.glob("*.gguf")):
        (model,) = scan(part, tmp_path / "cache")
        folder = model.opened().path
        assert [file.path for file in GgufSource.read(folder).files] == sorted(map(str, parts.glob("*.gguf")))


def test_a_part_that_is_another_is_refused(parts, tmp_path):
    shutil.copyfile(parts / FIRST, parts / SECOND)
    with pytest.raises(GgufError, match=f"{FIRST} holds part 1 of 4 in {SECOND}"):
        convert(parts / FIRST, tmp_path / "model")


def test_a_part_of_another_name_is_refused(parts, tmp_path):
    (parts / FIRST).rename(parts / "model.gguf")
    with pytest.raises(GgufError, match=r"model.gguf holds part 1 of 4 in model.gguf; parts keep the names"):
        convert(parts / "model.gguf", tmp_path / "model")


def test_a_part_that_is_cut_short_is_named(parts, tmp_path):
    os.truncate(parts / SECOND, os.path.getsize(parts / SECOND) - 5000)
    with pytest.raises(GgufError, match=f"{FIRST} {SECOND} .* the file is cut short"):
        convert(parts / FIRST, tmp_path / "model")


def test_a_part_that_cannot_be_read_is_no_fault_of_the_cache(parts, tmp_path):
    (parts / SECOND).unlink()
    (parts / SECOND).mkdir()
    with pytest.raises(GgufError) as raised:
        converted(parts / FIRST, tmp_path / "cache")
    assert f"{SECOND} cannot be read: [Errno 21] Is a directory: '{parts / SECOND}'" == str(raised.value)


def test_names_that_are_no_parts(tmp_path):
    for name in ("a-00000-of-00002", "a-00003-of-00002", "a-1-of-2", "-00001-of-00002", "a-00001-of-00002x"):
        file = tmp_path / f"{name}.gguf"
        assert all_parts(file) == [file]
        assert model_name(file) == name
