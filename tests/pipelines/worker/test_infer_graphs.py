"""Graphs of tensor models checked, drawn, built and made for a folder."""

from __future__ import annotations

import json

import pytest
from tensor_models import CLASSIFIER, DETECTOR, TWO, write_ir, write_one, write_onnx, write_two

from graphs.check import check
from pipelines.base.errors import RequestError
from pipelines.host.models.model import load_for_host
from pipelines.loading.inspection import inspect, schema_text
from pipelines.loading.load import BuildError
from pipelines.nodes import VOCABULARY
from pipelines.repository.model_folders import scan
from pipelines.repository.new_graph import new_graph, recognise
from pipelines.values.tasks import TASKS
from pipelines.worker.build import load_for_worker
from pipelines.worker.required_nodes import check_chat, check_completion


def built(folder):
    (model,) = scan(folder)
    host_model = load_for_host(model)
    host_model.close()
    return host_model


def problem(tmp_path, graph):
    write_two(tmp_path / "two", graph)
    with pytest.raises(BuildError) as caught:
        built(tmp_path)
    (said,) = caught.value.problems
    return said


def test_check_finds_no_problem_and_draw_shows_the_chain(tmp_path):
    (finding,) = inspect(write_two(tmp_path / "two"))
    assert finding.problems == ()
    assert finding.text().startswith("infer: TensorInput → Deferred[Tensors]")
    assert "tensors: found, beside: batch" in finding.text()
    assert '|"tensors"| result__named' in finding.mermaid()


def test_the_schema_says_where_a_tensor_model_stands():
    made = json.loads(schema_text())["$defs"]
    assert "tensor_model" in str(made["body"])
    assert "tensor_model" not in str(made["lines"])
    assert "infer" in str(made["lines"])


def test_a_request_is_asked_for_what_no_line_gives(tmp_path):
    write_two(tmp_path / "two")
    host_model = built(tmp_path)
    assert [str(port) for port in host_model.inputs] == ["float32[?, 4]"]
    assert [port.name for port in host_model.outputs] == ["label"]


def test_without_its_request_beside_it_an_input_has_no_source(tmp_path):
    said = problem(tmp_path, TWO.replace("{tensors: found, beside: batch}", "found"))
    assert said.startswith("graph.yaml:9: named (tensor_model): nothing gives its input `image`, float32[")
    assert said.endswith("; given: boxes, doubled.")


def test_an_output_of_another_shape_is_no_source(tmp_path):
    said = problem(tmp_path, TWO.replace("region: boxes", "region: doubled"))
    assert said.endswith("its input `region` is float32[?, 2], but `found` gives `doubled` as float32[?, 4].")


def test_an_input_that_the_model_lacks(tmp_path):
    assert "no input `regio`; did you mean `region`?" in problem(tmp_path, TWO.replace("region:", "regio:"))


def test_two_lines_may_not_ask_for_two_tensors_of_one_name(tmp_path):
    said = problem(tmp_path, TWO.replace("region: boxes", "region: image"))
    assert said.startswith("graph.yaml:4: result (infer): the request's tensor `image` is float32[?, 4]")
    assert "to the line `found` and float32[?, 2] to the line `named`" in said


def test_a_file_that_is_no_model_names_its_line(tmp_path):
    folder = write_one(tmp_path / "one")
    (folder / "model.onnx").write_text("<html>")
    with pytest.raises(BuildError, match=r"graph.yaml:8: found \(tensor_model\): .*model.onnx"):
        built(tmp_path)


def test_the_server_s_device_replaces_that_of_the_graph(tmp_path):
    write_two(tmp_path / "two", TWO.replace("classifier.xml", "classifier.xml\n        device: gpu"))
    (model,) = scan(tmp_path)
    with pytest.raises(BuildError, match="device gpu: OpenVINO sees only CPU"):
        load_for_host(model)
    load_for_host(model, device="cpu").close()


def test_tensors_are_renamed_and_the_result_is_narrowed(tmp_path):
    graph = TWO.replace("path: detector.onnx,", "path: detector.onnx, outputs: {boxes: region},")
    graph = graph.replace("inputs: {region: boxes}", "outputs: {label: named}")
    write_two(tmp_path / "two", graph.replace("from: request", "from: request\n    outputs: [named]"))
    assert [str(port) for port in built(tmp_path).outputs] == ["float32[?, 6]"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("from: request", "from: request\n    outputs: [labels]", "gives no `labels`; did you mean `label`?"),
        (
            "inputs: {region: boxes}",
            "inputs: {region: boxes}\n        outputs: {x: y}",
            "the model has no output `x`",
        ),
        (
            "path: detector.onnx",
            "path: detector.onnx, outputs: {boxes: doubled}",
            "outputs: two outputs are named `doubled`.",
        ),
    ],
)
def test_outputs_that_are_not_there_are_named(old, new, said, tmp_path):
    assert said in problem(tmp_path, TWO.replace(old, new))


def test_a_model_of_tensors_neither_chats_nor_completes(tmp_path):
    (model,) = scan(write_one(tmp_path / "one"))
    pipeline = load_for_worker(model, 1, 0)
    with pytest.raises(RequestError, match="`one` does not chat"):
        check_chat(pipeline, calls_tools=False)
    with pytest.raises(RequestError, match="does not complete text: its task is infer"):
        check_completion(pipeline)


@pytest.mark.parametrize("name", ["model.onnx", "model.xml", "openvino_model.xml"])
def test_a_model_without_a_tokenizer_is_served_as_it_is(name, tmp_path):
    write = write_onnx if name.endswith(".onnx") else write_ir
    write(tmp_path / "plain" / "1" / name, DETECTOR)
    (model,) = scan(tmp_path)
    assert check(model.graph_text(), VOCABULARY, TASKS, model.path).task == "infer"
    assert [port.name for port in built(tmp_path).outputs] == ["boxes", "doubled"]


def test_a_model_of_text_without_its_tokenizer_is_not_taken_for_one(tmp_path):
    write_onnx(tmp_path / "model.onnx", CLASSIFIER)
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    assert recognise(tmp_path) is None
    with pytest.raises(ValueError, match="nor a tensor model"):
        new_graph(tmp_path)
