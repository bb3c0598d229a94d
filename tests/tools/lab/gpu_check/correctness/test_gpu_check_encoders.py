"""The checks of encoders without a GPU: kernels on the host, models on ONNX Runtime's CPU provider."""

import importlib.util
import lzma
import warnings
from dataclasses import replace

import numpy as np
import pytest
from host_device import HostDevice

from ops.cuda.pooling import CudaPoolingOps
from pipelines.inference.backends.onnxruntime.cuda.encoder_session import OnnxCudaEncoder
from pipelines.inference.backends.onnxruntime.runtime import CPU, open_session
from tools.lab.gpu_check.base.setting import Failed, Setting
from tools.lab.gpu_check.correctness import encoders
from tools.lab.gpu_check.packs.encoder_folders import encoder_file, packed_encoder
from tools.lab.gpu_check.packs.encoder_models import CHECKED, ENCODERS, MEASURED, unit
from tools.lab.gpu_check.packs.packed import NotPacked
from tools.lab.gpu_check.packs.packed_encoders import PackedEncoder, read_encoder, write_encoder
from tools.lab.gpu_check.packs.weights import FILE
from tools.lab.gpu_check.report import markdown
from tools.lab.gpu_check.speed import encoders as speed

FEW = {"one": [7], "mixed": [5, 21, 1, 2]}


class HostRuntime:
    memory, number = "cpu", 0

    def open_file(self, path):
        return open_session(path.read_bytes(), path.parent, [CPU], 1, {})


def open_on_host(path):
    return OnnxCudaEncoder(path, HostDevice(), HostRuntime())


@pytest.fixture(autouse=True)
def _few_batches(monkeypatch):
    monkeypatch.setattr(encoders, "BATCHES", FEW)


@pytest.fixture(scope="module")
def packed():
    """A BERT of one narrow layer."""
    pytest.importorskip("torch")
    if importlib.util.find_spec("onnxscript") is None:
        pytest.skip("needs the export extra")
    from tools.lab.gpu_check.packs.pack_encoders import pack_encoder

    config = {**ENCODERS["bert"].config, "hidden_size": 64, "num_hidden_layers": 1, "vocab_size": 200}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pack_encoder(replace(ENCODERS["bert"], config=config))


@pytest.fixture
def setting(packed, tmp_path):
    """The same encoder under every name."""
    pack = tmp_path / "pack"
    pack.mkdir()
    for name in ENCODERS:
        write_encoder(pack, name, packed)
    return Setting(pack=pack, work=tmp_path / "work")


def test_a_packed_encoder_is_read_back_and_small(packed, tmp_path):
    files = write_encoder(tmp_path, "bert", packed)
    assert sum(path.stat().st_size for path in files) < 10_000
    assert read_encoder(tmp_path, "bert") == packed
    matrices = {place.name for place in packed.places}
    assert "model.embeddings.word_embeddings.weight" in matrices
    assert isinstance(packed, PackedEncoder)


