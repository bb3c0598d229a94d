"""Exports of models that read whole texts give what transformers gives, and say what they are for."""

from __future__ import annotations

import importlib.util
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hf_folders import add_sentence_modules, write_decoder, write_whole

from graphs.check import check
from pipelines.backends.encoders import EncoderSettings
from pipelines.engine.batch import TokenBatch
from pipelines.new_graph import recognise
from pipelines.nodes import VOCABULARY
from pipelines.nodes.dense import read_weights
from pipelines.nodes.encoder import open_encoder
from pipelines.tasks import TASKS
from tools.export.__main__ import main

HAS_EXPORT = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "optimum"))
pytestmark = [pytest.mark.skipif(not HAS_EXPORT, reason="needs the export extra"), pytest.mark.slow]

ROTARY = {"num_key_value_heads": 1, "head_dim": 16}
LOCAL = {"local_attention": 8, "global_attn_every_n_layers": 2, "reference_compile": False}
WINDOWS = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}
PADDED = {"pad_token_id": 1, "max_position_embeddings": 130}
DISTIL = {"dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 2, "hidden_size": 64}
FAMILIES = {
    "bert": {"type_vocab_size": 2},
    "xlm-roberta": PADDED,
    "modernbert": LOCAL | {"pad_token_id": 1, "cls_token_id": 2, "sep_token_id": 3},
    "distilbert": DISTIL,
    "mpnet": PADDED,
    "qwen3": ROTARY,
    "gemma3_text": ROTARY | WINDOWS,
}
CLOSE = {"rtol": 0, "atol": 1e-4}


@pytest.fixture(autouse=True)
def _third_party_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch and transformers warn of themselves while they are imported
        yield


def export(source: Path, models: Path, *options: str, weights: str = "fp32") -> Path:
    """The model's folder."""
    arguments = [str(source), "--name", "m", "--models", str(models), "--weights", weights, *options]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return models / "m"


def refusal(source: Path, models: Path, *options: str) -> str:
    done = CliRunner().invoke(main, [str(source), "--name", "m", "--models", str(models), *options])
    assert done.exit_code == 1
    assert not models.exists() or not list(models.iterdir())
    return done.output


def opened(folder: Path):
    """The encoder of an export, exactly computed."""
    path = next(
        folder / "model" / name
        for name in ("openvino_model.xml", "model.onnx")
        if (folder / "model" / name).exists()
    )
    engine = "onnxruntime" if path.suffix == ".onnx" else None
    return open_encoder(path, EncoderSettings(engine=engine, precision=None if engine else "f32"))


def read(folder: Path):
    """The checked graph of an export."""
    assert recognise(folder) in ("openvino", "onnx")
    return check((folder / "graph.yaml").read_text(), VOCABULARY, TASKS, folder)


def texts(*lengths: int) -> list[list[int]]:
    chance = np.random.default_rng(5)
    return [chance.integers(2, 256, length).tolist() for length in lengths]


def rows(encoder, asked: list[list[int]]) -> list[np.ndarray]:
    """What texts beside one another give, of each its own tokens alone."""
    ids = np.zeros((len(asked), max(map(len, asked))), np.int64)
    for row, text in zip(ids, asked, strict=True):
        row[: len(text)] = text
    lengths = np.array([len(text) for text in asked])
    values = encoder.run(TokenBatch(ids, lengths, np.zeros_like(ids), np.ones(len(asked), bool)))
    return [row[: len(text)] if encoder.per_token else row for text, row in zip(asked, values, strict=True)]


def of_transformers(source: Path, kind: str, field: str, asked: list[list[int]]) -> list[np.ndarray]:
    """What each text alone gives."""
    import torch
    import transformers

    model = getattr(transformers, kind).from_pretrained(source).eval()
    with torch.no_grad():
        return [getattr(model(torch.tensor([text])), field)[0].numpy() for text in asked]


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.parametrize(
    ("family", "form"),
    [
        *((family, "openvino") for family in FAMILIES),
        ("bert", "onnx"),
        ("modernbert", "onnx"),
        ("qwen3", "onnx"),
    ],
)
def test_hidden_states_are_transformers_own(family, form, tmp_path):
    source = write_whole(tmp_path / "source", family, **FAMILIES[family])
    folder = export(source, tmp_path / "models", "--format", form)
    graph = read(folder)
    assert graph.task == "embed"
    asked = texts(5, 31, 1, 12)
    expected = of_transformers(source, "AutoModel", "last_hidden_state", asked)
    for given, wanted in zip(rows(opened(folder), asked), expected, strict=True):
        np.testing.assert_allclose(given, wanted, **CLOSE)


@pytest.mark.parametrize("form", ["openvino", "onnx"])
def test_a_cross_encoder_gives_logits_of_pairs(form, tmp_path):
    kind = "AutoModelForSequenceClassification"
    source = write_whole(tmp_path / "source", "bert", kind, num_labels=1, type_vocab_size=2)
    folder = export(source, tmp_path / "models", "--format", form)
    assert read(folder).task == "rerank"
    asked = texts(4, 17)
    wanted = of_transformers(source, kind, "logits", asked)
    np.testing.assert_allclose(rows(opened(folder), asked), wanted, **CLOSE)


def test_a_decoder_that_classifies_keeps_its_head_beside_it(tmp_path):
    kind = "AutoModelForSequenceClassification"
    source = write_whole(tmp_path / "source", "qwen3", kind, num_labels=3, pad_token_id=0, **ROTARY)
    folder = export(source, tmp_path / "models")
    assert read(folder).task == "classify"
    asked = texts(4, 17)
    weight, bias = read_weights(folder / "model" / "score")
    assert bias is None
    given = [states[-1] @ weight.T for states in rows(opened(folder), asked)]
    np.testing.assert_allclose(given, of_transformers(source, kind, "logits", asked), **CLOSE)


def test_a_decoder_that_answers_yes_or_no_scores(tmp_path):
    source = write_decoder(tmp_path / "source", "qwen3", **ROTARY)
    options = ("--task", "rerank", "--classifier-tokens", "n,y")
    folder = export(source, tmp_path / "models", *options)
    assert read(folder).task == "rerank"
    assert "template: model/score_template.jinja" in (folder / "graph.yaml").read_text()
    asked = texts(4, 17)
    weight, _ = read_weights(folder / "model" / "score")
    given = [(states[-1] @ weight.T).item() for states in rows(opened(folder), asked)]
    vocabulary = json.loads((source / "tokenizer.json").read_text())["model"]["vocab"]
    logits = of_transformers(source, "AutoModelForCausalLM", "logits", asked)
    wanted = [of_text[-1][vocabulary["y"]] - of_text[-1][vocabulary["n"]] for of_text in logits]
    np.testing.assert_allclose(given, wanted, **CLOSE)


def test_the_files_of_sentence_transformers_make_the_graph(tmp_path):
    source = write_whole(tmp_path / "source", "bert", type_vocab_size=2)
    add_sentence_modules(source, "Pooling", "Dense", "Normalize")
    folder = export(source, tmp_path / "models", weights="int8")
    text = (folder / "graph.yaml").read_text()
    for line in ("max_tokens: 100", "how: mean", "path: model/2_Dense", "type: normalize"):
        assert line in text
    assert read(folder).task == "embed"
    weight, bias = read_weights(folder / "model" / "2_Dense")
    assert (weight.shape, bias.shape) == ((16, 64), (16,))
    asked = texts(20, 33)
    expected = of_transformers(source, "AutoModel", "last_hidden_state", asked)
    for given, wanted in zip(rows(opened(folder), asked), expected, strict=True):
        assert cosine(given.mean(0), wanted.mean(0)) > 0.999


def test_vectors_of_tokens_are_not_pooled(tmp_path):
    source = add_sentence_modules(write_whole(tmp_path / "source", "bert"), "Pooling", "Normalize")
    folder = export(source, tmp_path / "models", "--task", "token_embed")
    assert read(folder).task == "token_embed"
    assert "how: none" in (folder / "graph.yaml").read_text()


def test_products_in_int8_stay_close(tmp_path):
    source = write_whole(tmp_path / "source", "bert", type_vocab_size=2)
    folder = export(source, tmp_path / "models", "--activations", "int8", weights="int8")
    asked = texts(20, 33)
    expected = of_transformers(source, "AutoModel", "last_hidden_state", asked)
    for given, wanted in zip(rows(opened(folder), asked), expected, strict=True):
        assert cosine(given.mean(0), wanted.mean(0)) > 0.98


def test_what_cannot_be_exported_says_why(tmp_path):
    source = write_whole(tmp_path / "source", "bert")
    models = tmp_path / "models"
    assert "has no head for --task rerank" in refusal(source, models, "--task", "rerank")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(
        json.dumps(config | {"architectures": ["BertForTokenClassification"]})
    )
    assert "--task says it: text, embed" in refusal(source, models)
    config["architectures"] = ["BertForSequenceClassification"]
    (source / "config.json").write_text(json.dumps(config))
    assert "lacks 2 weights of a BertForSequenceClassification" in refusal(source, models)


def test_answers_are_one_token_each(tmp_path):
    source = write_decoder(tmp_path / "source", "qwen3", **ROTARY)
    said = refusal(source, tmp_path / "models", "--task", "rerank")
    assert "'no' is 2 tokens of this model; --classifier-tokens" in said
