"""`braid export` of vision models: the folder that Braid serves, or a sentence."""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings

import pytest
from click.testing import CliRunner

from tools.export.__main__ import main

HAS_EXPORT = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "optimum"))
pytestmark = pytest.mark.skipif(not HAS_EXPORT, reason="needs the extras export and optimum")
TOWERS = {"llava": "clip_vision_model", "qwen2_vl": "qwen2_vl"}


@pytest.fixture(autouse=True)
def _third_party_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def export(source, models, *options):
    options = ("--name", "m", "--models", str(models), "--no-first-run", *options)
    return CliRunner().invoke(main, [str(source), *options])


@pytest.fixture(scope="module")
def llava(tmp_path_factory):
    """Hugging Face's folder of a tiny LLaVA."""
    from tiny_llava import llava_model, processor
    from tiny_vision import write_source

    folder = tmp_path_factory.mktemp("llava")
    write_source(llava_model(), folder, [processor()])
    return folder


@pytest.mark.breadth
@pytest.mark.parametrize("family", ["llava", "gemma3", "idefics3", "qwen2_vl", "qwen2_5_vl"])
def test_a_model_that_sees_is_written_whole_and_equals_transformers(family, tmp_path):
    source, weights = write_family(family, tmp_path / "source"), WEIGHTS.get(family, "fp32")
    result = export(source, tmp_path / "models", "--weights", weights)
    assert result.exit_code == 0, result.output
    exported = tmp_path / "models" / "m"
    graph = (exported / "graph.yaml").read_text()
    assert "path: model/openvino_vision_embeddings_model.xml" in graph
    assert "settings: model/preprocessor_config.json" in graph
    assert "template: model/chat_template.jinja" in graph
    table = exported / "model" / "openvino_text_embeddings_model.bin"
    assert table.stat().st_size == pytest.approx(320 * 64 * BYTES[weights], rel=0.1)


WEIGHTS = {"llava": "int4", "gemma3": "int8", "qwen2_vl": "fp16"}
BYTES = {"int4": 1, "int8": 1, "fp16": 2, "fp32": 4}


def write_family(family, folder):
    import tiny_gemma3
    import tiny_idefics3
    import tiny_llava
    import tiny_qwen_vl
    from tiny_vision import write_source

    if family in tiny_qwen_vl.FAMILIES:
        processor = tiny_qwen_vl.qwen_processor()
        parts = [processor.tokenizer, processor.image_processor]
        write_source(tiny_qwen_vl.qwen_model(family), folder, parts)
    else:
        module = {"llava": tiny_llava, "gemma3": tiny_gemma3, "idefics3": tiny_idefics3}[family]
        write_source(getattr(module, f"{family}_model")(), folder, [module.processor()])
    return folder


@pytest.mark.breadth
def test_an_image_that_is_read_in_another_way_is_found_before_the_folder_is_written(
    llava, tmp_path, monkeypatch
):
    from pipelines.nodes.images.llava import Llava

    read = Llava.read
    monkeypatch.setattr(Llava, "read", lambda family, image: read(family, image.rotate(180)))
    result = export(llava, tmp_path / "models", "--weights", "fp32")
    assert result.exit_code == 1
    assert "the exported model parts from transformers at token" in result.output
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--format", "onnx"), "a vision model is served from OpenVINO IR alone; --task text exports"),
        (("--weights", "bf16"), "openvino takes int8, int4, fp16, fp32"),
        (("--activations", "int8"), "it does not go with a vision model"),
    ],
)
def test_options_that_it_has_not_are_refused(config_alone, options, words):
    result = export(config_alone, config_alone / "models", *options)
    assert result.exit_code
    assert words in " ".join(result.output.replace("│", " ").split())


@pytest.fixture
def config_alone(tmp_path):
    """A folder with the config.json of a LLaVA."""
    config = {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "vision_config": {"model_type": "clip_vision_model"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def test_without_optimum_intel_it_says_what_to_install(config_alone, monkeypatch):
    monkeypatch.setitem(sys.modules, "optimum.exporters.openvino", None)
    result = export(config_alone, config_alone / "models")
    assert result.exit_code == 1
    assert "pip install -c constraints.txt -e '.[export,optimum]'" in result.output
    assert "--task text exports its language model alone, which reads text" in result.output


def test_a_vision_model_that_is_not_served_is_refused_before_anything_is_computed(config_alone):
    config = json.loads((config_alone / "config.json").read_text())
    (config_alone / "config.json").write_text(
        json.dumps({**config, "vision_config": {"model_type": "pixtral"}})
    )
    result = export(config_alone, config_alone / "models")
    assert result.exit_code == 1
    assert "a vision model of type pixtral is not served; those of type clip_vision_model" in result.output


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"model_type": "qwen3_vl", "vision_config": {"model_type": "qwen3_vl"}},
            "qwen3_vl needs optimum-intel 2.2, and 1.27.0 is installed",
        ),
        (
            {
                "model_type": "internvl_chat",
                "architectures": ["InternVLChatModel"],
                "auto_map": {"AutoModel": "x.Y"},
            },
            "--trust-remote-code does, and Braid serves the folder",
        ),
    ],
)
def test_what_this_optimum_intel_or_no_export_of_braid_writes_is_refused_with_what_does(
    config_alone, changes, words, monkeypatch
):
    from tools.export.decoders import openvino_decoder
    from tools.export.vision import export_vision

    monkeypatch.setattr(openvino_decoder, "import_optimum", lambda: None)
    monkeypatch.setattr(export_vision, "version", lambda _: "1.27.0")
    config = json.loads((config_alone / "config.json").read_text())
    (config_alone / "config.json").write_text(json.dumps(config | changes))
    result = export(config_alone, config_alone / "models")
    assert result.exit_code == 1
    assert words in result.output


def test_the_language_model_alone_is_exported_where_that_is_asked(config_alone, monkeypatch):
    from tools.export.decoders import decoder

    asked = []
    monkeypatch.setattr(decoder, "export_decoder", lambda *given: asked.append(given[0]))
    export(config_alone, config_alone / "models", "--task", "text")
    assert asked == [str(config_alone)]
