"""Each option of a calculator: mapped, noted or refused, with its line."""

import pytest
from graph_texts import CALLS, EMBEDDINGS, LLM, RERANK, export, node

from graphs.errors import GraphError
from graphs.read import read
from pipelines.loading.inspection import inspect
from pipelines.repository.files.report import notes_of
from pipelines.repository.ovms.graph_file import graph_text

PATH = 'models_path: "./"'


def graph(folder, text, architecture="Qwen3ForCausalLM", override=None):
    export(folder, architecture, text)
    made = graph_text(folder / "graph.pbtxt", override=override)
    return read(made).data["nodes"], notes_of(made)


def llm(folder, *options, override=None):
    nodes, notes = graph(folder, node(LLM, PATH, *options), override=override)
    return nodes["generated"], nodes, notes


def problems(folder, text, override=None, architecture="Qwen3ForCausalLM"):
    with pytest.raises(GraphError) as caught:
        graph(folder, text, architecture, override)
    return [(each.line, each.message) for each in caught.value.problems]


def test_the_defaults_of_the_model_server_load(tmp_path):
    scheduler, _, notes = llm(tmp_path / "m")
    assert (scheduler["max_sequences"], scheduler["max_step_tokens"]) == (256, 512)
    assert scheduler["cache"] == {"reuse_prefixes": False}
    assert scheduler["body"]["logits"] == {
        "type": "model", "from": "step", "path": "openvino_model.xml", "device": "cpu",
    }  # fmt: skip
    assert "max_num_batched_tokens is 512, not 256" in notes[0]
    (finding,) = inspect(tmp_path, opens=False)
    assert finding.graph is not None
    assert list(finding.notes) == notes


