"""Models used from Python: `from pipelines import Local`."""

from __future__ import annotations

import os
import weakref
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from pipelines.local.bodies import (
    Messages,
    Prompt,
    chat_body,
    classification_bodies,
    completion_body,
    embedding_bodies,
    entity_bodies,
    ranking_body,
    search_body,
    speech_body,
)
from pipelines.local.engine import EngineOptions, LocalEngine
from pipelines.local.generation import TextBody, read_text
from pipelines.local.loop_thread import LoopThread
from pipelines.local.options import (
    ChatOptions,
    ClassificationOptions,
    CompletionOptions,
    EmbeddingOptions,
    EntityOptions,
    RankingOptions,
    SearchOptions,
    TranscriptionOptions,
)
from pipelines.local.pooling import (
    classes_of,
    entities_in,
    hits_of,
    kinds_of,
    ranking_of,
    vectors_of,
)
from pipelines.local.replies import DocumentScore, TextReply, Transcript
from pipelines.local.speech import Recording, transcript_of
from pipelines.local.stream import ReplyStream
from pipelines.nodes.pooling.entities import Entity, Strategy
from pipelines.values.joined_vectors import joined
from pipelines.values.node_values import Vectors
from pipelines.values.search_values import Hit
from pipelines.worker.model_table import ModelCard

T = TypeVar("T")


