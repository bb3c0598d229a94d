"""`python -m tools.lab.bench.speech.word_errors`: wrong words of Whisper tiny.en, Braid's and transformers'.

On a recording of 44 seconds, which is two windows, and on sentences that espeak-ng speaks.  transformers runs
its own long-form generation in float32, with Whisper's attempts at rising temperatures.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np

from pipelines.nodes.audio.decoding import RATE, decode_audio
from tools.lab.bench.speech.__main__ import BUILD, FOLDER
from tools.lab.bench.speech.clips import recordings, write_wav
from tools.lab.bench.speech.forms import WEIGHTS, SpeechForms
from tools.lab.bench.speech.load import MAX_TOKENS, Load
from tools.lab.bench.speech.sentences import SENTENCES, TWO_CITIES
from tools.lab.bench.speech.systems import MODEL, SpeechSystem, braid
from tools.lab.bench.speech.words import count_errors, words_of

ATTEMPTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
Texts = Callable[[list[str]], list[str]]
Spoken = dict[str, list[tuple[str, str]]]
"""Set → paths of its recordings, and what is said in them."""


@click.command()
def main() -> None:
    """A line for each set and program: wrong words, words, and their share."""
    spoken = _spoken(FOLDER / "spoken")
    _report("transformers, fp32", spoken, _transformers(SpeechForms(FOLDER, "fp32", MODEL).huggingface))
    for weights in WEIGHTS:
        log = FOLDER / "logs" / f"word-errors-{weights}"
        log.parent.mkdir(parents=True, exist_ok=True)
        server = braid(SpeechForms(FOLDER, weights, MODEL), BUILD, log, print)
        try:
            server.wait_until_ready()
            _report(f"braid, {weights}", spoken, _texts_of(server))
        finally:
            server.stop()


def _report(name: str, spoken: Spoken, texts: Texts) -> None:
    for title, recorded in spoken.items():
        found = texts([path for path, _ in recorded])
        pairs = [(words_of(said), words_of(text)) for (_, said), text in zip(recorded, found, strict=True)]
        errors, total = sum(count_errors(*pair) for pair in pairs), sum(len(said) for said, _ in pairs)
        print(f"{title:>20}  {name:>20}  {errors:4} of {total} words wrong, {100 * errors / total:.1f} %")


def _spoken(folder: Path) -> Spoken:
    """The recordings, in WAV files of 16 kHz."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = recordings(FOLDER / "recordings")
    long, sentences = folder / "two_cities.wav", []
    write_wav(long, decode_audio((sources / "two_cities.wav").read_bytes()))
    for number, sentence in enumerate(SENTENCES):
        path = folder / f"{number}.wav"
        subprocess.run(["espeak-ng", "-w", str(path), sentence], check=True)
        write_wav(path, decode_audio(path.read_bytes()))
        sentences.append((str(path), sentence))
    return {"two_cities.wav": [(str(long), TWO_CITIES)], "espeak-ng sentences": sentences}


def _texts_of(server: SpeechSystem) -> Texts:
    return lambda clips: server.take(Load(clips, 1)).texts


def _transformers(folder: Path) -> Texts:
    import torch
    from tokenizers import Tokenizer
    from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

    model = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    first_special = model.generation_config.eos_token_id

    def text_of(path: str) -> str:
        sound = decode_audio(Path(path).read_bytes())
        whole = {"truncation": False, "padding": "longest"} if len(sound) > 30 * RATE else {}
        inputs = extractor(
            sound, sampling_rate=RATE, return_tensors="pt", return_attention_mask=True, **whole
        )
        torch.manual_seed(0)
        with torch.inference_mode():
            rows = model.generate(
                **inputs,
                max_new_tokens=MAX_TOKENS,
                return_timestamps=True,
                temperature=ATTEMPTS,
                compression_ratio_threshold=1.35,
                logprob_threshold=-1.0,
                no_speech_threshold=0.6,
            )
        words = [int(token_id) for token_id in np.asarray(rows)[0] if token_id < first_special]
        return str(tokenizer.decode(words))

    return lambda clips: [text_of(clip) for clip in clips]


if __name__ == "__main__":
    main()
