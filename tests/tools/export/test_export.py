"""The export makes a folder that Braid serves, and says what is wrong in one line."""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hf_folders import TEMPLATE, write_decoder
from rich.console import Console

from tools.export.__main__ import export_model, main
from tools.export.base.folder import ExportError
from tools.export.decoders.openvino_decoder import write_by_optimum

HAS_EXPORT = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "optimum"))
needs_export = pytest.mark.skipif(not HAS_EXPORT, reason="needs the export extra")
SHALLOW = {"num_hidden_layers": 1, "intermediate_size": 1024}


@pytest.fixture(autouse=True)
def _third_party_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch and transformers warn of themselves while they are imported
        yield


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Path:
    """A Hugging Face folder with a random Llama, a byte-level tokenizer and a chat template."""
    folder = tmp_path_factory.mktemp("source") / "llama"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return write_decoder(folder, "llama", **SHALLOW)


def trace_once(patch: pytest.MonkeyPatch) -> None:
    """Later exports of the same model take a copy of its graph."""
    import onnx_ir as ir

    from tools.export.decoders import onnx_decoder

    trace, graphs = onnx_decoder.trace, []

    def copied(model: Any, attention: Any) -> Any:
        if not graphs:
            graphs.append(ir.to_proto(trace(model, attention)))
        return ir.from_proto(graphs[0])

    patch.setattr(onnx_decoder, "trace", copied)


def export(*arguments: str):
    return CliRunner().invoke(main, arguments)


@pytest.fixture(scope="module")
def repository(llama, tmp_path_factory) -> Path:
    """A model repository with the Llama in compressed weights, each named by them; it is traced once."""
    models = tmp_path_factory.mktemp("models")
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        trace_once(patch)
        for weights in ("int8", "int4"):
            result = export(str(llama), "--name", weights, "--models", str(models), "--weights", weights)
            assert result.exit_code == 0, result.output
    return models


@needs_export
@pytest.mark.slow
def test_an_exported_decoder_has_joined_products(repository):
    import onnx_ir as ir

    graph = ir.load(repository / "int8" / "model" / "model.onnx").graph
    names = [node.inputs[1].name or "" for node in graph if node.op_type == "MatMulNBits"]
    kinds = [name.partition("layers.0.")[2].partition(".weight")[0] for name in names if "layers.0." in name]
    assert kinds == ["self_attn.q_proj.and", "self_attn.o_proj", "mlp.gate_proj.and", "mlp.down_proj"]


@needs_export
@pytest.mark.slow
@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_an_export_has_all_that_serving_reads(repository, weights):
    model = repository / weights / "model"
    assert {path.name for path in model.iterdir()} >= {
        "model.onnx",
        "model.onnx.data",
        "tokenizer.json",
        "config.json",
        "generation_config.json",
        "chat_template.jinja",
    }
    assert (model / "chat_template.jinja").read_text() == TEMPLATE
    assert json.loads((model / "config.json").read_text())["max_position_embeddings"] == 128


@needs_export
@pytest.mark.slow
def test_nothing_is_left_beside_the_models(repository):
    assert {path.name for path in repository.iterdir()} == {"int8", "int4"}


@needs_export
@pytest.mark.slow
def test_the_graph_of_an_export_names_its_files(repository):
    graph = yaml.safe_load((repository / "int8" / "graph.yaml").read_text())
    body = graph["nodes"]["generated"]["body"]
    assert graph["task"] == "chat"
    assert graph["nodes"]["prompt"]["template"] == "model/chat_template.jinja"
    assert body["logits"]["path"] == "model/model.onnx"
    assert graph["nodes"]["tokens"]["tokenizer"] == "model/tokenizer.json"


@needs_export
@pytest.mark.slow
def test_compressed_weights_are_smaller(repository, llama):
    fp32 = (llama / "model.safetensors").stat().st_size
    int8, int4 = (
        (repository / weights / "model" / "model.onnx.data").stat().st_size for weights in ("int8", "int4")
    )
    assert fp32 > int8 * 2.5
    assert int8 > int4


@needs_export
@pytest.mark.slow
def test_optimum_intel_exports_what_the_trace_cannot_express(tmp_path):
    source = write_decoder(
        tmp_path / "source", "stablelm", initializer_range=0.1, num_key_value_heads=2, **SHALLOW
    )
    result = export(str(source), "--name", "m", "--models", str(tmp_path / "models"), "--weights", "int8")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "models" / "m" / "model" / "openvino_model.xml").is_file()
    assert "path: model/openvino_model.xml" in (tmp_path / "models" / "m" / "graph.yaml").read_text()


@needs_export
@pytest.mark.slow
def test_a_model_that_neither_way_can_say_is_refused_with_both_reasons(tmp_path):
    source = write_decoder(tmp_path / "source", "olmoe", num_experts=4, num_experts_per_tok=2, **SHALLOW)
    result = export(str(source), "--name", "m", "--models", str(tmp_path / "models"))
    assert result.exit_code == 1
    assert "OlmoeForCausalLM computes attention in its own way" in result.output
    assert "optimum-intel does not know the family" in result.output
    assert not (tmp_path / "models").exists()


