"""OpenAI's tools that the client runs and declares by their type alone: a shell, and patches of files.

The model is shown each as a function; its call and result are items of their own, whose types are that of the
tool with `_call` and with `_call_output`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

SHELL, LOCAL_SHELL, APPLY_PATCH = "shell", "local_shell", "apply_patch"
OPERATIONS = ("create_file", "update_file", "delete_file")
LIMITS = ("timeout_ms", "max_output_length")
PLACES = ("timeout_ms", "user", "working_directory")
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1}
WHOLE = {"type": "integer"}

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BuiltInTool:
    """One such tool.

    `function` is how the model is shown it; `call` makes the fields of a call's item from its arguments, of
    which some may be missing, `arguments` those from an item; `result` is the text of a result's item.
    """

    function: Fields
    call: Callable[[Mapping[str, Any]], Fields]
    arguments: Callable[[Mapping[str, Any]], Fields]
    result: Callable[[Mapping[str, Any]], str]


def arguments_of(text: str) -> Fields:
    """Arguments as an object; of those that a limit cut off, what was whole."""
    try:
        value = from_json(text or "{}", allow_partial=True)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> list[str]:
    values = [value] if isinstance(value, str) else value
    return [text for text in values if isinstance(text, str)] if isinstance(values, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _of_type(values: Mapping[str, Any], names: tuple[str, ...], wanted: type) -> Fields:
    """The values of these names; None in place of any of another type."""
    return {name: values[name] if type(values.get(name)) is wanted else None for name in names}


def _present(values: Mapping[str, Any], names: tuple[str, ...]) -> Fields:
    return {name: values[name] for name in names if values.get(name) is not None}


def _object(properties: Fields, *required: str) -> Fields:
    return {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }


# --- shell: commands in the words of a shell


def _shell_call(arguments: Mapping[str, Any]) -> Fields:
    action = {"commands": _texts(arguments.get("commands")), **_of_type(arguments, LIMITS, int)}
    return {"action": action, "environment": None, "caller": None}


def _shell_arguments(item: Mapping[str, Any]) -> Fields:
    return _present(item["action"], ("commands", *LIMITS))


def _shell_result(item: Mapping[str, Any]) -> str:
    return "\n".join(map(_shell_output, item["output"]))


def _shell_output(output: Mapping[str, Any]) -> str:
    """What one command wrote, and how it ended."""
    outcome = output.get("outcome")
    outcome = outcome if isinstance(outcome, dict) else {}
    end = "timed out" if outcome.get("type") == "timeout" else f"exit code: {outcome.get('exit_code')}"
    errors = _text(output.get("stderr"))
    parts = [_text(output.get("stdout")), f"stderr:\n{errors}" if errors else "", end]
    return "\n".join(part.rstrip("\n") for part in parts if part)


# --- local_shell: one command as the words of a program's call


def _local_shell_call(arguments: Mapping[str, Any]) -> Fields:
    env = arguments.get("env")
    texts = (
        {name: text for name, text in env.items() if isinstance(text, str)} if isinstance(env, dict) else {}
    )
    limits = _of_type(arguments, PLACES[:1], int) | _of_type(arguments, PLACES[1:], str)
    return {"action": {"type": "exec", "command": _texts(arguments.get("command")), "env": texts, **limits}}


def _local_shell_arguments(item: Mapping[str, Any]) -> Fields:
    return _present(item["action"], ("command", "env", *PLACES))


# --- apply_patch: one operation on a file


def _patch_call(arguments: Mapping[str, Any]) -> Fields:
    kind = arguments.get("type") if arguments.get("type") in OPERATIONS else "update_file"
    operation = {"type": kind, "path": _text(arguments.get("path"))}
    if kind != "delete_file":
        operation["diff"] = _text(arguments.get("diff"))
    return {"operation": operation, "caller": None}


def _patch_arguments(item: Mapping[str, Any]) -> Fields:
    return _present(item["operation"], ("type", "path", "diff"))


def _patch_result(item: Mapping[str, Any]) -> str:
    return "\n".join(filter(None, (_text(item.get("status")), _text(item.get("output")))))


BUILT_IN: dict[str, BuiltInTool] = {
    SHELL: BuiltInTool(
        {
            "description": "Runs shell commands and returns what each writes and its exit code.",
            "parameters": _object({"commands": TEXTS, **dict.fromkeys(LIMITS, WHOLE)}, "commands"),
        },
        _shell_call,
        _shell_arguments,
        _shell_result,
    ),
    LOCAL_SHELL: BuiltInTool(
        {
            "description": "Runs a program, given as a list of its name and its arguments, and returns what "
            'it writes. For a command line of a shell: ["bash", "-lc", "..."].',
            "parameters": _object(
                {"command": TEXTS, "working_directory": TEXT, "timeout_ms": WHOLE}, "command"
            ),
        },
        _local_shell_call,
        _local_shell_arguments,
        lambda item: _text(item.get("output")),
    ),
    APPLY_PATCH: BuiltInTool(
        {
            "description": "Creates, updates or deletes one file. `diff` has the lines of a new file, each "
            "after +, or the changed places of a file: a line @@ with the line of code they are in, then "
            "lines after a space, - or +. There is none where a file is deleted.",
            "parameters": _object(
                {"type": {"type": "string", "enum": [*OPERATIONS]}, "path": TEXT, "diff": TEXT},
                "type",
                "path",
            ),
        },
        _patch_call,
        _patch_arguments,
        _patch_result,
    ),
}
"""Type of a tool → what stands for it."""
