"""The tables of what is read of GGUF files say what the code has, and each row of them was run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.gguf.architectures import ARCHITECTURES
from pipelines.gguf.encoder_facts import ENCODERS
from pipelines.gguf.tensor_types import TENSOR_TYPES
from pipelines.gguf.tokenizer_kinds import KINDS
from pipelines.gguf.vision_facts import PROJECTORS
from tools.lab.reference.gguf import MODELS, TABLES, with_tables

ROOT = Path(__file__).parents[1]
PAGES = ("docs/quickstart.md", "docs/vision.md")
COMPARED = (
    *(
        f"tests/pipelines/inference/backends/test_gguf_{name}.py"
        for name in ("logits", "families", "hybrids")
    ),
    "tests/pipelines/inference/backends/test_gguf_recorded.py",
    "tests/fixtures/gguf_files.py",
    "tests/fixtures/gguf_hybrids.py",
    "tests/fixtures/gguf_vision.py",
    *(f"tests/pipelines/gguf/test_{name}.py" for name in ("encoder", "encoder_kinds", "embedder")),
    "tests/pipelines/gguf/test_tokenizer_kinds.py",
    "tests/pipelines/gguf/test_gguf_tokenizer.py",
)
"""Tests, and what writes their files, that compare numbers or ids with transformers or llama.cpp."""


def words_of(path: Path) -> Iterator[str]:
    """The strings that are keys, defaults or arguments in a file: of what it writes, not of what it says."""
    for node in ast.walk(ast.parse(path.read_text())):
        held: list[ast.expr | None] = []
        if isinstance(node, ast.Dict):
            held = [*node.keys, *node.values]
        elif isinstance(node, ast.Call):
            held = [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.arguments):
            held = [*node.defaults, *node.kw_defaults]
        elif isinstance(node, ast.List | ast.Tuple | ast.Set):
            held = [*node.elts]
        for value in held:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


@pytest.fixture(scope="module")
def written():
    return {word for name in COMPARED for word in words_of(ROOT / name)}


@pytest.mark.parametrize("page", PAGES)
def test_pages_have_the_tables_of_the_code(page):
    text = (ROOT / page).read_text()
    assert with_tables(text) == text, "run make docs"
    assert any(f"<!-- {name}: " in text for name in TABLES)


def test_each_architecture_is_compared_with_someone_elses_numbers(written):
    assert {*ARCHITECTURES, *ENCODERS} - written == set()
    assert MODELS.keys() <= {*ARCHITECTURES, *ENCODERS}


def test_each_projector_and_each_kind_of_tokenizer_is_compared(written):
    assert PROJECTORS.keys() - written == set()
    assert KINDS.keys() - written == set()


def test_the_numbers_of_each_type_of_weights_are_compared(written):
    read = {*words_of(ROOT / "tests/pipelines/gguf/test_tensor_types.py")}
    assert {kind.name for kind in TENSOR_TYPES.values()} - (written | read) == set()
