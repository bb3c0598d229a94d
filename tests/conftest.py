"""What every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_models import byte_tokenizer
from tokenizers import Tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return byte_tokenizer()


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    byte_tokenizer().save(str(path))
    return path