@needs_export
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model_type": "brand_new"}, "cannot read"),
        ({"quantization_config": {"quant_method": "hqq"}}, "weights that hqq quantized"),
    ],
)
def test_checkpoints_that_cannot_be_read_are_refused_in_a_sentence(llama, tmp_path, changes, why):
    source = tmp_path / "source"
    shutil.copytree(llama, source)
    settings = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(settings | changes))
    for form in ("auto", "openvino"):
        result = export(str(source), "--name", "m", "--models", str(tmp_path / "models"), "--format", form)
        assert result.exit_code == 1
        assert why in result.output


def test_exporting_again_keeps_a_graph_that_was_changed(tmp_path):
    graph = tmp_path / "tiny" / "graph.yaml"
    graph.parent.mkdir()
    graph.write_text("# mine\n")
    assert export_model(lambda folder, stage: None, graph.parent, Console(file=io.StringIO())) == graph
    assert graph.read_text() == "# mine\n"


@needs_export
@pytest.mark.slow
def test_an_absent_folder_says_what_was_tried(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = export("./no-such-model", "--name", "x", "--models", str(tmp_path))
    assert result.exit_code == 1
    assert f"the folder {Path('no-such-model').resolve()}" in result.output
    assert "as a hub id" in result.output
    assert list(tmp_path.iterdir()) == []


@needs_export
@pytest.mark.slow
def test_a_folder_without_a_tokenizer_is_refused(llama, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("config.json", "model.safetensors"):
        (source / name).write_bytes((llama / name).read_bytes())
    result = export(str(source), "--name", "x", "--models", str(tmp_path / "models"))
    assert result.exit_code == 1
    assert "has no tokenizer that transformers can read: none of tokenizer.json, " in result.output


@needs_export
def test_the_short_factors_of_longrope_alone_are_no_export(llama, tmp_path):
    shutil.copytree(llama, tmp_path / "source")
    config = json.loads((llama / "config.json").read_text())
    config["rope_scaling"] = {"rope_type": "longrope", "original_max_position_embeddings": 64} | {
        name: [1.0] * 16 for name in ("short_factor", "long_factor")
    }
    (tmp_path / "source" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ExportError, match="short factors of longrope alone"):
        write_by_optimum(str(tmp_path / "source"), tmp_path / "model", "fp32", lambda _: None)


@pytest.fixture
def newer(llama, tmp_path) -> Path:
    """The Llama as transformers 5 would have written it."""
    folder = tmp_path / "newer"
    shutil.copytree(llama, folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "TokenizersBackend", "extra_special_tokens": ["<|x|>"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "generation_config.json").write_text('{"eos_token_id": 2, "temperature": 0.6}')
    return folder


@needs_export
@pytest.mark.slow
@pytest.mark.breadth
def test_optimum_intel_exports_what_is_asked_of_it_with_the_defaults_of_transformers_5(newer, tmp_path):
    result = export(str(newer), "--name", "m", "--models", str(tmp_path), "--format", "openvino")
    assert result.exit_code == 0, result.output
    made = tmp_path / "m" / "model"
    assert (made / "openvino_model.xml").is_file()
    assert "path: model/openvino_model.xml" in (tmp_path / "m" / "graph.yaml").read_text()
    assert_defaults(made)


def assert_defaults(made: Path) -> None:
    """Those of `newer`, and its tokenizer."""
    assert (made / "tokenizer.json").is_file()
    assert json.loads((made / "generation_config.json").read_text())["temperature"] == 0.6


@pytest.mark.breadth
@needs_export
@pytest.mark.slow
def test_rotary_positions_of_transformers_5_are_read_by_the_trace_and_refused_for_optimum_intel(
    newer, tmp_path
):
    settings = json.loads((newer / "config.json").read_text())
    settings["rope_parameters"] = {"rope_theta": 5e5, "rope_type": "default"}
    (newer / "config.json").write_text(json.dumps(settings))
    options = ("--name", "m", "--models", str(tmp_path), "--weights", "fp32", "--format")
    result = export(str(newer), *options, "openvino")
    assert result.exit_code == 1
    assert "rope_parameters" in result.output
    assert export(str(newer), *options, "onnx").exit_code == 0
    exported = tmp_path / "m" / "model"
    assert json.loads((exported / "config.json").read_text())["rope_theta"] == 5e5
    assert_defaults(exported)


def test_what_only_the_other_format_takes_is_refused(tmp_path):
    result = export(
        "source", "--name", "x", "--models", str(tmp_path), "--format", "openvino", "--weights", "bf16"
    )
    assert result.exit_code == 2
    assert "openvino takes int8, int4, fp16, fp32" in result.output
    result = export(
        "source", "--name", "x", "--models", str(tmp_path), "--format", "openvino", "--activations", "f16"
    )
    assert result.exit_code == 2
    assert "it goes with --format onnx" in result.output


def test_without_the_extra_the_export_says_what_to_install():
    program = """
import runpy, sys
sys.modules["torch"] = None
sys.argv = ["export", "source", "--name", "tiny"]
runpy.run_module("tools.export", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install -e '.[export]'" in done.stderr
    assert "Traceback" not in done.stderr
