"""`braid check` tells which layers the kernels would compute, from the graphs alone."""

from __future__ import annotations

from click.testing import CliRunner
from gguf import GGMLQuantizationType as Type
from gguf_files import EXPERT_INNER, EXPERTS, EXPERTS_USED, Mixture, write_llama_like

from tools import kernel_layers


def sizes(model):
    model.writer.add_expert_count(EXPERTS)
    model.writer.add_expert_used_count(EXPERTS_USED)
    model.writer.add_expert_feed_forward_length(EXPERT_INNER)


def test_a_file_of_another_backend_is_not_read_by_openvino(tmp_path):
    assert kernel_layers.default_engine(tmp_path / "model.onnx") == "openvino"
    assert kernel_layers.default_engine(tmp_path / "model.fixed") is None


def test_linear_layers_and_experts_of_a_file_are_counted(tmp_path, monkeypatch, kernel_folder):
    monkeypatch.setenv("BRAID_KERNELS", str(kernel_folder))
    monkeypatch.setenv("BRAID_CACHE", str(tmp_path / "cache"))
    models = tmp_path / "models"
    models.mkdir()
    write_llama_like(
        models / "mixed.gguf", "qwen3moe", kind=Type.Q8_0, norms=True, feed=Mixture(), more=sizes
    )
    write_llama_like(models / "floats.gguf", kind=Type.F32)
    (models / "bad").mkdir()
    (models / "bad" / "graph.yaml").write_text("task: chat\n")
    result = CliRunner().invoke(kernel_layers.main, [str(models)])
    assert result.exit_code == 0, result.output
    said = dict(line.split(": ", 1) for line in result.output.splitlines())
    assert said.keys() == {"mixed", "floats"}
    assert said["mixed"].startswith("linear layers 5 of 7 by braid kernels"), "two are routers in floats"
    assert said["mixed"].endswith("; layers of experts 2 of 2")
    assert said["floats"] == "linear layers by openvino"
