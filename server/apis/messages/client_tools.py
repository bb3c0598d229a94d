"""Tools of Anthropic's that the client runs, which it declares by a type alone: their inputs as published.

Does not depend on messages, templates or HTTP.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class ClientTool(NamedTuple):
    """What the prompt says of such a tool."""

    description: str
    input_schema: dict[str, Any]


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _whole(description: str) -> dict[str, Any]:
    return {"type": "integer", "description": description}


def _tool(
    description: str, commands: tuple[str, ...], required: tuple[str, ...], **properties: Any
) -> ClientTool:
    """A tool with several commands, each of which takes some of the properties."""
    command = {"type": "string", "enum": [*commands], "description": "What to do."}
    fields = {"command": command, **properties}
    return ClientTool(
        description, {"type": "object", "properties": fields, "required": ["command", *required]}
    )


RANGE = {
    "type": "array",
    "items": {"type": "integer"},
    "minItems": 2,
    "maxItems": 2,
    "description": "For view: the first and the last line, counted from 1; a last line of -1 is the end.",
}
FILE = {
    "path": _text("The file or folder."),
    "view_range": RANGE,
    "file_text": _text("For create: the content of the file."),
    "old_str": _text("For str_replace: the text to replace, which the file must have exactly once."),
    "new_str": _text("For str_replace: the text in its place."),
    "insert_line": _whole("For insert: the line after which to insert; 0 is before the first."),
}
INSERTED = _text("For insert: the text to insert.")
EDITS = "Views, creates and edits files."

BASH = ClientTool(
    "Runs a command in a bash shell that keeps its state from call to call.",
    {
        "type": "object",
        "properties": {
            "command": _text("The command to run; it may be left out to restart the shell."),
            "restart": {"type": "boolean", "description": "Whether to restart the shell."},
        },
    },
)
EDITOR = _tool(EDITS, ("view", "create", "str_replace", "insert"), ("path",), **FILE, insert_text=INSERTED)
OLDER_EDITOR = _tool(
    EDITS,
    ("view", "create", "str_replace", "insert", "undo_edit"),
    ("path",),
    **{**FILE, "new_str": _text("For str_replace: the text in its place; for insert: the text to insert.")},
)
MEMORY = _tool(
    "Keeps notes in files below /memories, from conversation to conversation.",
    ("view", "create", "str_replace", "insert", "delete", "rename"),
    (),
    **FILE,
    insert_text=INSERTED,
    old_path=_text("For rename: the file or folder."),
    new_path=_text("For rename: its new path."),
)
CLIENT_TOOLS = {
    "bash_": BASH,
    "text_editor_2024": OLDER_EDITOR,
    "text_editor_20250124": OLDER_EDITOR,
    "text_editor_": EDITOR,
    "memory_": MEMORY,
}
"""How the types of a tool begin, the versions that differ first → the tool."""
ON_SCREENS = ("computer_", "browser_")
"""How the types of tools begin that the client runs on a screen: models here give no places in pixels."""


def client_tool(type: str) -> ClientTool | None:
    """The tool of a type; None for one that a server runs, or that is not known."""
    return next((tool for begin, tool in CLIENT_TOOLS.items() if type.startswith(begin)), None)
