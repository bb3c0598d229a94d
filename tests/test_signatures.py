"""Functions take few parameters, and calls say which is which: read from the syntax trees."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PRODUCT = ("graphs", "ops", "pipelines", "server")
MOST_PARAMETERS = 7


@cache
def trees(*rooms):
    return [
        (path.relative_to(ROOT).as_posix(), ast.parse(path.read_text()))
        for room in rooms
        for path in sorted((ROOT / room).rglob("*.py"))
    ]


def parameters(function):
    """Those that a caller fills; `*args` and `**kwargs` count as one each."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    more = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [each for each in (*named, *more) if each.arg not in ("self", "cls")]


def is_click_command(function):
    return any(".command" in ast.unparse(each) for each in function.decorator_list)


def long_signatures(found):
    return {
        f"{path}: {node.name}"
        for path, tree in found
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and len(parameters(node)) > MOST_PARAMETERS
        and not is_click_command(node)
    }


def star_tuples(found):
    """Files with a call such as `f(*(a, b))`."""
    return {
        path
        for path, tree in found
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for given in node.args
        if isinstance(given, ast.Starred) and isinstance(given.value, ast.Tuple | ast.List)
    }


def test_no_function_has_more_parameters_than_one_keeps_in_mind():
    assert long_signatures(trees(*PRODUCT)) == set()


def test_no_call_spreads_a_tuple_that_it_has_just_written():
    assert star_tuples(trees(*PRODUCT, "tools")) == set()


@pytest.mark.parametrize(
    ("text", "is_long"),
    [
        ("def f(self, a, b, c, *, d, e, f, g): ...", False),
        ("def f(self, a, b, c, *, d, e, f, g, h): ...", True),
        ("async def f(a, b, c, d, e, *f, g, **h): ...", True),
        ("@click.command()\ndef f(a, b, c, d, e, f, g, h): ...", False),
        ("@main.command(name='x')\ndef f(a, b, c, d, e, f, g, h): ...", False),
    ],
)
def test_a_long_signature_is_seen(text, is_long):
    assert bool(long_signatures([("f.py", ast.parse(text))])) == is_long


@pytest.mark.parametrize(
    ("text", "is_seen"),
    [("f(*(a, b), c)", True), ("f(*[a])", True), ("f(*given)", False), ("[*(a, b)]", False)],
)
def test_a_star_tuple_is_seen(text, is_seen):
    assert bool(star_tuples([("f.py", ast.parse(text))])) == is_seen
