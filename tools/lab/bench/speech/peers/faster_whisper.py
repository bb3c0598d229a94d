"""faster-whisper (CTranslate2): a group of clips is one batch, as its own pipeline makes of one file."""

from __future__ import annotations

from pathlib import Path

import ctranslate2
import numpy as np
from faster_whisper import WhisperModel
from faster_whisper.audio import pad_or_trim

from tools.lab.bench.speech.load import Transcribe, read_samples

TYPES = {"int8": "int8", "fp32": "float32"}
PROMPT = ("<|startoftranscript|>", "<|notimestamps|>")


def opened(folder: Path, weights: str) -> Transcribe:
    model = WhisperModel(str(folder), device="cpu", compute_type=TYPES[weights])
    prompt = [model.hf_tokenizer.token_to_id(token) for token in PROMPT]

    def features(clip: str) -> np.ndarray:
        sound = np.frombuffer(read_samples(clip), np.int16).astype(np.float32) / 32768
        return pad_or_trim(model.feature_extractor(sound))  # type: ignore[no-any-return]

    def transcribe(clips: list[str]) -> list[str]:
        values = np.ascontiguousarray(np.stack([features(clip) for clip in clips]))
        results = model.model.generate(
            ctranslate2.StorageView.from_array(values), [prompt] * len(clips), beam_size=1
        )
        return [model.hf_tokenizer.decode(result.sequences_ids[0]).strip() for result in results]

    return transcribe
