"""The phonemes node: a text → its sentences in the phoneme ids of a Piper voice."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from graphs.node import FilePath, Node, NodeConfig
from pipelines.base.errors import RequestError
from pipelines.nodes.interface import Loading, Running
from pipelines.nodes.voice.espeak import MISSING, Espeak, find_espeak
from pipelines.nodes.voice.sentences import cut, sentences
from pipelines.nodes.voice.voice_settings import BEGIN, END, PAD, VoiceSettings, read_voice_settings
from pipelines.values.node_values import Tokens
from pipelines.values.tasks import SpeakInput

MAX_PHONEMES = 400
"""The most phonemes of one run of the model, about half a minute; longer sentences are cut."""
MAX_TEXT_PHONEMES = 1 << 14
"""The most phonemes of one text: numbers and signs have many."""
CONTROL = re.compile(r"[^\S\n]|[\x00-\x09\x0b-\x1f\x7f]")


class Phonemes(Node):
    """The phonemes of a text, from the machine's espeak-ng where the voice wants it, as ids of the voice.

    One text becomes a list of sentences; very long ones are cut.  The language must be that of the voice.
    """

    class Config(NodeConfig):
        settings: FilePath = Field(description="the .onnx.json of a Piper voice")

        @field_validator("settings")
        @classmethod
        def _check_espeak(cls, settings: FilePath, info: ValidationInfo) -> FilePath:
            """Where the files are there to be read, what makes the phonemes must be there too."""
            folder = (info.context or {}).get("folder")
            if folder is None or read_voice_settings(folder / settings).espeak_voice is None:
                return settings
            if find_espeak() is None:
                raise PydanticCustomError("file_path", "{fault}", {"fault": MISSING})
            return settings

    def load(self, resources: Loading) -> None:
        """Raises ValueError where espeak-ng or its voice is missing, and for settings that are not right."""
        self.settings: VoiceSettings = resources.shared(
            read_voice_settings, self.folder / self.config.settings
        )
        voice = self.settings.espeak_voice
        self.espeak = None if voice is None else Espeak(voice)

    def run(self, call: Running, request: SpeakInput) -> list[Tokens]:
        """Raises RequestError for a text with nothing to speak, or too much."""
        self.settings.check_language(request.language)
        most = int(MAX_PHONEMES * min(1.0, request.speed))
        spoken = [part for sentence in self._sentences(request.text) for part in cut(sentence, most)]
        pieces = [Tokens([*self._ids(part)], of=i) for i, part in enumerate(spoken)]
        if not pieces:
            raise RequestError("`input` has nothing that is spoken", "input")
        if sum(map(len, spoken)) > MAX_TEXT_PHONEMES:
            raise RequestError(
                f"`input` is longer than {MAX_TEXT_PHONEMES} phonemes when it is spoken; send it in parts",
                "input",
            )
        return pieces

    def close(self) -> None:
        if self.espeak is not None:
            self.espeak.close()

    def _sentences(self, text: str) -> list[str]:
        text = CONTROL.sub(" ", text).strip()
        if not text:
            return []
        if self.espeak is None:
            return [unicodedata.normalize("NFD", text)]
        return sentences(self.espeak.clauses(text))

    def _ids(self, sentence: str) -> Iterator[int]:
        """Phonemes that the voice does not know are left out, as in Piper."""
        ids, pad = self.settings.ids, self.settings.ids[PAD]
        for phoneme in (BEGIN, *sentence):
            if phoneme in ids:
                yield from ids[phoneme]
                yield from pad
        yield from ids[END]
