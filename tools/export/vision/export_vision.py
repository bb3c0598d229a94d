"""A model of images and text → a folder that Braid serves, compared with transformers first."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipelines.repository.exports.export_files import CONFIG
from pipelines.repository.exports.vision_graph import DECODER
from tools.export.base.folder import ExportError, Stage, put, quiet, read_config, scratch_beside
from tools.export.base.tokenizer_files import write_tokenizer
from tools.export.decoders.decoder import DTYPES
from tools.export.vision.parts import write_image_settings, write_parts

OPTIMUM = "optimum-intel"
SINCE = {"qwen3_vl": (2, 2)}
"""`model_type` → the first version of optimum-intel that exports it, where others are served too."""
ALONE = "; --task text exports its language model alone, which reads text"


@dataclass(frozen=True)
class VisionUse:
    """What a model is exported for, if not for conversations.

    `embeds`: it is to give vectors, as its modules.json says, or else those of last tokens.  `answers`: no
    and yes, by which it scores pairs of query and document, which the file `template` renders.
    """

    embeds: bool = False
    answers: tuple[str, str] | None = None
    template: Path | None = None


IN_CHAT = VisionUse()


def export_vision(source: str, folder: Path, weights: str, stage: Stage, use: VisionUse = IN_CHAT) -> None:
    """Write `source` (a local folder or a hub id) to `folder`, which is complete or untouched.

    `weights`: int8, int4, fp16 or fp32, those of the language model; with int4 the other parts have int8.
    Raises `ExportError`.
    """
    try:
        _export(source, folder, weights, stage, use)
    except ExportError as error:
        raise refuse(str(error)) from error


def _check_version(source: str) -> None:
    """Raise `ExportError` for a family that the installed optimum-intel does not have."""
    kind, installed = read_config(source).get("model_type"), version(OPTIMUM)
    needed = SINCE.get(str(kind), (0,))
    if tuple(int(number) for number in installed.split(".")[:2]) < needed:
        raise ExportError(
            f"{kind} needs {OPTIMUM} {'.'.join(map(str, needed))}, and {installed} is installed; "
            "docs/vision.md has the environment"
        )


def refuse(fault: str) -> ExportError:
    return ExportError(f"{fault}{ALONE}")


def _export(source: str, folder: Path, weights: str, stage: Stage, use: VisionUse) -> None:
    from tools.export.base.dequantizing import dequantized
    from tools.export.base.sentence_files import copy_sentence_files, write_last_token
    from tools.export.decoders.loading import load
    from tools.export.decoders.logit_check import check_export, expected_logprobs, tolerance
    from tools.export.decoders.openvino_decoder import import_optimum
    from tools.export.encoders.encoder import answer_ids
    from tools.export.encoders.whole_model import answer_row
    from tools.export.vision.image_check import show

    import_optimum()
    _check_version(source)
    computed = "f16" if weights == "fp16" else "f32"
    with quiet(), scratch_beside(folder) as scratch:
        model_folder = scratch / "model"
        stage("reading the tokenizer")
        tokenizer = write_tokenizer(source, model_folder)
        processor = write_image_settings(source, model_folder)
        plain = dequantized(source, scratch / "plain", stage)
        stage("reading the model")
        model = load(plain, DTYPES[computed])
        model.config.save_pretrained(model_folder)
        stage("computing what transformers gives")
        expected = expected_logprobs(model, tokenizer)
        shown = show(model, tokenizer, processor, model_folder)
        answers = answer_ids(tokenizer, use.answers) if use.answers else None
        row = answer_row(model, answers) if answers else None
        model.to("meta")  # gives its weights back: optimum-intel loads them again
        model_folder = write_parts(plain, model_folder, weights, stage)
        stage("comparing with transformers")
        check_export(
            model_folder / DECODER, [*expected, shown.expected(model_folder)], tolerance(weights, computed)
        )
        if row is not None:
            _write_scoring(model_folder, row, use)
        if use.embeds:
            copy_sentence_files(source, model_folder)
            write_last_token(model_folder)
        stage("writing the folder")
        put(model_folder, folder)


def _write_scoring(folder: Path, row: Any, use: VisionUse) -> None:
    """What makes a decoder in `folder` a reranker: its head of one row, the template of a pair, one label."""
    from tools.export.base.sentence_files import write_dense
    from tools.export.encoders.encoder import ONE_LABEL, SCORE, SCORE_TEMPLATE

    assert use.template is not None
    write_dense(folder / SCORE, row.weight, row.bias)
    shutil.copyfile(use.template, folder / SCORE_TEMPLATE)
    described = json.dumps(read_config(str(folder)) | ONE_LABEL, indent=2, ensure_ascii=False)
    (folder / CONFIG).write_text(described + "\n", encoding="utf-8")
