"""A decoder for tests whose replies a file gives: templates, parsers, grammars, clients meet a real engine.

It runs only where a graph names the device `fake` and a file that ends in `.script`, which no graph does that
Braid writes.  The reply is chosen by what the cache holds, so that a wrong block or position changes it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from pipelines.inference.backends.fake_decoder import LACKS, LOGIT_RANGE, FakeSession
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.step import Step

log = logging.getLogger(__name__)

SAID = np.float32(4 * LOGIT_RANGE)
"""The logit of the token that the script wants."""
ENDED = np.float32(2 * LOGIT_RANGE)
"""The logit of the end token: drawn where a grammar forbids what the script wants, as far as it may end."""


@dataclass(frozen=True, slots=True)
class ScriptEntry:
    """One entry of a script: the text of a reply, and the words that the messages before it must have.

    Those without `after` are the replies of a conversation's turns, in their order.
    """

    text: str
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """The replies of a model and the marks of its chat template.

    `opening` is what a template writes before a reply, `end` the token behind it.
    """

    replies: Sequence[ScriptEntry]
    tokenizer: Tokenizer
    opening: Sequence[int]
    end: int

    def reply_to(self, context: NDArray[np.int64]) -> tuple[str, NDArray[np.int64]]:
        """The text of the reply that the token ids of a context have begun, and its token ids so far."""
        begins = self._openings(context)
        if not len(begins):
            return "", context[:0]
        newest = context[begins[-2] if len(begins) > 1 else 0 : begins[-1] - len(self.opening)]
        if len(begins) > 1:  # what is behind the earlier reply
            ends = np.flatnonzero(newest == self.end)
            newest = newest[ends[0] + 1 :] if len(ends) else newest[:0]
        return self._text(self._decode(newest), len(begins) - 1), context[begins[-1] :]

    def next_token(self, text: str, said: NDArray[np.int64]) -> int:
        """The token that continues a reply, the end token at its end and where something else was said."""
        wanted: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        if wanted[: len(said)] == said.tolist():
            return wanted[len(said)] if len(said) < len(wanted) else self.end
        begun = self._decode(said)
        if not text.startswith(begun) or text == begun:
            return self.end
        rest: list[int] = self.tokenizer.encode(text[len(begun) :], add_special_tokens=False).ids
        return rest[0]

    def _openings(self, context: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places behind the opening marks of all replies."""
        size = len(self.opening)
        if len(context) < size:
            return np.empty(0, np.int64)
        windows = np.lib.stride_tricks.sliding_window_view(context, size)
        return np.flatnonzero((windows == np.array(self.opening)).all(axis=1)) + size

    def _decode(self, ids: NDArray[np.int64]) -> str:
        known = ids[(ids >= 0) & (ids < self.tokenizer.get_vocab_size())].tolist()
        text: str = self.tokenizer.decode(known, skip_special_tokens=False)
        return text

    def _text(self, newest: str, turn: int) -> str:
        for reply in self.replies:
            if reply.after is not None and reply.after in newest:
                return reply.text
        turns = [reply.text for reply in self.replies if reply.after is None]
        return turns[turn] if turn < len(turns) else ""


@dataclass(slots=True)
class ScriptedSession(FakeSession):
    """A fake session that says what its script gives for the messages in its cache."""

    script: Script = field(kw_only=True)

    def run(self, step: Step) -> NDArray[np.float32]:
        """float32[num_logits, vocab_size]; the token that the script wants is the likeliest one."""
        logits = FakeSession.run(self, step)
        owners = np.searchsorted(step.starts, step.logit_indices, side="right") - 1
        ends = step.num_past[owners] + step.logit_indices - step.starts[owners] + 1
        logits[:, self.script.end] = ENDED
        for row, (owner, end) in enumerate(zip(owners, ends, strict=True)):
            places = np.arange(end)
            context = self.cache[
                step.block_table[owner, places // self.block_tokens], places % self.block_tokens
            ]
            logits[row, self.script.next_token(*self.script.reply_to(context))] = SAID
        return logits

    def describe(self) -> Mapping[str, str]:
        return {**FakeSession.describe(self), "replies": f"{len(self.script.replies)} of a script"}


def open_scripted(path: Path, settings: DecoderSettings) -> ScriptedSession:
    """The session of a JSON file: `tokenizer` (a path beside it), `opening`, `end`, `replies`, and fields of
    `FakeSession` as `session`.  Raises `ModelError`.
    """
    settings.refuse("device fake", *LACKS)
    try:
        content: dict[str, Any] = json.loads(path.read_text())
        tokenizer = Tokenizer.from_file(str(path.parent / content["tokenizer"]))
        opening = tokenizer.encode(content["opening"], add_special_tokens=False).ids
        replies = [ScriptEntry(**reply) for reply in content["replies"]]
        script = Script(replies, tokenizer, opening, tokenizer.token_to_id(content["end"]))
    except Exception as error:  # tokenizers raises plain exceptions
        raise ModelError(f"{path.name} is no script of replies: {error}") from error
    log.warning("%s is no model: it says what is written in it", path)
    fields = {"vocab_size": tokenizer.get_vocab_size(), **content.get("session", {})}
    return ScriptedSession(**fields, script=script)
