"""Patches that the grammar of Codex's apply_patch lets through, read by Codex itself: by `make clients`."""

from __future__ import annotations

import json
import random
import re
import subprocess
from pathlib import Path

import pytest
from client_programs import ROOT
from codex_tools import PATCH_GRAMMAR
from fake_decoder import byte_tokenizer
from llguidance import LLMatcher, LLTokenizer
from random_patches import broken, patch

from pipelines.grammars.to_lark import lark_grammar_of
from pipelines.nodes.text.parsers.tools.forms import arguments

NUMBER = 500
LOOSER = re.compile(
    r"^@@.*\n(?=@@|\*\*\*)|^\*\*\* (?:Update File|Move to): .*\n(?=\*\*\* (?!Move to))", re.MULTILINE
)
"""A place without lines, which Codex's own grammar allows and its parser does not."""


@pytest.fixture
def apply_patch(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Codex under the name by which it only applies a patch."""
    if not request.config.getoption("--every-client", default=False):
        pytest.skip("runs in `make clients`")
    folder = ROOT / ".venv-clients-node" / "node_modules" / "@openai"
    (program,) = folder.glob("codex-*/vendor/*/bin/codex")
    link = tmp_path / "apply_patch"
    link.symlink_to(program.resolve())
    return link


def test_what_the_grammar_lets_through_is_a_patch(apply_patch: Path, tmp_path: Path) -> None:
    text_format = {"type": "json_text", "syntax": "lark", "definition": PATCH_GRAMMAR}
    grammar = lark_grammar_of(arguments({"name": "apply_patch", "text_format": text_format}), {})
    tokenizer, chance = LLTokenizer(byte_tokenizer().to_str()), random.Random(NUMBER)
    patches = [make(chance) for make in (patch, broken) for _ in range(NUMBER // 2)]
    let_through = {text for text in patches if _accepts(tokenizer, grammar, text)}
    assert let_through >= {*patches[: NUMBER // 2]}
    no_patches = {text for text in {*patches} if "Invalid patch" in _errors(apply_patch, text, tmp_path)}
    assert [text for text in let_through & no_patches if not LOOSER.search(text)] == []
    assert len(no_patches - let_through) > NUMBER // 4


def _accepts(tokenizer: LLTokenizer, grammar: str, text: str) -> bool:
    matcher = LLMatcher(tokenizer, grammar, log_level=0)
    token_ids = [*tokenizer.tokenize_str(json.dumps({"input": text}, ensure_ascii=False))]
    return matcher.try_consume_tokens(token_ids) == len(token_ids) and matcher.is_accepting()


def _errors(apply_patch: Path, text: str, folder: Path) -> str:
    """What Codex says of a patch; files that are missing are another error."""
    run = subprocess.run([apply_patch, text], cwd=folder, capture_output=True, text=True, check=False)
    return run.stderr
