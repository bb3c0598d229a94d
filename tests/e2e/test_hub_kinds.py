"""Repositories of each kind, as their publishers lay them out, served by their names and asked by openai's client."""

from __future__ import annotations

import math
import shutil
import warnings
from pathlib import Path

import openai
import pytest
from closed_clients import closed_later
from ctranslate2_files import write_folder
from fake_hub import FakeHub
from minilm import SOURCE as MINILM
from test_hub import files_of, serving, tone
from voice_models import write_voice

pytestmark = pytest.mark.breadth

GENAI = Path(__file__).parents[1] / "pipelines/inference/backends/recorded/genai-tiny/llama"
MINILM_NAME = "sentence-transformers/all-MiniLM-L6-v2"
TEXTS = ["How far away is the moon?", "The moon is 384,000 kilometres away.", "Dough rises by yeast."]


@pytest.fixture(scope="module")
def repos(tmp_path_factory):
    """Folders of repositories, by the names under which they could be published."""
    pytest.importorskip("optimum.exporters.onnx", reason="needs the extra optimum")
    root = tmp_path_factory.mktemp("repos")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch and transformers
        decoder = _decoder(root / "decoder")
        folders = {
            "onnx-community/tiny-ONNX": _onnx_community(root / "community", decoder),
            "microsoft/tiny-onnx": _genai(root / "genai"),
            "OpenVINO/tiny-int8-ov": _openvino(root / "ov", decoder),
            "Systran/faster-whisper-none": _whisper(root / "whisper"),
            "rhasspy/piper-voices": _voices(root / "voices"),
        }
        if (MINILM / "model.safetensors").exists():
            folders[MINILM_NAME] = _minilm(root / "minilm")
    return {name: files_of(folder) for name, folder in folders.items()}


def _decoder(folder):
    """Plain weights of a small Qwen 3 with a chat template."""
    from transformers import AutoConfig, AutoModelForCausalLM

    demo = Path(__file__).parents[2] / "model_repo" / "braid-demo" / "model"
    sizes = {"vocab_size": 2048, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    config = AutoConfig.for_model("qwen3", **sizes, **heads, max_position_embeddings=512, eos_token_id=2)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(demo / name, folder)
    return folder


def _exported(source, out, task):
    from optimum.exporters.onnx import main_export

    main_export(str(source), str(out), task=task, do_validation=False)
    return out


def _onnx_community(folder, decoder):
    """`onnx/model_q4.onnx` and `onnx/model_fp16.onnx`, the latter without sense: it is not taken."""
    out = _exported(decoder, folder.with_name("exported"), "text-generation-with-past")
    (folder / "onnx").mkdir(parents=True)
    shutil.move(out / "model.onnx", folder / "onnx" / "model_q4.onnx")
    (folder / "onnx" / "model_fp16.onnx").write_bytes(b"none")
    for path in out.iterdir():
        shutil.copy(path, folder)
    (folder / "generation_config.json").write_text('{"eos_token_id": 2}')
    return folder


def _genai(folder):
    """A folder for the CPU and one for CUDA, with a word for each of the 64 tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    for target in ("cpu_and_mobile/cpu-int4-rtn-block-32", "cuda/cuda-fp16"):
        shutil.copytree(GENAI, folder / target)
        words = {word: number for number, word in enumerate(["<unk>", *(f"w{at}" for at in range(63))])}
        tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.save(str(folder / target / "tokenizer.json"))
    return folder


def _openvino(folder, decoder):
    from optimum.exporters.openvino import main_export

    main_export(str(decoder), str(folder), task="text-generation-with-past")
    (folder / "openvino_tokenizer.xml").touch()  # what openvino_genai reads; Braid reads tokenizer.json
    (folder / "picture.png").touch()
    return folder


def _whisper(folder):
    from tiny_whisper import SIZES, make_whisper, weights_of

    write_folder(folder, weights_of(make_whisper(eos_token_id=50257)), SIZES["encoder_attention_heads"])
    (folder / "vocabulary.txt").write_text("a\n")  # of faster-whisper's tokenizer; Braid reads tokenizer.json
    return folder


def _voices(folder):
    for name in ("en_US-joe-medium", "en_GB-ann-low"):
        place = folder / "en" / name
        place.mkdir(parents=True)
        write_voice(place)
        (place / "tiny.onnx").rename(place / f"{name}.onnx")
        (place / "tiny.onnx.json").rename(place / f"{name}.onnx.json")
    return folder


def _minilm(folder):
    """The files of the real repository: plain weights, and optimum's export beside them."""
    shutil.copytree(MINILM, folder)
    out = _exported(MINILM, folder.with_name("minilm-exported"), "feature-extraction")
    (folder / "onnx").mkdir()
    shutil.copy(out / "model.onnx", folder / "onnx")
    return folder


def test_one_server_of_all_kinds(repos, tmp_path):
    names = [name for name in repos if name != "rhasspy/piper-voices"]
    names.append("rhasspy/piper-voices:en_US-joe-medium")
    with FakeHub(repos) as hub, serving(hub, tmp_path, *names, "--workers", "1") as url:
        client = closed_later(openai.OpenAI(base_url=f"{url}/v1", api_key="none"))
        assert {model.id for model in client.models.list()} == {*names}
        for name in ("onnx-community/tiny-ONNX", "OpenVINO/tiny-int8-ov"):
            messages = [{"role": "user", "content": "Say hello."}]
            said = client.chat.completions.create(model=name, messages=messages, max_tokens=5, temperature=0)
            assert said.usage.completion_tokens >= 1
        text = client.completions.create(model="microsoft/tiny-onnx", prompt="w5 w6", max_tokens=4)
        assert text.choices[0].text
        heard = client.audio.transcriptions.create(model=names[3], file=("tone.wav", tone()))
        assert isinstance(heard.text, str)
        spoken = client.audio.speech.create(model=names[-1], voice="alloy", input="hi", response_format="wav")
        assert spoken.content[:4] == b"RIFF"
        if MINILM_NAME in names:
            check_embeddings(client)
        for part in ("model_fp16", "cuda-fp16", "safetensors", "picture.png", "en_GB"):
            assert not hub.asked(part), "it is not of what was named"


def check_embeddings(client):
    """Those of sentence-transformers on the same weights."""
    from sentence_transformers import SentenceTransformer

    reply = client.embeddings.create(model=MINILM_NAME, input=TEXTS)
    expected = SentenceTransformer(str(MINILM)).encode(TEXTS, normalize_embeddings=True)
    for given, right in zip(reply.data, expected, strict=True):
        assert math.dist(given.embedding, right.tolist()) < 0.02
