"""Texts with a gap → the prompt of a model that fills it, in token ids.

What clients wrote is text, also where it looks like a special token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tokenizers import Tokenizer

from pipelines.base.errors import RequestError
from pipelines.nodes.text.tokenizing.gap_forms import ALL_MARKS, GapForm, gap_form
from pipelines.values.node_values import Gap, Prompt

PROJECT = "myproject\n"
THIS_FILE = "filename\n"
SNIPPET = "\n\n--- snippet ---\n\n"
"""What llama.cpp writes for the name of the repository and of this file, and between files of a model that
has no token for that."""
SUFFIX_PART = 4
"""The text behind the gap gets at most one of this many equal parts of the room for a prompt."""


class GapReader:
    """Writes prompts in the form that a vocabulary has; `form` is None where it has none."""

    def __init__(self, tokenizer: Tokenizer, encode: Callable[[Prompt], list[int]]) -> None:
        tokens = tokenizer.get_added_tokens_decoder().items()
        self.form = gap_form({token.content: token_id for token_id, token in tokens})
        self._encode = encode
        marks = [token.content for _, token in tokens if token.special or token.content in ALL_MARKS]
        longest_first = sorted(filter(None, marks), key=len, reverse=True)
        self._marks = re.compile("|".join(map(re.escape, longest_first))) if marks else None

    def ids(self, gap: Gap, framed: Callable[[list[int]], list[int]]) -> list[int]:
        """The prompt; `framed` puts what begins every prompt before ids.  Raises RequestError."""
        form = self.form
        if form is None:
            raise RequestError(
                f"`{gap.field}`: {gap.field} is only supported for models with FIM completion rendering: the "
                "vocabulary of this model has no tokens for a text with a gap",
                field=gap.field,
            )
        prefix, suffix, others = self.plain(gap.prefix), self.plain(gap.suffix), self._others(gap, form)
        if gap.room is not None:
            suffix = suffix[: max(gap.room // SUFFIX_PART, 1)]
            prefix = prefix[-max(gap.room - len(suffix), 1) :]
            others = _last(others, gap.room - len(suffix) - len(prefix))
        parts = [[form.prefix, *prefix], [form.suffix, *suffix]]
        ordered = reversed(parts) if form.suffix_first else parts
        middle = [] if form.middle is None else [form.middle]
        return others + framed([*(token for part in ordered for token in part), *middle])

    def _others(self, gap: Gap, form: GapForm) -> list[int]:
        """The other files, and where the model has tokens for that, the name of this one."""
        if not gap.others:
            return []
        ids = [] if form.repository is None else [form.repository, *self.plain(PROJECT)]
        for name, text in gap.others:
            if form.file is None:
                ids += self.plain(SNIPPET) + self.plain(text)
            else:
                ids += [form.file, *self.plain(f"{name}\n"), *self.plain(text)]
        return ids if form.file is None else [*ids, form.file, *self.plain(THIS_FILE)]

    def plain(self, text: str) -> list[int]:
        """A text in which no mark is a token: each is cut behind its first character."""
        pieces = tuple(self._pieces(text))
        if len(pieces) < 2:
            return self._encode(Prompt(text)) if text else []
        return self._encode(Prompt(text, pieces=pieces))

    def _pieces(self, text: str) -> Iterator[str]:
        start = 0
        for mark in self._marks.finditer(text) if self._marks else ():
            yield text[start : mark.start() + 1]
            start = mark.start() + 1
        yield text[start:]


def _last(ids: list[int], number: int) -> list[int]:
    """The last of ids, at most `number` of them."""
    return ids[-number:] if number > 0 else []
