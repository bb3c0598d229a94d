"""Entities of the classes of tokens, as transformers' TokenClassificationPipeline makes them.

Its strategies: none, each token alone; simple, tokens of one class together; first, average and max decide
the class of a whole word before that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.base.errors import RequestError
from pipelines.values.node_values import FoundEntities, Prompt, TokenClasses, Tokens

Floats = NDArray[np.float32]
Strategy = Literal["none", "simple", "first", "average", "max"]
UNKNOWN = ("[UNK]", "<unk>")
OUTSIDE = "O"
"""The label of tokens that belong to no entity."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A token, or several: its label, its score, its text, and its characters from `start` to `end`.

    `index` is the token's place in its text, special tokens counted; None of several together.
    """

    label: str
    score: float
    word: str
    start: int
    end: int
    index: int | None = None


class WordPiece(NamedTuple):
    """A token of a text that is no special one; `continues` a word that began before it."""

    word: str
    scores: Floats
    start: int
    end: int
    place: int
    continues: bool


def entities_of(
    classes: TokenClasses, strategy: Strategy = "none", ignore: Collection[str] = (OUTSIDE,)
) -> list[list[Entity]]:
    """The entities of each text, without those whose label is in `ignore`.

    Raises RequestError for texts that came as token ids.
    """
    by_text: list[list[list[Entity]]] = [[] for _ in classes.prompts]
    encodings: dict[int, Any] = {}
    for tokens, scores in zip(classes.tokens, classes.values, strict=True):
        prompt = classes.prompts[tokens.of]
        if tokens.of not in encodings:
            encodings = {
                tokens.of: _encoding(prompt, classes.tokenizer)
            }  # windows of a text follow each other
        pieces = _pieces(prompt.text or "", tokens, scores, encodings[tokens.of], classes.tokenizer)
        entities = _entities(pieces, classes, strategy)
        by_text[tokens.of].append([entity for entity in entities if entity.label not in ignore])
    return [_of_windows(windows) for windows in by_text]


def _of_windows(windows: list[list[Entity]]) -> list[Entity]:
    """The entities of a text: of those of several windows that overlap the longest, then the likeliest."""
    if len(windows) == 1:
        return windows[0]
    chosen: list[Entity] = []
    for entity in sorted(
        (entity for window in windows for entity in window), key=lambda entity: entity.start
    ):
        if not chosen or not chosen[-1].start <= entity.start < chosen[-1].end:
            chosen.append(entity)
        elif (entity.end - entity.start, entity.score) > (
            chosen[-1].end - chosen[-1].start,
            chosen[-1].score,
        ):
            chosen[-1] = entity
    return chosen


def spans_as_entities(found: FoundEntities, ignore: Collection[str] = ()) -> list[list[Entity]]:
    """The entities of a model that finds labels of the request, without those whose label is in `ignore`."""
    return [
        [
            Entity(span.label, span.score, span.text, span.start, span.end)
            for span in spans
            if span.label not in ignore
        ]
        for spans in found.values
    ]


def _entities(pieces: list[WordPiece], classes: TokenClasses, strategy: Strategy) -> list[Entity]:
    """The entities of one text, those outside of any too."""
    if strategy == "none" or strategy == "simple":
        tokens = [
            Entity(*_best(piece.scores, classes.labels), piece.word, piece.start, piece.end, piece.place)
            for piece in pieces
        ]
        return tokens if strategy == "none" else list(_grouped(tokens, classes.tokenizer))
    words = [
        Entity(
            *_best(_word_scores(word, strategy), classes.labels),
            _joined([piece.word for piece in word], classes.tokenizer),
            word[0].start,
            word[-1].end,
        )
        for word in _words(pieces)
    ]
    return list(_grouped(words, classes.tokenizer))


def _best(scores: Floats, labels: Sequence[str]) -> tuple[str, float]:
    best = int(scores.argmax())
    return labels[best], float(scores[best])


def _word_scores(word: list[WordPiece], strategy: Strategy) -> Floats:
    """The scores of a word, from those of its tokens."""
    if strategy == "first":
        return word[0].scores
    if strategy == "max":
        return max(word, key=lambda piece: piece.scores.max()).scores
    mean: Floats = np.stack([piece.scores for piece in word]).mean(axis=0)
    return mean


def _words(pieces: list[WordPiece]) -> Iterator[list[WordPiece]]:
    """The tokens of each word."""
    starts = [place for place, piece in enumerate(pieces) if place == 0 or not piece.continues]
    return (pieces[start:end] for start, end in zip(starts, [*starts[1:], len(pieces)], strict=True))


def _grouped(entities: list[Entity], tokenizer: Any) -> Iterator[Entity]:
    """Neighbours of one class as one entity, where the later ones do not begin an entity of their own."""
    groups: list[list[Entity]] = []
    for entity in entities:
        begins, kind = _tag(entity.label)
        if groups and not begins and _tag(groups[-1][-1].label)[1] == kind:
            groups[-1].append(entity)
        else:
            groups.append([entity])
    for group in groups:
        yield Entity(
            group[0].label.split("-", 1)[-1],
            float(np.mean(np.array([entity.score for entity in group], np.float32))),
            _joined([entity.word for entity in group], tokenizer),
            group[0].start,
            group[-1].end,
        )


def _tag(label: str) -> tuple[bool, str]:
    """Whether a label begins an entity, and the entity's class."""
    if label.startswith(("B-", "I-")):
        return label.startswith("B-"), label[2:]
    return False, label


