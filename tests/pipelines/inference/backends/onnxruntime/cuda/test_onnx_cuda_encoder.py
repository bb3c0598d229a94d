"""Encoders as on a GPU, kernels on the host and the model on ONNX Runtime's CPU provider, against the CPU's."""

from __future__ import annotations

import numpy as np
import pytest
from host_device import HostDevice
from onnx import TensorProto
from small_encoders import PAD, SIZE, VOCABULARY, WIDTH, random_batch, write_encoder

from ops import pooling as host
from ops.cuda.device import DeviceError
from pipelines.inference.backends.onnxruntime.cpu.encoder_session import OnnxCpuEncoder
from pipelines.inference.backends.onnxruntime.cuda import encoder_session as encoders
from pipelines.inference.backends.onnxruntime.cuda import provider
from pipelines.inference.backends.onnxruntime.cuda.cuda_graphs import CAPTURE_LOCK
from pipelines.inference.backends.onnxruntime.cuda.encoder_inputs import EncoderInputs
from pipelines.inference.backends.onnxruntime.cuda.encoder_session import OnnxCudaEncoder, open_encoder
from pipelines.inference.backends.onnxruntime.cuda.provider import CudaRuntime
from pipelines.inference.backends.onnxruntime.runtime import CPU, open_session
from pipelines.inference.contracts.device_errors import DeviceLost, ModelError
from pipelines.inference.contracts.encoder_contract import EncoderSettings

LENGTHS = [5, 1, 17, 8]
ALL_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")


class HostRuntime:
    memory, number = "cpu", 0

    def open_file(self, path):
        return open_session(path.read_bytes(), path.parent, [CPU], 1, {})


def on_host(path):
    return OnnxCudaEncoder(path, HostDevice(), HostRuntime())


@pytest.fixture
def encoder(tmp_path):
    return on_host(write_encoder(tmp_path))


