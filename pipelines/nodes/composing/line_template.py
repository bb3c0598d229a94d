"""The template of a line: Jinja over the values of other lines, in the sandbox of chat templates."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

import jinja2
from jinja2 import StrictUndefined, meta

from graphs.graph import SettingError
from pipelines.base.errors import BraidError, EngineError
from pipelines.nodes.text.templates.jinja_template import MAX_PROMPT_CHARS, MAX_RENDER_S, environment


class LineTemplate:
    """`variables` are the names that it reads, in the order in which it first does."""

    def __init__(self, source: str) -> None:
        """Raises SettingError for a text that is no template."""
        env = environment()
        env.undefined = StrictUndefined
        try:
            names = meta.find_undeclared_variables(env.parse(source)) - env.globals.keys()
            self._template = env.from_string(source)
        except (jinja2.TemplateError, RecursionError, MemoryError) as error:
            raise SettingError(f"`template` does not compile: {error}", "template") from None
        self.variables = sorted(names, key=lambda name: _first_place(name, source))

    def render(self, values: Mapping[str, Any]) -> str:
        """The text.  Raises EngineError where the template fails."""
        pieces, size, end_s = [], 0, time.thread_time() + MAX_RENDER_S
        try:
            for piece in self._template.generate(**values):
                pieces.append(piece)
                size += len(piece)
                if size > MAX_PROMPT_CHARS or time.thread_time() > end_s:
                    raise EngineError("the text of a template takes too long, or grows too large")
        except BraidError:
            raise
        except Exception as error:  # a template is a program and can raise anything
            raise EngineError(f"the template failed: {type(error).__name__}: {error}") from error
        return "".join(pieces)


def _first_place(name: str, source: str) -> int:
    found = re.search(rf"\b{re.escape(name)}\b", source)
    return found.start() if found else len(source)
