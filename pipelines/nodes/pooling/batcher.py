"""The batcher node: on the worker it submits texts, in the engine host it makes the engine.

How texts are batched is in `pipelines/inference/engine/batching`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from graphs.errors import listed
from graphs.node import BodyContract, Node, NodeConfig, Place
from pipelines.adapters.weights import HoldsAdapters, WithoutAdapters
from pipelines.base.errors import RequestError
from pipelines.inference.contracts.encoder_batch import (
    BodyResult,
    Encoded,
    RowShape,
    SparseEncoded,
    TokenBatch,
)
from pipelines.inference.contracts.encoder_contract import SupportsEmbeds
from pipelines.inference.engine.batching.text_checks import Bounds
from pipelines.nodes.images.image_tensors import image_tensors
from pipelines.nodes.interface import Checking, Loading, Planning, Running
from pipelines.nodes.pooling.body.pooled_shape import GivesVectors
from pipelines.nodes.pooling.result_names import QUERIES, ResultNames, places_tensor
from pipelines.nodes.request_plan import RequestPlan
from pipelines.values.node_values import Features, Images, PooledOutputs, Tensors, Tokens
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import PoolingInput
from pipelines.values.text_images import shown_in

if TYPE_CHECKING:
    from pipelines.inference.engine.batching.batch_engine import BatchEngine
    from pipelines.inference.engine.batching.embed_cache import EmbedCache
    from pipelines.nodes.body_interface import Body


CACHE_MB = 256


class Batcher(Node, Planning, Checking):
    """Dynamic batching: texts, windows of sound, or images of many requests run together through an encoder,
    in a thread of the engine host.

    Each line of the body that no other reads is a result: a request names those that it wants, by the names
    of the lines or by their kind (dense, sparse, colbert), and only what they need runs.  Without names it
    gets the first.

    `images`: the embeddings that another batcher gives for the images that the texts show; they stay in the
    engine host, and the encoder reads them in the place of their tokens.
    """

    place: ClassVar[Place] = "engine"
    body = BodyContract(root="batch", gives=TokenBatch, result=Encoded | SparseEncoded, several=True)

    class Config(NodeConfig):
        max_batch_tokens: int | None = Field(
            default=None,
            ge=1,
            description="tokens of one call, padding included; default: what suits the device",
        )
        max_wait_ms: float = Field(
            default=0, ge=0, le=10_000, description="how long a call that is not full waits for more texts"
        )
        max_tokens: int | None = Field(
            default=None, ge=1, description="longest text; default: the model's own bound"
        )
        max_waiting_tokens: int = Field(
            default=4_000_000, ge=1, description="tokens of the texts that may wait; more get a 429"
        )
        cache_mb: float | None = Field(
            default=None,
            ge=0,
            description="MB of embeddings of images, or of sounds in conversations, that stay for requests "
            "with the same one; default: 256; only for these",
        )
        queries: str | None = Field(
            default=None,
            description="the result that requests for vectors of queries get (`input_type: query`); default: "
            "the first, as other requests",
        )

    def load(self, resources: Loading) -> None:
        self.address = resources.address
        sources = resources.binding.sources if resources.binding else {}
        self.results = ResultNames(resources.binding)
        self.needs = RequestPlan(
            held=frozenset({sources["images"].root} if "images" in sources else ()),
            handled=frozenset({"results"}),
        )

    def plan(self, request: PoolingInput) -> RequestPlan:
        return self.needs

    def check(self, request: PoolingInput, plan: RequestPlan) -> None:
        """Raises RequestError for results that the body does not give."""
        if self.address.node not in plan.held:
            self._wanted(request, plan)

    def _wanted(self, request: object, plan: RequestPlan) -> dict[str, int]:
        """The results of a request, by the words with which it names them.  Raises RequestError."""
        is_query = self.config.queries is not None and getattr(request, "purpose", None) in QUERIES
        asked: Sequence[str] = getattr(request, "results", ())
        own = self.config.queries if is_query else None
        if not asked and not plan.results:
            return {"": self.results.place(own) if own else 0}
        if asked:
            return {word: self.results.place(word, own) for word in asked}
        return {word: self.results.place(word, own, f"weights.{word}") for word in plan.results}

    def run(
        self,
        call: Running,
        tokens: list[Tokens] | Features | Images,
        images: Deferred[PooledOutputs] | None = None,
    ) -> Deferred[PooledOutputs]:
        """Raises RequestError for ids that no model has."""
        hold = self.address.node in call.plan.held
        if isinstance(tokens, Features):
            return call.infer(self.address, Tensors(features=tokens.values), hold=hold).map(self._read(call))
        if not (tokens.lengths if isinstance(tokens, Images) else tokens):
            return Deferred(None)
        if isinstance(tokens, Images):
            lengths, inputs = [] if hold else tokens.lengths, image_tensors(tokens, call.request)
            inputs |= _options(call.request)
        else:
            return self._texts(call, tokens, images)
        return call.infer(self.address, inputs, text_lengths=lengths, hold=hold).map(self._read(call))

    def _read(self, call: Running) -> Callable[[Tensors], PooledOutputs]:
        """Reads the engine's reply to this call."""
        wanted = self._wanted(call.request, call.plan)
        return lambda reply: self.results.read(reply, wanted)

    def _texts(
        self, call: Running, tokens: list[Tokens], images: Deferred[PooledOutputs] | None
    ) -> Deferred[PooledOutputs]:
        places = [*self._wanted(call.request, call.plan).values()]
        return call.infer(
            self.address,
            Tensors(tensors_of(tokens, call.request) | places_tensor(places)),
            text_lengths=[len(text.ids) for text in tokens],
            hold=self.address.node in call.plan.held,
            images=shown_in(tokens, images),
        ).map(self._read(call))

    def start(self, body: Body) -> BatchEngine:
        """The engine around a loaded body, which it owns from now on.  Called once, in the engine host.

        Raises ValueError when the body holds no encoder, or `max_tokens` is more than it reads.
        """
        from pipelines.inference.engine.batching.batch_engine import BatchBody, BatchEngine, BatchSettings

        config, shapes = self.config, self._shapes(body)
        names = [*shapes]
        if config.queries not in (None, *names):
            raise ValueError(f"queries: its body has no result `{config.queries}`; it has {listed(names)}")
        return BatchEngine(
            BatchBody(ResultLines(body, names), _adapted(body), body.profile, body.warm),
            self._bounds(body),
            BatchSettings(self._batch_tokens(body), config.max_wait_ms / 1000, config.max_waiting_tokens),
            results=[*shapes.values()],
            cache=self._cache(body),
        )

    def _batch_tokens(self, body: Body) -> int:
        """What the graph sets, or the most that suits one of the encoders."""
        return self.config.max_batch_tokens or max(encoder.good_batch_tokens for encoder in body.encoders)

    def _cache(self, body: Body) -> EmbedCache | None:
        """The cache of a body that gives embeddings of images or audio, not of audio to transcribe."""
        from pipelines.inference.engine.batching.embed_cache import EmbedCache

        columns = body.encoders[0].columns
        if columns is None or not self._shape(body).per_token:
            if self.config.cache_mb is not None:
                raise ValueError("cache_mb: only embeddings of images and sounds are stored; remove it")
            return None
        most = CACHE_MB if self.config.cache_mb is None else self.config.cache_mb
        return EmbedCache(int(most * 1e6))

    def _bounds(self, body: Body) -> Bounds:
        """What every encoder of the body can read, or less where the graph sets less."""
        if not body.encoders:
            raise ValueError("its body has no encoder")
        most = min(encoder.max_tokens for encoder in body.encoders)
        wanted = self.config.max_tokens
        if wanted is not None and wanted > most:
            raise ValueError(f"max_tokens: the model reads {most} tokens, not {wanted}")
        vocab_size = min(encoder.vocab_size for encoder in body.encoders)
        columns = {encoder.columns for encoder in body.encoders}
        if len(columns) > 1:
            raise ValueError("its encoders read different inputs: token ids, or features of one shape")
        (shape,) = columns
        if shape is not None and len(shape) > 1 and wanted not in (None, most):
            raise ValueError(f"max_tokens: a window of sound always has {most} frames; remove it")
        reading = next((encoder for encoder in body.encoders if isinstance(encoder, SupportsEmbeds)), None)
        sizes = (reading.embeds_size, reading.mrope_axes) if reading else ()
        return Bounds(wanted or most, vocab_size, self._shape(body).size, shape, *sizes)

    def _shape(self, body: Body) -> RowShape:
        """The shape of the first result."""
        return next(iter(self._shapes(body).values()))

    def _shapes(self, body: Body) -> dict[str, RowShape]:
        """The shapes of the results, by the names of their lines."""
        read = {source.root for line in body.bindings for source in line.sources.values()}
        results = {line.name: line.node for line in body.lines if line.name not in read}
        for name, node in results.items():
            if not isinstance(node, GivesVectors):
                raise ValueError(f"`{name}`, a line of its body, gives no vectors")
        return {name: node.gives for name, node in results.items() if isinstance(node, GivesVectors)}


