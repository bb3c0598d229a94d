"""Exports of models that read whole texts give what transformers gives, and say what they are for."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hf_folders import write_whole

from graphs.check import check
from pipelines.backends.encoders import EncoderSettings
from pipelines.engine.batch import TokenBatch
from pipelines.new_graph import recognise
from pipelines.nodes import VOCABULARY
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
