"""What flows between request nodes, and how a value arrives in pieces.

Knows nothing of HTTP, YAML or engines; each class here is a port type that a graph file may connect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.messages import Speculation, TokenUpdate
from pipelines.wire.sampling_params import SamplingParams

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt before tokenizing: text, or token ids that the client made itself.

    Exactly one of `text` and `ids` is set.
    """

    text: str | None = None
    ids: list[int] | None = None
    add_special_tokens: bool = False


@dataclass(frozen=True, slots=True)
class Tokens:
    """One text, or a pair of texts, in token ids, and the request's bad words in ids of the same tokenizer.

    `types` holds for each token which text of a pair it belongs to, None where all are 0.  `of` is the index
    of the request's text or pair that this is, or is a part of.  `prompt_text` is the text of a generative
    model's prompt, of ids that the client made at least its end, and `reply_text` the beginning of the reply
    where the request brings it, as the last of `ids`.
    """

    ids: list[int]
    bad_words: list[list[int]] = field(default_factory=list)
    types: list[int] | None = None
    of: int = 0
    prompt_text: str = ""
    reply_text: str = ""


@dataclass(frozen=True, slots=True)
class PooledOutputs:
    """The output of a batcher: one vector for each text, or one for each token of each text.

    `values`: float32[num_texts, size]; of tokens a float32[num_tokens, size] for each text.
    """

    values: NDArray[np.float32] | list[NDArray[np.float32]]

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


class Tensors(dict[str, NDArray[Any]]):
    """Arrays by name, as a tensor model takes and gives them: numbers and truth values, no text."""


class Alternative(NamedTuple):
    """A token that might have stood there."""

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


class TextSpeculation(NamedTuple):
    """Of `num_drafted` tokens that were drafted ahead for a choice so far, `num_accepted` were accepted.

    `logprobs[i]` is what the draft said of the piece's token i, None where that was not drafted; it may be
    shorter than `token_ids`, and is empty when nobody asked.
    """

    num_drafted: int
    num_accepted: int
    logprobs: list[TextLogprob | None]


@dataclass(slots=True)
class TextUpdate:
    """A piece of one choice's text.  `finish` is set on the last piece only.

    `num_tokens` output tokens stand behind this piece, the end token counted; `stop_reason` is the stop
    string or stop token id that ended the choice, "repetition_detected", or None for the model's own end.
    `token_ids` are those tokens and `parts` what each of them added to the text; `prompt_logprobs`, when
    asked for, come with the first piece: one entry per prompt token but the first.
    """

    text: str
    num_tokens: int
    logprobs: list[TextLogprob]
    finish: str | None = None
    stop_reason: str | int | None = None
    num_cached: int = 0
    token_ids: list[int] = field(default_factory=list)
    prompt_logprobs: list[TextLogprob] | None = None
    parts: list[str] = field(default_factory=list)
    speculation: TextSpeculation | None = None  # None until something was drafted


@dataclass(frozen=True, slots=True)
class ToolCallPiece:
    """A piece of one call that the model makes: `arguments` of all its pieces, joined, are its JSON text.

    The first piece of call `index` has `id` and `name`, later ones have neither.
    """

    index: int
    arguments: str = ""
    id: str | None = None
    name: str | None = None


@dataclass(slots=True)
class ReplyUpdate:
    """A piece of one choice's reply, split into reasoning, content and tool calls.

    `num_reasoning` of the `num_tokens` tokens are reasoning, None where nobody looks for reasoning;
    `thought` says of each of `token_ids` whether it is reasoning or one of its marks, [] where none can be.
    """

    content: str
    reasoning: str
    tool_calls: list[ToolCallPiece]
    num_tokens: int
    logprobs: list[TextLogprob]
    finish: str | None = None
    stop_reason: str | int | None = None
    num_cached: int = 0
    token_ids: list[int] = field(default_factory=list)
    prompt_logprobs: list[TextLogprob] | None = None
    num_reasoning: int | None = None
    thought: list[bool] = field(default_factory=list)
    speculation: TextSpeculation | None = None


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
        """The same updates after one more stage, made anew for each choice."""
        return Stream(self.source, (*self.makers, maker))

    def chain(self, choice: StreamChoice) -> Callable[[Any], Any]:
        """The stages of one choice as one function: engine update in, last stage's update out."""
        stages = [make(choice) for make in self.makers]

        def push(update: Any) -> Any:
            for stage in stages:
                update = stage.push(update)
            return update

        return push


class Deferred(Generic[T]):
    """A value that arrives whole: a submission to an engine that replies once, and what is made of its reply.

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


__all__ = [
    "Alternative",
    "Classes",
    "Deferred",
    "PooledOutputs",
    "Prompt",
    "ReplyUpdate",
    "Scores",
    "Speculation",
    "Stream",
    "StreamChoice",
    "StreamStage",
    "Tensors",
    "TextLogprob",
    "TextSpeculation",
    "TextUpdate",
    "TokenLogprobs",
    "TokenUpdate",
    "Tokens",
    "ToolCallPiece",
]
