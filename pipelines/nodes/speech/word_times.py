"""The word_times node: on the worker it finds when words were spoken, in the engine host it makes the engine.

The model of its body reads a finished text once more, and gives what each token attends to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from graphs.node import BodyContract, FilePath, Node, NodeConfig
from pipelines.nodes.interface import Loading, Planning, Running
from pipelines.nodes.request_plan import RequestPlan
from pipelines.nodes.speech.alignment import first_frames
from pipelines.nodes.speech.pauses import HeardWord, cut_at_ends, cut_at_sentences, usual_length
from pipelines.nodes.speech.segments import SAMPLES_PER_S
from pipelines.nodes.speech.whisper_tokens import SECONDS_PER_ID, WhisperTokens, read_whisper_tokens
from pipelines.nodes.speech.words import TokenWord, split_words, with_punctuation
from pipelines.nodes.text.tokenizing.tokenizer import open_tokenizer
from pipelines.values.node_values import PooledOutputs, Tensors
from pipelines.values.reply_values import Segment, SpeechUpdate, SpokenWord
from pipelines.values.stream_values import Deferred, Stream, StreamChoice
from pipelines.values.tasks import SpeechInput

if TYPE_CHECKING:
    from pipelines.inference.engine.batching.tensor_engine import TensorEngine
    from pipelines.nodes.body_interface import Body

FRAMES = "context_frames"
"""The model's input that the engine host holds; its others are `input_ids` and `position_ids`."""
WEIGHTS = "weights"
"""The model's output: float32[heads, tokens, frames]."""


class WordTimes(Node, Planning):
    """Finds when each word of a window was spoken, from the frames that its tokens attend to.

    The last update of each window gets `words`; the model of the body runs when they are read, else not.
    `context`: the encoder's rows for each window; they stay in the engine host.
    """

    place = "engine"
    body = BodyContract(root="batch", gives=Tensors, result=Tensors)

    class Config(NodeConfig):
        tokenizer: FilePath = Field(description="a tokenizer.json")
        settings: FilePath = Field(description="a generation_config.json with Whisper's token ids")

    def load(self, resources: Loading) -> None:
        self.address = resources.address
        self.max_context = resources.max_context
        source = resources.binding.sources.get("context") if resources.binding else None
        self.held = frozenset() if source is None else frozenset({source.root})
        self.tokenizer = resources.shared(open_tokenizer, self.folder / self.config.tokenizer)
        self.known: WhisperTokens = resources.shared(read_whisper_tokens, self.folder / self.config.settings)

    def plan(self, request: SpeechInput) -> RequestPlan:
        return RequestPlan(held=self.held)

    def run(
        self, call: Running, segments: Stream[SpeechUpdate], context: Deferred[PooledOutputs]
    ) -> Stream[SpeechUpdate]:
        return segments.pipe(lambda choice: _Listener(self, call, choice, context))

    def start(self, body: Body) -> TensorEngine:
        """The engine around a loaded body, which it owns from now on.  Called once, in the engine host.

        Raises ValueError where the body's model has other inputs or outputs.
        """
        from pipelines.inference.engine.batching.tensor_engine import TensorBatching, TensorEngine
        from pipelines.nodes.tensors.body.tensor_model import TensorModel

        model = body.lines[-1].node
        assert isinstance(model, TensorModel)
        wanted = {"input_ids", "position_ids", FRAMES}
        if len(body.lines) != 1 or {*model.model.inputs} != wanted or WEIGHTS not in model.outputs:
            raise ValueError(f"its body must be one tensor_model of {sorted(wanted)} that gives `{WEIGHTS}`")
        return TensorEngine(body, dict(model.required), model.outputs, TensorBatching(), body.profile)

    def words(
        self,
        call: Running,
        context: Deferred[PooledOutputs],
        heard: Sequence[Segment],
        language: str,
        duration_s: float,
    ) -> Deferred[list[list[SpokenWord]]]:
        """The words of each segment of a window of `duration_s` seconds."""
        opening = self._opening(call.request, language)
        text = [token_id for segment in heard for token_id in segment.token_ids]
        ids = np.array([[*opening, *text]], np.int64)[:, : self.max_context]
        inputs = Tensors(input_ids=ids, position_ids=np.arange(ids.size, dtype=np.int64)[None])
        words = self._words(heard, "en" if call.request.translate else language)
        num_frames = max(1, round(duration_s / SECONDS_PER_ID))

        def times(tensors: Tensors) -> list[list[SpokenWord]]:
            frames = first_frames(tensors[WEIGHTS][..., :num_frames], len(opening))
            return with_times(words, heard, (frames * SECONDS_PER_ID).tolist())

        def asked(rows: PooledOutputs) -> Deferred[list[list[SpokenWord]]]:
            assert rows.held is not None, "the plan says so"
            return call.infer(self.address, inputs, held={FRAMES: rows.held}).map(times)

        return context.map(asked)

    def _opening(self, request: Any, language: str) -> list[int]:
        """What the decoder reads before the text."""
        known = self.known
        if not known.languages:
            return [known.start, known.no_timestamps]
        task = known.tasks["translate" if request.translate else "transcribe"]
        return [known.start, known.languages[language], task, known.no_timestamps]

    def _words(self, heard: Sequence[Segment], language: str) -> list[list[TokenWord]]:
        """The words of each segment; tokens are counted over all of them."""
        ends = np.cumsum([0, *(len(segment.token_ids) for segment in heard)]).tolist()
        return [
            split_words(segment.token_ids, self._decode, language, first)
            for segment, first in zip(heard, ends, strict=False)
        ]

    def _decode(self, token_ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(token_ids, skip_special_tokens=False)
        return text


class _Listener:
    """The stream stage of one window: its last update gets the words of all segments."""

    def __init__(
        self, node: WordTimes, call: Running, choice: StreamChoice, context: Deferred[PooledOutputs]
    ) -> None:
        self._node, self._call, self._context = node, call, context
        self._duration_s = len(call.request.windows[choice.prompt_index]) / SAMPLES_PER_S
        self._segments: list[Segment] = []
        self._language = "en"

    def push(self, update: SpeechUpdate) -> SpeechUpdate:
        self._segments += update.segments
        self._language = update.language or self._language
        if update.piece.finish is not None and self._segments:
            update.words = self._node.words(
                self._call, self._context, self._segments, self._language, self._duration_s
            )
        return update


def with_times(
    words: Sequence[list[TokenWord]], heard: Sequence[Segment], starts_s: list[float]
) -> list[list[SpokenWord]]:
    """The words of each segment that was heard; `starts_s` are the times of the tokens that were read, and of
    the end.
    """
    starts_s = [*starts_s, *starts_s[-1:] * sum(len(segment.token_ids) for segment in heard)]
    timed = {
        word.first: HeardWord(word.text, starts_s[word.first], starts_s[word.end])
        for segment_words in words
        for word in segment_words
    }
    usual_s = usual_length([*timed.values()])
    cut_at_sentences([*timed.values()], usual_s)
    spoken, said_until_s = [], 0.0
    for segment_words, segment in zip(words, heard, strict=True):
        whole = [
            replace(timed[word.first], text=text)
            for word in with_punctuation(segment_words)
            if (text := word.text.strip())
        ]
        if whole:
            said_until_s = cut_at_ends(whole, segment, said_until_s, usual_s)
        spoken.append([SpokenWord(word.text, round(word.start_s, 2), round(word.end_s, 2)) for word in whole])
    return spoken