@pytest.mark.parametrize(
    ("option", "path", "value"),
    [
        ("max_num_batched_tokens: 2048", ("max_step_tokens",), 2048),
        ("max_num_seqs: 16", ("max_sequences",), 16),
        ("max_tokens_limit: 9", ("max_tokens_limit",), 9),
        ("best_of_limit: 5", ("best_of_limit",), 5),
        ("cache_size: 3", ("cache", "memory_gb"), 3),
        ("enable_prefix_caching: true", ("cache", "reuse_prefixes"), True),
        ("enable_prefix_caching: t", ("cache", "reuse_prefixes"), True),
        ("enable_prefix_caching: 1", ("cache", "reuse_prefixes"), True),
        ("enable_prefix_caching: 0", ("cache", "reuse_prefixes"), False),
        ('device: "AUTO"', ("body", "logits", "device"), "cpu"),
        ('device: "GPU.1"', ("body", "logits", "device"), "gpu.1"),
        ("""plugin_config: '{"KV_CACHE_PRECISION": "u8"}'""", ("body", "logits", "kv_cache"), "u8"),
        (
            """plugin_config: '{"INFERENCE_PRECISION_HINT": "bf16"}'""",
            ("body", "logits", "precision"),
            "bf16",
        ),
        ("""plugin_config: '{"INFERENCE_NUM_THREADS": "3"}'""", ("body", "logits", "threads"), 3),
        ("""plugin_config: '{"prompt_lookup": true}'""", ("body", "found", "type"), "lookup"),
        ("""plugin_config: '{"prompt_lookup": true}'""", ("body", "logits", "from"), "found"),
    ],
)
def test_an_option_of_a_language_model_is_a_setting(option, path, value, tmp_path):
    found, _, _ = llm(tmp_path, option)
    for key in path:
        found = found[key]
    assert found == value


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ('tool_parser: "hermes3"', {"tools": "hermes"}),
        ('tool_parser: "devstral"', {"tools": "mistral"}),
        ('reasoning_parser: "gptoss"', {"reasoning": "openai_gptoss", "tools": "hermes"}),
        ('tool_parser: "minicpm5"', {"tools": "minicpm5"}),
        ('tool_parser: "onyx"', {"tools": "muse_glimmer"}),
        ('reasoning_parser: "onyx"', {"reasoning": "muse_glimmer", "tools": "hermes"}),
        ('reasoning_parser: "lfm2"', {"reasoning": "lfm2", "tools": "hermes"}),
        ('tool_parser: "none"', {}),
        ("", {"tools": "hermes"}),
    ],
)
def test_parsers_by_name_or_by_the_template(option, expected, tmp_path):
    export(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(CALLS)
    _, nodes, _ = llm(tmp_path, option)
    assert {
        key: nodes["reply"].get(key) for key in ("tools", "reasoning") if key in nodes["reply"]
    } == expected


def test_a_draft_model(tmp_path):
    export(tmp_path / "m" / "draft one")
    scheduler, _, _ = llm(tmp_path / "m", 'draft_models_path: "draft one"', 'draft_device: "CPU"')
    assert scheduler["body"]["drafted"] == {
        "type": "draft", "from": "step", "path": "draft one/openvino_model.xml", "device": "cpu",
    }  # fmt: skip
    assert scheduler["body"]["logits"]["from"] == "drafted"


@pytest.mark.parametrize(
    "option",
    [
        "dynamic_split_fuse: false",
        "enable_tool_guided_generation: true",
        "cache_eviction_config { start_size: 32 }",
        "sparse_attention_config: { mode: XATTENTION }",
        "cache_interval_multiplier: 8",
        "chat_template_mode: MINJA",
        """plugin_config: '{"NUM_STREAMS": 1}'""",
    ],
)
def test_an_option_that_changes_nothing_is_noted_with_its_line(option, tmp_path):
    *_, notes = llm(tmp_path, "max_num_batched_tokens: 999", option)
    assert [note.startswith("graph.pbtxt:7: ") and "changes nothing here: " in note for note in notes] == [
        True
    ]


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("max_num_seq: 1", "LLMCalculatorOptions has no option `max_num_seq`; did you mean `max_num_seqs`?"),
        ("max_num_seqs: true", "`max_num_seqs` must be a whole number, 0 or more"),
        ("cache_size: -1", "`cache_size` must be a whole number"),
        ("enable_prefix_caching: 2", "`enable_prefix_caching` must be true or false"),
        ("device: CPU", "`device` must be a text in quotes"),
        ("pipeline_type: VLM_CB", "pipeline_type VLM_CB reads images or sound"),
        ("pipeline_type: CB", "`pipeline_type` must be LM or VLM or LM_CB"),
        (
            'device: "NPU"',
            "device NPU: OpenVINO models of this kind run on CPU or GPU here; set BRAID_DEVICE",
        ),
        ('device: "HETERO:GPU,CPU"', "set BRAID_DEVICE"),
        ("draft_eagle3_mode: true", "`draft_eagle3_mode` goes with `draft_models_path`"),
        ('draft_models_path: "none"', "`draft_models_path` none is no folder"),
        ('tool_parser: "opal"', "tool_parser opal is not one that Braid has: hermes3, llama3"),
        ('reasoning_parser: "opal"', "reasoning_parser opal is not one that Braid has: qwen3"),
        ("plugin_config: '{'", "plugin_config is not JSON"),
        ("plugin_config: '[]'", "plugin_config must be a JSON object"),
        ("""plugin_config: '{"MAX_PROMPT_LEN": 9}'""", "MAX_PROMPT_LEN: only NPU"),
        ("""plugin_config: '{"NUM_STREAM": 9}'""", "`NUM_STREAM`, which Braid does not know; did you mean"),
        ("""plugin_config: '{"KV_CACHE_PRECISION": "u2"}'""", "must be one of f32, f16, bf16, u8, i8, u4"),
        ('models_path: "x"', "`models_path` is given twice, first in line 5"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_refused_with_its_line(option, what, tmp_path):
    found = problems(tmp_path, node(LLM, PATH, option))
    assert [line for line, text in found if what in text] == [6]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ("", "`models_path` is required"),
        ('models_path: "../other"', "leads out of the folder"),
        ('models_path: "m.gguf"', "names a GGUF file"),
        ('models_path: "empty"', "lacks openvino_model.xml or openvino/openvino_model.xml or model.onnx"),
    ],
)
def test_where_the_model_is(options, what, tmp_path):
    (tmp_path / "m" / "empty").mkdir(parents=True)
    assert any(what in text for _, text in problems(tmp_path / "m", node(LLM, options)))


