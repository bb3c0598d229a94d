"""`braid export` of Whisper models: what folders of both forms hold, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from ctranslate2_files import LANGUAGES, model_bin, variables_of, whisper_tokenizer, write_folder
from later import Later
from tiny_whisper import FRAMES, MELS, SIZES, frames_of, make_whisper, weights_of

from graphs.check import check
from pipelines.inference.backends.open_model import open_encoder
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import EncoderSettings
from pipelines.nodes import VOCABULARY
from pipelines.nodes.speech.whisper_tokens import read_whisper_tokens
from pipelines.repository.new_graph import new_graph, recognise
from pipelines.values.tasks import TASKS
from tools.export.__main__ import main
from tools.export.base.folder import ExportError
from tools.export.speech.ctranslate2_file import read_ctranslate2
from tools.export.speech.frames_check import check_encoder_states
from tools.export.speech.token_files import generation_fields, token_ids
from tools.export.speech.whisper_folder import is_whisper, read_whisper
from tools.export.whisper.encoder import write_encoder

hf = Later("transformers")

HEADS = SIZES["encoder_attention_heads"]
FIRST_TIME = 50257 + len(LANGUAGES) + 8


@pytest.fixture(scope="module")
def model():
    return make_whisper(eos_token_id=50257)


@pytest.fixture(scope="module")
def ctranslate2(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ctranslate2")
    write_folder(folder, weights_of(model), HEADS)
    return folder


@pytest.fixture(scope="module")
def hugging_face(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hugging_face")
    model.save_pretrained(folder)
    hf.WhisperFeatureExtractor(feature_size=MELS, chunk_length=1).save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(whisper_tokenizer()))
    return folder


def export(source, models, *options):
    return CliRunner().invoke(
        main, [str(source), "--name", "heard", "--models", str(models), "--no-first-run", *options]
    )


@pytest.mark.parametrize("form", ["ctranslate2", "hugging_face"])
def test_both_forms_give_the_weights_of_the_model(model, form, request):
    found = read_whisper(request.getfixturevalue(form))
    wanted = {name: value for name, value in weights_of(model).items() if name != "proj_out.weight"}
    assert {name for name in found.weights if name != "proj_out.weight"} == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_array_equal(found.weights[name], value, name)
    assert {name: found.config[name] for name in SIZES if name != "init_std"} == {
        name: value for name, value in SIZES.items() if name != "init_std"
    }


@pytest.mark.parametrize("weights", ["fp32", "int8"])
def test_a_folder_of_faster_whisper_becomes_a_served_one(model, ctranslate2, tmp_path, weights):
    done = export(ctranslate2, tmp_path, "--weights", weights)
    assert done.exit_code == 0, done.output
    folder = tmp_path / "heard"
    lines = check((folder / "graph.yaml").read_text(), VOCABULARY, TASKS).bindings
    names = ["features", "frames", "prompt", "generated", "text", "segments", "words"]
    assert [line.name for line in lines] == names
    encoder = open_encoder(folder / "model" / "encoder.onnx", EncoderSettings(precision="f32"))
    features = np.random.default_rng(0).standard_normal((2, MELS, 2 * FRAMES)).astype(np.float32)
    nothing = np.zeros((2, FRAMES), np.int64)
    frames = encoder.run(TokenBatch(nothing, np.full(2, FRAMES), nothing, np.ones(2, np.bool_), features))
    assert np.abs(frames - frames_of(model, features)).max() < (1e-4 if weights == "fp32" else 0.2)


def test_what_is_served_with_a_model(ctranslate2, tmp_path):
    assert export(ctranslate2, tmp_path).exit_code == 0
    folder = tmp_path / "heard" / "model"
    known = read_whisper_tokens(folder / "generation_config.json")
    assert dict(known.languages) == {name: 50259 + i for i, name in enumerate(LANGUAGES)}
    assert (known.start, known.first_time) == (50258, FIRST_TIME)
    fields = json.loads((folder / "generation_config.json").read_text())
    assert fields["suppress_tokens"] == [1, 2]
    assert fields["begin_suppress_tokens"] == [32, 50257]
    assert fields["alignment_heads"] == [[1, 0]]
    times = {
        added_token["content"]: added_token["id"]
        for added_token in json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    }
    assert (times["<|0.00|>"], times["<|30.00|>"]) == (FIRST_TIME, FIRST_TIME + 1500)
    assert hf.WhisperFeatureExtractor.from_pretrained(folder).nb_max_frames == 2 * FRAMES


def test_frames_that_are_not_those_of_transformers_are_refused(model, tmp_path):
    weights, config = weights_of(model), model.config.to_dict()
    write_encoder(weights, config, tmp_path)
    check_encoder_states(tmp_path / "encoder.onnx", weights, config, "fp32")
    bent = {**weights, "model.encoder.layers.1.fc2.weight": weights["model.encoder.layers.1.fc2.weight"] * 2}
    with pytest.raises(ExportError, match="frames of the fp32 encoder differ"):
        check_encoder_states(tmp_path / "encoder.onnx", bent, config, "fp32")


def test_what_a_hugging_face_folder_says_counts(hugging_face):
    said = {"suppress_tokens": [7], "max_initial_timestamp_index": 3, "decoder_start_token_id": 50258}
    (hugging_face / "generation_config.json").write_text(json.dumps(said))
    found = read_whisper(hugging_face).files["generation_config.json"]
    assert {name: found[name] for name in said} == said
    assert found["no_timestamps_token_id"] == FIRST_TIME - 1


def test_int8_weights_of_ctranslate2_are_divided_by_their_scales(model, tmp_path):
    variables = variables_of(weights_of(model), HEADS)
    name = "decoder/layer_1/ffn/linear_0/weight"
    scale = 127 / np.abs(variables[name]).max(axis=1)
    variables[f"{name}_scale"] = scale.astype(np.float32)
    plain, variables[name] = variables[name], np.rint(variables[name] * scale[:, None]).astype(np.int8)
    write_folder(tmp_path, weights_of(model), HEADS)
    (tmp_path / "model.bin").write_bytes(model_bin(variables))
    found = read_whisper(tmp_path).weights["model.decoder.layers.1.fc1.weight"]
    assert 0 < np.abs(found - plain).max() <= 0.51 / scale.min()


WHOLE = model_bin(
    {"encoder/num_heads": np.array(2, np.int16), "a": np.ones((2, 3), np.float32)}, aliases=[("b", "a")]
)


def test_a_file_is_read_whole(tmp_path):
    (tmp_path / "model.bin").write_bytes(WHOLE)
    found = read_ctranslate2([tmp_path / "model.bin"]).variables
    assert found["b"] is found["a"]
    assert found["a"].shape == (2, 3)


def test_a_file_in_parts_is_read_as_one(ctranslate2, tmp_path):
    for file in ctranslate2.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    data = (tmp_path / "model.bin").read_bytes()
    (tmp_path / "model.bin").unlink()
    for number, at in enumerate((0, 1000, 2001), 1):
        end = (1000, 2001, len(data))[number - 1]
        (tmp_path / f"model.bin.part{number}").write_bytes(data[at:end])
    assert is_whisper(str(tmp_path))
    weights, whole = (read_whisper(folder).weights for folder in (tmp_path, ctranslate2))
    assert weights.keys() == whole.keys()
    assert all((weights[name] == whole[name]).all() for name in whole)


def test_a_file_that_is_cut_anywhere_is_refused(tmp_path):
    for end in range(1, len(WHOLE)):
        (tmp_path / "model.bin").write_bytes(WHOLE[:end])
        with pytest.raises(ExportError, match=r"model\.bin"):
            read_ctranslate2([tmp_path / "model.bin"])


def test_damaged_files_are_read_or_refused(tmp_path):
    random = np.random.default_rng(0)
    for _ in range(300):
        data = np.frombuffer(WHOLE, np.uint8).copy()
        data[random.integers(0, len(data), 2)] = random.integers(0, 256, 2)
        (tmp_path / "model.bin").write_bytes(data.tobytes())
        try:
            assert read_ctranslate2([tmp_path / "model.bin"]).variables is not None
        except ExportError as error:
            assert "model.bin" in str(error)  # noqa: PT017


def test_another_model_of_ctranslate2_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.bin").write_bytes(model_bin({}, kind="TransformerSpec"))
    done = export(tmp_path, tmp_path / "repo")
    assert done.exit_code == 1
    assert "TransformerSpec" in done.output
    assert not (tmp_path / "repo").exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--weights", "int4"), "of a Whisper model it may be int8, fp32"),
        (("--format", "openvino"), "of a Whisper model it may be auto, onnx"),
        (("--activations", "f16"), "of a Whisper model it says nothing"),
    ],
)
def test_options_that_would_be_ignored_are_refused(ctranslate2, tmp_path, options, problem):
    done = export(ctranslate2, tmp_path, *options)
    assert (done.exit_code, problem in done.output) == (2, True)


def test_what_is_missing_is_named(hugging_face, tmp_path):
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_text((hugging_face / name).read_text())
    with pytest.raises(ExportError, match=r"no weights; model\.safetensors is read"):
        read_whisper(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(ExportError, match=r"no tokenizer\.json: write it with transformers"):
        read_whisper(tmp_path)


def test_optimums_folder_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "openvino_encoder_model.xml").write_text("<net/>")
    assert recognise(tmp_path) == "openvino"
    with pytest.raises(ValueError, match=r"cannot be paged; export the Hugging Face folder"):
        new_graph(tmp_path)
    with pytest.raises(ExportError, match=r"cannot be paged; export the Hugging Face folder"):
        read_whisper(tmp_path)


def test_the_tokenizer_says_whether_a_model_knows_several_languages():
    """Not the size of its vocabulary, which may be padded."""
    several = token_ids(whisper_tokenizer())
    assert several["<|endoftext|>"] == 50257
    found = generation_fields(several)
    assert (found["is_multilingual"], "<|de|>" in found["lang_to_id"]) == (True, True)
    english = {name: token_id - 1 for name, token_id in several.items()}
    assert generation_fields(english)["is_multilingual"] is False
    assert "lang_to_id" not in generation_fields(english)
