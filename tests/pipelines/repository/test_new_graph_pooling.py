"""The graphs of exported models that read whole texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from graphs.check import check
from pipelines.nodes import VOCABULARY
from pipelines.repository.new_graph import new_graph, recognise
from pipelines.values.tasks import TASKS

BERT = {"architectures": ["BertModel"], "model_type": "bert", "vocab_size": 99}
QWEN3 = {"architectures": ["Qwen3Model"], "model_type": "qwen3", "vocab_size": 99, "num_key_value_heads": 2}
LABELS = {"id2label": {"0": "bad", "1": "good"}}
SENTENCES = "sentence_transformers.models."

MINILM = """\
# Made by `braid new-graph` from the files of this folder; edit it as needed.
version: 1
task: embed
nodes:
  tokens: {type: tokenize, from: request.prompts, tokenizer: tokenizer.json, strip: true}
  embeddings:
    type: batcher
    from: tokens
    max_tokens: 256  # of one text
    body:
      hidden: {type: encoder, from: batch, path: openvino/openvino_model.xml, device: cpu}
      pooled: {type: pool, from: hidden, how: mean}
      unit: {type: normalize, from: pooled}
"""
EVERYTHING = """\
# Made by `braid new-graph` from the files of this folder; edit it as needed.
version: 1
task: embed
nodes:
  prompt: {type: chat_template, from: request, template: model/chat_template.jinja}
  prefixed: {type: add_prompt, from: prompt, prompts: model/config_sentence_transformers.json}
  tokens: {type: tokenize, from: prefixed, tokenizer: model/tokenizer.json, strip: true, lowercase: true}
  embeddings:
    type: batcher
    from: tokens
    body:
      hidden: {type: encoder, from: batch, path: model/model.onnx, device: cpu}
      pooled: {type: pool, from: hidden, how: last}
      wide: {type: dense, from: pooled, path: model/2_Dense}
      wide_2: {type: dense, from: wide, path: model/3_Dense}
      unit: {type: normalize, from: wide_2}
  vectors: {type: matryoshka, from: embeddings, dimensions: [16, 32]}
"""
CLASSIFIER = """\
# Made by `braid new-graph` from the files of this folder; edit it as needed.
version: 1
task: classify
nodes:
  tokens: {type: tokenize, from: request.prompts, tokenizer: tokenizer.json}
  outputs:
    type: batcher
    from: tokens
    body:
      logits: {type: encoder, from: batch, path: openvino_model.xml, device: cpu}
      probabilities: {type: softmax, from: logits}
  classes: {type: label, from: outputs, labels: config.json}
"""
RERANKER = """\
# Made by `braid new-graph` from the files of this folder; edit it as needed.
version: 1
task: rerank
nodes:
  pairs: {type: tokenize_pairs, from: request, tokenizer: tokenizer.json, template: score_template.jinja}
  scores:
    type: batcher
    from: pairs
    body:
      hidden: {type: encoder, from: batch, path: openvino_model.xml, device: cpu}
      pooled: {type: pool, from: hidden, how: last}
      logits: {type: dense, from: pooled, path: score}
      score: {type: sigmoid, from: logits}
  ranking: {type: rank, from: {scores: scores, pairs: pairs}}
"""


def exported(folder: Path, config: dict[str, Any], model: str = "openvino_model.xml", **files: Any) -> Path:
    """A folder of an export; `__` in a file's name is a dot, and `___` a slash."""
    texts = {"config.json": config, "tokenizer.json": {}, model: "", **files}
    for name, content in texts.items():
        file = folder / name.replace("___", "/").replace("__", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def modules(*kinds: str) -> list[dict[str, Any]]:
    paths = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds, 1))]
    named = zip(("Transformer", *kinds), paths, strict=True)
    return [{"type": SENTENCES + kind, "path": path} for kind, path in named]


