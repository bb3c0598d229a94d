"""A model of text with an encoder and a decoder → a folder that Braid serves."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from shutil import copyfile

from tools.export.base.folder import TOKENIZER, ExportError, Stage, has_transformers, quiet
from tools.export.base.hugging_face_weights import read_safetensors
from tools.export.base.tokenizer_files import write_tokenizer
from tools.export.encoder_decoder.decoder import write_decoder
from tools.export.encoder_decoder.families import read_text_model
from tools.export.encoder_decoder.text_encoder import write_text_encoder
from tools.export.encoder_decoder.two_files import write_files
from tools.export.text_pair.pair_check import check_pair
from tools.export.text_pair.text_folder import CONFIG, GENERATION, generation_fields, read_config


def export_text(source: Path, folder: Path, weights: str, stage: Stage) -> None:
    """Write the model of the folder `source` to `folder`, which is complete or untouched.

    `weights`: int8 or fp32.  Where transformers is installed, log-probabilities are compared with its own.
    Raises `ExportError`.
    """
    stage("reading the model")
    config = read_config(source)
    files = {CONFIG: config, GENERATION: generation_fields(source, config)}
    try:
        model = read_text_model(read_safetensors(source), config)
    except KeyError as error:
        raise ExportError(f"{source} is not what its config.json describes: {error} is missing") from error
    writers = {
        "encoder": partial(write_text_encoder, model.weights, model.encoder),
        "decoder": partial(write_decoder, model.weights, model.decoder),
    }

    def check(model_folder: Path) -> None:
        _write_tokenizer(source, model_folder)
        if has_transformers():
            stage("comparing its log-probabilities with those of transformers")
            check_pair(model_folder, source, weights)

    write_files(source, folder, writers, weights, files, stage, check)


def _write_tokenizer(source: Path, folder: Path) -> None:
    if (source / TOKENIZER).is_file():
        copyfile(source / TOKENIZER, folder / TOKENIZER)
    elif has_transformers():
        with quiet():
            write_tokenizer(str(source), folder)
    else:
        raise ExportError(f"{source} has no {TOKENIZER}; where transformers is installed it is made")
