"""Finds out whether a chat template takes a message's content as text or as OpenAI's list of parts.

Examines the template's syntax tree as vLLM does: a template that loops over the content of a message takes
parts.
"""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

STRING, OPENAI = "string", "openai"
MESSAGES, MESSAGE, CONTENT = "messages", "message", "content"


def detect(tree: nodes.Template) -> str:
    """STRING or OPENAI."""
    names = _names(tree)
    loops = tree.find_all(nodes.For)
    return OPENAI if any(CONTENT in _kinds(loop.iter, names) for loop in loops) else STRING


def _names(tree: nodes.Template) -> dict[str, set[str]]:
    """Name → which of the conversation's values it can have, wherever it is bound."""
    names: dict[str, set[str]] = {"messages": {MESSAGES}}
    bindings = [*_bindings(tree)]
    grown = True
    while grown:
        grown = False
        for target, value, loops in bindings:
            kinds = _kinds(value, names)
            if loops:
                kinds = {MESSAGE} if MESSAGES in kinds else set()
            known = names.setdefault(target, set())
            grown |= not kinds <= known
            known |= kinds
    return names


def _bindings(tree: nodes.Template) -> Iterator[tuple[str, nodes.Node, bool]]:
    """(name, what it is bound to, whether to its items): of loops, `set` and macros' arguments."""
    for loop in tree.find_all(nodes.For):
        if isinstance(loop.target, nodes.Name):
            yield loop.target.name, loop.iter, True
    for assign in tree.find_all(nodes.Assign):
        if isinstance(assign.target, nodes.Name):
            yield assign.target.name, assign.node, False
    macros = {macro.name: macro for macro in tree.find_all(nodes.Macro)}
    for call in tree.find_all(nodes.Call):
        macro = macros.get(call.node.name) if isinstance(call.node, nodes.Name) else None
        if macro is not None:
            for parameter, value in zip(macro.args, call.args, strict=False):
                yield parameter.name, value, False
            for keyword in call.kwargs:
                yield keyword.key, keyword.value, False


def _kinds(node: nodes.Node | None, names: dict[str, set[str]]) -> set[str]:
    """Which of the conversation's values an expression can have: the messages, one of them, its content."""
    if isinstance(node, nodes.Name):
        return names.get(node.name, set())
    if isinstance(node, nodes.Filter | nodes.Test):
        return _kinds(node.node, names)
    if isinstance(node, nodes.CondExpr):
        return _kinds(node.expr1, names) | _kinds(node.expr2, names)
    if isinstance(node, nodes.Or | nodes.And):
        return _kinds(node.left, names) | _kinds(node.right, names)
    if isinstance(node, nodes.Getattr):
        return {CONTENT} if node.attr == "content" and MESSAGE in _kinds(node.node, names) else set()
    if isinstance(node, nodes.Getitem):
        return _item(node, _kinds(node.node, names))
    return set()


def _item(node: nodes.Getitem, kinds: set[str]) -> set[str]:
    if isinstance(node.arg, nodes.Slice):
        return kinds
    if isinstance(node.arg, nodes.Const) and node.arg.value == "content":
        return {CONTENT} if MESSAGE in kinds else set()
    return {MESSAGE} if MESSAGES in kinds else set()
