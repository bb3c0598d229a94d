"""The mark_words node: texts and labels of a request → tokens with marks of words, as GLiNER reads them."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

from pydantic import Field

from graphs.node import FilePath
from pipelines.base.errors import RequestError
from pipelines.nodes.entities.span_settings import SpanSettings, read_span_settings
from pipelines.nodes.interface import Loading, Planning, Running
from pipelines.nodes.request_plan import RequestPlan
from pipelines.nodes.text.tokenizing.tokenize import TokenizerNode
from pipelines.values.entity_values import MarkedText
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import LabelSet, PoolingInput

WORD = re.compile(r"\w+(?:[-_]\w+)*|\S")
EMPTY = "[PAD]"
"""The word of a text without any, for a model reads at least one."""
MAX_COUNTED_WORDS = 1 << 15
"""Words of a text that are looked at, from its first or its last: more than any model reads."""
MAX_WORD_CHARS = 1024
"""Characters of a word that become tokens: a blob without blanks may be all of a body."""
MAX_PROMPT_CHARS = 1 << 23
"""Characters of the labels, before each text of a request, together."""


class MarkWords(TokenizerNode, Planning):
    """Puts the labels of a request before each text and splits it into words, whose tokens it marks.

    Texts with more words than the model takes are cut where the request allows it, else refused.
    """

    class Config(TokenizerNode.Config):
        settings: FilePath = Field(description="the gliner_config.json of the model")
        max_tokens: int | None = Field(
            default=None, ge=1, description="the most tokens of labels and text; default: any number"
        )

    def load(self, resources: Loading) -> None:
        """Raises ValueError for a tokenizer without the model's own tokens."""
        super().load(resources)
        self.settings: SpanSettings = resources.shared(read_span_settings, self.folder / self.config.settings)
        for token in (self.settings.entity, self.settings.separator):
            if self.tokenizer.token_to_id(token) is None:
                raise ValueError(
                    f"{self.config.tokenizer} has no token {token}, which {self.config.settings} names"
                )

    def plan(self, request: PoolingInput) -> RequestPlan:
        return RequestPlan(handled=frozenset({"labels"}))

    def run(self, call: Running, request: PoolingInput) -> list[MarkedText]:
        """Raises RequestError without labels, and for texts that are too long."""
        wanted = request.wanted
        if wanted is None:
            raise RequestError(
                "`labels` is required: this model finds entities of the labels in the request", "labels"
            )
        if request.pairs or not request.prompts:
            raise RequestError("this model takes texts, no pairs and no conversations", "input")
        num_texts = len(request.prompts)
        if wanted.of_each and len(wanted.sets) != num_texts:
            raise RequestError(
                f"`labels` are {len(wanted.sets)} lists for {num_texts} texts: send one for each, or one "
                "list of names for all",
                "labels",
            )
        labels = [wanted.labels_of(place) for place in range(num_texts)]
        if sum(len(prompt) for own in labels for prompt in own.prompts) > MAX_PROMPT_CHARS:
            raise RequestError(
                f"`labels` stand before each text, together {MAX_PROMPT_CHARS} characters at most; send "
                "fewer labels, or the texts in several requests",
                "labels",
            )
        most = self._most(request)
        readers = {own: self._reader(own, most) for own in dict.fromkeys(labels)}
        pairs = zip(request.prompts, labels, strict=True)
        return [self._marked(readers[own], prompt, request, most) for prompt, own in pairs]

    def _reader(self, labels: LabelSet, most: int | None) -> LabelledTextReader:
        """Raises RequestError for labels that no text can stand behind."""
        before = [*chain(*((self.settings.entity, label) for label in labels.prompts))]
        reader = LabelledTextReader(self.tokenizer, self.settings, [*before, self.settings.separator])
        reader.check_labels(len(labels.prompts), most)
        return reader

    def _most(self, request: PoolingInput) -> int | None:
        """The most tokens of a text, with the labels; None: any number."""
        asked = request.truncate_prompt_tokens
        bounds = [bound for bound in (asked if asked != -1 else None, self.config.max_tokens) if bound]
        return min(bounds, default=None)

    def _marked(
        self, reader: LabelledTextReader, prompt: Prompt, request: PoolingInput, most: int | None
    ) -> MarkedText:
        if prompt.text is None:
            raise RequestError("entities have places in a text; send the text, not token ids", "input")
        words = words_of(prompt.text, request.truncate_left)
        may_cut = request.truncate_prompt_tokens is not None
        num_words = len(words)
        words = part_of(words, self.settings.max_words, request.truncate_left)
        tokens = reader.encode(prompt.text, words)
        if most is not None and len(tokens.ids) > most:
            fitting = reader.fitting(tokens, max(len(words), 1), most, request.truncate_left)
            tokens, words = reader.part_of(tokens, fitting), words[fitting.start : fitting.stop]
        if len(words) < num_words and not may_cut:
            or_more = " or more" if num_words == MAX_COUNTED_WORDS else ""
            raise RequestError(
                f"a text has {num_words} words{or_more}, and {len(words)} of them fit with the labels: the "
                f"model reads {self.settings.max_words} words"
                + (f" and {most} tokens" if most else "")
                + "; send "
                "shorter texts or fewer labels, or allow them to be cut (`truncate_prompt_tokens`: -1)",
                "input",
            )
        return reader.marked(prompt.text, words, tokens)


