"""How long a text may be, and which ids it may have, from the files beside an encoder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from pipelines.inference.backends.encoder_files import read_encoder_facts
from pipelines.inference.contracts.device_errors import ModelError


def folder(tmp_path: Path, tokenizer: dict | None = None, **config: object) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(config))
    if tokenizer is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return tmp_path


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "bert", "max_position_embeddings": 512, "pad_token_id": 0}, 512),
        ({"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "mpnet", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "nomic_bert", "n_positions": 8192}, 8192),
        ({"model_type": "x", "text_config": {"max_position_embeddings": 77}}, 77),
    ],
)
def test_positions_of_padding_are_not_a_texts(tmp_path, config, expected):
    assert read_encoder_facts(folder(tmp_path, vocab_size=9, **config)).max_tokens == expected


@pytest.mark.parametrize(
    ("length", "expected"), [(128, 128), (1000, 512), (1e30, 512), (None, 512), ("many", 512)]
)
def test_a_tokenizers_bound_counts_where_it_is_less(tmp_path, length, expected):
    made = folder(tmp_path, {"model_max_length": length}, vocab_size=9, max_position_embeddings=512)
    assert read_encoder_facts(made).max_tokens == expected


def test_a_tokenizer_counts_ids_where_the_config_does_not(tmp_path):
    made = folder(tmp_path, max_position_embeddings=8)
    with pytest.raises(ModelError, match="names no vocab_size"):
        read_encoder_facts(made)
    Tokenizer(models.WordLevel({"a": 0, "b": 1, "c": 2}, "a")).save(str(tmp_path / "tokenizer.json"))
    assert read_encoder_facts(made).vocab_size == 3


def test_padding_is_the_configs(tmp_path):
    facts = {"vocab_size": 9, "max_position_embeddings": 8}
    assert read_encoder_facts(folder(tmp_path, pad_token_id=7, **facts)).pad_id == 7
    assert read_encoder_facts(folder(tmp_path, pad_token_id=None, **facts)).pad_id == 0


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"config\.json is needed"):
        read_encoder_facts(tmp_path)
    with pytest.raises(ModelError, match="names no context length"):
        read_encoder_facts(folder(tmp_path, vocab_size=9))


def test_a_hubs_folder_describes_the_model_one_folder_above(tmp_path):
    made = folder(tmp_path, {"model_max_length": 64}, vocab_size=9, max_position_embeddings=512)
    (made / "onnx").mkdir()
    assert read_encoder_facts(made / "onnx") == read_encoder_facts(made)
