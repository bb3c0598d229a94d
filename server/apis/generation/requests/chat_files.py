"""The files of a conversation of chat completions: parts of type `file` become their text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.requests.generation.conversation import FILE_PART, ContentPart, Message
from server.media.file_parts import FileReader


def put_texts(messages: Sequence[Any], place: str) -> None:
    """Put the text of each file into its place, of messages that are at `place` in the request.

    Raises as `FileReader.text`.
    """
    texts = FileReader()
    for number, message in enumerate(messages):
        parts = message.content if isinstance(message, Message) and isinstance(message.content, list) else []
        for i, part in enumerate(parts):
            if part.type == FILE_PART:
                file = (part.model_extra or {}).get("file")
                where = f"{place}.{number}.content.{i}.file"
                text = texts.text(file if isinstance(file, dict) else {}, where)
                parts[i] = ContentPart(type="text", text=text)