def test_another_device_for_all_models_takes_the_place_of_theirs(tmp_path):
    scheduler, _, notes = llm(tmp_path, 'device: "NPU"', override="cpu")
    assert scheduler["body"]["logits"]["device"] == "cpu"
    assert any("device NPU: BRAID_DEVICE is cpu" in note for note in notes)


@pytest.mark.parametrize(
    ("options", "how", "is_unit"),
    [
        ("pooling: LAST # pooling: MEAN", "last", True),
        ("# pooling: MEAN\npooling: CLS", "cls", True),
        ("pooling: MEAN normalize_embeddings: 0", "mean", False),
        ("pooling: MEAN normalize_embeddings: f", "mean", False),
    ],
)
def test_embeddings(options, how, is_unit, tmp_path):
    nodes, _ = graph(tmp_path, node(EMBEDDINGS, PATH, options), "BertModel")
    body = nodes["embeddings"]["body"]
    assert (body["pooled"]["how"], "unit" in body) == (how, is_unit)
    assert "truncate" not in nodes["tokens"]


def test_embeddings_cut_long_texts_where_they_are_told_to(tmp_path):
    nodes, notes = graph(tmp_path, node(EMBEDDINGS, PATH, "truncate: true"), "BertModel")
    assert nodes["tokens"]["truncate"] is True
    assert "no `pooling` here" in notes[0]


def test_rerank(tmp_path):
    text = node(RERANK, PATH, "max_allowed_chunks: 18", "max_position_embeddings: 200")
    nodes, _ = graph(tmp_path, text, "BertForSequenceClassification")
    assert nodes["pairs"]["max_allowed_chunks"] == 18
    assert nodes["scores"]["max_tokens"] == 200


def test_encoders_run_on_cpu(tmp_path):
    text = node(RERANK, PATH, 'target_device: "GPU"')
    found = problems(tmp_path, text, architecture="BertForSequenceClassification")
    assert found == [
        (6, "device GPU: OpenVINO models of this kind run on CPU here; set BRAID_DEVICE (cpu, cuda:0) to run "
         "every model there")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ('node {\n calculator: "ImageGenCalculator" }', 2, "ImageGenCalculator makes images"),
        ('node {\n calculator: "S2tCalculator" }', 2, "S2tCalculator reads speech"),
        ('node {\n calculator: "T2sCalculator" }', 2, "T2sCalculator speaks"),
        ('node {\n calculator: "PythonExecutorCalculator" }', 2, "runs Python of the folder"),
        (
            'node {\n calculator: "OVMSOVCalculator" }',
            2,
            "OVMSOVCalculator is not a calculator that Braid has",
        ),
        ('node {\n calculator: "HttpLLMCalculatr" }', 2, "did you mean `HttpLLMCalculator`?"),
        ("\nnode { }", 2, "a node needs a `calculator`"),
        ("\nnode: 3", 2, "`node` must be a message in braces"),
        ("\nnodes { }", 2, "a graph has no field `nodes`; did you mean `node`?"),
        ("\n\nnode {", 3, "expected `}`, found the end of the file"),
        ("", 1, "the graph has no OpenVINOInferenceCalculator"),
    ],
)
def test_what_is_not_run_is_named_with_its_line(text, line, what, tmp_path):
    found = problems(tmp_path, text)
    assert [each for each, message in found if what in message] == [line]


def test_a_problem_of_the_made_graph_names_the_line_of_its_option(tmp_path):
    export(tmp_path / "m", graph=node(LLM, PATH, "max_num_seqs: 9", "best_of_limit: 1"))
    (finding,) = inspect(tmp_path)
    assert finding.problems == ("m/graph.pbtxt:7: `best_of_limit` must be greater than or equal to 2, not 1",)


def test_options_of_another_type_are_refused(tmp_path):
    text = node(LLM, PATH).replace(f"mediapipe.{LLM}", "mediapipe.SomethingOptions")
    assert (
        4,
        f"options of the type [type.googleapis.com/mediapipe.SomethingOptions]; here belongs mediapipe.{LLM}",
    ) in (problems(tmp_path, text))


def test_two_models_are_two_graphs(tmp_path):
    assert "is a graph of its own" in problems(tmp_path, node(LLM, PATH) + node(LLM, PATH))[0][1]