class ResultLines:
    """A body as its engine calls it: gives the results that a batch wants, by their places in `names`."""

    def __init__(self, body: Body, names: Sequence[str]) -> None:
        self._body = body
        self._names = names

    def __call__(self, batch: TokenBatch) -> dict[int, BodyResult]:
        places = {self._names[place]: place for place in batch.results}
        values = self._body.results(batch, [*places])
        return {place: values[name] for name, place in places.items()}

    def close(self) -> None:
        self._body.close()


def _adapted(body: Body) -> HoldsAdapters:
    """The encoder that adapters change.  Raises ValueError where several would be changed."""
    found = [encoder for encoder in body.encoders if encoder.linears]
    if len(found) > 1:
        raise ValueError("two encoders of its body have `adapters`; one of them may")
    return found[0] if found else WithoutAdapters()


def tensors_of(tokens: list[Tokens], request: object) -> Tensors:
    """Texts as `pipelines.inference.engine.batching` reads them; default values of a request are not sent.

    Raises RequestError for ids that no model has.
    """
    lengths = [len(text.ids) for text in tokens]
    tensors = Tensors(ids=_ids(tokens, sum(lengths)), lengths=np.array(lengths, np.int32))
    tensors |= _options(request)
    if any(text.types is not None for text in tokens):
        types = chain.from_iterable(text.types or [0] * len(text.ids) for text in tokens)
        tensors["types"] = np.fromiter(types, np.uint8)
    return tensors


def _options(request: object) -> Tensors:
    tensors = Tensors()
    if not getattr(request, "activate", True):
        tensors["activate"] = np.zeros(1, np.uint8)
    if priority := getattr(request, "priority", 0):
        tensors["priority"] = np.array([priority], np.int64)
    return tensors


def _ids(tokens: list[Tokens], num_tokens: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    try:
        return np.fromiter(chain.from_iterable(text.ids for text in tokens), np.int32, num_tokens)
    except OverflowError:
        outside = next(each for text in tokens for each in text.ids if not -(1 << 31) <= each < 1 << 31)
        raise RequestError(f"Token id {outside} is out of vocabulary") from None
