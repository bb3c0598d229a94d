"""A graph that is stored computes what its model computes; one that does not, or is of another model, is not
used."""

from __future__ import annotations

import json
import logging
import re
import shutil
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import openvino as ov
import pytest
from breadth import after
from gguf import GGMLQuantizationType as Type
from gguf_files import write_llama_like
from lone_steps import step
from small_onnx_decoders import VOCABULARY, write_small

from pipelines.base.digests import digest
from pipelines.base.prepared_models import FACTS, PreparedModels
from pipelines.gguf.convert import IN_FILE, convert
from pipelines.inference.backends.openvino.decoder import from_onnx
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.model.mapped_files import MappedFile, page_after
from pipelines.inference.backends.openvino.open_decoder import open_decoder
from pipelines.inference.backends.openvino.prepared import graph_export, prepared_decoder
from pipelines.inference.backends.openvino.prepared.prepared_decoder import CONSTANTS, GRAPH, open_prepared
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.device_errors import ModelError

pytestmark = pytest.mark.slow

PROMPT = np.random.default_rng(1).integers(3, VOCABULARY, size=50)
SETTINGS = [
    OpenVINOSettings(),
    OpenVINOSettings(kv_cache="f32", precision="f32"),
    OpenVINOSettings(targets=frozenset({"q_proj", "down_proj"})),
    OpenVINOSettings(headless=True),
]


@pytest.fixture
def store(tmp_path):
    return PreparedModels(64 << 20, tmp_path / "cache")


@pytest.fixture
def reads(monkeypatch):
    """The models that were read from their own files."""
    files = []
    read = prepared_decoder.read_decoder

    def counted(path, *settings):
        files.append(path)
        return read(path, *settings)

    monkeypatch.setattr(prepared_decoder, "read_decoder", counted)
    return files


@pytest.fixture(params=after(1, ["onnx", "openvino", "gguf"]))
def llama(request, tmp_path):
    """A model whose files may be changed."""
    if request.param == "onnx":
        return of_onnx(tmp_path)
    if request.param == "gguf":
        return of_gguf(tmp_path, Type.Q4_1)
    exported = request.getfixturevalue("exported")
    return shutil.copytree(exported("llama")[1], tmp_path / "llama") / "openvino_model.xml"


def of_onnx(folder):
    """A small decoder whose weights are in one file beside it."""
    path = write_small(folder, softcap=0.0, rotary=True)
    ir.save(ir.load(path), path, external_data="model.onnx.data")
    return path


def of_gguf(folder, kind, **options):
    """The converted form of a small GGUF file."""
    write_llama_like(folder / "tiny.gguf", kind=kind, **options)
    convert(folder / "tiny.gguf", folder / "model")
    return folder / "model" / "model.onnx"


def weights_of(path):
    return path.with_suffix(".bin") if path.suffix == ".xml" else path.with_name(f"{path.name}.data")


def logits(session, prompt=PROMPT):
    """Of a prompt, and of a token after it."""
    session.allocate(4)
    if session.linears:
        session.reserve(64, 1)
    first = session.run(step(prompt, 0, [0, 1], range(len(prompt)))).copy()
    return np.concatenate([first, session.run(step(prompt[:1], len(prompt), [0, 1], [0]))])


@pytest.mark.parametrize(
    ("family", "settings"),
    after(
        1,
        [
            *(("llama", SETTINGS[place]) for place in (0, 2, 3)),
            ("qwen3", SETTINGS[0]),
            ("llama", SETTINGS[1]),
            ("mistral", SETTINGS[0]),
        ],
    ),
    ids=["default", "adapters", "headless", "qwen3", "f32", "mistral"],
)
def test_logits_are_those_of_the_model(exported, store, reads, family, settings):
    path = exported(family)[1] / "openvino_model.xml"
    expected = OpenVINOSession(path, settings)
    sessions = [open_prepared(path, settings, store) for _ in range(2)]
    check_sessions(sessions, expected)
    assert reads == [path]


