"""openvino_genai's WhisperPipeline: it takes one clip at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino_genai

from tools.lab.bench.speech.load import MAX_TOKENS, Transcribe, read_samples


def opened(folder: Path, weights: str) -> Transcribe:
    pipeline = openvino_genai.WhisperPipeline(str(folder), "CPU")

    def text_of(clip: str) -> str:
        sound = np.frombuffer(read_samples(clip), np.int16).astype(np.float32) / 32768
        return str(pipeline.generate(sound.tolist(), max_new_tokens=MAX_TOKENS).texts[0]).strip()

    return lambda clips: [text_of(clip) for clip in clips]