def _joined(words: list[str], tokenizer: Any) -> str:
    decoder = tokenizer.decoder
    text: str = " ".join(words) if decoder is None else decoder.decode(words)
    return text


def _encoding(prompt: Prompt, tokenizer: Any) -> Any:
    """All tokens of a text, with their places.  Raises RequestError for token ids."""
    if prompt.text is None:
        raise RequestError("entities have places in a text; send the text, not token ids", "input")
    special = prompt.add_special_tokens
    return tokenizer.encode_batch([prompt.text], add_special_tokens=special)[0]  # a batch releases the GIL


def _pieces(text: str, tokens: Tokens, scores: Floats, encoding: Any, tokenizer: Any) -> list[WordPiece]:
    """The tokens of a text without special ones; of a text that was cut those that the model read."""
    is_special = encoding.special_tokens_mask
    marks_parts = bool(getattr(tokenizer.model, "continuing_subword_prefix", None))
    unknown = {tokenizer.token_to_id(token) for token in UNKNOWN}
    pieces = []
    for index, place in enumerate(_places(encoding.ids, is_special, tokens)):
        if is_special[place]:
            continue
        word, (start, end) = encoding.tokens[place], encoding.offsets[place]
        shown = text[start:end]
        continues = len(word) != len(shown) if marks_parts else _follows(text, start)
        if encoding.ids[place] in unknown:
            word, continues = shown, False
        pieces.append(WordPiece(word, scores[index], start, end, index, continues))
    return pieces


def _follows(text: str, start: int) -> bool:
    """Whether no blank is before the character, or it: what a token is that continues a word."""
    return start > 0 and " " not in text[start - 1 : start + 1]


def _places(whole: list[int], is_special: list[int], tokens: Tokens) -> list[int]:
    """The places in the whole text of the tokens that the model read: all, a window of them, or those at one
    of its ends; and its special tokens.
    """
    ids, start = tokens.ids, tokens.start
    num_cut = len(whole) - len(ids)
    inner = [place for place, special in enumerate(is_special) if not special]
    num_inner = len(inner) - num_cut
    for remaining in (inner[start : start + num_inner], inner[num_cut:]):
        places = sorted({*remaining, *(place for place, special in enumerate(is_special) if special)})
        if [whole[place] for place in places] == ids:
            return places
    raise RequestError("a text of tokens that are not those of its words has no entities", "input")