def check_sessions(sessions, expected):
    wanted = logits(expected)
    for session in sessions:
        np.testing.assert_array_equal(logits(session), wanted)
        assert (session.shape.max_context, session.linears) == (expected.shape.max_context, expected.linears)
        assert session.describe() == expected.describe()


@pytest.mark.parametrize(
    ("kind", "settings"),
    after(
        1,
        [
            *(("Q4_1", SETTINGS[place]) for place in (2, 0, 1)),
            *((each, SETTINGS[0]) for each in ("Q6_K", "Q8_0", "Q4_0", "Q4_K")),
        ],
    ),
    ids=["adapters", "default", "f32", "Q6_K", "Q8_0", "Q4_0", "Q4_K"],
)
def test_logits_of_a_gguf_file_are_those_of_the_model(tmp_path, store, reads, kind, settings):
    path = of_gguf(tmp_path, Type[kind], tied=kind == "Q8_0")
    expected = OpenVINOSession(path, settings)
    check_sessions([open_prepared(path, settings, store) for _ in range(2)], expected)
    assert reads == [path]


def test_weights_of_16_bits_are_read_each_time(tmp_path, store, reads, caplog):
    path = of_gguf(tmp_path, Type.F16)
    for _ in range(2):
        open_prepared(path, SETTINGS[0], store).close()
    assert reads == [path, path]
    assert "does not give" not in caplog.text


@pytest.mark.parametrize("kind", after(1, ["Q4_1", "Q8_0"]))
def test_weights_of_a_gguf_file_stay_in_its_converted_form(tmp_path, store, reads, kind):
    path = of_gguf(tmp_path, Type[kind])
    for _ in range(2):
        open_prepared(path, SETTINGS[0], store).close()
    assert reads == [path]
    (entry,) = store.folder.iterdir()
    assert (entry / CONSTANTS).stat().st_size < weights_of(path).stat().st_size / 8


@pytest.mark.parametrize("kind", after(1, ["Q4_K", "Q4_1", "Q6_K"]))
def test_a_stored_graph_has_the_kernels_that_it_was_made_with(tmp_path, store, reads, kernels, kind):
    path, settings = of_gguf(tmp_path, Type[kind]), OpenVINOSettings(precision="f32", kernels=kernels(2))
    expected = OpenVINOSession(path, settings)
    check_sessions([open_prepared(path, settings, store) for _ in range(2)], expected)
    assert expected.describe()["linear_layers"].startswith("9 of 9 by braid kernels")
    assert reads == [path]
    (entry,) = store.folder.iterdir()
    assert (entry / CONSTANTS).stat().st_size < weights_of(path).stat().st_size / 8
    for other in (OpenVINOSettings(precision="f32"), replace(settings, kernels=kernels(1))):
        check_sessions([open_prepared(path, other, store)], OpenVINOSession(path, other))
    assert reads == [path] * 3


def test_a_stored_graph_reads_its_gguf_file(tmp_path, store, reads, kernels):
    """Which holds all its linear layers, so the data file has the table of embeddings alone."""
    settings = OpenVINOSettings(precision="f32", kernels=kernels(2))
    expected = OpenVINOSession(of_gguf(tmp_path, Type.Q6_K), settings)
    convert(tmp_path / "tiny.gguf", tmp_path / "in_file", IN_FILE)
    path = tmp_path / "in_file" / "model.onnx"
    check_sessions([open_prepared(path, settings, store) for _ in range(2)], expected)
    assert reads == [path]
    (tmp_path / "tiny.gguf").touch()
    decoder_settings = DecoderSettings(prepared=store)
    with pytest.raises(ModelError, match=r"tiny.gguf has changed since it was converted"):
        open_decoder(path, decoder_settings)


