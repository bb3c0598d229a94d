"""Exports of models that read whole texts give what transformers gives, and say what they are for.

What cross-encoders, classifiers and decoders give once they are served is looked at in
`tests/pipelines/host/models/test_exported_scorers.py`.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from breadth import after
from click.testing import CliRunner
from hf_folders import add_sentence_modules, write_decoder, write_whole

from graphs.check import check
from pipelines.adapters.linear_names import linear_name
from pipelines.inference.backends.open_model import open_encoder
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import EncoderSettings
from pipelines.nodes import VOCABULARY
from pipelines.nodes.pooling.body.dense import read_weights
from pipelines.nodes.text.templates.jinja_template import Template
from pipelines.repository.exports.sentence_modules import module_lines
from pipelines.repository.new_graph import recognise
from pipelines.values.tasks import TASKS
from tools.export.__main__ import main
from tools.export.base.sentence_files import copy_sentence_files, forget_pooling
from tools.export.choose_export import RERANKER_TEMPLATES

HAS_EXPORT = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "optimum"))
pytestmark = [pytest.mark.skipif(not HAS_EXPORT, reason="needs the export extra"), pytest.mark.slow]

ROTARY = {"num_key_value_heads": 1, "head_dim": 16}
LOCAL = {"local_attention": 8, "global_attn_every_n_layers": 2, "reference_compile": False}
WINDOWS = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}
PADDED = {"pad_token_id": 1, "max_position_embeddings": 130}
DISTIL = {"dim": 64, "hidden_dim": 128, "n_layers": 1, "n_heads": 2, "hidden_size": 64}
SHALLOW = {"num_hidden_layers": 1}
FAMILIES = {
    "bert": {"type_vocab_size": 2} | SHALLOW,
    "modernbert": LOCAL | {"pad_token_id": 1, "cls_token_id": 2, "sep_token_id": 3},
    "distilbert": DISTIL,
    "mpnet": PADDED | SHALLOW,
    "llama": ROTARY | SHALLOW,
    "gemma3_text": ROTARY | WINDOWS,
}
FORMS = [
    ("bert", "openvino"),
    ("llama", "onnx"),
    ("gemma3_text", "openvino"),
    ("bert", "onnx"),
    ("modernbert", "openvino"),
    ("distilbert", "openvino"),
    ("mpnet", "openvino"),
]
CLOSE = {"rtol": 0, "atol": 1e-4}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """The folder of a model of one layer."""
    return write_whole(tmp_path_factory.mktemp("bert") / "source", "bert", **FAMILIES["bert"])


@pytest.fixture(autouse=True)
def _third_party_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch and transformers warn of themselves while they are imported
        yield


@pytest.fixture(autouse=True)
def _no_reports(monkeypatch):
    """Nobody hears that something was exported."""
    ga4 = pytest.importorskip("openvino_telemetry.backend.backend_ga4")
    sent = []
    monkeypatch.setattr(ga4.GA4Backend, "send", lambda backend, message: sent.append(message))
    yield
    assert sent == []


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


def copied(source: Path, to: Path) -> Path:
    return Path(shutil.copytree(source, to))


def opened(folder: Path, engine: str | None = None, targets: frozenset[str] | None = None):
    """The encoder of an export, exactly computed; a model.onnx by ONNX Runtime unless said."""
    path = next(
        folder / "model" / name
        for name in ("openvino_model.xml", "model.onnx")
        if (folder / "model" / name).exists()
    )
    engine = engine or ("onnxruntime" if path.suffix == ".onnx" else "openvino")
    precision = "f32" if engine == "openvino" else None
    return open_encoder(path, EncoderSettings(engine=engine, precision=precision, targets=targets))


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


def products_of_layers(source: Path) -> set[str | None]:
    """The products that an adapter of the model may name."""
    import torch
    import transformers

    modules = transformers.AutoModel.from_pretrained(source).named_modules()
    return {linear_name(name) for name, each in modules if isinstance(each, torch.nn.Linear)} - {None}


def distance(folder: Path, source: Path, engine: str | None = None) -> float:
    """1 less the least cosine of a text's mean vector with that of transformers."""
    asked = texts(20, 33)
    pairs = zip(
        rows(opened(folder, engine), asked),
        of_transformers(source, "AutoModel", "last_hidden_state", asked),
        strict=True,
    )
    means = [(given.mean(0), wanted.mean(0)) for given, wanted in pairs]
    return 1 - min(one @ other / np.linalg.norm(one) / np.linalg.norm(other) for one, other in means)