def compare(path, batch, **close):
    """Values of both sessions where texts have tokens, and what pooling makes of them."""
    session, expected = on_host(path), OnnxCpuEncoder(path)
    assert (session.per_token, session.size) == (expected.per_token, expected.size)
    assert (session.max_tokens, session.vocab_size) == (expected.max_tokens, expected.vocab_size)
    values, wanted = session.run(batch), expected.run(batch)
    at = batch.mask.astype(bool) if session.per_token else slice(None)
    np.testing.assert_allclose(session.ops.fetch(values)[at], wanted[at], **close)
    if session.per_token:
        pooled = session.ops.pool(values, batch.lengths, "mean")
        unit = session.ops.fetch(session.ops.normalize(pooled, batch.activate))
        again = host.normalize(host.pool(wanted, batch.lengths, "mean"), batch.activate)
        np.testing.assert_allclose(unit, again, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("integers", [TensorProto.INT64, TensorProto.INT32])
@pytest.mark.parametrize("inputs", [ALL_INPUTS[:2], ALL_INPUTS[:3], ALL_INPUTS])
def test_values_are_those_of_the_cpu_whatever_is_read(tmp_path, inputs, integers):
    path = write_encoder(tmp_path, inputs=inputs, integers=integers)
    compare(path, random_batch(LENGTHS, 1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("element_type", ["f16", "bf16"])
@pytest.mark.parametrize("per_token", [True, False])
def test_values_of_sixteen_bits_are_read_as_they_are(tmp_path, element_type, per_token):
    path = write_encoder(tmp_path, element_type=element_type, per_token=per_token)
    exact = tmp_path / "exact"
    exact.mkdir()
    batch = random_batch(LENGTHS, 2)
    session, wanted = on_host(path), OnnxCpuEncoder(write_encoder(exact, per_token=per_token)).run(batch)
    values = session.ops.fetch(session.run(batch))
    at = batch.mask.astype(bool) if per_token else slice(None)
    np.testing.assert_allclose(
        values[at], wanted[at], rtol=2e-2 if element_type == "bf16" else 2e-3, atol=2e-2
    )
    assert session.describe()["values"] == {"f16": "float16", "bf16": "bfloat16"}[element_type]


def test_rows_of_texts(tmp_path):
    compare(write_encoder(tmp_path, per_token=False), random_batch(LENGTHS, 3), rtol=1e-6, atol=1e-6)


def test_batches_of_all_sizes_one_after_another(tmp_path, encoder):
    expected = OnnxCpuEncoder(tmp_path / "model.onnx")
    for seed, lengths in enumerate([[3], [30, 2, 2, 38], [1], [9] * 12, [3]]):
        batch = random_batch(lengths, seed)
        real = batch.mask.astype(bool)
        found = encoder.ops.fetch(encoder.run(batch))
        np.testing.assert_allclose(found[real], expected.run(batch)[real], rtol=1e-6, atol=1e-6)


def test_one_copy_goes_up_and_masks_are_made_there():
    device, uploads = HostDevice(), []
    upload = device.upload
    device.upload = lambda array, into=None: uploads.append(array.nbytes) or upload(array, into)
    batch = random_batch(LENGTHS, 4)
    inputs = EncoderInputs(device, dict.fromkeys(ALL_INPUTS, np.int64), PAD).send(batch)
    assert len(uploads) == 1
    assert uploads[0] <= 2 * batch.ids.nbytes + 64
    np.testing.assert_array_equal(inputs["attention_mask"], batch.mask)
    np.testing.assert_array_equal(inputs["position_ids"], batch.positions)
    np.testing.assert_array_equal(inputs["token_type_ids"], batch.types)
    np.testing.assert_array_equal(inputs["input_ids"], np.where(batch.mask, batch.ids, PAD))


def test_it_is_warmed_once_with_a_large_batch(encoder, monkeypatch):
    seen = []
    run = encoder.run
    monkeypatch.setattr(encoder, "run", lambda batch: seen.append(batch.ids.shape) or run(batch))
    assert [encoder.warm(), encoder.warm()] == [False, False]
    assert seen == [(encoders.WARM_TOKENS // WIDTH, WIDTH)]


def test_a_large_batch_that_fails_is_told_and_not_the_end(encoder, monkeypatch, caplog):
    monkeypatch.setattr(encoder._encoder_inputs, "send", fails(DeviceError("cannot allocate GPU memory")))
    assert encoder.warm() is False
    assert "cannot allocate GPU memory" in caplog.text


def fails(error):
    def fail(*_):
        raise error

    return fail


def test_ids_outside_the_vocabulary_fail_and_the_next_batch_does_not(encoder):
    batch = random_batch(LENGTHS, 5)
    batch.ids[0, 0] = VOCABULARY
    with pytest.raises(RuntimeError, match="the encoder failed on host: "):
        encoder.run(batch)
    batch.ids[0, 0] = 1
    assert encoder.run(batch).shape == (*batch.ids.shape, SIZE)


def test_a_fault_that_stays_is_a_lost_device(encoder, monkeypatch):
    monkeypatch.setattr(
        encoder._encoder_inputs, "send", fails(DeviceError("CUDA: an illegal memory access was met"))
    )
    with pytest.raises(DeviceLost, match="host: CUDA: an illegal memory access"):
        encoder.run(random_batch(LENGTHS, 6))


def test_nothing_runs_while_another_thread_captures(encoder, monkeypatch):
    """The gate is held by whoever takes memory or waits: no capture is granted in the middle of a run."""
    granted = []
    send = encoder._encoder_inputs.send

    def watched(batch):
        with CAPTURE_LOCK.try_capture() as granted_lock:
            granted.append(granted_lock)
        return send(batch)

    monkeypatch.setattr(encoder._encoder_inputs, "send", watched)
    encoder.run(random_batch(LENGTHS, 7))
    with CAPTURE_LOCK.try_capture() as capture_lock:
        granted.append(capture_lock)
    assert granted == [False, True]


def test_it_is_closed_twice(encoder):
    encoder.close()
    encoder.close()
    with pytest.raises(AttributeError):
        encoder.run(random_batch(LENGTHS, 1))


def test_a_model_that_gives_no_floats_is_refused(tmp_path):
    with pytest.raises(
        ModelError, match=r"its output last_hidden_state is of type tensor\(int64\); here tensor\(float\), "
    ):
        on_host(write_encoder(tmp_path, element_type="i64"))


def test_a_model_that_does_not_run_is_refused(tmp_path, monkeypatch):
    path = write_encoder(tmp_path)
    monkeypatch.setattr(EncoderInputs, "send", fails(DeviceError("cannot allocate GPU memory")))
    with pytest.raises(ModelError, match=r"model\.onnx does not run on host: cannot allocate"):
        on_host(path)
    monkeypatch.setattr(EncoderInputs, "send", fails(DeviceError("hardware stack error")))
    with pytest.raises(DeviceLost):
        on_host(path)


def test_without_cuda_the_error_says_what_to_install(tmp_path):
    with pytest.raises(ModelError, match=r"cuda:0: this onnxruntime has no CUDAExecutionProvider; install"):
        open_encoder(write_encoder(tmp_path), EncoderSettings("cuda:0"))


@pytest.mark.parametrize("setting", [{"precision": "f16"}, {"threads": 2}])
def test_settings_that_a_gpu_does_not_have_are_refused(tmp_path, setting):
    with pytest.raises(ModelError, match=f"device cuda has no {next(iter(setting))}"):
        open_encoder(write_encoder(tmp_path), EncoderSettings("cuda", **setting))


def test_the_gpu_of_the_line_is_started(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(encoders, "require_provider", lambda device: None)
    monkeypatch.setattr(
        encoders, "start_device", lambda number: started.append(number) or (HostDevice(), HostRuntime())
    )
    for device in ("cuda", "cuda:1"):
        open_encoder(write_encoder(tmp_path), EncoderSettings(device))
    assert started == [0, 1]


def test_files_are_opened_without_graphs_on_the_devices_stream(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        provider, "open_session", lambda *given, **named: seen.append((given, named)) or "a session"
    )
    path = write_encoder(tmp_path)
    assert CudaRuntime(1, 0x7F00).open_file(path) == "a session"
    ((model, folder, ((cuda, options), cpu)), _) = seen[0]
    assert (model, folder, cuda, cpu) == (path.read_bytes(), tmp_path, "CUDAExecutionProvider", CPU)
    assert (options["user_compute_stream"], options["enable_cuda_graph"]) == (str(0x7F00), "0")


def test_a_file_that_cannot_be_opened_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(provider, "open_session", lambda *_, **__: fails(ModelError("no protobuf"))())
    with pytest.raises(ModelError, match=r"model\.onnx: no protobuf"):
        CudaRuntime(0, 0).open_file(write_encoder(tmp_path))
