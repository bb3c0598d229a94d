"""Converts a Hugging Face encoder, or a decoder that embeds or scores, to a folder for a batcher's graph."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.export.base.folder import (
    ExportError,
    Stage,
    put,
    quiet,
    read_config,
    scratch_beside,
)
from tools.export.base.tokenizer_files import write_tokenizer

SCORE, SCORE_TEMPLATE = "score", "score_template.jinja"
"""The folder of a decoder's head; the file that renders a pair of query and document."""
DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
COMPUTED = {"fp16": "f16", "bf16": "bf16", "fp32": "f32"}
"""Type of weights → type of activations of an ONNX model; f32 or as requested for the others."""
ONE_LABEL: dict[str, Any] = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
"""Keys of the config.json of a model that scores."""
LONGEST = 256  # tokens of a text that activations are measured with
SPARE = 8  # positions that no text has, as some families count from behind their padding


@dataclass(frozen=True)
class EncoderOptions:
    """The export options of an embedding or pooling model.

    `task`: embed, token_embed, classify or rerank; `form`: openvino or onnx; `weights` as both formats name
    them; `activations`: f32, f16 or bf16 (only ONNX), int8 (only OpenVINO) or None for the default.
    `answers`: no and yes of a generative decoder that is to score; `template`: a file that renders the
    pair.
    """

    task: str
    form: str = "openvino"
    weights: str = "fp32"
    activations: str | None = None
    answers: tuple[str, str] | None = None
    template: Path | None = None


def export_encoder(source: str, folder: Path, wanted: EncoderOptions, stage: Stage = lambda _: None) -> None:
    """Write `source` (a local folder or a hub id) to `folder`; `stage` is called with each stage of the work.

    `folder` receives openvino_model.xml and .bin, or model.onnx and model.onnx.data; tokenizer.json and
    config.json; chat_template.jinja and the files of sentence-transformers where the model has them; and
    score/, the head of a decoder that classifies.  It is complete or untouched.  Raises `ExportError`.
    """
    dtype = DTYPES[computed_in(wanted)]
    with quiet(), scratch_beside(folder) as scratch:
        model_folder = scratch / "model"
        stage("reading the tokenizer")
        tokenizer = write_tokenizer(source, model_folder)
        keep_whole_texts(model_folder / "tokenizer.json")
        _write_model(source, model_folder, wanted, dtype, tokenizer, stage)
        stage("writing the folder")
        put(model_folder, folder)


def _write_model(
    source: str, folder: Path, wanted: EncoderOptions, dtype: str, tokenizer: Any, stage: Stage
) -> None:
    """Write the model and all files for its graph except the tokenizer to `folder`."""
    from tools.export.base.dequantizing import dequantized
    from tools.export.base.sentence_files import (
        copy_sentence_files,
        forget_pooling,
        predicts_words,
        write_dense,
    )
    from tools.export.encoders.more_vectors import copy_more_vectors
    from tools.export.encoders.whole_model import read_model
    from tools.export.encoders.whole_tracing import trace

    stage("reading the model")
    answers = answer_ids(tokenizer, wanted.answers) if wanted.answers else None
    plain = dequantized(source, folder.with_name("plain"), stage)
    model = read_model(plain, "sparse" if predicts_words(source) else wanted.task, dtype, answers)
    if getattr(model.config, "vision_config", None) is not None:
        stage(f"taking the language model of {model.config.model_type}: it will read text alone")
    copy_sentence_files(source, folder)
    copy_more_vectors(source, folder, tokenizer)
    if wanted.task == "token_embed":
        forget_pooling(folder)
    if model.head is not None:
        write_dense(folder / SCORE, model.head.weight, model.head.bias)
    _write_template(source, folder, wanted.template)
    _write_config(source, folder, model, wanted)
    stage("tracing the model")
    program = trace(model)
    _write_program(program, model, folder, wanted, _texts(tokenizer, model.config, wanted), stage)


def _write_program(
    program: Any, model: Any, folder: Path, wanted: EncoderOptions, texts: Any, stage: Stage
) -> None:
    if wanted.form == "onnx":
        from tools.export.encoders.whole_onnx import write_onnx

        stage(f"writing {wanted.weights} weights")
        write_onnx(program, model.inputs, model.output, folder, wanted.weights)
        return
    from tools.export.encoders.whole_openvino import write_openvino

    stage("measuring activations" if texts else f"writing {wanted.weights} weights")
    write_openvino(program, model.output, folder, wanted.weights, texts)


def _texts(tokenizer: Any, config: Any, wanted: EncoderOptions) -> list[list[int]] | None:
    """Token ids of texts for calibration, if activations are int8."""
    from tools.export.graphs.calibration import calibration_texts

    if wanted.activations != "int8":
        return None
    longest = min(LONGEST, getattr(config, "max_position_embeddings", LONGEST) - SPARE)
    return [tokenizer.encode(text, truncation=True, max_length=longest) for text in calibration_texts()]


def computed_in(wanted: EncoderOptions) -> str:
    """The type of activations of the traced model; OpenVINO selects it at run time.  Raises `ExportError`."""
    if wanted.form == "openvino":
        if wanted.activations and wanted.weights != "int8":
            raise ExportError(f"activations in int8 go with weights in int8, not with {wanted.weights}")
        return "f32"
    own = COMPUTED.get(wanted.weights)
    if own and wanted.activations not in (None, own):
        raise ExportError(
            f"{wanted.weights} weights are computed in {own}; --activations is for int8 and int4 weights"
        )
    return own or wanted.activations or "f32"


def answer_ids(tokenizer: Any, answers: tuple[str, str]) -> tuple[int, int]:
    """The ids of no and yes, each a single token.  Raises `ExportError`."""
    ids = [tokenizer.encode(answer, add_special_tokens=False) for answer in answers]
    for answer, tokens in zip(answers, ids, strict=True):
        if len(tokens) != 1:
            raise ExportError(
                f"{answer!r} is {len(tokens)} tokens of this model; --classifier-tokens NO,YES names the two "
                "that it answers with"
            )
    return ids[0][0], ids[1][0]


def _write_config(source: str, folder: Path, model: Any, wanted: EncoderOptions) -> None:
    """Write config.json with the exported architecture and, for a scoring decoder, one label."""
    changed = {"architectures": [model.architecture]} | (ONE_LABEL if wanted.answers else {})
    described = json.dumps(read_config(source) | changed, indent=2, ensure_ascii=False)
    (folder / "config.json").write_text(described + "\n", encoding="utf-8")


def _write_template(source: str, folder: Path, given: Path | None) -> None:
    """Write the template of a pair: the file of the command line, else the model's own."""
    from tools.export.base.sentence_files import find

    if template := given or find(source, SCORE_TEMPLATE):
        shutil.copyfile(template, folder / SCORE_TEMPLATE)


def keep_whole_texts(tokenizer: Path) -> None:
    """Remove the maximum length from tokenizer.json: the graph limits the length."""
    content = json.loads(tokenizer.read_text(encoding="utf-8"))
    content |= {"truncation": None, "padding": None}
    tokenizer.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