@pytest.mark.parametrize(("family", "form"), after(1, FORMS))
def test_hidden_states_are_transformers_own(family, form, tmp_path):
    source = write_whole(tmp_path / "source", family, **FAMILIES[family])
    folder = export(source, tmp_path / "models", "--format", form)
    graph = read(folder)
    assert graph.task == "embed"
    asked = texts(5, 31, 1, 12)
    expected = of_transformers(source, "AutoModel", "last_hidden_state", asked)
    for given, wanted in zip(rows(opened(folder), asked), expected, strict=True):
        np.testing.assert_allclose(given, wanted, **CLOSE)
    assert {*opened(folder, targets=frozenset()).linears} == products_of_layers(source)


@pytest.mark.breadth
def test_a_decoder_that_answers_yes_or_no_scores(tmp_path):
    source = write_decoder(tmp_path / "source", "qwen3", **ROTARY | SHALLOW)
    (tmp_path / "asked.jinja").write_text("{{ messages[0].content }}?")
    asks = ("--classifier-tokens", "n,y", "--score-template", str(tmp_path / "asked.jinja"))
    folder = export(source, tmp_path / "models", "--task", "rerank", *asks)
    assert read(folder).task == "rerank"
    assert "template: model/score_template.jinja" in (folder / "graph.yaml").read_text()
    assert (folder / "model" / "score_template.jinja").read_text() == "{{ messages[0].content }}?"
    asked = texts(4, 17)
    weight, _ = read_weights(folder / "model" / "score")
    scores = [(states[-1] @ weight.T).item() for states in rows(opened(folder), asked)]
    vocabulary = json.loads((source / "tokenizer.json").read_text())["model"]["vocab"]
    logits = of_transformers(source, "AutoModelForCausalLM", "logits", asked)
    wanted = [of_text[-1][vocabulary["y"]] - of_text[-1][vocabulary["n"]] for of_text in logits]
    np.testing.assert_allclose(scores, wanted, **CLOSE)


def test_the_files_of_sentence_transformers_make_the_graph(bert, tmp_path):
    source = add_sentence_modules(copied(bert, tmp_path / "source"), "Pooling", "Dense", "Normalize")
    folder = export(source, tmp_path / "models", weights="int8")
    text = (folder / "graph.yaml").read_text()
    for line in ("max_tokens: 100", "how: mean", "path: model/2_Dense", "type: normalize"):
        assert line in text
    assert read(folder).task == "embed"
    weight, bias = read_weights(folder / "model" / "2_Dense")
    assert (weight.shape, bias.shape) == ((16, 64), (16,))
    assert distance(folder, bert) < 1e-3


def test_vectors_of_tokens_are_not_pooled(bert, tmp_path):
    source, made = add_sentence_modules(copied(bert, tmp_path / "source"), "Pooling", "Normalize"), tmp_path
    copy_sentence_files(str(source), made)
    forget_pooling(made)
    assert module_lines(made, "") == [("pooled", "type: pool, how: none"), ("unit", "type: normalize")]


@pytest.mark.parametrize(
    ("weights", "options", "most"),
    after(
        1,
        [
            ("int8", ["--activations", "int8"], 0.02),
            ("int4", [], 0.1),
            ("int8", ["--format", "onnx"], 1e-3),
            ("fp16", [], 1e-5),
            ("fp16", ["--format", "onnx"], 1e-4),
            ("bf16", ["--format", "onnx"], 1e-3),
        ],
    ),
)
def test_weights_of_fewer_bits_stay_close(weights, options, most, bert, tmp_path):
    folder = export(bert, tmp_path / "models", *options, weights=weights)
    assert distance(folder, bert, "openvino") < most


