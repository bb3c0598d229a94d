"""Node types of one model's own: the classes of `nodes.py` in its folder, where the operator allows its code.

The module runs in every process that checks the graph; the nodes run in workers, each call in a thread of
its own, with a limit.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

from graphs import node
from graphs.errors import GraphError, Problem
from graphs.flow import holds, show
from graphs.graph import PortsBySettings
from graphs.node import Node, NodeConfig
from pipelines.base.bounded_thread import TookTooLong, run_within
from pipelines.nodes import NODE_TYPES, NODES_FILE, VOCABULARY, Vocabulary
from pipelines.nodes.own_calls import bound_methods, line_in
from pipelines.nodes.own_setting import SETTING, allows_code
from pipelines.values.stream_values import Series, Stream

IMPORT_S = 10.0
"""Seconds that importing a nodes.py may take."""


def with_own_types(name: str, code: str) -> Mapping[str, type[Node]]:
    """The node types of the model `name`, whose nodes.py has the text `code`: the built-in ones and its own.

    Raises GraphError with what is wrong in nodes.py.  Without leave to run it, its types raise ImportError.
    """
    return Vocabulary(_read(name, code) if allows_code() else _Refused(code))


class _Refused(Mapping[str, type[Node]]):
    """The types of code that is not run: their names alone, as far as it can be parsed."""

    def __init__(self, code: str) -> None:
        try:
            names = [_type_name(each.name) for each in _classes(ast.parse(code))]
            self._names = [name for name in names if name not in NODE_TYPES]
        except (SyntaxError, ValueError):
            self._names = []

    def __getitem__(self, name: str) -> type[Node]:
        raise ImportError(f"it is code of {NODES_FILE}, which is run only with {SETTING}=1")

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@lru_cache(64)
def _read(name: str, code: str) -> dict[str, type[Node]]:
    """Node type → class.  Raises GraphError."""
    source = f"{name}/{NODES_FILE}"
    try:
        lines = {part.name: part.lineno for part in _classes(ast.parse(code))}
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise GraphError([Problem(line, f"not Python: {getattr(error, 'msg', error)}", source)]) from None
    module = _imported(source, code)
    classes = [kind for kind in vars(module).values() if _is_node_of(kind, module)]
    own = {_type_name(kind.__name__): kind for kind in classes if not kind.__name__.startswith("_")}
    if not own:
        message = "it holds no node: write a class that derives from `graphs.node.Node`"
        raise GraphError([Problem(1, message, source)])
    faults = [(lines.get(kind.__name__, 1), _fault(name, kind)) for name, kind in own.items()]
    if problems := [Problem(line, fault, source) for line, fault in faults if fault]:
        raise GraphError(problems)
    for kind in classes:
        bound_methods(kind, source)
    return own


def _classes(tree: ast.Module) -> list[ast.ClassDef]:
    return [part for part in tree.body if isinstance(part, ast.ClassDef) and part.name[0] != "_"]


def _type_name(class_name: str) -> str:
    """`HideNumbers` is called `hide_numbers` in graphs."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).lower()


def _is_node_of(kind: Any, module: ModuleType) -> bool:
    return isinstance(kind, type) and issubclass(kind, Node) and kind.__module__ == module.__name__


def _imported(source: str, code: str) -> ModuleType:
    """The module, of which nothing is written beside its file.  Raises GraphError."""
    module = ModuleType("braid_nodes_" + re.sub(r"\W", "_", source))
    module.__file__ = source
    linecache.cache[source] = (len(code), None, code.splitlines(keepends=True), source)
    sys.modules[module.__name__] = module  # pydantic looks for names of types there
    try:
        run_within(IMPORT_S, lambda: exec(compile(code, source, "exec", dont_inherit=True), vars(module)))
    except TookTooLong as error:
        message = f"its import did not end within {IMPORT_S:g} s"
        raise GraphError([Problem(line_in(source, error.stack), message, source)]) from None
    except BaseException as error:  # code may raise anything, and end the interpreter
        message = f"its import raised {type(error).__name__}: {error}"
        line = line_in(source, traceback.extract_tb(error.__traceback__))
        raise GraphError([Problem(line, message, source)]) from error
    return module


def _fault(name: str, kind: type[Node]) -> str | None:
    """What is wrong with the class of the node type `name`."""
    if name in VOCABULARY:
        return f"`{name}` is the name of a built-in node; give the class another name"
    if kind.place != "request" or kind.body is not None or issubclass(kind, PortsBySettings):
        return f"`{kind.__name__}` is not for requests: leave out `place`, `body` and `ports_for`"
    if not issubclass(kind.Config, NodeConfig):
        return f"`{kind.__name__}.Config` must derive from `graphs.node.NodeConfig`"
    return _fault_of_run(kind.__name__, getattr(kind, "run", None), kind)


def _fault_of_run(name: str, run: Any, kind: type[Node]) -> str | None:
    if not inspect.isfunction(run) or inspect.iscoroutinefunction(run) or inspect.isgeneratorfunction(run):
        return f"`{name}` needs a method `run(self, call, …)`, which returns its value"
    parameters = list(inspect.signature(run).parameters.values())
    if len(parameters) < 2 or parameters[1].name != "call":
        return f"the first parameters of `{name}.run` must be `self` and `call`"
    for port in parameters[2:]:
        if port.kind in (port.VAR_POSITIONAL, port.VAR_KEYWORD, port.POSITIONAL_ONLY):
            return f"the input `{port.name}` of `{name}.run` needs a name of its own"
        if port.annotation is port.empty:
            return f"the input `{port.name}` of `{name}.run` has no type, such as `{port.name}: list[Prompt]`"
    if "return" not in run.__annotations__:
        return f"`{name}.run` has no type of its result, such as `-> list[Prompt]`"
    return _fault_of_types(name, kind)


def _fault_of_types(name: str, kind: type[Node]) -> str | None:
    try:
        node.inputs(kind)
        gives = node.output(kind)
        kind.Config.model_rebuild()
    except Exception as error:  # of names that are not there, and of types that are none
        return f"the types of `{name}` cannot be read: {type(error).__name__}: {error}"
    if holds(gives, (Stream, Series)):
        return f"`{name}.run` gives {show(gives)}; a node of {NODES_FILE} gives values that come whole"
    return None
