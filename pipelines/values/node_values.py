"""The values between request nodes that are there at once: each class is a port type of graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
ONLY_LABEL = "LABEL_0"
"""The label of the class of a model with a single score, as in vLLM."""
Grid = tuple[int, int]
"""Rows and columns of the tokens of an image."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A text with a gap, which a model fills: what is before and behind it, and others beside it, each with
    its name.

    `room` is how many tokens the prompt may have at most, longer texts are cut at their far ends; None: it is
    not cut.  `field` is the field of the request that holds what is behind the gap.
    """

    prefix: str
    suffix: str
    others: tuple[tuple[str, str], ...] = ()
    room: int | None = None
    field: str = "suffix"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt before tokenizing: text, or token ids that the client made itself.

    Exactly one of `text` and `ids` is set; `is_rendered`: the text was written by a chat template.  `pieces`
    of the text are tokenized one by one where no token may join them; (): all at once.  Of a prompt with a
    `gap`, `text` is all that is around it.
    """

    text: str | None = None
    ids: list[int] | None = None
    add_special_tokens: bool = False
    is_rendered: bool = False
    pieces: tuple[str, ...] = ()
    gap: Gap | None = None

    @classmethod
    def of_text(cls, text: str) -> Prompt:
        """A text as an encoder reads it: with special tokens."""
        return cls(text=text, add_special_tokens=True)


@dataclass(frozen=True, slots=True)
class Tokens:
    """One text, or a pair of texts, in token ids, and the request's bad words in ids of the same tokenizer.

    `types` holds for each token which text of a pair it belongs to, None where all are 0.  `of` is the index
    of the request's text or pair that this is, or is a part of; `start` is the place of a part's first token
    among those of the whole text, special ones left out.  `prompt_text` is the text of a generative
    model's prompt, of ids that the client made at least its end, and `reply_text` the beginning of the reply
    where the request brings it, as the last of `ids`.  `sampling` are the parameters of `SamplingParams` that
    the prompt demands, whatever the request sets.  `images` are those that some of the tokens stand for.
    """

    ids: list[int]
    bad_words: list[list[int]] = field(default_factory=list)
    types: list[int] | None = None
    of: int = 0
    start: int = 0
    prompt_text: str = ""
    reply_text: str = ""
    sampling: dict[str, Any] = field(default_factory=dict)
    images: list[PlacedImage] = field(default_factory=list)


class PlacedImage(NamedTuple):
    """An image in a prompt: its first token, their number, the digest of what an encoder reads of it, and the
    rows and columns of its tokens where the model's positions depend on them.
    """

    start: int
    num_tokens: int
    digest: bytes
    grid: Grid | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """Rows of tokens that stay in the engine host until their call ends, for a scheduler.

    `request_id` names them there; `lengths` are the rows of each text.
    """

    request_id: int
    lengths: list[int]


@dataclass(frozen=True, slots=True)
class SparseVectors:
    """A sparse vector for each text: the numbers that are not 0, and their places, in ascending order.

    ids: int32[numbers of all texts], each below `size`; weights: float32 of the same length; lengths:
    int32[num_texts].
    """

    ids: NDArray[np.int32]
    weights: Floats
    lengths: NDArray[np.int32]
    size: int

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[tuple[NDArray[np.int32], Floats]]:
        """The places and the numbers of each text."""
        ends = np.cumsum(self.lengths)[:-1]
        return zip(np.split(self.ids, ends), np.split(self.weights, ends), strict=True)

    @property
    def dense(self) -> Floats:
        """float32[num_texts, size]."""
        values = np.zeros((len(self), self.size), np.float32)
        values[np.repeat(np.arange(len(self)), self.lengths), self.ids] = self.weights
        return values


Vectors = Floats | list[Floats] | SparseVectors
"""float32[num_texts, size]; of tokens a float32[num_tokens, size] for each text; or sparse ones."""


@dataclass(frozen=True, slots=True)
class PooledOutputs:
    """The output of a batcher: one vector for each text, or one for each token of each text.

    `vectors` are [] where the engine host holds those of tokens.  `named` are the results that the request
    names, of which `vectors` are the first.
    """

    vectors: Vectors
    held: Held | None = None
    named: Mapping[str, Vectors] = field(default_factory=dict)

    @property
    def values(self) -> Floats | list[Floats]:
        """The vectors as arrays, sparse ones with all their zeros."""
        return self.vectors.dense if isinstance(self.vectors, SparseVectors) else self.vectors

    @property
    def per_token(self) -> bool:
        return isinstance(self.values, list)


@dataclass(frozen=True, slots=True)
class Classes:
    """How likely each class is for each text: float32[num_texts, num_classes].

    Log-odds instead where the request wanted no activation.  `labels` are the names of the classes.
    """

    values: NDArray[np.float32]
    labels: list[str]


@dataclass(frozen=True, slots=True)
class TokenClasses:
    """How likely each class is for each token: of each text float32[num_tokens, num_classes].

    `labels` are the names of the classes.  `prompts` are the texts, and `tokens` those of which the values
    are: of each text all, or in windows that overlap.  `tokenizer` knows their places.
    """

    values: list[Floats]
    labels: list[str]
    prompts: list[Prompt]
    tokens: list[Tokens]
    tokenizer: Any


@dataclass(frozen=True, slots=True)
class EntitySpan:
    """An entity: its characters from `start` to `end`, its label, and the probability of that."""

    start: int
    end: int
    text: str
    label: str
    score: float


@dataclass(frozen=True, slots=True)
class FoundEntities:
    """The entities of each text, by their place."""

    values: list[list[EntitySpan]]


@dataclass(frozen=True, slots=True)
class Scores:
    """How well each document answers its query: float32[num_pairs], in the order of the request's pairs."""

    values: NDArray[np.float32]

    @property
    def as_classes(self) -> Classes:
        """The scores as probabilities of the only class."""
        return Classes(self.values[:, None], [ONLY_LABEL])


class Tensors(dict[str, NDArray[Any]]):
    """Arrays by name, the inputs and outputs of a tensor model; strings are bytes in arrays of objects."""


@dataclass(frozen=True, slots=True)
class Features:
    """What an encoder of sound reads: float32[windows, size, frames], each window of the model's length."""

    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SpokenSound:
    """Samples of one channel, int16[samples], `rate` of them a second."""

    samples: NDArray[np.int16]
    rate: int


@dataclass(frozen=True, slots=True)
class Images:
    """What an encoder of images reads: float32[parts, 3, height, width], all of the model's size; an image
    may be several parts.  Of images that are `grids` of tokens: float32[tokens of all images, …].

    `lengths` are the tokens of each part, `digests` name their contents; the tokens are `token_id`.  `texts`
    are those of each image in a prompt, in the place of the first of `marks`, with one token for each part;
    what a user typed becomes none of `marks`.

    Of the parts in `stored` the engine host has the rows, and `values` has no pixels.  `named` are images to
    be known by a uuid: it, the parts from the first to the one after the last, and what is known of it.
    `in_order`: their tokens have consecutive positions, as those of text, though `grids` has their shapes.
    """

    values: NDArray[np.float32]
    lengths: list[int]
    digests: list[bytes]
    token_id: int
    marks: tuple[str, ...]
    texts: list[str]
    grids: list[Grid] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    named: list[tuple[str, tuple[int, int], bytes]] = field(default_factory=list)
    in_order: bool = False


class Sounds(Images):
    """What an encoder of sounds in conversations reads: float32[windows, size, frames], all of the model's
    length; a sound may be several windows.  The rest is as of images.
    """
