"""transformers on torch's CPU kernels: a group of clips is one batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

from tools.lab.bench.speech.load import MAX_TOKENS, Transcribe, read_samples

RATE = 16_000


def opened(folder: Path, weights: str) -> Transcribe:
    model = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    first_special = model.generation_config.eos_token_id

    def transcribe(clips: list[str]) -> list[str]:
        sounds = [np.frombuffer(read_samples(clip), np.int16).astype(np.float32) / 32768 for clip in clips]
        features = extractor(sounds, sampling_rate=RATE, return_tensors="pt").input_features
        with torch.inference_mode():
            rows = model.generate(features, do_sample=False, num_beams=1, max_new_tokens=MAX_TOKENS).tolist()
        return [
            tokenizer.decode([token_id for token_id in row if token_id < first_special]).strip()
            for row in rows
        ]

    return transcribe
