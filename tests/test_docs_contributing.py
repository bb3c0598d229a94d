"""The worked examples of docs/contributing.md are right: applied to a copy of the repository, their tests pass."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT, Block, blocks
from patience import PATIENCE_S

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "contributing.md"
COPIED = ("graphs", "ops", "pipelines", "server", "tools", "tests", "docs", "pyproject.toml", "README.md")
FIRST_LINE = re.compile(r"# ([\w/.]+\.py)(?:, (?:in (\w+)|at the end))?$")
IMPORT = re.compile(r"^(?:from|import) .*\n", re.MULTILINE)
FIELDS = r"^class {}\b.*?\n(?=    \w+: (?!ClassVar))"
EXAMPLES = [block for block in blocks(PAGE) if block.language == "python"]
TESTS = (
    "tests/pipelines/nodes/text/test_trim.py",
    "tests/pipelines/inference/sampling/test_top_a.py",
    "tests/pipelines/host/test_fixed_decoder.py",
    "tests/server/test_tasks.py",
    "tests/server/apis/acme/test_acme_api.py",
    "tests/pipelines/nodes/text/parsers/test_acme.py",
)
ALSO = ("tests/server/openapi/test_openapi.py", "tests/pipelines/nodes/text/parsers/tools/test_forms.py")
"""Tests of the tables that the examples add lines to."""
COSTLY = "document_is_valid or without_a_key or gets_no_copy or needs_nothing or (grammar_holds and not acme)"
"""Tests of `ALSO` that say nothing of what the examples add."""


def apply(block: Block, root: Path) -> None:
    """A new file, lines at the end of one, or lines in the table or class that the first line names."""
    head, _, body = block.text.partition("\n")
    match = FIRST_LINE.match(head)
    assert match, f"{block}: the first line names the file"
    file, table = root / match[1], match[2]
    if table is not None:
        file.write_text(with_lines(file.read_text(), table, body))
    elif head.endswith("at the end"):
        file.write_text(f"{file.read_text()}\n\n{body}")
    else:
        assert not file.exists(), f"{file}: an example does not replace a file"
        file.parent.mkdir(exist_ok=True)
        file.write_text(body)


def with_lines(text: str, table: str, lines: str) -> str:
    """The text with lines at the end of the table, or above the fields of the class; imports come after the
    first ones.
    """
    imports, entries = "".join(IMPORT.findall(lines)), IMPORT.sub("", lines)
    place = re.search(
        rf"^{table}\b[^\n]*= [{{(]\n.*?(?=^[}})])|{FIELDS.format(table)}", text, re.MULTILINE | re.DOTALL
    )
    assert place, f"there is no table {table}"
    text = text[: place.end()] + entries + text[place.end() :]
    start = "from __future__ import annotations\n"
    return text.replace(start, f"{start}\n{imports}", 1) if imports else text


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with every example applied, and its page of request fields written again."""
    root = tmp_path_factory.mktemp("examples")
    for name in COPIED:
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, root / name)  # with what Python compiled
    (root / "model_repo").symlink_to(ROOT / "model_repo")
    for example in EXAMPLES:
        apply(example, root)
    (root / "docs" / "fields.md").write_text(run(root, "server.openapi.fields_page").stdout)
    return root


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", *arguments]
    environment = {"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE_S
    )


def test_the_tests_of_the_examples_pass(changed: Path) -> None:
    done = run(changed, "pytest", "-q", "-p", "no:cacheprovider", "-k", f"not ({COSTLY})", *TESTS, *ALSO)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.breadth
def test_the_examples_stay_within_the_borders(changed: Path) -> None:
    done = run(
        changed, "pytest", "-q", "-p", "no:cacheprovider", "tests/test_borders.py", "-k", "stays_within"
    )
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_examples_are_in_the_style_of_the_code(changed: Path) -> None:
    files = [FIRST_LINE.match(each.text.partition("\n")[0])[1] for each in EXAMPLES]
    done = run(changed, "ruff", "check", "--no-cache", "--ignore", "I001", *files)
    assert done.returncode == 0, done.stdout


def test_the_new_node_is_in_the_reference(changed: Path) -> None:
    assert "#### trim" in run(changed, "tools.lab.reference.graphs").stdout
