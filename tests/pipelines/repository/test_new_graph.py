"""Exported folders recognised, and the graph that is made for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from graphs.check import check
from pipelines.nodes import VOCABULARY
from pipelines.repository.files.report import notes_of
from pipelines.repository.new_graph import new_graph, recognise
from pipelines.values.tasks import TASKS

BASE = ("openvino_model.xml", "openvino_model.bin", "tokenizer.json")


def exported(folder: Path, *names: str, architecture: str | None = "LlamaForCausalLM", **texts: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or BASE:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    config = {} if architecture is None else {"architectures": [architecture]}
    (folder / "config.json").write_text(json.dumps(config))
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def lines(folder: Path) -> dict[str, str]:
    pairs = (line.strip().split(": ", 1) for line in new_graph(folder).splitlines() if ": " in line)
    return {pair[0]: pair[1] for pair in pairs}


def test_an_openvino_export(tmp_path):
    assert recognise(exported(tmp_path)) == "openvino"


def test_an_onnx_export(tmp_path):
    assert recognise(exported(tmp_path, "model.onnx", "tokenizer.json")) == "onnx"


def test_an_onnx_export_with_its_graphs_apart(tmp_path):
    exported(tmp_path, "tokenizer.json")
    exported(tmp_path / "onnx", "model.onnx")
    (tmp_path / "onnx" / "config.json").unlink()
    assert recognise(tmp_path) == "onnx"
    assert "path: onnx/model.onnx" in lines(tmp_path)["logits"]


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ('{"model": {"decoder": {}}}', "onnx"),
        ('{"model": {"decoder": {}, "encoder": {}}}', None),
        ('{"model": 3}', None),
        ("", None),
    ],
)
def test_an_export_that_onnxruntime_genai_made(config, kind, tmp_path):
    exported(tmp_path, "model.onnx", "tokenizer.json", genai_config__json=config)
    (tmp_path / "config.json").unlink()
    assert recognise(tmp_path) == kind


def test_openvino_is_preferred(tmp_path):
    assert recognise(exported(tmp_path, *BASE, "model.onnx")) == "openvino"


def test_an_export_in_the_subfolder_model(tmp_path):
    exported(tmp_path / "model")
    assert recognise(tmp_path) == "openvino"


@pytest.mark.parametrize("missing", ["openvino_model.xml", "tokenizer.json", "config.json"])
def test_an_export_without_one_of_its_files(missing, tmp_path):
    (exported(tmp_path) / missing).unlink()
    assert recognise(tmp_path) is None


def test_an_encoder_is_not_taken_for_a_model_that_generates(tmp_path):
    assert recognise(exported(tmp_path, architecture="BertModel")) is None


@pytest.mark.parametrize(
    "architecture", ["Qwen3ForCausalLM", "GPT2LMHeadModel", "Gemma3ForConditionalGeneration", None]
)
def test_architectures_that_generate(architecture, tmp_path):
    assert recognise(exported(tmp_path, architecture=architecture)) == "openvino"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"architectures": 3}', "\xff"])
def test_a_config_that_says_nothing(text, tmp_path):
    exported(tmp_path)
    (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
    assert recognise(tmp_path) == "openvino"


def test_a_missing_folder(tmp_path):
    assert recognise(tmp_path / "none") is None


def test_no_graph_without_an_export(tmp_path):
    with pytest.raises(
        ValueError, match=r"openvino_model.xml or model.onnx or onnx/model.onnx with tokenizer.json"
    ):
        new_graph(tmp_path)


def gliner_folder(folder, file="model.onnx", **settings):
    for name in (file, "tokenizer.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    (folder / "gliner_config.json").write_text(json.dumps({"span_mode": "markerV0", **settings}))
    return folder


@pytest.mark.parametrize("file", ["model.onnx", "onnx/model_quantized.onnx"])
def test_gliner_finds_entities(tmp_path, file):
    """Its tokenizer and, in some folders, its config.json look like those of another encoder."""
    folder = gliner_folder(tmp_path, file)
    (folder / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 512}')
    assert recognise(folder) == "onnx"
    graph = yaml.safe_load(new_graph(folder))
    assert graph["task"] == "entities"
    assert graph["nodes"]["marked"]["max_tokens"] == 512
    assert graph["nodes"]["entities"]["body"]["logits"]["path"] == file


def test_gliner_of_several_files(tmp_path):
    folder = gliner_folder(tmp_path, "onnx/model_int8.onnx")
    (folder / "onnx/model_fp16.onnx").write_text("")
    with pytest.raises(ValueError, match="holds several models: onnx/model_fp16.onnx, onnx/model_int8.onnx"):
        new_graph(folder)
    (folder / "onnx/model.onnx").write_text("")
    assert "path: onnx/model.onnx" in new_graph(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match="tokenizer.json is missing"):
        new_graph(folder)


def test_without_a_chat_template_the_task_is_completion(tmp_path):
    graph = lines(exported(tmp_path))
    assert graph["task"] == "completion"
    assert "from: request.prompts" in graph["tokens"]
    assert "reply" not in graph


def test_a_template_file_makes_it_chat(tmp_path):
    graph = lines(exported(tmp_path, chat_template__jinja="{{ messages }}"))
    assert graph["task"] == "chat"
    assert "template: chat_template.jinja" in graph["prompt"]
    assert graph["reply"] == "{type: parse_reply, from: text}"


def test_a_template_in_the_tokenizer_s_config(tmp_path):
    graph = lines(exported(tmp_path, tokenizer_config__json='{"chat_template": "{{ messages }}"}'))
    assert "template: tokenizer_config.json" in graph["prompt"]


CALLS = (
    "{% for m in messages %}{{ m.content }}{% for call in m.tool_calls or [] %}"
    """{{ '<tool_call>{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments | tojson }}"""
    "{{ '}</tool_call>' }}{% endfor %}{% endfor %}"
)
THINKS = "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>{% endif %}"
PLAIN = "{% for m in messages %}{{ m.content }}{% endfor %}"


def test_a_default_among_named_templates(tmp_path):
    named = json.dumps({"chat_template": [{"name": "default", "template": CALLS}]})
    assert "tools: hermes" in lines(exported(tmp_path, tokenizer_config__json=named))["reply"]


def test_a_template_for_tools_tells_how_calls_are_written(tmp_path):
    named = [{"name": "default", "template": PLAIN}, {"name": "tool_use", "template": CALLS}]
    listed = exported(tmp_path / "1", tokenizer_config__json=json.dumps({"chat_template": named}))
    beside = exported(tmp_path / "2", chat_template__jinja=PLAIN)
    exported(beside / "additional_chat_templates", tool_use__jinja=CALLS)
    for folder in (listed, beside):
        assert "tools: hermes" in lines(folder)["reply"]


def test_named_templates_without_a_default(tmp_path):
    named = '{"chat_template": [{"name": "rag", "template": "x"}]}'
    assert lines(exported(tmp_path, tokenizer_config__json=named))["task"] == "completion"


def test_a_file_goes_before_the_tokenizer_s_config(tmp_path):
    both = {"chat_template__jinja": PLAIN, "tokenizer_config__json": json.dumps({"chat_template": THINKS})}
    assert lines(exported(tmp_path, **both))["reply"] == "{type: parse_reply, from: text}"


@pytest.mark.parametrize(
    ("template", "settings"),
    [
        (PLAIN, ""),
        (CALLS, ", tools: hermes"),
        (THINKS, ", reasoning: qwen3"),
        (CALLS.replace("tool_call>", "longcat_tool_call>"), ", tools: longcat"),
        ("{# <tool_call></tool_call> <think></think> #}" + PLAIN, ""),
    ],
)
def test_parsers_are_those_that_read_what_the_template_writes(template, settings, tmp_path):
    reply = lines(exported(tmp_path, chat_template__jinja=template))["reply"]
    assert reply == f"{{type: parse_reply, from: text{settings}}}"


def test_a_format_that_no_parser_reads_is_noted(tmp_path):
    exported(tmp_path, chat_template__jinja=CALLS.replace("tool_call>", "unheard_of>"))
    (note,) = notes_of(new_graph(tmp_path))
    assert "no parser of tool calls reads what the chat template writes, '<unheard_of>" in note
    check(new_graph(tmp_path), VOCABULARY, TASKS, tmp_path)


def test_sampling_defaults_are_named_when_they_are_there(tmp_path):
    assert lines(exported(tmp_path, generation_config__json="{}"))["next"].endswith(
        "defaults: generation_config.json}"
    )


def test_sampling_defaults_are_left_out_when_they_are_not(tmp_path):
    assert lines(exported(tmp_path))["next"] == "{type: sampler, from: allowed}"


def test_outputs_can_be_kept_to_grammars(tmp_path):
    assert lines(exported(tmp_path))["allowed"] == "{type: grammar, from: logits, tokenizer: tokenizer.json}"


def test_paths_in_the_subfolder(tmp_path):
    exported(tmp_path / "model", chat_template__jinja="x", generation_config__json="{}")
    text = new_graph(tmp_path)
    assert text.count("model/") == 6


@pytest.mark.parametrize("kind", ["openvino_model.xml", "model.onnx", "onnx/model.onnx"])
@pytest.mark.parametrize("place", [".", "model"])
@pytest.mark.parametrize("template", ["", CALLS])
def test_the_graph_has_no_problems(kind, place, template, tmp_path):
    exported(tmp_path / place, kind, "tokenizer.json", "generation_config.json")
    if template:
        (tmp_path / place / "chat_template.jinja").write_text(template)
    graph = check(new_graph(tmp_path), VOCABULARY, TASKS, tmp_path)
    assert graph.task == ("chat" if template else "completion")


@pytest.mark.parametrize("file", ["openvino_model.xml", "model.onnx"])
def test_a_draft_beside_the_model_drafts_and_else_a_lookup(tmp_path, file):
    exported(tmp_path / "model")
    assert lines(tmp_path)["found"] == "{type: lookup, from: step}"
    assert "from: found" in lines(tmp_path)["logits"]
    (tmp_path / "draft").mkdir()
    (tmp_path / "draft" / file).touch()
    assert lines(tmp_path)["drafted"] == f"{{type: draft, from: step, path: draft/{file}, device: cpu}}"
    assert "from: drafted" in lines(tmp_path)["logits"]
    assert "found" not in lines(tmp_path)
    check(new_graph(tmp_path), VOCABULARY, TASKS, tmp_path)
