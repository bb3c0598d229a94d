"""The files of a conversation of chat completions: parts of type `file` become their text."""

from __future__ import annotations

from pipelines.requests.generation.conversation import ContentPart, Message
from server.media.file_parts import FileReader

FILE_PART = "file"


def read_files(messages: list[Message]) -> None:
    """Put the text of each file into its place.  Raises as `FileReader.text`."""
    texts = FileReader()
    for number, message in enumerate(messages):
        parts = message.content if isinstance(message.content, list) else []
        for i, part in enumerate(parts):
            if part.type == FILE_PART:
                file = (part.model_extra or {}).get("file")
                where = f"messages.{number}.content.{i}.file"
                text = texts.text(file if isinstance(file, dict) else {}, where)
                parts[i] = ContentPart(type="text", text=text)
