"""The words of the field: code and documentation do not fall back into private ones (docs/contributing.md)."""

import ast
import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("graphs", "ops", "pipelines", "server", "tools", "docs")
SUFFIXES = {".py", ".cu", ".md"}
INVERTED = "Aimed at|Measured|Refused|Held|Tried|Seen|Counted|Stored|Compared|Tested|Ignored|Not public"
"""Beginnings of sentences that name what was done before what it was done to."""
SAY = {
    r"guess(es|ed|ing|er|ers)?": "draft token, speculation, proposed",
    r"come(s)? true|came true": "accepted",
    r"tells?|told|telling": "report, send, notify, return",
    r"kept": "stored, cached, retained",
    r"mail|mailbox(es)?": "message, update queue",
    r"purse|tally|heirs?|riddles?|twins?": "budget, counter, successor",
    r"nobody|whoever|whom": "no request, the client, which",
    r"for ever": "indefinitely",
    r"so many": "at most N, this many",
    r"forget|forgets|forgotten": "remove, release",
    r"aimed at": "the goal is, the goal was",
    rf"(?-i:{INVERTED}) (are|were|is|was)": "the subject first: `figures were measured`",
}
"""Pattern of whole words → what to say instead."""
WITHOUT_SUBJECT = re.compile(r"(Those|That|Of|As|The same|Whose|Its|Their|It|They)\b(?! (is|are) )")
"""Beginnings of docstrings that leave out what they speak of."""
EXAMPLES = ("tools/lab/bench/pooling/texts.py", "docs/fields.md")
"""Sentences that models are measured with, and texts of other systems."""


def files():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in SUFFIXES and not name.startswith(EXAMPLES):
                yield path
    yield ROOT / "README.md"


@pytest.mark.parametrize("pattern", SAY)
def test_private_words_do_not_come_back(pattern):
    words = re.compile(rf"(?<![\w`'\"])(?:{pattern})(?![\w`'\"])", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if words.search(line)
    ]
    assert found == [], f"say instead: {SAY[pattern]}"


def docstrings(tree):
    """(line, text) of all docstrings, those behind assignments too."""
    for node in ast.walk(tree):
        for before, each in pairwise([None, *getattr(node, "body", [])] if has_lines(node) else []):
            is_first = before is None and not isinstance(node, ast.Module)
            if (is_first or isinstance(before, (ast.Assign, ast.AnnAssign))) and is_text(each):
                yield each.lineno, each.value.value


def has_lines(node):
    return isinstance(getattr(node, "body", None), list)


def is_text(node):
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def test_docstrings_have_a_subject():
    """A reader need not find the noun in the name of what is described."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.strip().splitlines()[0][:80]}"
        for folder in ("graphs", "ops", "pipelines", "server")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in docstrings(ast.parse(path.read_text()))
        if WITHOUT_SUBJECT.match(text.strip())
    ]
    assert found == []


def test_a_class_name_means_one_thing():
    places = defaultdict(list)
    for folder in ("graphs", "ops", "pipelines", "server"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(path.relative_to(ROOT).as_posix())
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
