"""The words of the field: code and documentation do not fall back into private ones (docs/contributing.md)."""

import ast
import re
from collections import defaultdict
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from source_trees import nodes_of, tree_of

ROOT = Path(__file__).parents[1]
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
    r"(models?|decoders?|encoders?|rerankers?|one|ones) (that|which) (sees?|hears?|speaks?)": "vision model, audio model, voice",
    r"sees? one another": "attend to one another",
    r"(its|no|all|several|named|joined) products|NO_PRODUCTS|ProductShape": "linear layers",
    r"is_turned|turned by (its|their|`\w+`|positions?)": "is_transposed; has_rope, rotated",
    r"rows of (an |its |the )?images?|image_rows|with_rows|given_rows": "embeddings of images",
    rf"(?-i:{INVERTED}) (are|were|is|was)": "the subject first: `figures were measured`",
}
"""Pattern of whole words → what to say instead."""
WITHOUT_SUBJECT = re.compile(
    r"(Those|That|Of|As|The same|Whose|Its|Their|It|They)\b(?! (is|are) )"
    r"|Between (?!the input)|(By|To) how |In place of|In the (place|scope)|In front of|In a thread|From any thread"
    r"|With (vLLM|what)"
)
"""Beginnings of docstrings that leave out what they speak of."""
EXAMPLES = ("tools/lab/bench/pooling/texts.py", "docs/fields.md")
"""Sentences that models are measured with, and texts of other systems."""
VAGUE = {"found", "each", "one", "made", "given", "it"}
LONG = 10
"""Lines of a function in which a reader no longer remembers what a vague name stands for."""


def files():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in SUFFIXES and not name.startswith(EXAMPLES):
                yield path
    yield ROOT / "README.md"


@cache
def texts():
    """Name → text of each file, read once for all tests."""
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in files()}


@cache
def trees():
    """Name → syntax tree of each Python file."""
    return {name: tree_of(ROOT / name) for name in texts() if name.endswith(".py")}


def whole_words(pattern):
    return re.compile(rf"(?<![\w`'\"])(?:{pattern})(?![\w`'\"])", re.IGNORECASE)


@cache
def suspected():
    """Name → text of the files with any of the words: all patterns are searched for at once."""
    words = whole_words("|".join(SAY))
    return {name: text for name, text in texts().items() if words.search(text)}


@pytest.mark.parametrize("pattern", SAY)
def test_private_words_do_not_come_back(pattern):
    words = whole_words(pattern)
    found = [
        f"{name}:{number}: {match[0]}"
        for name, text in suspected().items()
        for number, line in enumerate(text.splitlines(), 1)
        if (match := words.search(line))
    ]
    assert found == [], f"say instead: {SAY[pattern]}"


def docstrings(tree):
    """(line, text) of all docstrings, those behind assignments too."""
    for node in nodes_of(tree):
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
        f"{name}:{line}: {text.strip().splitlines()[0][:80]}"
        for name, tree in trees().items()
        for line, text in docstrings(tree)
        if WITHOUT_SUBJECT.match(text.strip())
    ]
    assert found == []


def test_variables_of_longer_functions_say_what_they_hold():
    """A noun, as `layer` or `num_tokens`, in comprehensions and in tests too."""
    tests = {
        str(file.relative_to(ROOT)): ast.parse(file.read_text()) for file in (ROOT / "tests").rglob("*.py")
    }
    assert [
        f"{file}:{line}: {name}"
        for file, tree in {**trees(), **tests}.items()
        for line, name in vague_names(tree)
    ] == []


def vague_names(tree):
    """(line, name) of each vague variable in the longer functions of a file, once."""
    return {
        (line, name)
        for function in functions(tree)
        if function.end_lineno - function.lineno >= LONG
        for line, name in variables(function)
        if name in VAGUE
    }


def functions(tree):
    return [node for node in nodes_of(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def variables(function):
    """(line, name) of its parameters and of all that it binds."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def test_a_class_name_means_one_thing():
    places = defaultdict(list)
    for file, tree in trees().items():
        for node in tree.body if not file.startswith("tools") else ():
            if isinstance(node, ast.ClassDef):
                places[node.name].append(file)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
