"""A GGUF file is opened from itself where the kernels can compute it, else as codes, whatever was used before."""

from __future__ import annotations

import ctypes
import logging
import shutil
import time

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf_files import EXPERT_INNER, EXPERTS, EXPERTS_USED, WIDTH, Mixture, write_llama_like
from lone_steps import step
from patience import PATIENCE_S

from pipelines.base.prepared_models import PreparedModels
from pipelines.gguf.converted_files import converted
from pipelines.inference.backends.open_model import open_decoder
from pipelines.inference.backends.openvino.decoder import packing_news
from pipelines.inference.backends.openvino.prepared import prepared_decoder
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.device_errors import ModelError

PROMPT = np.random.default_rng(2).integers(5, 200, 20)
TOLERANCE = 2e-3


@pytest.fixture
def source(tmp_path):
    write_llama_like(tmp_path / "tiny.gguf", kind=Type.Q8_0)
    return tmp_path / "tiny.gguf"


@pytest.fixture
def opened(source, tmp_path, monkeypatch, kernel_folder):
    """`opened(kernels, settings)` → what computes linear layers, logits, and whether codes were made."""

    def make(kernels=True, **settings):
        monkeypatch.setenv("BRAID_KERNELS", str(kernel_folder) if kernels else "off")
        model = converted(source, tmp_path / "cache") / "model.onnx"
        kv_cache = None if "engine" in settings else "f32"
        session = open_decoder(model, DecoderSettings(kv_cache=kv_cache, **settings))
        session.allocate(2)
        logits = session.run(step(PROMPT, 0, [0, 1], range(len(PROMPT)))).copy()
        session.close()
        return session.describe()["linear_layers"], logits, (model.parents[1] / "codes").is_dir()

    return make


def test_kernels_that_come_later_read_the_file(opened):
    linears, by_openvino, has_codes = opened(kernels=False)
    assert (linears, has_codes) == ("by openvino", True)
    linears, by_kernels, _ = opened()
    assert linears.startswith("9 of 9 by braid kernels")
    np.testing.assert_allclose(by_kernels, by_openvino, atol=TOLERANCE)


def test_who_cannot_read_the_file_opens_codes(opened, tmp_path):
    _, by_kernels, has_codes = opened()
    assert not has_codes
    for settings in ({"precision": "f32"}, {"engine": "onnxruntime"}):
        _, logits, has_codes = opened(**settings)
        assert has_codes
        np.testing.assert_allclose(logits, by_kernels, atol=TOLERANCE)
        for codes in (tmp_path / "cache").rglob("codes"):
            shutil.rmtree(codes)


def test_a_file_that_changes_after_its_conversion_is_an_error_of_that_load(source, opened, tmp_path):
    model = converted(source, tmp_path / "cache") / "model.onnx"
    _, logits, _ = opened()
    content = source.read_bytes()
    source.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match=r"tiny.gguf has changed since it was converted"):
        open_decoder(model, DecoderSettings())
    source.write_bytes(content)
    np.testing.assert_array_equal(opened()[1], logits)


def test_a_weight_of_several_parts_of_a_file_is_that_of_the_whole(source, opened, tmp_path, kernels):
    """Queries, keys and values that one product computes are codes where they lie in two parts."""
    _, logits, _ = opened()
    (tmp_path / "parts").mkdir()
    write_llama_like(tmp_path / "parts" / "tiny.gguf", kind=Type.Q8_0, tensors_in_a_part=5)
    first, *_ = sorted((tmp_path / "parts").iterdir())
    session = open_decoder(
        converted(first, tmp_path / "cache") / "model.onnx", DecoderSettings(kv_cache="f32")
    )
    assert session.describe()["linear_layers"].startswith("9 of 9 by braid kernels")
    session.allocate(2)
    np.testing.assert_array_equal(session.run(step(PROMPT, 0, [0, 1], range(len(PROMPT)))), logits)


def test_what_is_loaded_does_not_read_the_file(source, tmp_path, kernels):
    assert kernels(2) is not None
    session = open_decoder(converted(source, tmp_path / "cache") / "model.onnx", DecoderSettings())
    session.allocate(2)
    before = session.run(step(PROMPT, 0, [0, 1], range(len(PROMPT)))).copy()
    source.write_bytes(b"")
    np.testing.assert_array_equal(session.run(step(PROMPT, 0, [0, 1], range(len(PROMPT)))), before)


