"""The values between request nodes: each class is a port type that a graph file can connect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.messages import TokenUpdate
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.token_piece import TokenPiece

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)
T = TypeVar("T")
U = TypeVar("U")
Floats = NDArray[np.float32]
ONLY_LABEL = "LABEL_0"
"""The label of the class of a model with a single score, as in vLLM."""
Grid = tuple[int, int]
"""Rows and columns of the tokens of an image."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt before tokenizing: text, or token ids that the client made itself.

    Exactly one of `text` and `ids` is set; `is_rendered`: the text was written by a chat template.  `pieces`
    of the text are tokenized one by one where no token may join them; (): all at once.
    """

    text: str | None = None
    ids: list[int] | None = None
    add_special_tokens: bool = False
    is_rendered: bool = False
    pieces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tokens:
    """One text, or a pair of texts, in token ids, and the request's bad words in ids of the same tokenizer.

    `types` holds for each token which text of a pair it belongs to, None where all are 0.  `of` is the index
    of the request's text or pair that this is, or is a part of.  `prompt_text` is the text of a generative
    model's prompt, of ids that the client made at least its end, and `reply_text` the beginning of the reply
    where the request brings it, as the last of `ids`.  `sampling` are the parameters of `SamplingParams` that
    the prompt demands, whatever the request sets.  `images` are those that some of the tokens stand for.
    """

    ids: list[int]
    bad_words: list[list[int]] = field(default_factory=list)
    types: list[int] | None = None
    of: int = 0
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
class PooledOutputs:
    """The output of a batcher: one vector for each text, or one for each token of each text.

    `values`: float32[num_texts, size]; of tokens a float32[num_tokens, size] for each text, [] where the
    engine host holds them.
    """

    values: NDArray[np.float32] | list[NDArray[np.float32]]
    held: Held | None = None

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


class Sounds(Images):
    """What an encoder of sounds in conversations reads: float32[windows, size, frames], all of the model's
    length; a sound may be several windows.  The rest is as of images.
    """


class Alternative(NamedTuple):
    """A token that could have been chosen instead."""

    token: str
    bytes: bytes
    logprob: float
    token_id: int = -1


@dataclass(frozen=True, slots=True)
class TextLogprob:
    """One token of the output as text, with its log-probability and its alternatives, best first."""

    token: str
    bytes: bytes
    token_id: int
    logprob: float
    alternatives: list[Alternative]
    rank: int = 1  # 1 for the likeliest token


TextPiece = TokenPiece[TextLogprob]
"""A piece whose log-probabilities have their tokens as text."""


class TextUpdate(msgspec.Struct):
    """A piece of one choice's text; `parts[i]` is what token i of the piece added to it.

    An end token that is no text has no part.

    `piece.stop_reason` is the stop string or stop token id that ended the choice, "repetition_detected", or
    None for an end token of the model.
    """

    piece: TextPiece
    text: str
    parts: list[str]

    def extend(self, later: TextUpdate) -> None:
        """Append the next update of the same choice, in place."""
        self.piece.extend(later.piece)
        self.text += later.text
        self.parts += later.parts


@dataclass(frozen=True, slots=True)
class ToolCallPiece:
    """A piece of one tool call: `arguments` of all its pieces, joined, are its JSON text.

    The first piece of call `index` has `id` and `name`, later ones have neither.
    """

    index: int
    arguments: str = ""
    id: str | None = None
    name: str | None = None


class ReplyUpdate(msgspec.Struct):
    """A piece of one choice's reply, split into reasoning, content and tool calls.

    `num_reasoning` of the piece's tokens are reasoning, None where reasoning is not parsed.  `is_reasoning`
    marks the token ids of the piece that are reasoning or one of its markers, [] where none can be.
    """

    piece: TextPiece
    content: str
    reasoning: str = ""
    tool_calls: list[ToolCallPiece] = []
    num_reasoning: int | None = None
    is_reasoning: list[bool] = []

    def extend(self, later: ReplyUpdate) -> None:
        """Append the next update of the same choice, in place."""
        self.piece.extend(later.piece)
        self.content += later.content
        self.reasoning += later.reasoning
        self.tool_calls += later.tool_calls
        if later.num_reasoning is not None:
            self.num_reasoning = (self.num_reasoning or 0) + later.num_reasoning
        self.is_reasoning += later.is_reasoning


class SpokenWord(NamedTuple):
    """A word and when it was spoken, in seconds from the beginning of the sound."""

    text: str
    start_s: float
    end_s: float


class Segment(msgspec.Struct):
    """Words that were spoken together: from `start_s` to `end_s`, in seconds from the beginning of the sound.

    `token_ids` and `logprobs` are those of its text.  `is_closed`: the model wrote the time of its end.
    `words` are there where their times were wanted.
    """

    start_s: float
    end_s: float
    text: str
    token_ids: list[int]
    logprobs: list[float]
    is_closed: bool = True
    words: list[SpokenWord] = []


class SpeechUpdate(msgspec.Struct):
    """A piece of the text of one window of sound; `segments` are those that end in it.

    `language` and `no_speech_prob` come with the first piece.  `continues_s`, in the last piece, is where the
    speech of the next window begins if not at the end of this one.  `words`, in the last piece, are those of
    each segment of the window, where the graph finds when they were spoken.
    """

    piece: TextPiece
    text: str
    segments: list[Segment] = []
    language: str | None = None
    no_speech_prob: float | None = None
    continues_s: float | None = None
    words: Deferred[list[list[SpokenWord]]] | None = None


class StreamStage(Protocol[In, Out]):
    """Turns the updates of one choice into other updates, one for one.

    The last update has `finish` set and carries what was held back.  A stage may finish earlier than its
    input (a stop string was found); nothing is pushed after that.
    """

    def push(self, update: In) -> Out: ...


@dataclass(frozen=True, slots=True)
class StreamChoice:
    """One choice of a stream: `index` in the request, and the prompt it continues with its parameters."""

    index: int
    prompt: Tokens
    prompt_index: int
    params: SamplingParams


StageMaker = Callable[[StreamChoice], StreamStage[Any, Any]]
"""Makes the stage of one choice; called once the prompts were submitted."""


class Stream(Generic[T]):
    """A value that arrives in pieces: the submission to a generative engine, and the stages after it.

    `source` is a submission, or a `Deferred` of the stream that this one continues (`Deferred.stream`).
    Immutable: `pipe` returns a longer stream.  Nothing runs until a call reads it.
    """

    def __init__(self, source: Any, makers: tuple[StageMaker, ...] = ()) -> None:
        self.source = source
        self.makers = makers

    def pipe(self, maker: Callable[[StreamChoice], StreamStage[T, U]]) -> Stream[U]:
        """The updates after one more stage, which is made anew for each choice."""
        return Stream(self.source, (*self.makers, maker))


class Deferred(Generic[T]):
    """A value that arrives whole: a submission to an engine that replies once, and what is made of its reply.

    Without a submission (None) there is no value, and nothing may read it.

    Immutable, as a `Stream` is: `map` returns what is made of it.  Nothing runs until a call reads it.
    """

    def __init__(self, source: Any, makers: tuple[Callable[[Any], Any], ...] = ()) -> None:
        self.source = source
        self.makers = makers

    def map(self, make: Callable[[T], U | Deferred[U]]) -> Deferred[U]:
        """What `make` returns for the value once it has arrived; a `Deferred` that it returns is resolved.

        `make` may raise RequestError; for a large value it runs in a thread, else on the event loop.
        """
        return Deferred(self.source, (*self.makers, make))

    def stream(self, make: Callable[[T], Stream[U]]) -> Stream[U]:
        """A stream that starts once the value has arrived: `make` submits its prompts.  Else as `map`."""
        return Stream(self.map(make))


class Series(Generic[T]):
    """A value that arrives in parts, in their order: submissions to an engine that replies once to each.

    Immutable, as a `Deferred` is.  Nothing runs until a call reads it.
    """

    def __init__(self, parts: Sequence[Deferred[T]]) -> None:
        self.parts = parts

    @property
    def source(self) -> Any:
        """The submission of the first part."""
        return self.parts[0].source

    def map(self, make: Callable[[T], U]) -> Series[U]:
        """What `make` returns for each part once it has arrived; as for `Deferred.map`."""
        return Series([part.map(make) for part in self.parts])


__all__ = [
    "Alternative",
    "Classes",
    "Deferred",
    "Features",
    "Floats",
    "Held",
    "Images",
    "PlacedImage",
    "PooledOutputs",
    "Prompt",
    "ReplyUpdate",
    "Scores",
    "Segment",
    "Series",
    "Sounds",
    "SpeechUpdate",
    "SpokenSound",
    "SpokenWord",
    "Stream",
    "StreamChoice",
    "StreamStage",
    "Tensors",
    "TextLogprob",
    "TextPiece",
    "TextUpdate",
    "TokenLogprobs",
    "TokenUpdate",
    "Tokens",
    "ToolCallPiece",
]
