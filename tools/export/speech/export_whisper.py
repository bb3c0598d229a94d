"""A Whisper model → a folder that Braid serves: encoder.onnx, decoder.onnx, and what its graph reads."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pipelines.repository.exports.speech_graph import ALIGNMENT
from tools.export.base.folder import ExportError, Stage, has_transformers
from tools.export.encoder_decoder.two_files import write_files
from tools.export.speech.frames_check import check_encoder_states
from tools.export.speech.whisper_folder import GENERATION, WhisperFolder, read_whisper
from tools.export.whisper.alignment import default_heads, write_alignment
from tools.export.whisper.decoder import write_decoder
from tools.export.whisper.encoder import write_encoder

WRITERS = {"encoder": write_encoder, "decoder": write_decoder}


def export_whisper(source: Path, folder: Path, weights: str, stage: Stage) -> None:
    """Write the model of the folder `source` to `folder`, which is complete or untouched.

    `weights`: int8 or fp32.  Where transformers is installed, the encoder's frames are compared with its own.
    Raises `ExportError`.
    """
    stage("reading the model")
    model = read_whisper(source)
    writers = {name: partial(write, model.weights, model.config) for name, write in WRITERS.items()}

    def finish(model_folder: Path) -> None:
        stage("writing the alignment of words")
        _write_alignment(model_folder, model)
        if has_transformers():
            stage("comparing its frames with those of transformers")
            check_encoder_states(model_folder / "encoder.onnx", model.weights, model.config, weights)

    write_files(source, folder, writers, weights, model.files, stage, finish)


def _write_alignment(folder: Path, model: WhisperFolder) -> None:
    """Raises `ExportError` where the model names heads that it does not have."""
    named = model.files[GENERATION].get("alignment_heads")
    try:
        heads = [(int(layer), int(head)) for layer, head in named or default_heads(model.config)]
        write_alignment(folder / "decoder.onnx", heads, folder / ALIGNMENT)
    except (TypeError, ValueError) as error:
        raise ExportError(f"{GENERATION}: alignment_heads: {error}") from error