def test_what_cannot_be_exported_says_why(bert, tmp_path):
    source = copied(bert, tmp_path / "source")
    models = tmp_path / "models"
    assert "has no head for --task rerank" in refusal(source, models, "--task", "rerank")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"architectures": ["BertForQuestionAnswering"]}))
    assert "choose it with --task: text, embed" in refusal(source, models)
    config["architectures"] = ["BertForSequenceClassification"]
    (source / "config.json").write_text(json.dumps(config))
    assert "lacks 2 weights of a BertForSequenceClassification" in refusal(source, models)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"architectures": ["NomicBertModel"], "model_type": "nomic_bert"}, "NomicBertModel"),
        ({"architectures": ["JinaBertForMaskedLM"], "model_type": "bert"}, "JinaBertForMaskedLM"),
        ({"architectures": ["NewModel"], "model_type": "new"}, "NewModel"),
        ({"architectures": ["BertModel"], "model_type": "bert"}, "modeling.OwnModel"),
        ({"architectures": ["BertModel"], "model_type": "bert", "is_causal": False}, "BertModel"),
    ],
)
def test_models_of_code_of_their_own_are_refused_with_what_to_do(config, named, tmp_path):
    own = "BertModel" if "is_causal" in config else "OwnModel"
    place = {"auto_map": {"AutoModel": f"maker/code--modeling.{own}"}, "vocab_size": 99}
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "config.json").write_text(json.dumps(config | place))
    said = refusal(tmp_path / "source", tmp_path / "models")
    assert f"{named.rpartition('.')[2]} is code of its repository" in said
    assert "maker/code--modeling.py" in said
    assert "onnx/model.onnx" in said


def test_a_decoder_that_sees_of_another_family_is_no_embedder_of_images(tmp_path):
    config = {"architectures": ["MllamaForConditionalGeneration"], "model_type": "mllama"}
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "config.json").write_text(json.dumps(config | {"vision_config": {"depth": 2}}))
    said = refusal(tmp_path / "source", tmp_path / "models", "--task", "embed")
    assert "MllamaForConditionalGeneration, a vision model: its vectors of images are not exported" in said


def test_answers_go_with_rankings_alone(tmp_path):
    source = write_whole(tmp_path / "source", "bert")
    arguments = [str(source), "--name", "m", "--models", str(tmp_path / "models")]
    done = CliRunner().invoke(main, [*arguments, "--classifier-tokens", "no,yes"])
    assert done.exit_code == 2
    assert "it goes with --task rerank" in done.output


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, "Given a web search query, retrieve relevant passages that answer the query"),
        ({"instruction": "Find proofs"}, "Find proofs"),
    ],
)
def test_qwen3_rerankers_are_asked_as_they_were_taught(given, asked):
    pair = [{"role": "query", "content": "a\nb "}, {"role": "document", "content": " <c>"}]
    text = Template(RERANKER_TEMPLATES["qwen3"].read_text(), {}).render(pair, None, False, False, given)
    assert text == (
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
        'Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
        f"<Instruct>: {asked}\n<Query>: a\nb \n<Document>:  <c><|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )


def test_answers_are_one_token_each(tmp_path):
    source = write_decoder(tmp_path / "source", "qwen3", **ROTARY)
    said = refusal(source, tmp_path / "models", "--task", "rerank")
    assert "'no' is 2 tokens of this model; --classifier-tokens" in said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--activations", "int8", "--weights", "fp32"], "int8 go with weights in int8, not with fp32"),
        (
            ["--format", "onnx", "--weights", "fp16", "--activations", "f32"],
            "fp16 weights are computed in f16",
        ),
    ],
)
def test_weights_and_activations_that_do_not_go_together(options, why, bert, tmp_path):
    said = refusal(bert, tmp_path / "models", *options)
    assert why in said
    assert "reading" not in said


def test_a_folder_of_no_model_is_named(tmp_path):
    (tmp_path / "source").mkdir()
    assert "has no config.json: it is not" in refusal(tmp_path / "source", tmp_path / "models")


def test_modules_that_cannot_be_exported_are_named(bert, tmp_path):
    models = tmp_path / "models"
    source = add_sentence_modules(copied(bert, tmp_path / "source"), "LSTM", "Pooling")
    assert "has the module LSTM, which Braid cannot run" in refusal(source, models)
    older = copied(bert, tmp_path / "older" / "0_Transformer").parent
    listed = json.loads((source / "modules.json").read_text())
    listed[0]["path"] = "0_Transformer"
    (older / "modules.json").write_text(json.dumps(listed))
    assert "move the files of 0_Transformer next to modules.json" in refusal(older, models)
