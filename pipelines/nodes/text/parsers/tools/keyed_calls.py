"""Reads calls in JSON whose keys are the names: `[{"f": {"city": "Oslo"}}, {"g": {}}]`.

The calls are given out when their block is complete.
"""

from __future__ import annotations

import json
from typing import Any

from pipelines.nodes.text.parsers.tools.calls import CallSink
from pipelines.nodes.text.parsers.tools.characters import CharacterReader
from pipelines.nodes.text.parsers.tools.declared import Declared
from pipelines.nodes.text.parsers.tools.json_text import Brackets, value_of


class KeyedReader(CharacterReader):
    """The reader of one block."""

    def __init__(self, close: str, calls: CallSink, declared: Declared) -> None:
        super().__init__(close)
        self.closed = False
        self._calls = calls
        self._json = Brackets()

    def finish(self) -> None:
        """Calls can be complete without the closing marker."""
        if not self._found():
            self._left.append(self._held)

    def _take(self, char: str) -> int | None:
        self._json.take(char)
        self._left.append(char)
        return None

    def _quoted(self) -> bool:
        return self._json.quoted

    def _end_at_mark(self) -> None:
        self.closed = True
        if not self._found():
            self._left.append(self._close)

    def _found(self) -> bool:
        """Whether the block is calls."""
        called = _calls(value_of(self.left()))
        for name, arguments in called:
            self._calls.begin(name)
            self._calls.more(json.dumps(arguments, ensure_ascii=False))
        if called:
            self._left.clear()
        return bool(called)


def _calls(value: Any) -> list[tuple[str, dict[str, Any]]]:
    """(name, arguments) of each call in a list of objects, [] where there is anything else."""
    calls = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) and len(each) == 1 for each in calls):
        return []
    pairs = [pair for each in calls for pair in each.items()]
    return pairs if all(isinstance(arguments, dict) for _, arguments in pairs) else []
