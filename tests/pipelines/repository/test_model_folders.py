import os

import pytest
from fake_decoder import write_fake_model

from graphs.errors import GraphError
from pipelines.repository.files.report import notes_of
from pipelines.repository.model_folders import fingerprint, scan


def exported(folder):
    folder.mkdir(parents=True)
    for name in ("openvino_model.xml", "openvino_model.bin", "tokenizer.json", "config.json"):
        (folder / name).write_text("{}")
    return folder


def test_a_folder_with_a_graph_is_a_model(tmp_path):
    write_fake_model(tmp_path / "tiny")
    (model,) = scan(tmp_path)
    assert (model.name, model.version, model.path) == ("tiny", 1, tmp_path / "tiny")
    assert model.graph_text().startswith("version: 1")


def test_the_highest_version_serves(tmp_path):
    for version in ("2", "10", "9"):
        write_fake_model(tmp_path / "tiny" / version)
    (model,) = scan(tmp_path)
    assert (model.name, model.version, model.path) == ("tiny", 10, tmp_path / "tiny" / "10")


def test_a_version_without_a_model_does_not_count(tmp_path):
    write_fake_model(tmp_path / "tiny" / "1")
    (tmp_path / "tiny" / "2").mkdir()
    assert [model.version for model in scan(tmp_path)] == [1]


TRITON = """
name: "det"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [ { name: "image" data_type: TYPE_FP32 dims: [ 4 ] } ]
instance_group [ { count: 2 kind: KIND_CPU } ]
dynamic_batching { }
"""


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (TRITON, "file; without effect, unlike settings of a graph.yaml: max_batch_size, instance_group, "),
        ('platform: "onnxruntime_onnx"', "inputs and outputs are those of the model's file"),
        ("name {{", "cannot be read: line 1: "),
    ],
    ids=["settings", "none", "broken"],
)
def test_a_folder_of_tritons_says_what_is_not_used(tmp_path, config, said):
    (tmp_path / "det" / "1").mkdir(parents=True)
    (tmp_path / "det" / "1" / "model.onnx").write_bytes(b"")
    (tmp_path / "det" / "config.pbtxt").write_text(config)
    (model,) = scan(tmp_path)
    text = model.graph_text()
    (note,) = notes_of(text)
    assert said in note
    assert ("without effect" in note) == (config != 'platform: "onnxruntime_onnx"')
    assert "path: model.onnx" in text
    (model.path / "graph.yaml").write_text("version: 1")
    assert notes_of(model.graph_text()) == []


def test_a_folder_of_tritons_without_a_known_model_is_refused_by_name(tmp_path):
    (tmp_path / "a" / "py" / "1").mkdir(parents=True)
    (tmp_path / "a" / "py" / "1" / "model.py").write_text("")
    (tmp_path / "a" / "py" / "config.pbtxt").write_text('backend: "python"')
    (model,) = scan(tmp_path)
    assert model.name == "a/py"
    with pytest.raises(GraphError, match=r"a/py/config.pbtxt:1: .*`python`.* put it into a/py/1 as .*onnx"):
        model.graph_text()
    (tmp_path / "a" / "py" / "1" / "model.onnx").write_bytes(b"")
    assert [each.path for each in scan(tmp_path)] == [tmp_path / "a" / "py" / "1"]


def test_names_may_have_parts(tmp_path):
    exported(tmp_path / "OpenVINO" / "Qwen3-8B-int4-ov")
    assert [model.name for model in scan(tmp_path)] == ["OpenVINO/Qwen3-8B-int4-ov"]


def test_an_exported_folder_is_served_by_the_graph_that_would_be_written(tmp_path):
    exported(tmp_path / "plain")
    (model,) = scan(tmp_path)
    assert "type: scheduler" in model.graph_text()


def test_other_folders_are_passed_over(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / ".hidden").mkdir()
    write_fake_model(tmp_path / "_draft")
    assert scan(tmp_path) == []


def test_the_folder_may_itself_be_a_model(tmp_path):
    write_fake_model(tmp_path / "tiny")
    assert [model.name for model in scan(tmp_path / "tiny")] == ["tiny"]


def test_a_missing_repository_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="is neither a folder of models nor a GGUF file"):
        scan(tmp_path / "nowhere")


def test_models_come_in_the_order_of_their_names(tmp_path):
    for name in ("b", "a", "c"):
        write_fake_model(tmp_path / name)
    assert [model.name for model in scan(tmp_path)] == ["a", "b", "c"]


def test_the_fingerprint_follows_every_file(tmp_path):
    folder = write_fake_model(tmp_path / "tiny")
    before = fingerprint(folder)
    assert fingerprint(folder) == before
    os.utime(folder / "fake.json", ns=(1, 1))
    assert fingerprint(folder) != before