def test_scales_that_are_not_finite_are_refused(source, tmp_path, kernels):
    assert kernels(2) is not None
    from pipelines.gguf.reader import read_gguf

    at = read_gguf(source).tensors["blk.0.ffn_down.weight"].offset
    content = bytearray(source.read_bytes())
    content[at : at + 2] = np.float16("inf").tobytes()
    source.write_bytes(content)
    with pytest.raises(ModelError, match=r"tiny.gguf holds weights that are not finite"):
        open_decoder(converted(source, tmp_path / "cache") / "model.onnx", DecoderSettings())


def test_the_log_says_how_far_weights_are_packed(source, tmp_path, kernels, caplog, monkeypatch):
    monkeypatch.setattr(packing_news, "NEWS_S", 0.001)
    model = converted(source, tmp_path / "cache") / "model.onnx"
    with caplog.at_level(logging.INFO, packing_news.__name__), packing_news.packing_news(model, kernels(2)):
        open_decoder(model, DecoderSettings()).close()
        deadline_s = time.monotonic() + PATIENCE_S
        while not caplog.messages and time.monotonic() < deadline_s:
            time.sleep(0.01)
    shares = [int(each.split()[1]) for each in caplog.messages if each.startswith("packed ")]
    assert 50 < shares[-1] <= 100


def _mixed(model):
    model.writer.add_expert_count(EXPERTS)
    model.writer.add_expert_used_count(EXPERTS_USED)
    model.writer.add_expert_feed_forward_length(EXPERT_INNER)


@pytest.fixture
def mixture(tmp_path, kernels):
    """A mixture of experts in a file, and what opens it: from the file, or from what is stored of its graph."""
    assert kernels(2) is not None
    path = tmp_path / "mixture.gguf"
    write_llama_like(path, "qwen3moe", kind=Type.Q8_0, norms=True, feed=Mixture(), more=_mixed)
    store = PreparedModels(64 << 20, tmp_path / "prepared")

    def opened():
        model = converted(path, tmp_path / "cache") / "model.onnx"
        return open_decoder(model, DecoderSettings(kv_cache="f32", prepared=store))

    return path, opened


def logits_of(session):
    return session.run(step(PROMPT, 0, [0, 1], range(len(PROMPT)))).copy()


def test_a_mixture_reads_its_file_when_it_is_opened_and_never_after(mixture, tmp_path, monkeypatch):
    path, opened = mixture
    logits = []
    for _ in range(2):
        session = opened()
        assert session.describe()["experts"].startswith("2 of 2 layers by braid kernels")
        session.allocate(2)
        logits.append(logits_of(session))
        monkeypatch.setattr(prepared_decoder, "read_decoder", None)  # the second time it is not read
    content = path.read_bytes()
    path.write_bytes(b"")
    np.testing.assert_array_equal(logits_of(session), logits[0])
    np.testing.assert_array_equal(*logits)
    assert sum(file.stat().st_size for file in (tmp_path / "cache").rglob("*.data")) < len(content) / 2


def test_a_process_that_tries_a_mixture_packs_few_experts(mixture, kernels):
    """Its first step, by which stored graphs are known, is computed with the experts that it chose."""
    _, opened = mixture
    library = ctypes.CDLL(str(kernels(2).library.path))
    library.braid_packed_bytes.restype = ctypes.c_uint64

    def packed(session):
        begin = library.braid_packed_bytes()
        opened_session = session()
        opened_session.allocate(2)
        return opened_session, library.braid_packed_bytes() - begin

    whole, all_bytes = packed(opened)
    try:
        library.braid_pack_few(1)
        trial, few_bytes = packed(opened)
        assert logits_of(trial).shape == logits_of(whole).shape
    finally:
        library.braid_pack_few(0)
    assert trial.first_step == whole.first_step
    experts = 2 * 3 * WIDTH * EXPERT_INNER // 32 * 34  # of two layers, three weights each
    assert few_bytes == all_bytes - (EXPERTS - EXPERTS_USED) * experts