def test_weights_are_written_and_removed_and_the_same_each_time(packed, setting):
    seen = []
    for _ in range(2):
        with encoder_file("bert", setting) as path:
            seen.append((path.parent / FILE).read_bytes())
    assert seen[0] == seen[1]
    assert not path.parent.exists()
    first = packed.places[0]
    values = np.frombuffer(seen[0], np.float32, first.length // 4, first.offset)
    assert 0.04 < values.std() < 0.06


def test_weights_of_sixteen_bits_are_those_of_thirty_two_rounded(packed, setting):
    halved = replace(
        packed,
        places=[replace(place, dtype="FLOAT16", length=place.length // 2) for place in packed.places],
    )
    write_encoder(setting.pack, "bert_f16", halved)
    weights = {}
    for name, dtype in {"bert": np.float32, "bert_f16": np.float16}.items():
        with encoder_file(name, setting) as path:
            content = (path.parent / FILE).read_bytes()
        places = read_encoder(setting.pack, name).places
        weights[name] = [
            np.frombuffer(content, dtype, np.prod(place.shape), place.offset) for place in places
        ]
    for wide, half in zip(*weights.values(), strict=True):
        np.testing.assert_array_equal(wide.astype(np.float16), half)


def test_the_check_passes_where_device_and_cpu_agree(setting, monkeypatch, capsys):
    monkeypatch.setattr(encoders, "open_on_gpu", open_on_host)
    monkeypatch.setattr(encoders, "CHECKED", {"bert": "bert", "decoder": "decoder"})
    encoders.check_encoders(setting)
    assert setting.figures["bert"]["mixed"]["rms"] < 1e-5
    assert setting.figures["decoder"]["mixed"]["alone"] < 1e-4
    assert capsys.readouterr().out.count("error") == 2


def test_every_encoder_that_differs_is_named(setting, monkeypatch):
    """A pooling that reads what stands behind texts."""

    class Wrong(CudaPoolingOps):
        def pool(self, values, lengths, how):
            return super().pool(values, np.full_like(lengths, values.shape[1]), how)

    def open_wrong(path):
        session = open_on_host(path)
        session.ops = Wrong(session._device)
        return session

    monkeypatch.setattr(encoders, "open_on_gpu", open_wrong)
    monkeypatch.setattr(encoders, "CHECKED", {"bert": "bert", "decoder": "decoder"})
    with pytest.raises(Failed) as failed:
        encoders.check_encoders(setting)
    lines = str(failed.value).splitlines()
    assert {line.split(", ")[0] for line in lines} == {"bert", "decoder"}
    assert all(", mixed: " in line for line in lines)
    assert any("itself alone" in line for line in lines)


def test_an_encoder_that_breaks_hides_no_other(setting, monkeypatch):
    monkeypatch.setattr(encoders, "open_on_gpu", lambda path: 1 / 0)
    with pytest.raises(Failed) as failed:
        encoders.check_encoders(setting)
    assert len(str(failed.value).splitlines()) == len(CHECKED)


def test_speed_is_measured_every_way_and_reported(setting, monkeypatch, capsys):
    monkeypatch.setattr(speed, "open_on_gpu", open_on_host)
    monkeypatch.setattr(speed, "FEW_TEXTS", 20)
    monkeypatch.setattr(speed, "MAX_BATCH_TOKENS", 256)
    monkeypatch.setattr(speed, "LONGEST", 40)
    monkeypatch.setattr(OnnxCudaEncoder, "warm", lambda self: False)
    quick = replace(setting, quick=True)
    speed.check_encoder_speed(quick)
    figures = quick.figures["minilm"]
    assert set(quick.figures) == set(MEASURED)
    assert all(figures[f"{way}_texts_s"] > 0 for way in speed.WAYS)
    assert figures["device_tokens_s"] / figures["device_texts_s"] == pytest.approx(figures["tokens"] / 20)
    assert "texts/s" in capsys.readouterr().out
    result = {"name": "encoder_speed", "state": "pass", "seconds": 1, "why": "", "look_at": ""}
    said = markdown({"date": "", "command": "", "results": [{**result, "figures": quick.figures}]})
    assert "| minilm_f16 |" in said


def test_pooled_on_the_device_and_on_the_host_is_the_same(setting):
    with encoder_file("bert", setting) as path:
        session = open_on_host(path)
        batch = encoders.random_batch([9, 3, 30], session.vocab_size)
        here, there = speed.pooled_on_device(session, batch), speed.pooled_on_host(session, batch)
        np.testing.assert_allclose(here, there, atol=1e-6)
        np.testing.assert_allclose(here, encoders.rows_of(session, batch, unit("mean")), atol=1e-7)


def test_batches_are_full_and_little_of_them_is_padding():
    batches = speed.natural_batches(speed.NUM_TEXTS, 100, 512)
    assert sum(len(batch.lengths) for batch in batches) == speed.NUM_TEXTS
    assert all(batch.ids.size <= speed.MAX_BATCH_TOKENS for batch in batches)
    tokens = sum(int(batch.lengths.sum()) for batch in batches)
    assert tokens > 0.9 * sum(batch.ids.size for batch in batches)
    assert all((batch.ids[batch.mask == 0] == 0).all() for batch in batches)


def test_a_pack_without_encoders_says_how_to_make_one(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tools.lab.gpu_check.packs.pack_encoders", None)
    with pytest.raises(NotPacked, match="python -m tools.lab.gpu_check pack"):
        packed_encoder("bert", Setting(pack=tmp_path))


def test_what_is_packed_is_compressed(packed, tmp_path):
    graph, _ = write_encoder(tmp_path, "bert", packed)
    assert lzma.decompress(graph.read_bytes()) == packed.model
