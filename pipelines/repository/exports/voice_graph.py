"""Writes the graph of a Piper voice: text → phonemes → waveforms."""

from __future__ import annotations

from pathlib import Path

from pipelines.repository.exports.export_files import PLACES, read_object
from pipelines.repository.files.yaml_words import word

SETTINGS = ".onnx.json"
LINES = """\
task: speak
nodes:
  sentences: {{type: phonemes, from: request, settings: {settings}}}
  spoken:
    type: synthesizer
    from: sentences
    settings: {settings}
    body:
      outputs: {{type: tensor_model, from: batch, path: {model}, device: cpu}}
  sound: {{type: waveform, from: spoken, settings: {settings}}}
"""


def find_voices(folder: Path) -> list[str]:
    """The settings of Piper voices in `folder`, as a graph names them, each with its model beside it."""
    return [
        file.relative_to(folder).as_posix()
        for place in PLACES
        for file in sorted((folder / place).glob(f"*{SETTINGS}"))
        if file.with_suffix("").is_file() and "phoneme_id_map" in read_object(file)
    ]


def voice_lines(folder: Path, voices: list[str]) -> list[str]:
    """The lines of graph.yaml from the task on.  Raises ValueError where there are several voices."""
    if len(voices) > 1:
        raise ValueError(
            f"{folder} holds several voices: {', '.join(voices)}; put each into a folder of its own"
        )
    settings = voices[0]
    return LINES.format(settings=word(settings), model=word(settings.removesuffix(".json"))).splitlines()
