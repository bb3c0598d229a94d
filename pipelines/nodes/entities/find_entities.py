"""The find_entities node: marked texts → their entities, by a GLiNER model of tensors.

On the worker it submits tensors, in the engine host it makes the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from graphs.errors import listed
from graphs.node import BodyContract, FilePath, Node
from pipelines.base.errors import EngineError, RequestError
from pipelines.inference.engine.batching.tensor_engine import TensorEngine
from pipelines.nodes.entities.span_search import SpanSearch, find_spans
from pipelines.nodes.entities.span_settings import SpanSettings, read_span_settings
from pipelines.nodes.interface import Loading, Running
from pipelines.nodes.tensors.infer import Infer, start_engine
from pipelines.values.entity_values import MarkedText
from pipelines.values.node_values import EntitySpan, FoundEntities, Tensors
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import WantedEntities

if TYPE_CHECKING:
    from pipelines.nodes.body_interface import Body

INPUTS = ("input_ids", "attention_mask", "words_mask", "text_lengths", "span_idx", "span_mask")
"""The tensors of a run, as exports of the `gliner` package name them; the last two for models of spans."""
MAX_SPANS, MAX_NUMBERS = 1 << 22, 1 << 25
"""The most spans that the runs of one request compute, and numbers for them, padding included."""
Found = dict[int, list[EntitySpan]]


class FindEntities(Node):
    """Finds the entities of texts for the labels of a request: a number of each span, or of each word, for
    each label says how likely it is one.

    Texts of near lengths run together, one run after another, so that requests take turns.
    """

    place = "engine"
    body = BodyContract(root="batch", gives=Tensors, result=Tensors)

    class Config(Infer.Config):
        settings: FilePath = Field(description="the gliner_config.json of the model")
        max_batch_tokens: int = Field(
            default=2048, ge=1, description="tokens of one run, labels and padding included"
        )

    def load(self, resources: Loading) -> None:
        self.address = resources.address
        self.settings: SpanSettings = resources.shared(read_span_settings, self.folder / self.config.settings)

    def run(self, call: Running, texts: list[MarkedText]) -> Deferred[FoundEntities]:
        """Raises RequestError for more spans than a request may have."""
        wanted: WantedEntities = call.request.wanted
        groups = self._groups(texts)
        self._check_size(groups, texts, wanted)
        search = SpanSearch(wanted)
        first, *others = groups
        lengths = [len(text.ids) for text in texts]
        sent = call.infer(self.address, self._tensors(first, texts), text_lengths=lengths)
        entities: Deferred[Found] = sent.map(self._reader(first, texts, search, {}))
        for group in others:
            entities = entities.map(self._next(call, group, texts, search))
        return entities.map(lambda by_text: FoundEntities([by_text[i] for i in range(len(texts))]))

    def start(self, body: Body) -> TensorEngine:
        """The engine around a loaded body.  Raises ValueError for a model that needs other tensors."""
        engine = start_engine(self.config, body)
        settings = read_span_settings(self.folder / self.config.settings)
        known = INPUTS if settings.width else INPUTS[:4]
        if others := [name for name in engine.inputs if name not in known]:
            raise ValueError(
                f"the model needs {listed(others)}, but find_entities gives {listed([*known])}; rename them "
                "with `inputs` of the model's line, or export a model of spans or of tokens with one encoder"
            )
        return engine

    def _check_size(self, groups: list[list[int]], texts: list[MarkedText], wanted: WantedEntities) -> None:
        """Raise RequestError where the runs compute too much: each takes its texts for as long as the longest
        of them, and with as many labels as the one with the most.
        """
        width = self.settings.width
        num_spans = num_numbers = 0
        for group in groups:
            longest = max(len(texts[place].words) for place in group)
            most = max(len(wanted.labels_of(place).names) for place in group)
            of_run = len(group) * max(longest, 1) * (width or 1)
            num_spans += of_run
            num_numbers += of_run * most * (1 if width else 3)
        if num_spans > MAX_SPANS or num_numbers > MAX_NUMBERS:
            raise RequestError(
                f"the texts have {num_spans} spans, padding included, and with their labels {num_numbers} "
                f"numbers for them; a request may have {MAX_SPANS} spans and {MAX_NUMBERS} numbers; send the "
                "texts in several requests",
                "input",
            )

    def _groups(self, texts: list[MarkedText]) -> list[list[int]]:
        """Texts that run together: the shortest first, as many as have room."""
        groups: list[list[int]] = []
        for place in sorted(range(len(texts)), key=lambda text: len(texts[text].ids)):
            longest = len(texts[place].ids)  # of the group too
            if groups and (len(groups[-1]) + 1) * longest <= self.config.max_batch_tokens:
                groups[-1].append(place)
            else:
                groups.append([place])
        return groups

    def _tensors(self, group: Sequence[int], texts: list[MarkedText]) -> Tensors:
        """The inputs of a run, all int64 but the mask of spans: padding is 0, and spans that end behind the
        last word of a text are masked.
        """
        rows = [texts[place] for place in group]
        ids, marks = padded([row.ids for row in rows]), padded([row.marks for row in rows])
        lengths = np.array([[max(len(row.words), 1)] for row in rows])
        mask = (np.arange(ids.shape[1]) < np.array([[len(row.ids)] for row in rows])).astype(np.int64)
        tensors = Tensors(input_ids=ids, attention_mask=mask, words_mask=marks, text_lengths=lengths)
        width = self.settings.width
        if width:
            starts = np.repeat(np.arange(int(lengths.max())), width)
            spans = np.stack([starts, starts + np.tile(np.arange(width), int(lengths.max()))], axis=1)
            tensors["span_mask"] = spans[:, 1] < lengths
            tensors["span_idx"] = spans * tensors["span_mask"][..., None]
        return tensors

    def _next(
        self, call: Running, group: list[int], texts: list[MarkedText], search: SpanSearch
    ) -> Callable[[Found], Deferred[Found]]:
        """What sends a further run once the one before it was read."""

        def send(found: Found) -> Deferred[Found]:
            sent = call.infer(self.address, self._tensors(group, texts))
            return sent.map(self._reader(group, texts, search, found))

        return send

    def _reader(
        self, group: list[int], texts: list[MarkedText], search: SpanSearch, before: Found
    ) -> Callable[[Tensors], Found]:
        """What reads the entities of a run, in a thread."""

        def read(outputs: Tensors) -> Found:
            names = [search.wanted.labels_of(place).names for place in group]
            logits = self._by_text(next(iter(outputs.values())), len(group), max(map(len, names)))
            of_words = self.settings.width is None
            entities = (
                find_spans(numbers, texts[place], search, own, of_words)
                for place, numbers, own in zip(group, logits, names, strict=True)
            )
            return before | dict(zip(group, entities, strict=True))

        read.takes_long = True  # type: ignore[attr-defined]
        return read

    def _by_text(self, logits: NDArray[np.float32], num_texts: int, num_labels: int) -> NDArray[np.float32]:
        """[texts, words, width, labels], or [texts, words, labels, 3]: earlier exports have the 3 in front.

        Raises EngineError for numbers of another shape.
        """
        of_spans = self.settings.width is not None
        if not of_spans and logits.shape[-2:] != (num_labels, 3) and logits.shape[0] == 3:
            logits = np.moveaxis(logits, 0, -1)
        last = num_labels if of_spans else 3
        if logits.ndim != 4 or logits.shape[0] != num_texts or logits.shape[-1] != last:
            kind = "spans" if of_spans else "tokens"
            raise EngineError(
                f"the model gives {list(logits.shape)} numbers for {num_texts} texts and {num_labels} "
                f"labels: it is no GLiNER model of {kind}"
            )
        return logits


def padded(rows: list[list[int]]) -> NDArray[np.int64]:
    """int64[rows, longest]."""
    table = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return table