class Local:
    """The models of a folder in this process, by the engine that `braid serve` runs.

    Any number of threads may use it; what they ask at the same time is computed together.  Each method waits
    for its reply, and takes the fields of the request over HTTP as keywords.  `model` names the model, or an
    adapter of one; it may be left out where one model alone can do what is asked.

    >>> from pipelines import Local
    >>> with Local("model_repo") as braid:
    ...     print(braid.chat("Say hello.", model="braid-demo", temperature=0).finish_reason)
    stop
    """

    def __init__(
        self,
        models: str | os.PathLike[str],
        *,
        names: Collection[str] | None = None,
        device: str | None = None,
        adapters: Mapping[str, str | os.PathLike[str]] | None = None,
        cache: str | os.PathLike[str] | None = None,
        max_loaded_gb: float | None = None,
    ) -> None:
        """`models` is a folder with one model, a GGUF file, or a folder of several models.

        One model is loaded at once, several each by the first request for it.  `names`: only these models of
        the folder.  `device`: "cpu" or "cuda:0", instead of the one in each graph.  `adapters`: folders of
        LoRA adapters by name, beside those in the models' own folders.  `cache`: the folder for files that
        can be made again; default: ~/.cache/braid.  `max_loaded_gb`: GiB that loaded models may take
        together; one that is not used leaves for one that is.

        Raises FileNotFoundError, ModelNotFound, and Unavailable where the only model cannot be loaded.
        """
        options = EngineOptions(
            Path(models),
            names=None if names is None else frozenset(names),
            device=device,
            adapters={name: os.fspath(path) for name, path in (adapters or {}).items()},
            cache=None if cache is None else Path(cache),
            max_loaded_gb=max_loaded_gb,
        )
        options.check()
        self._loop = LoopThread()
        self._engine = self._loop.wait(_made(options))
        self._closed = weakref.finalize(self, _close, self._loop, self._engine)
        try:
            self._loop.wait(self._engine.start())
        except BaseException:
            self.close()
            raise

    def models(self) -> list[ModelCard]:
        """What there is: of each model its name, task, state, longest context and adapters.

        >>> [card.name for card in braid.models() if card.task == "rerank"]
        ['braid-rerank']
        """
        return self._engine.catalogue.cards()

    def chat(
        self, messages: Messages, *, model: str | None = None, **options: Unpack[ChatOptions]
    ) -> TextReply:
        """The reply to a conversation: OpenAI's `messages`, or one text of the user's.

        Raises BraidError: RequestError for what is wrong with the request, ModelNotFound, Unavailable.

        >>> city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        >>> weather = {"name": "get_weather", "description": "Current weather of a city", "parameters": city}
        >>> reply = braid.chat(
        ...     "What is the weather in Oslo?",
        ...     model="braid-demo",
        ...     temperature=0,
        ...     tools=[{"type": "function", "function": weather}],
        ... )
        >>> reply.tool_calls[0].name, reply.tool_calls[0].arguments
        ('get_weather', '{"city": "Oslo"}')
        """
        return self._reply(chat_body(messages, model, options))

    def chat_stream(
        self, messages: Messages, *, model: str | None = None, **options: Unpack[ChatOptions]
    ) -> ReplyStream:
        """The reply piece by piece, as it is generated.

        >>> stream = braid.chat_stream("Say hello.", model="braid-demo", temperature=0)
        >>> text = "".join(piece.text for piece in stream)
        >>> text == stream.reply.text
        True
        """
        return ReplyStream(self._loop, self._engine, chat_body(messages, model, options, stream=True))

    def chat_batch(
        self, conversations: Iterable[Messages], *, model: str | None = None, **options: Unpack[ChatOptions]
    ) -> list[TextReply]:
        """The replies to several conversations, which are computed together.

        >>> replies = braid.chat_batch(["Say hello.", "Count to three."], model="braid-demo", max_tokens=4)
        >>> [reply.usage.completion_tokens for reply in replies]
        [4, 4]
        """
        return self._replies([chat_body(messages, model, options) for messages in conversations])

    def complete(
        self, prompt: Prompt, *, model: str | None = None, **options: Unpack[CompletionOptions]
    ) -> TextReply:
        """What a model writes after a prompt: a text, or its token ids.  Raises as `chat`.

        >>> reply = braid.complete("one two", model="braid-demo", max_tokens=3, ignore_eos=True, logprobs=1)
        >>> reply.usage.completion_tokens, len(reply.logprobs)
        (3, 3)
        """
        return self._reply(completion_body(prompt, model, options))

    def complete_stream(
        self, prompt: Prompt, *, model: str | None = None, **options: Unpack[CompletionOptions]
    ) -> ReplyStream:
        """The reply to a completion piece by piece, as it is generated."""
        return ReplyStream(self._loop, self._engine, completion_body(prompt, model, options, stream=True))

    def complete_batch(
        self,
        prompts: Iterable[Prompt],
        *,
        model: str | None = None,
        **options: Unpack[CompletionOptions],
    ) -> list[TextReply]:
        """What a model writes after each of several prompts, which are computed together."""
        return self._replies([completion_body(prompt, model, options) for prompt in prompts])

    def embed(
        self, texts: str | Sequence[str], *, model: str | None = None, **options: Unpack[EmbeddingOptions]
    ) -> NDArray[np.float32]:
        """The vector of one text, float32[size], or those of several, float32[len(texts), size].

        Raises BraidError.

        >>> braid.embed(["How far away is the moon?", "Why does dough rise?"], model="braid-embed").shape
        (2, 128)
        """
        bodies = embedding_bodies(texts, model, options)
        vectors = np.concatenate(self._together(partial(vectors_of, self._engine, body) for body in bodies))
        return vectors[0] if isinstance(texts, str) else vectors

    def embed_kinds(
        self,
        texts: Sequence[str],
        kinds: Sequence[str],
        *,
        model: str | None = None,
        **options: Unpack[EmbeddingOptions],
    ) -> dict[str, Vectors]:
        """Vectors of several kinds from one pass, by the kinds' names: dense, sparse, colbert, or names of
        results in the model's graph.

        Dense ones are float32[len(texts), size]; of tokens a list, for each text float32[num_vectors, size];
        sparse ones are `SparseVectors`, which give (ids, weights) of each text.  Raises BraidError.
        """
        options["embedding_kinds"] = [*kinds]
        bodies = embedding_bodies(texts, model, options)
        return joined(self._together(partial(kinds_of, self._engine, body) for body in bodies))

    def classify(
        self, texts: Sequence[str], *, model: str | None = None, **options: Unpack[ClassificationOptions]
    ) -> list[dict[str, float]]:
        """The probability of each class for each text, by the names of the classes.  Raises BraidError.

        >>> (found,) = braid.classify(["What a wonderful film!"], model="braid-sentiment")
        >>> max(found, key=found.get)
        'positive'
        """
        bodies = classification_bodies(texts, model, options)
        groups = self._together(partial(classes_of, self._engine, body) for body in bodies)
        return [classes for group in groups for classes in group]

    def entities(
        self,
        texts: Sequence[str],
        strategy: Strategy = "simple",
        *,
        model: str | None = None,
        stride: int | None = None,
        **options: Unpack[EntityOptions],
    ) -> list[list[Entity]]:
        """The entities of each text, of a model that labels tokens; `strategy` is one of transformers' ways
        to join them: none, simple, first, average or max.  With a `stride` long texts are read in
        windows, which share this many tokens; else they are refused.  A model that finds labels of the
        request needs `labels`, and no strategy.  Raises BraidError.
        """
        bodies = entity_bodies(texts, model, options)
        groups = self._together(partial(entities_in, self._engine, body, strategy, stride) for body in bodies)
        return [entities for group in groups for entities in group]

    def rank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        model: str | None = None,
        **options: Unpack[RankingOptions],
    ) -> list[DocumentScore]:
        """The documents by how well they answer a query, the best first.

        By a reranker, or by the vectors of an embedding model.  Raises BraidError.

        >>> texts = ["Yeast makes dough rise.", "The moon is 384,000 kilometres away."]
        >>> braid.rank("How far away is the moon?", texts, model="braid-rerank", top_n=1)[0].index
        1
        """
        body = ranking_body(query, documents, model, options)
        (ranking,) = self._together([partial(ranking_of, self._engine, body)])
        return ranking

    def search(self, query: str, *, model: str | None = None, **options: Unpack[SearchOptions]) -> list[Hit]:
        """The passages of an index that answer a query, the best first.  Raises BraidError."""
        body = search_body(query, model, options)
        ((hits,),) = self._together([partial(hits_of, self._engine, body)])
        return hits

    def transcribe(
        self,
        recording: Recording,
        *,
        model: str | None = None,
        translate: bool = False,
        **options: Unpack[TranscriptionOptions],
    ) -> Transcript:
        """The text of a recording: a file, its bytes, or float32 samples, 16,000 a second.

        `translate`: the text is in English, whatever was spoken, and has no times.  Raises BraidError, and
        OSError for a file that cannot be read.
        """
        body = speech_body(translate, model, options)
        (transcript,) = self._together([partial(transcript_of, self._engine, body, recording)])
        return transcript

    def close(self) -> None:
        """End every request with Unavailable, and release the models."""
        self._closed()

    def __enter__(self) -> Local:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _reply(self, body: TextBody) -> TextReply:
        return self._replies([body])[0]

    def _replies(self, bodies: Iterable[TextBody]) -> list[TextReply]:
        return self._together([partial(read_text, self._engine, body) for body in bodies])

    def _together(self, works: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
        return self._loop.wait(self._engine.together(works))


async def _made(options: EngineOptions) -> LocalEngine:
    return LocalEngine(options)


def _close(loop: LoopThread, engine: LocalEngine) -> None:
    loop.wait(engine.close())
    loop.close()
