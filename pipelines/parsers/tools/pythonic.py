"""Calls as Python writes them: `[f(a=1, b="x"), g()]`, or one call on each line.

Knows nothing of what stands around them.  `true`, `false` and `null` are read as JSON's.
"""

from __future__ import annotations

import ast
import json
import warnings
from typing import Any

from pipelines.parsers.tools.calls import Made
from pipelines.parsers.tools.declared import UNREADABLE, Declared

WORDS = {"true": True, "false": False, "null": None}


def read_python(body: str, declared: Declared) -> list[Made] | None:
    """Lists of calls and calls alone; None when there is anything else in it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in strings
            lines = ast.parse(body.strip()).body
        made = [_made(call) for line in lines for call in _calls(line)]
        json.dumps([each.arguments for each in made], allow_nan=False)
    except UNREADABLE:
        return None
    return made


def _calls(line: ast.stmt) -> list[ast.expr]:
    if not isinstance(line, ast.Expr):
        raise ValueError("no expression")
    return line.value.elts if isinstance(line.value, ast.List) else [line.value]


def _made(call: ast.expr) -> Made:
    """Raises ValueError for anything but a call by keywords."""
    if not isinstance(call, ast.Call) or call.args:
        raise ValueError("no call by keywords")
    name = ast.unparse(call.func)
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError("no name")
    arguments = {each.arg: _value(each.value) for each in call.keywords if each.arg}
    if len(arguments) != len(call.keywords):
        raise ValueError("an argument without a name")
    return Made(name, arguments)


def _value(node: ast.expr) -> Any:
    """Raises ValueError for what is no literal."""
    if isinstance(node, ast.Name) and node.id in WORDS:
        return WORDS[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Dict):
        return {_key(key): _value(value) for key, value in zip(node.keys, node.values, strict=True)}
    return ast.literal_eval(node)


def _key(node: ast.expr | None) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise ValueError("a key that is no string")
    return node.value
