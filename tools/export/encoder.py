"""A Hugging Face encoder, or a decoder that reads whole texts → a folder that a batcher's graph serves.

Knows the order of the work and what is written; knows no family of models, no engine, no repository.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.export.folder import (
    ExportError,
    Stage,
    check_positions,
    put,
    quiet,
    read_config,
    scratch_beside,
    write_tokenizer,
)

SCORE, SCORE_TEMPLATE = "score", "score_template.jinja"
"""The folder of a decoder's head; how a query and a document are asked about."""
DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
COMPUTED = {"fp16": "f16", "bf16": "bf16", "fp32": "f32"}
"""What an ONNX model computes in whose weights are stored so; the others f32 or what is asked."""
LONGEST = 256  # tokens of a text that activations are measured with
SPARE = 8  # positions that no text has, as some families count from behind their padding


@dataclass(frozen=True)
class Wanted:
    """What the export's options say of a model that reads whole texts.

    `task`: embed, token_embed, classify or rerank; `form`: openvino or onnx; `weights` as both forms name
    them; `activations`: f32, f16 or bf16 (ONNX alone), int8 (OpenVINO alone) or None, the weights' own.
    `answers`: no and yes of a decoder that generates and is to score; `template`: a file that renders what
    it is asked.
    """

    task: str
    form: str = "openvino"
    weights: str = "fp32"
    activations: str | None = None
    answers: tuple[str, str] | None = None
    template: Path | None = None


def export_encoder(source: str, folder: Path, wanted: Wanted, stage: Stage = lambda _: None) -> None:
    """Write `source` (a local folder or a hub id) to `folder`; `stage` hears what is being done.

    `folder` receives openvino_model.xml and .bin, or model.onnx and model.onnx.data; tokenizer.json and
    config.json; chat_template.jinja and the files of sentence-transformers where the model has them; and
    score/, the head of a decoder that classifies.  It is complete or untouched.  Raises `ExportError`.
    """
    dtype = DTYPES[_computed_in(wanted)]
    with quiet(), scratch_beside(folder) as scratch:
        made = scratch / "model"
        stage("reading the tokenizer")
        tokenizer = write_tokenizer(source, made)
        _keep_whole_texts(made / "tokenizer.json")
        check_positions(source)
        _write_model(source, made, wanted, dtype, tokenizer, stage)
        stage("writing the folder")
        put(made, folder)


def _write_model(source: str, folder: Path, wanted: Wanted, dtype: str, tokenizer: Any, stage: Stage) -> None:
    """The model and all that its graph is made from but the tokenizer, in `folder`."""
    from tools.export.sentence_files import copy_sentence_files, forget_pooling, write_dense
    from tools.export.whole_model import read_model
    from tools.export.whole_tracing import trace

    stage("reading the model")
    answers = _answer_ids(tokenizer, wanted.answers) if wanted.answers else None
    model = read_model(source, wanted.task, dtype, answers)
    copy_sentence_files(source, folder)
    if wanted.task == "token_embed":
        forget_pooling(folder)
    if model.head is not None:
        write_dense(folder / SCORE, model.head.weight, model.head.bias)
    _write_template(source, folder, wanted.template)
    _write_config(source, folder, model, wanted)
    stage("tracing the model")
    program = trace(model)
    _write_program(program, model, folder, wanted, _texts(tokenizer, model.config, wanted), stage)


def _write_program(program: Any, model: Any, folder: Path, wanted: Wanted, texts: Any, stage: Stage) -> None:
    if wanted.form == "onnx":
        from tools.export.whole_onnx import write_onnx

        stage(f"writing {wanted.weights} weights")
        write_onnx(program, model.inputs, model.output, folder, wanted.weights)
        return
    from tools.export.whole_openvino import write_openvino

    stage("measuring activations" if texts else f"writing {wanted.weights} weights")
    write_openvino(program, model.output, folder, wanted.weights, texts)


def _texts(tokenizer: Any, config: Any, wanted: Wanted) -> list[list[int]] | None:
    """Token ids of texts to measure activations with, where these are wanted in int8."""
    from tools.export.calibration import calibration_texts

    if wanted.activations != "int8":
        return None
    longest = min(LONGEST, getattr(config, "max_position_embeddings", LONGEST) - SPARE)
    return [tokenizer.encode(text, truncation=True, max_length=longest) for text in calibration_texts()]


def _computed_in(wanted: Wanted) -> str:
    """Of the model that is traced; OpenVINO chooses when it runs.  Raises `ExportError`."""
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


def _answer_ids(tokenizer: Any, answers: tuple[str, str]) -> tuple[int, int]:
    """The ids of no and yes, each one token; raises `ExportError`."""
    ids = [tokenizer.encode(answer, add_special_tokens=False) for answer in answers]
    for answer, tokens in zip(answers, ids, strict=True):
        if len(tokens) != 1:
            raise ExportError(
                f"{answer!r} is {len(tokens)} tokens of this model; --classifier-tokens NO,YES names the two "
                "that it answers with"
            )
    return ids[0][0], ids[1][0]


def _write_config(source: str, folder: Path, model: Any, wanted: Wanted) -> None:
    """config.json as it was, but for what is exported of the model: its architecture, and one label."""
    changed: dict[str, Any] = {"architectures": [model.architecture]}
    if wanted.answers:
        changed |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    described = json.dumps(read_config(source) | changed, indent=2, ensure_ascii=False)
    (folder / "config.json").write_text(described + "\n", encoding="utf-8")


def _write_template(source: str, folder: Path, given: Path | None) -> None:
    """What asks about a query and a document: the command line's file, else the model's own."""
    from tools.export.sentence_files import find

    if template := given or find(source, SCORE_TEMPLATE):
        shutil.copyfile(template, folder / SCORE_TEMPLATE)


def _keep_whole_texts(tokenizer: Path) -> None:
    """Take out of tokenizer.json how long texts were in training: the graph says how long they may be."""
    content = json.loads(tokenizer.read_text(encoding="utf-8"))
    content |= {"truncation": None, "padding": None}
    tokenizer.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