def body(folder: Path) -> list[str]:
    """The lines of the batcher's body."""
    return [
        line.strip() for line in new_graph(folder).split("    body:\n")[1].splitlines() if line[:6] == " " * 6
    ]


def test_a_folder_of_sentence_transformers_as_it_is(tmp_path):
    files = {
        "modules__json": modules("Pooling", "Normalize"),
        "1_Pooling___config__json": {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True},
        "sentence_bert_config__json": {"max_seq_length": 256},
        "config_sentence_transformers__json": {"prompts": {}},
    }
    exported(tmp_path, BERT, "openvino/openvino_model.xml", **files)
    assert recognise(tmp_path) == "openvino"
    assert new_graph(tmp_path) == MINILM
    check(MINILM, VOCABULARY, TASKS, tmp_path)


def test_prompts_a_template_dense_layers_and_dimensions(tmp_path):
    files = {
        "modules__json": modules("Pooling", "Dense", "Dense", "Normalize"),
        "sentence_bert_config__json": {"do_lower_case": True},
        "1_Pooling___config__json": {"pooling_mode_lasttoken": True},
        "2_Dense___config__json": {},
        "3_Dense___config__json": {},
        "config_sentence_transformers__json": {"prompts": {"query": "query: "}},
        "chat_template__jinja": "x",
    }
    config = QWEN3 | {"architectures": ["Qwen3ForCausalLM"], "matryoshka_dimensions": [16, 32]}
    exported(tmp_path / "model", config, "model.onnx", **files)
    assert recognise(tmp_path) == "onnx"
    assert new_graph(tmp_path) == EVERYTHING


def test_prompts_without_a_template_stand_before_the_request_s(tmp_path):
    prompts = {"config_sentence_transformers__json": {"prompts": {"query": "query: "}}}
    text = new_graph(exported(tmp_path, BERT, **prompts))
    assert "prefixed: {type: add_prompt, from: request.prompts, prompts: config_sent" in text
    check(text, VOCABULARY, TASKS, tmp_path)


def test_a_classifier(tmp_path):
    exported(tmp_path, BERT | LABELS | {"architectures": ["BertForSequenceClassification"]})
    assert new_graph(tmp_path) == CLASSIFIER
    check(CLASSIFIER, VOCABULARY, TASKS, tmp_path)


