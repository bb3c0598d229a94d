"""Functions take few parameters, and calls say which is which: read from the syntax trees."""

import ast
from functools import cache
from pathlib import Path

import pytest
from source_trees import nodes_of, tree_of

ROOT = Path(__file__).parents[1]
PRODUCT = ("graphs", "ops", "pipelines", "server")
MOST_PARAMETERS = 7

CALLBACKS = {"pipelines/host/adapter_commands.py", "pipelines/nodes/text/templates/message_forms.py"}
"""Files that call what they were given: the type of such a function has no names of parameters."""
SHARED_NAMES = {"append", "get", "next", "pop", "put", "run", "translate"}
"""Functions of ours that are named as functions of libraries are, which take constants by position."""


@cache
def trees_of(room):
    """(path, syntax tree) of each file of a room."""
    files = sorted((ROOT / room).rglob("*.py"))
    return [(path.relative_to(ROOT).as_posix(), tree_of(path)) for path in files]


def trees(*rooms):
    return [tree for room in rooms for tree in trees_of(room)]


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
        for node in nodes_of(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and len(parameters(node)) > MOST_PARAMETERS
        and not is_click_command(node)
    }


def star_tuples(found):
    """Files with a call such as `f(*(a, b))`."""
    return {
        path
        for path, tree in found
        for node in nodes_of(tree)
        if isinstance(node, ast.Call)
        for given in node.args
        if isinstance(given, ast.Starred) and isinstance(given.value, ast.Tuple | ast.List)
    }


def defined_names(found):
    """The names of functions and classes of ours."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    names = {node.name for _, tree in found for node in nodes_of(tree) if isinstance(node, kinds)}
    return names - SHARED_NAMES


def called_name(call):
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


def is_constant(given):
    return isinstance(given, ast.Constant) and (given.value is None or isinstance(given.value, bool))


def positional_constants(found, names):
    """Files with a call of ours such as `f(a, True)`; an only argument has its meaning from the function."""
    return {
        path
        for path, tree in found
        for node in nodes_of(tree)
        if isinstance(node, ast.Call) and called_name(node) in names and len(node.args + node.keywords) > 1
        if any(is_constant(given) for given in node.args)
    }


def test_no_function_has_more_parameters_than_one_keeps_in_mind():
    assert long_signatures(trees(*PRODUCT)) == set()


def test_no_call_spreads_a_tuple_that_it_has_just_written():
    assert star_tuples(trees(*PRODUCT, "tools")) == set()


def test_no_call_of_ours_has_a_constant_without_its_name():
    found = trees(*PRODUCT)
    assert positional_constants(found, defined_names(found)) == CALLBACKS


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


@pytest.mark.parametrize(
    ("text", "is_seen"),
    [
        ("f(a, True)", True),
        ("self.f(None, b=1)", True),
        ("f(a, b=None)", False),
        ("f(False)", False),
        ("f(a, 1, 0)", False),
        ("library(a, True)", False),
    ],
)
def test_a_constant_without_its_name_is_seen(text, is_seen):
    assert bool(positional_constants([("f.py", ast.parse(text))], {"f"})) == is_seen