@pytest.mark.parametrize(
    ("form", "weights"),
    after(1, [("openvino", "int8"), ("onnx", "int4"), ("openvino", "int4"), ("onnx", "int8")]),
)
def test_kernels_compute_exports_of_few_bits(store, reads, few_bits, kernels, form, weights):
    path = few_bits(form, weights)
    exact = OpenVINOSettings(precision="f32", kv_cache="f32")
    settings = replace(exact, kernels=kernels(2))
    session = OpenVINOSession(path, settings)
    count, _, linears, _ = session.describe()["linear_layers"].split(maxsplit=3)
    assert count == linears
    check_sessions([open_prepared(path, settings, store) for _ in range(2)], session)
    assert reads == [path]
    (entry,) = store.folder.iterdir()
    assert (entry / CONSTANTS).stat().st_size < weights_of(path).stat().st_size / 4
    np.testing.assert_allclose(logits(session), logits(OpenVINOSession(path, exact)), atol=3e-3)


def test_sums_of_blocks_are_stored(tmp_path, store, reads, monkeypatch):
    """Which are computed of weights, so that the model's file does not hold them."""
    monkeypatch.setattr(from_onnx, "LEAST_SUMMED", 0)
    path = of_gguf(tmp_path, Type.Q4_1)
    first, second = (logits(open_prepared(path, SETTINGS[0], store)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert reads == [path]


def test_a_graph_with_more_than_the_store_holds_is_not_stored(llama, tmp_path):
    store = PreparedModels(1000, tmp_path / "small")
    expected = logits(OpenVINOSession(llama, SETTINGS[0]))
    for _ in range(2):
        np.testing.assert_array_equal(logits(open_prepared(llama, SETTINGS[0], store)), expected)
    assert list(store.folder.iterdir()) == []


def test_weights_in_a_file_of_another_name_are_read_each_time(tmp_path, store, reads):
    path = of_gguf(tmp_path, Type.Q4_1)
    path.write_bytes(path.read_bytes().replace(b"model.onnx.data", b"other.onnx.data"))
    weights_of(path).rename(path.with_name("other.onnx.data"))
    for _ in range(2):
        open_prepared(path, SETTINGS[0], store).close()
    assert reads == [path, path]


@pytest.mark.parametrize(
    ("form", "weights"), after(0, [("openvino", "int8"), ("onnx", "int4"), ("onnx", "int8")])
)
def test_weights_of_few_bits_stay_in_their_file(store, reads, few_bits, form, weights):
    """Also beside a table of embeddings of 16 bits, which exports in ONNX have, and on processors with bf16."""
    path = few_bits(form, weights)
    for settings in (OpenVINOSettings(), OpenVINOSettings(precision="bf16")):
        expected = OpenVINOSession(path, settings)
        check_sessions([open_prepared(path, settings, store) for _ in range(2)], expected)
        assert reads == [path]
        reads.clear()
    for entry in store.folder.iterdir():
        assert (entry / CONSTANTS).stat().st_size < weights_of(path).stat().st_size / 4


def test_another_model_another_setting_another_version_are_read_again(llama, store, reads, monkeypatch):
    def num_reads(settings=SETTINGS[0]):
        before = len(reads)
        open_prepared(llama, settings, store).close()
        return len(reads) - before

    assert [num_reads(), num_reads()] == [1, 0]
    assert [num_reads(SETTINGS[1]), num_reads()] == [1, 0]
    config = llama.parent / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"max_position_embeddings": 256}))
    assert num_reads() == 1
    weights = weights_of(llama)
    weights.write_bytes(weights.read_bytes())
    assert num_reads() == 1
    monkeypatch.setattr(ov, "__version__", "2027.1.0")
    assert [num_reads(), num_reads()] == [1, 0]