class _Tokens(NamedTuple):
    """Token ids, and the number of each one's word, None for special tokens."""

    ids: list[int]
    words: list[int | None]


@dataclass(frozen=True)
class LabelledTextReader:
    """Reads texts behind one prompt, whose words are `before`."""

    tokenizer: Any
    settings: SpanSettings
    before: list[str]

    def check_labels(self, num_labels: int, most: int | None) -> None:
        """Raise RequestError where labels hold the token that stands before each, or leave no room for text.

        Checked once for a request: else each of its texts would become tokens first.
        """
        ids = self._encoded(self.before).ids
        if ids.count(self.tokenizer.token_to_id(self.settings.entity)) != num_labels:
            raise RequestError(
                f"`labels` may not contain {self.settings.entity}, the model's own token before each label",
                "labels",
            )
        if most is not None and len(ids) >= most:
            raise _no_room(most)

    def encode(self, text: str, words: list[tuple[int, int]]) -> _Tokens:
        """The tokens of the prompt and of these words."""
        texts = [text[start : min(end, start + MAX_WORD_CHARS)] for start, end in words] or [EMPTY]
        return self._encoded([*self.before, *texts])

    def _encoded(self, texts: list[str]) -> _Tokens:
        """Each of the texts is a word, whose tokens do not depend on the others."""
        (encoding,) = self.tokenizer.encode_batch([texts], is_pretokenized=True)  # a batch releases the GIL
        return _Tokens(encoding.ids, encoding.word_ids)

    def marked(self, text: str, words: list[tuple[int, int]], tokens: _Tokens) -> MarkedText:
        """A text as its tokens."""
        skipped = self._num_words(tokens.words)
        return MarkedText(text, tokens.ids, marks_of(tokens.words, skipped, self.settings.pooling), words)

    def fitting(self, tokens: _Tokens, num_words: int, most: int, left: bool) -> range:
        """The numbers of those of the text's `num_words` words that have room in `most` tokens: the first, or
        with `left` the last.  Raises RequestError where none has.
        """
        sizes = [0] * num_words
        for number in tokens.words:
            if number is not None and number >= len(self.before):
                sizes[number - len(self.before)] += 1
        room = most - (len(tokens.ids) - sum(sizes))
        num_fitting = 0
        for size in reversed(sizes) if left else sizes:
            room -= size
            if room < 0:
                break
            num_fitting += 1
        if not num_fitting:
            raise _no_room(most)
        return range(num_words - num_fitting, num_words) if left else range(num_fitting)

    def part_of(self, tokens: _Tokens, fitting: range) -> _Tokens:
        """The tokens of the prompt and of these words of the text, as if it had no others."""
        first = len(self.before)
        part = [
            (token, number if number is None or number < first else number - fitting.start)
            for token, number in zip(tokens.ids, tokens.words, strict=True)
            if number is None or number < first or number - first in fitting
        ]
        return _Tokens([token for token, _ in part], [number for _, number in part])

    def _num_words(self, numbers: list[int | None]) -> int:
        """How many words of the prompt have tokens: a label of blanks has none."""
        return len({number for number in numbers if number is not None and number < len(self.before)})


def _no_room(most: int) -> RequestError:
    return RequestError(
        f"`labels` leave no room for a text: the model reads {most} tokens of both; send fewer",
        "labels",
    )


def words_of(text: str, left: bool) -> list[tuple[int, int]]:
    """The places of the first words of a text, or with `left` of the last: MAX_COUNTED_WORDS at most."""
    if not left:
        return [match.span() for match in islice(WORD.finditer(text), MAX_COUNTED_WORDS)]
    pieces = text.rsplit(None, MAX_COUNTED_WORDS)  # each but the first has a word or more
    start = len(pieces[0]) if len(pieces) > MAX_COUNTED_WORDS else 0
    return [*deque((match.span() for match in WORD.finditer(text, start)), MAX_COUNTED_WORDS)]


def part_of(words: list[tuple[int, int]], most: int, left: bool) -> list[tuple[int, int]]:
    """The first words of a text, or with `left` the last: `most` of them."""
    return words[-most:] if left else words[:most]


def marks_of(numbers: list[int | None], skipped: int, pooling: str) -> list[int]:
    """For each token the number of its word, counted from 1 behind the first `skipped` words that have
    tokens; 0 for tokens from which the model reads no word.

    `numbers` are the words of the tokens, None of special ones.
    """
    marks, seen, earlier = [], 0, None
    for place, number in enumerate(numbers):
        begins = number is not None and number != earlier
        seen += begins
        ends = place + 1 == len(numbers) or numbers[place + 1] != number
        is_read = {"first": begins, "last": ends}.get(pooling, True)
        marks.append(seen - skipped if number is not None and is_read and seen > skipped else 0)
        earlier = number
    return marks
