"""The tasks of graphs: the request and the reply of each.  Does not depend on HTTP or on nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphs.graph import TaskContract
from pipelines.values.node_values import (
    Classes,
    FoundEntities,
    PooledOutputs,
    Prompt,
    Scores,
    SpokenSound,
    Tensors,
    TokenClasses,
)
from pipelines.values.reply_values import ReplyUpdate, SpeechUpdate, TextUpdate
from pipelines.values.search_values import Hit, Hits
from pipelines.values.stream_values import Deferred, Series, Stream

TEXT_ARGUMENT = "input"
"""The only parameter of a tool that takes one text."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What the text of a reply must be, as the client wrote it.

    `kind` is "json" (any object), "json_schema", "regex", "choice", "grammar" or "structural_tag" and `value`
    its definition; `where` names its field in the request, for errors.  Of a `loose` schema, keywords that no
    grammar holds are left out, and the reply says so.
    """

    kind: str
    value: Any
    where: str
    options: dict[str, Any] = field(default_factory=dict)
    loose: bool = False


@dataclass(frozen=True, slots=True)
class ImageInput:
    """An image of a conversation: a part of type `kind` with its URL; `where` is its place in the request.

    `data` is the file, where the URL led out of the request and it was fetched.  `uuid` is the client's name
    for the image; without a URL it stands for the image, and `data` is what is known of that.
    """

    url: str | None
    kind: str
    where: str
    data: bytes | None = None
    uuid: str | None = None

    @property
    def source(self) -> tuple[str | None, str | None]:
        """What leads to `data`."""
        return self.url, None if self.url is not None else self.uuid


@dataclass(frozen=True, slots=True)
class SoundInput:
    """A sound of a conversation: a part of type `kind` with its URL; `where` is its place in the request.

    `data` is the file, where the URL led out of the request and it was fetched; `samples`, float32[samples]
    at 16 kHz, are there where it came as no file: then the URL is a name of it alone.
    """

    url: str
    kind: str
    where: str
    data: bytes | None = None
    samples: NDArray[np.float32] | None = field(default=None, compare=False)

    @property
    def source(self) -> tuple[str | None, str | None]:
        """What leads to `data`; as of images."""
        return self.url, None


MediaInput = ImageInput | SoundInput


@dataclass(frozen=True, slots=True)
class PromptInput:
    """The input of every request: a conversation or raw prompts, and how they become tokens."""

    messages: list[dict[str, Any]] | None = None
    prompts: list[Prompt] = field(default_factory=list)
    images: list[ImageInput] = field(default_factory=list)  # those of the conversations, in order
    sounds: list[SoundInput] = field(default_factory=list)  # the same
    tools: list[dict[str, Any]] = field(default_factory=list)
    later_tools: frozenset[str] = frozenset()  # names of tools that messages show in their own place
    add_generation_prompt: bool | None = True  # None: as the model's graph says
    continue_final_message: bool = False
    template_kwargs: dict[str, Any] = field(default_factory=dict)
    chat_template: str | None = None  # instead of the model's own
    truncate_prompt_tokens: int | None = None  # longer prompts are cut to this length; -1: to the context
    truncate_left: bool = True  # which end of a longer prompt is cut off


SPEEDS = (0.25, 4.0)
"""The slowest and the fastest that a voice speaks, in parts of its own speed."""


@dataclass(frozen=True, slots=True)
class SpokenForm:
    """How a reply is spoken: by a voice of the graph, None for its default, in parts of its own speed."""

    voice: str | None = None
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class GenerationInput(PromptInput):
    """One request for text: a conversation, raw prompts, or a conversation's prompt in token ids.

    `sampling` holds only what the client set, by the names of `SamplingParams`; what it left out comes
    from the model's generation_config.json, then from the neutral value.
    """

    n: int = 1
    sampling: dict[str, Any] = field(default_factory=dict)
    default_max_tokens: int | None = None  # None: what is left of the context
    fallbacks: dict[str, Any] = field(default_factory=dict)  # where neither the client nor the model sets one
    samples_always: bool = False  # even where the model's files set `do_sample: false`
    stop: list[str] = field(default_factory=list)
    include_stop_str_in_output: bool = False
    bad_words: list[str] = field(default_factory=list)
    sequence_breakers: list[str] = field(default_factory=list)  # where DRY ends repetitions
    skip_special_tokens: bool = True
    cache_salt: str = ""
    parse_tools: bool = True
    parse_reasoning: bool = True
    streams: bool = False  # whether the client reads the reply while it is generated
    constraint: Constraint | None = None
    tool_choice: str | None = None  # None: the model decides; "required", or the name of the only tool
    parallel_calls: bool = True  # whether a reply may hold several calls
    text_formats: dict[str, dict[str, Any]] = field(default_factory=dict)  # tool → format of its one argument
    thinking_budget: int | None = None  # most tokens of reasoning
    completion_ids: list[int] = field(default_factory=list)  # the reply's beginning, after the prompt's ids
    expected: str = ""  # what the reply probably is: a hint that makes it faster, and changes nothing of it
    spoken: SpokenForm | None = None  # whether the reply is spoken too, by a graph that has a voice


@dataclass(frozen=True, slots=True)
class CitedInput(GenerationInput):
    """One request for text from passages, which its messages hold numbered from 1."""

    passages: list[Hit] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SpeechInput(GenerationInput):
    """One request for the text of speech: each window is sound of one channel, at most 30 seconds, as
    float32[samples], 16,000 a second.

    Without a `language` it is detected, among `candidates` if there are any.  `previous_text` is what was
    said before the windows; `begins_with` is how their text begins, which the output continues.
    """

    windows: list[NDArray[np.float32]] = field(default_factory=list)
    language: str | None = None
    candidates: list[str] = field(default_factory=list)
    translate: bool = False  # to English
    previous_text: str = ""
    begins_with: str = ""  # needs the language, where the model knows several
    timestamps: bool = False  # whether the text is divided into segments by its times


PURPOSES = ("search_document", "search_query", "classification", "clustering", "image")
"""The purposes of vectors in Cohere's API; a model without prompts treats them alike."""


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Labels that are found in a text: their names, and beside each the words that the model reads of it."""

    names: tuple[str, ...]
    prompts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WantedEntities:
    """Which entities a request wants: by one set of labels, or with `of_each` by one for each text.

    A span counts from a probability above `threshold`.  `flat`: spans do not overlap; else one may lie in
    another.  `multi_label`: a span may have several labels.
    """

    sets: tuple[LabelSet, ...]
    threshold: float = 0.5
    flat: bool = True
    multi_label: bool = False
    of_each: bool = False

    def labels_of(self, text: int) -> LabelSet:
        """The labels of a text, by its place."""
        return self.sets[text if self.of_each else 0]


@dataclass(frozen=True, slots=True)
class PoolingInput(PromptInput):
    """One request for vectors, classes or scores: texts, conversations, or pairs of a query and a document.

    Exactly one of `prompts`, `conversations` and `pairs` is not empty; the reply is in its order.
    """

    conversations: list[list[dict[str, Any]]] = field(default_factory=list)
    pairs: list[tuple[Prompt, Prompt]] = field(default_factory=list)
    add_special_tokens: bool | None = None  # to conversations; None: as the model's graph says
    priority: int = 0  # the smaller, the sooner
    activate: bool = True  # vectors of length 1, classes and scores as probabilities
    dimensions: int | None = None  # a vector is cut to this many numbers
    purpose: str | None = None  # which of the model's prompts is put before each text
    results: tuple[str, ...] = ()  # which of the model's vectors: dense, sparse, colbert, or names of lines
    instruction: str | None = None  # what a score is for, where the model's template uses it
    max_query_tokens: int | None = None
    max_document_tokens: int | None = None
    stride: int | None = None  # tokens that neighbouring windows of a long text share
    wanted: WantedEntities | None = None  # of a model that finds the labels of the request
    chunk: bool = False  # a long document is scored in parts and has the best part's score


@dataclass(frozen=True, slots=True)
class SearchInput(PoolingInput):
    """One request for passages: its `prompts` are the queries, which a model of vectors reads.

    `filters` is a condition on the attributes of documents, `weights` what each kind of search counts for;
    hits whose score is below `least_score` are left out.
    """

    top: int = 10
    filters: Any = None
    weights: dict[str, float] = field(default_factory=dict)  # {}: as the graph says
    rerank: bool = True  # where the graph has a line for it
    least_score: float | None = None


@dataclass(frozen=True, slots=True)
class TensorInput:
    """One request to tensor models.  `outputs` names the tensors of the reply; None: all."""

    inputs: Tensors
    outputs: list[str] | None = None


@dataclass(frozen=True, slots=True)
class SpeakInput:
    """One text to speak.  `voice` is one of the model's, None its default; `speed` 1 is the voice's own."""

    text: str
    voice: str | None = None
    speed: float = 1.0
    language: str | None = None  # None: that of the voice


TASKS: dict[str, TaskContract] = {
    "chat": TaskContract(request=GenerationInput, reply=Stream[ReplyUpdate]),
    "completion": TaskContract(request=GenerationInput, reply=Stream[TextUpdate]),
    "embed": TaskContract(request=PoolingInput, reply=Deferred[PooledOutputs]),
    "token_embed": TaskContract(request=PoolingInput, reply=Deferred[PooledOutputs]),
    "classify": TaskContract(request=PoolingInput, reply=Deferred[Classes]),
    "token_classify": TaskContract(request=PoolingInput, reply=Deferred[TokenClasses]),
    "entities": TaskContract(request=PoolingInput, reply=Deferred[FoundEntities]),
    "rerank": TaskContract(request=PoolingInput, reply=Deferred[Scores]),
    "search": TaskContract(request=SearchInput, reply=Deferred[Hits]),
    "transcribe": TaskContract(request=SpeechInput, reply=Stream[SpeechUpdate]),
    "speak": TaskContract(request=SpeakInput, reply=Series[SpokenSound]),
    "infer": TaskContract(request=TensorInput, reply=Deferred[Tensors]),
}
"""Task name → the type of `request` in its graphs, and of the output of their last line."""