def test_a_reranker_of_a_decoder_that_asks_with_a_template(tmp_path):
    config = QWEN3 | {"architectures": ["Qwen3ForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
    exported(tmp_path, config, score_template__jinja="x", score___config__json={})
    assert new_graph(tmp_path) == RERANKER


def test_a_reranker_with_a_prompt_for_queries(tmp_path):
    """The default prompt of config_sentence_transformers.json; a template gets it as its instruction."""
    config = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
    prompts = {"default_prompt_name": "web", "prompts": {"web": "from: the  # web: ", "other": "x"}}
    exported(tmp_path, config, config_sentence_transformers__json=prompts)
    pairs = yaml.safe_load(new_graph(tmp_path))["nodes"]["pairs"]
    assert pairs["query_prompt"] == "from: the  # web: "
    assert pairs["from"] == "request"
    prompts["default_prompt_name"] = None
    exported(tmp_path, config, config_sentence_transformers__json=prompts)
    assert "query_prompt" not in new_graph(tmp_path)


@pytest.mark.parametrize(
    ("config", "last"),
    [
        ({}, "probabilities: {type: softmax, from: logits}"),
        (
            LABELS | {"problem_type": "multi_label_classification"},
            "probabilities: {type: sigmoid, from: logits}",
        ),
        ({"id2label": {"0": "x"}}, "score: {type: sigmoid, from: logits}"),
        ({"id2label": {"0": "x"}, "problem_type": "regression"}, "logits: "),
        ({"id2label": {"0": "x"}, "sbert_ce_default_activation_function": "torch.nn.Identity"}, "logits: "),
        (
            {"id2label": {"0": "x"}, "sentence_transformers": {"activation_fn": "torch.nn.Identity"}},
            "logits: ",
        ),
    ],
)
def test_probabilities_are_what_the_model_was_trained_with(config, last, tmp_path):
    exported(tmp_path, BERT | {"architectures": ["BertForSequenceClassification"]} | config)
    assert body(tmp_path)[-1].startswith(last)


@pytest.mark.parametrize(
    ("config", "how"), [(BERT, "cls"), (QWEN3, "last"), (QWEN3 | {"model_type": "eurobert"}, "cls")]
)
def test_without_modules_the_family_says_how_it_pools(config, how, tmp_path):
    exported(tmp_path, config)
    pooled, unit = body(tmp_path)[1:]
    assert pooled.startswith(f"pooled: {{type: pool, from: hidden, how: {how}}}  # assumed")
    assert unit == "unit: {type: normalize, from: pooled}"


def test_pooling_without_modules(tmp_path):
    exported(tmp_path, BERT, **{"1_Pooling___config__json": {"pooling_mode": "weightedmean"}})
    assert "how: weighted_mean" in body(tmp_path)[1]


@pytest.mark.parametrize("normalize", [True, False])
def test_a_folder_of_openvino_model_server(normalize, tmp_path):
    options = f'models_path: "./" pooling: LAST, normalize_embeddings: {int(normalize)}, target_device: "CPU"'
    message = f"[type.googleapis.com / mediapipe.EmbeddingsCalculatorOVOptions]: {{ {options} }}"
    graph = f'node {{ calculator: "EmbeddingsCalculatorOV" node_options: {{ {message} }} }}'
    exported(tmp_path, QWEN3 | {"architectures": ["Qwen3ForCausalLM"]}, graph__pbtxt=graph)
    assert "how: last" in body(tmp_path)[1]
    assert len(body(tmp_path)) == 2 + normalize


def test_modules_that_do_not_pool_give_vectors_of_tokens(tmp_path):
    exported(tmp_path, BERT, modules__json=modules("Normalize"))
    assert "task: token_embed" in new_graph(tmp_path)
    assert "how: none" in body(tmp_path)[1]
    check(new_graph(tmp_path), VOCABULARY, TASKS, tmp_path)


def test_a_module_that_cannot_be_run_is_named(tmp_path):
    exported(tmp_path, BERT, modules__json=modules("LSTM", "Pooling"))
    with pytest.raises(ValueError, match="has the module LSTM, which Braid cannot run"):
        new_graph(tmp_path)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "in one way: cls, mean"),
        ({}, "it names no mode"),
        ({"pooling_mode": "mean", "include_prompt": False}, "leaves prompts out"),
    ],
)
def test_a_pooling_that_cannot_be_said(settings, why, tmp_path):
    exported(tmp_path, BERT, modules__json=modules("Pooling"), **{"1_Pooling___config__json": settings})
    with pytest.raises(ValueError, match=why):
        new_graph(tmp_path)


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": ["BertForQuestionAnswering"], "vocab_size": 9},
        {"architectures": ["ViTModel"]},
        {"architectures": ["T5Model"], "vocab_size": 9, "is_encoder_decoder": True},
        {"architectures": ["CLIPModel"], "vocab_size": 9, "vision_config": {"a": 1}},
    ],
)
def test_what_does_not_tell_what_it_is_for_is_refused(config, tmp_path):
    exported(tmp_path, config)
    assert recognise(tmp_path) is None
    with pytest.raises(ValueError, match="determines the model.s task"):
        new_graph(tmp_path)


def test_an_encoder_without_its_tokenizer_is_no_model_of_tensors(tmp_path):
    (exported(tmp_path, BERT) / "tokenizer.json").unlink()
    assert recognise(tmp_path) is None
    with pytest.raises(ValueError, match="with tokenizer.json"):
        new_graph(tmp_path)
