"""The speech_prompt node: what a Whisper decoder reads before it writes, and how its output must begin."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.base.errors import RequestError
from pipelines.nodes.interface import Loading, Running
from pipelines.nodes.speech.whisper_tokens import WhisperTokens, read_whisper_tokens
from pipelines.nodes.text.tokenizing.tokenizer import open_tokenizer
from pipelines.values.node_values import Tokens
from pipelines.values.tasks import SpeechInput
from pipelines.wire.sampling_params import TimestampRules

MAX_PREVIOUS_TOKENS = 223
"""The end of the earlier text that counts: half of Whisper's context, less one."""
MAX_PREVIOUS_CHARS = 1 << 14
"""The most characters of the earlier text: the beginning of a longer one is not read."""


class SpeechPrompt(Node):
    """Whisper's prompt for each window of sound: the earlier text and the start token.

    Language, task and whether there are times are the opening of the output, so that one step detects the
    language and gives the probability that there is no speech.
    """

    class Config(NodeConfig):
        tokenizer: FilePath = Field(description="a tokenizer.json")
        settings: FilePath = Field(description="a generation_config.json with Whisper's token ids")

    def load(self, resources: Loading) -> None:
        self.tokenizer = resources.shared(open_tokenizer, self.folder / self.config.tokenizer)
        self.known: WhisperTokens = resources.shared(read_whisper_tokens, self.folder / self.config.settings)

    def run(self, call: Running, windows: list[NDArray[np.float32]]) -> list[Tokens]:
        """Raises RequestError for a language or a task that the model does not know."""
        request: SpeechInput = call.request
        opening = self._opening(request)
        begun = self._begun(request, opening)
        sampling: dict[str, Any] = {
            "opening": [] if begun else opening,
            "timestamps": self._times() if request.timestamps else None,
            "logprobs": 0,
            "logprob_token_ids": [self.known.no_speech],
        }
        if begun:
            sampling["begin_suppress_ids"] = []  # the text may end where it begins
        room = max(0, MAX_PREVIOUS_TOKENS - len(begun))
        ids = [*self._previous(request.previous_text, room), self.known.start, *begun]
        return [Tokens(ids, sampling=sampling) for _ in windows]

    def _opening(self, request: SpeechInput) -> list[list[int]]:
        known = self.known
        opening = [] if request.timestamps else [[known.no_timestamps]]
        if not known.languages:
            self._check_english(request)
            return opening
        names = [request.language] if request.language else request.candidates or list(known.languages)
        task = known.tasks["translate" if request.translate else "transcribe"]
        return [[self._language(name) for name in names], [task], *opening]

    def _check_english(self, request: SpeechInput) -> None:
        for name in [request.language or "en", *request.candidates]:
            if name != "en":
                raise RequestError(
                    f"Unsupported language: {name!r}.  Must be one of ['en'].", field="language"
                )
        if request.translate:
            raise RequestError("This model knows English only: it does not translate", "model")

    def _language(self, name: str) -> int:
        if name not in self.known.languages:
            raise RequestError(
                f"Unsupported language: {name[:32]!r}.  Must be one of {sorted(self.known.languages)}.",
                field="language",
            )
        return self.known.languages[name]

    def _times(self) -> TimestampRules:
        return TimestampRules(self.known.first_time, self.known.max_initial)

    def _begun(self, request: SpeechInput, opening: list[list[int]]) -> list[int]:
        """The opening and the text that the output continues, as part of the prompt; none without a text."""
        text = self._words(request.begins_with)
        if text and any(len(choices) > 1 for choices in opening):
            raise RequestError("text can only be continued in a language that is known", "language")
        return [choices[0] for choices in opening] + text if text else []

    def _previous(self, text: str, room: int) -> list[int]:
        """The last `room` tokens of the earlier text, and what marks them."""
        words = self._words(text[-MAX_PREVIOUS_CHARS:]) if room else []
        return [self.known.previous, *words[-room:]] if words else []

    def _words(self, text: str) -> list[int]:
        """The tokens of a text after a space, without special ones."""
        if not text.strip():
            return []
        (encoded,) = self.tokenizer.encode_batch_fast([f" {text.strip()}"], add_special_tokens=False)
        return [token_id for token_id in encoded.ids if token_id < self.known.start - 1]
