"""Exported folders recognised, and the graph that is made for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphs.check import check
from pipelines.nodes import VOCABULARY
from pipelines.nodes.text.parsers import REASONING, TOOLS
from pipelines.repository.new_graph import new_graph, recognise
from pipelines.repository.template_markers import REASONING_MARKERS, TOOL_MARKERS
from pipelines.tasks import TASKS

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


def test_a_default_among_named_templates(tmp_path):
    named = '{"chat_template": [{"name": "default", "template": "<tool_call>"}]}'
    assert "tools: hermes" in lines(exported(tmp_path, tokenizer_config__json=named))["reply"]


def test_a_template_for_tools_tells_how_calls_are_written(tmp_path):
    named = [{"name": "default", "template": "x"}, {"name": "tool_use", "template": "<tool_call>"}]
    listed = exported(tmp_path / "1", tokenizer_config__json=json.dumps({"chat_template": named}))
    beside = exported(tmp_path / "2", chat_template__jinja="x")
    exported(beside / "additional_chat_templates", tool_use__jinja="<tool_call>")
    for folder in (listed, beside):
        assert "tools: hermes" in lines(folder)["reply"]


def test_named_templates_without_a_default(tmp_path):
    named = '{"chat_template": [{"name": "rag", "template": "x"}]}'
    assert lines(exported(tmp_path, tokenizer_config__json=named))["task"] == "completion"


def test_a_file_goes_before_the_tokenizer_s_config(tmp_path):
    both = {"chat_template__jinja": "x", "tokenizer_config__json": '{"chat_template": "<think>"}'}
    assert lines(exported(tmp_path, **both))["reply"] == "{type: parse_reply, from: text}"


@pytest.mark.parametrize(
    ("template", "settings"),
    [
        ("<tool_call>", ", tools: hermes"),
        ("<think>", ", reasoning: qwen3"),
        ("<think><tool_call>", ", reasoning: qwen3, tools: hermes"),
        ("<think><tool_call><function=f>", ", reasoning: qwen3, tools: qwen3_coder"),
        ("<seed:think><seed:tool_call><function=f>", ", reasoning: seed_oss, tools: seed_oss"),
        ("<think><minimax:tool_call><invoke>", ", reasoning: minimax_m2, tools: minimax_m2"),
        ("<think><tool_call><arg_key>", ", reasoning: glm45, tools: glm45"),
        ("<think><|tool_calls_section_begin|>", ", reasoning: kimi_k2, tools: kimi_k2"),
        ("<｜Assistant｜><think><｜tool▁sep｜>", ", reasoning: deepseek_v3, tools: deepseek_v31"),
        ("</think><｜tool▁sep｜>\n```json", ", reasoning: deepseek_r1, tools: deepseek_v3"),
        ("[THINK][TOOL_CALLS]", ", reasoning: mistral, tools: mistral"),
        ("Here is my thought process:<|tool_call|>", ", reasoning: granite, tools: granite"),
        ("<|channel>thought<|tool_call>", ", reasoning: gemma4, tools: gemma4"),
        ("<|channel|>analysis<|channel|>commentary", ", reasoning: openai_gptoss, tools: openai"),
        ("<start_function_call>", ", tools: functiongemma"),
        ("<|action_start|><|plugin|>", ", tools: internlm"),
        ("<think><function_calls>", ", reasoning: qwen3, tools: olmo3"),
        ("<tool_calls>", ", tools: jamba"),
        ("<think><answer><tool_calls>", ", reasoning: hunyuan_a13b, tools: jamba"),
        ("<longcat_tool_call>", ", tools: longcat"),
        ("<|tool_list_start|>", ", tools: lfm2"),
        ("functools[{", ", tools: phi4_mini_json"),
        ("<|header_start|>[func_name1(a=1)]", ", tools: llama4_pythonic"),
        ("[func_name1(a=1)]", ", tools: pythonic"),
        ('{"name": function name, "parameters": dictionary of argument name and', ", tools: llama3_json"),
    ],
)
def test_parsers_are_chosen_by_the_template(template, settings, tmp_path):
    reply = lines(exported(tmp_path, chat_template__jinja=template))["reply"]
    assert reply == f"{{type: parse_reply, from: text{settings}}}"


def test_every_mark_names_a_parser():
    assert set(TOOL_MARKERS) <= set(TOOLS)
    assert set(REASONING_MARKERS) <= set(REASONING)


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
@pytest.mark.parametrize("template", ["", "{{ messages }}<think><tool_call>"])
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
