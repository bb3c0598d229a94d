"""`braid export` of models of text with an encoder and a decoder: what their folders hold, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from later import Later
from tiny_text_models import END, PAD, START, save_tiny, tiny_text_model, weights_of

from graphs.check import check
from pipelines.nodes import VOCABULARY
from pipelines.nodes.generation.decoder_start import read_start
from pipelines.nodes.generation.model_settings import read_defaults
from pipelines.repository.new_graph import recognise
from pipelines.values.tasks import TASKS
from tools.export.__main__ import main
from tools.export.encoder_decoder.form import Buckets
from tools.export.encoder_decoder.relative_bias import bias_backwards, bias_both_ways

torch = Later("torch")
t5 = Later("transformers.models.t5.modeling_t5")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Folders of tiny models by name, with a field of generation that each of them has in life."""
    fields = {"bart": {"forced_bos_token_id": 7}, "marian": {"bad_words_ids": [[PAD], [3, 4]]}, "t5": {}}
    folders = {}

    def save(name):
        if name not in folders:
            folder = tmp_path_factory.mktemp(name)
            folders[name] = save_tiny(tiny_text_model(name, calm=True), folder, **fields[name])
        return folders[name]

    return save


def export(source, models, *options):
    return CliRunner().invoke(
        main, [str(source), "--name", "pair", "--models", str(models), "--no-first-run", *options]
    )


@pytest.mark.parametrize(("name", "weights"), [("bart", "int8"), ("marian", "fp32"), ("t5", "int8")])
def test_a_hugging_face_folder_becomes_a_served_one(name, weights, saved, tmp_path):
    done = export(saved(name), tmp_path, "--weights", weights)
    assert done.exit_code == 0, done.output
    folder = tmp_path / "pair"
    lines = check((folder / "graph.yaml").read_text(), VOCABULARY, TASKS).bindings
    assert [line.name for line in lines] == ["tokens", "encoded", "start", "generated", "text"]
    (folder / "graph.yaml").unlink()
    assert recognise(folder) == "onnx"
    settings = folder / "model" / "generation_config.json"
    assert read_start(settings) == ([START, 7] if name == "bart" else [START])
    defaults = read_defaults(settings)
    assert defaults["temperature"] == 0
    assert defaults.get("bad_words_ids", []) == ([[PAD], [3, 4]] if name == "marian" else [])


def test_weights_that_are_not_those_of_the_model_are_refused(saved, tmp_path, monkeypatch):
    from tools.export.text_pair import export_text

    def bent(folder):
        weights = weights_of(tiny_text_model("bart", calm=True))
        name = "model.decoder.embed_positions.weight"
        return weights | {name: weights[name] * 9}

    monkeypatch.setattr(export_text, "read_safetensors", bent)
    done = export(saved("bart"), tmp_path, "--weights", "fp32")
    assert (done.exit_code, "log-probabilities of the fp32 export differ" in done.output) == (1, True)
    assert not (tmp_path / "pair").exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--weights", "int4"), "of an encoder-decoder model it may be int8, fp32"),
        (("--format", "openvino"), "of an encoder-decoder model it may be auto, onnx"),
    ],
)
def test_options_that_would_be_ignored_are_refused(options, problem, saved, tmp_path):
    done = export(saved("bart"), tmp_path, *options)
    assert (done.exit_code, problem in done.output) == (2, True), done.output


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model_type": "led"}, "is a led model with an encoder and a decoder; of these are exported: bart"),
        ({"encoder_layers": 3}, "is not what its config.json describes"),
        ({"activation_function": "mish"}, "activation mish; known are gelu"),
        ({"decoder_start_token_id": None, "bos_token_id": None}, "has a decoder_start_token_id"),
    ],
)
def test_what_is_not_exported_is_named(changes, problem, saved, tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    for file in saved("bart").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "generation_config.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    done = export(folder, tmp_path / "repo")
    assert (done.exit_code, problem in " ".join(done.output.split())) == (1, True), done.output


@pytest.mark.parametrize("count", [8, 32])
@pytest.mark.parametrize("farthest", [20, 128])
def test_buckets_are_those_of_transformers(count, farthest):
    weight = np.arange(count, dtype=np.float32)[:, None]
    ahead = torch.arange(-farthest, farthest + 1)
    for both_ways, found in (
        (True, bias_both_ways(weight, Buckets(count, farthest))),
        (False, bias_backwards(weight, Buckets(count, farthest))[:, ::-1]),
    ):
        wanted = t5.T5Attention._relative_position_bucket(ahead, both_ways, count, farthest).numpy()
        assert found[0].tolist() == (wanted if both_ways else wanted[: farthest + 1]).tolist()


def test_the_end_of_a_text_is_the_tokenizers(saved):
    from tokenizers import Tokenizer

    assert Tokenizer.from_file(str(saved("bart") / "tokenizer.json")).encode("a").ids[-1] == END
