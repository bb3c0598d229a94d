"""Which engine opens which file on which device: each pair that a graph may write is run there, or refused."""

from pathlib import Path

import pytest
from every_case import every_case

from pipelines.inference.backends import open_model
from pipelines.inference.backends.registry import DECODERS, ENCODERS, EXAMPLES, TENSORS, Opener, engine_names
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_contract import EncoderSettings
from pipelines.inference.contracts.tensor_settings import TensorSettings

KINDS = {
    "decoder": (DECODERS, open_model.open_decoder, DecoderSettings),
    "encoder": (ENCODERS, open_model.open_encoder, EncoderSettings),
    "tensors": (TENSORS, open_model.open_tensors, TensorSettings),
}
FILES = ("model.xml", "model.onnx", "model.tflite", "saved_model.pb", "model.fake", "model.gguf")
CASES = [
    (kind, engine, device, file)
    for kind, (openers, _, _) in KINDS.items()
    for engine in (None, *engine_names(openers))
    for device in EXAMPLES.values()
    for file in FILES
]


@pytest.fixture(autouse=True)
def no_file_is_read(monkeypatch):
    monkeypatch.setattr(Opener, "open", lambda opener, path, settings: opener)
    monkeypatch.setattr(open_model, "require_file", lambda path: None)


@every_case(("kind", "engine", "device", "file"), CASES)
def test_a_file_is_opened_by_the_named_engine_on_the_named_device_or_refused(kind, engine, device, file):
    openers, open_file, settings = KINDS[kind]
    able = [each for each in openers if each.opens(Path(file)) and each.runs_on(device)]
    able = [each for each in able if engine in (None, each.engine)]
    if able:
        assert open_file(Path(file), settings(device=device, engine=engine)) in able
    else:
        with pytest.raises(ModelError):
            open_file(Path(file), settings(device=device, engine=engine))


@pytest.mark.parametrize(
    ("kind", "engine", "device", "words"),
    [
        (
            "decoder",
            "onnxruntime",
            "gpu",
            "device gpu is run by openvino, and onnxruntime runs on cpu or cuda:0; change `device`, or remove "
            "`engine: onnxruntime`.",
        ),
        ("decoder", "onnxruntime", "gpu.1", "device gpu.1 is run by openvino, and onnxruntime"),
        (
            "decoder",
            "openvino",
            "cuda:1",
            "device cuda:1 is run by onnxruntime, and openvino runs on cpu or gpu;",
        ),
        (
            "decoder",
            "openvino",
            "fake",
            "device fake is run by an engine without a name, and openvino runs on",
        ),
        ("encoder", "openvino", "cuda:0", "device cuda:0 is run by onnxruntime, and openvino runs on cpu;"),
        (
            "encoder",
            "openvino",
            "gpu",
            "device gpu is not available for models of this kind; they run on cpu or cuda:0.",
        ),
        (
            "tensors",
            "onnxruntime",
            "gpu",
            "device gpu is run by openvino, and onnxruntime runs on cpu or cuda:0;",
        ),
        (
            "tensors",
            None,
            "fake",
            "device fake is not available for models of this kind; they run on cpu or gpu",
        ),
    ],
)
def test_a_refusal_names_what_is_allowed(kind, engine, device, words):
    _, open_file, settings = KINDS[kind]
    with pytest.raises(ModelError) as refused:
        open_file(Path("model.onnx"), settings(device=device, engine=engine))
    assert str(refused.value).startswith(words)


def test_a_file_that_openvino_cannot_run_on_its_gpu_is_not_computed_elsewhere(monkeypatch):
    def unsupported(opener, path, settings):
        if opener.engine == "openvino":
            raise open_model.Unsupported("an operator is missing")
        return opener

    monkeypatch.setattr(Opener, "open", unsupported)
    assert open_model.open_decoder(Path("model.onnx"), DecoderSettings(device="cpu")).engine == "onnxruntime"
    with pytest.raises(ModelError, match="an operator is missing"):
        open_model.open_decoder(Path("model.onnx"), DecoderSettings(device="gpu"))