@pytest.mark.parametrize(
    ("harm", "file"),
    after(
        1,
        [
            *(("changed", CONSTANTS), ("cut", GRAPH), ("gone", FACTS)),
            *(("cut", CONSTANTS), ("cut", FACTS), ("changed", GRAPH)),
            *(("changed", FACTS), ("gone", GRAPH), ("gone", CONSTANTS)),
        ],
    ),
)
def test_a_torn_entry_is_made_again(llama, store, reads, caplog, file, harm):
    expected = logits(open_prepared(llama, SETTINGS[0], store))
    (entry,) = store.folder.iterdir()
    content = (entry / file).read_bytes()
    (entry / file).unlink()
    if harm != "gone":
        half = len(content) // 2
        middle = bytes([content[half] ^ 1])
        torn = content[:half] if harm == "cut" else content[:half] + middle + content[half + 1 :]
        (entry / file).write_bytes(torn)
    np.testing.assert_array_equal(logits(open_prepared(llama, SETTINGS[0], store)), expected)
    assert len(reads) == 2
    assert "is torn" in caplog.text
    open_prepared(llama, SETTINGS[0], store).close()
    assert len(reads) == 2


def change_facts(store, change):
    """Change what the only entry says of its graph, and return its name."""
    (entry,) = store.folder.iterdir()
    stored = store.read(entry.name)
    files = {name: (entry / name).read_bytes() for name in (GRAPH, CONSTANTS)}
    shutil.rmtree(entry)
    store.store(entry.name, change(stored.facts), files)
    return entry.name


def test_a_graph_that_computes_something_else_is_not_used(llama, store, reads, caplog):
    expected = logits(open_prepared(llama, SETTINGS[0], store))
    name = change_facts(store, lambda facts: facts | {"first_step": "0"})
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(logits(open_prepared(llama, SETTINGS[0], store)), expected)
    assert len(reads) == 2
    assert "does not give what its model gives" in caplog.text
    caplog.clear()
    for num_before in (2, 3):  # what was made again would be refused at each load again
        np.testing.assert_array_equal(logits(open_prepared(llama, SETTINGS[0], store)), expected)
        assert len(reads) == num_before + 1
    assert not caplog.text
    assert not (store.folder / name / GRAPH).exists()


def test_a_graph_that_cannot_be_read_is_made_again_once(llama, store, reads, caplog):
    expected = logits(open_prepared(llama, SETTINGS[0], store))
    for num_reads, after_it in ((2, 2), (3, 4)):
        name = change_facts(store, lambda facts: facts | {"notes": {}})
        np.testing.assert_array_equal(logits(open_prepared(llama, SETTINGS[0], store)), expected)
        assert len(reads) == num_reads
        open_prepared(llama, SETTINGS[0], store).close()
        assert len(reads) == after_it
    assert re.search("cannot be read: .*k_head_size", caplog.text, re.DOTALL)
    assert not (store.folder / name / GRAPH).exists()


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), KeyError("Constant_1")])
def test_a_model_whose_graph_cannot_be_stored_is_open_all_the_same(llama, store, monkeypatch, caplog, error):
    def fails(*arguments):
        raise error

    monkeypatch.setattr(prepared_decoder.StoredConstants, "place", fails)
    assert np.isfinite(logits(open_prepared(llama, SETTINGS[0], store))).all()
    assert f"is not stored: {type(error).__name__}" in caplog.text


def test_a_form_of_export_that_is_not_known_is_not_stored(llama, store, monkeypatch):
    monkeypatch.setattr(graph_export, "MAX_PREAMBLE", 0)
    expected = logits(OpenVINOSession(llama, SETTINGS[0]))
    np.testing.assert_array_equal(logits(open_prepared(llama, SETTINGS[0], store)), expected)
    assert list(store.folder.iterdir()) == []


def test_two_files_are_mapped_behind_each_other(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"a" * 5000)
    second.write_bytes(b"b" * 10)
    mapped = MappedFile(first, second)
    for _ in range(2):
        at = page_after(5000)
        assert bytes(mapped.bytes[:5000]) == b"a" * 5000
        assert not mapped.bytes[5000:at].any()
        assert bytes(mapped.bytes[at : at + 10]) == b"b" * 10
        mapped.release_pages()


def test_digests_tell_contents_apart():
    assert digest(b"a", b"b") != digest(b"a", b"c")
