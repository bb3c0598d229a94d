"""Selects the export for the options of the command line, and checks the options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pipelines.repository.exports.dual_graph import is_dual
from pipelines.repository.exports.model_task import CLASSIFIERS, GENERATIVE, TASKS, TEXT, infer_task
from pipelines.repository.exports.vision_graph import ENCODERS, family_fault, sees
from tools.export.base.folder import ExportError, Stage, check_code, read_config
from tools.export.base.options import AUTO, Options

EMBED, RERANK = "embed", "rerank"
ALL_TASKS = (AUTO, TEXT, *TASKS)
FORMATS = (AUTO, "openvino", "onnx")
WEIGHTS = {"openvino": ("int8", "int4", "fp16", "fp32"), "onnx": ("int8", "int4", "fp16", "bf16", "fp32")}
"""Format → its types of weights."""
ACTIVATIONS = {"openvino": ("int8",), "onnx": ("f32", "f16", "bf16")}
"""Format → types of activations for int8 and int4 weights, other than the engine's default."""
MEANT = {TEXT: "onnx"}
"""Task → the format that `auto` is checked as; others: openvino."""
RERANKER_TEMPLATES = {
    kind: Path(__file__).parent / f"{kind}_reranker.jinja" for kind in ("qwen3", "qwen3_vl")
}
"""`model_type` → the question of its makers' reranker."""
OWN_TEMPLATE = "additional_chat_templates/reranker.jinja"
"""The name of that file in a model's own folder."""
ANSWERS = ("no", "yes")
SCORING = ("classify", "rerank")

Export = Callable[[Path, Stage], None]
"""Writes a model into a folder."""


def choose(source: str, options: Options) -> Export:
    """The export.  Raises click's error for contradicting options, `ExportError` for unsupported models."""
    from tools.export.base.flat_routes import flat_folder
    from tools.export.base.sentence_files import clip_folder

    if options.form != AUTO:
        _check_form(options)
    source = flat_folder(clip_folder(source))
    config, task = _read(source, options.task)
    if is_dual(config):
        return _dual(source, task, options)
    vision = sees(config) and (task in (EMBED, RERANK) or (options.task == AUTO and task == TEXT))
    if options.form == AUTO:
        _check_form(replace(options, form="openvino" if vision else MEANT.get(task, "openvino")))
    if task != "rerank":
        _refuse_scoring(options)
    if vision:
        return _vision(source, config, task, options)
    if task == TEXT:
        return _generating(source, options)
    return _whole(source, task, config, options)


def _check_form(options: Options) -> None:
    form, other = options.form, "onnx" if options.form == "openvino" else "openvino"
    if options.weights not in WEIGHTS[form]:
        raise click.BadParameter(f"{form} takes {', '.join(WEIGHTS[form])}", param_hint="--weights")
    if options.activations and options.activations not in ACTIVATIONS[form]:
        raise click.BadParameter(f"it goes with --format {other}", param_hint="--activations")


def _read(source: str, task: str) -> tuple[dict[str, Any], str]:
    """The config.json of `source`, and the task of the export.  Raises `ExportError` when it is unclear.

    When nothing can be read, the export of text reports it.
    """
    from tools.export.base.sentence_files import check_place, read_types

    try:
        check_place(source)
        config = read_config(source)
        types = read_types(source)
    except ExportError:
        raise
    except Exception:  # any error of a hub
        return {}, TEXT if task == AUTO else task
    check_code(source, config)
    by_files = "embed" if is_dual(config) else infer_task(config, types)
    chosen = by_files if task == AUTO else task
    if chosen is None:
        raise ExportError(
            f"{source} is {', '.join(config['architectures'])}, which does not determine a task; "
            f"choose it with --task: {', '.join(ALL_TASKS[1:])}"
        )
    return config, chosen


def _refuse_scoring(options: Options) -> None:
    for option, given in (("--classifier-tokens", options.answers), ("--score-template", options.template)):
        if given:
            raise click.BadParameter("it goes with --task rerank", param_hint=option)


def _generating(source: str, options: Options) -> Export:
    from tools.export.decoders.decoder import export_decoder

    if options.activations == "int8":
        raise click.BadParameter("int8 goes with models that read whole texts", param_hint="--activations")
    weights, form, activations = options.weights, options.form, options.activations
    return lambda folder, stage: export_decoder(source, folder, weights, stage, form, activations)


def _dual(source: str, task: str, options: Options) -> Export:
    from tools.export.encoders.dual_encoder import export_dual
    from tools.export.encoders.encoder import DTYPES, EncoderOptions, computed_in

    if task != "embed":
        raise click.BadParameter("a model of texts and images goes with embed", param_hint="--task")
    _refuse_scoring(options)
    if options.activations == "int8":
        raise click.BadParameter("int8 goes with models of texts alone", param_hint="--activations")
    form = "openvino" if options.form == AUTO else options.form
    _check_form(replace(options, form=form))
    dtype = DTYPES[computed_in(EncoderOptions(task, form, options.weights, options.activations))]
    return lambda folder, stage: export_dual(source, folder, form, options.weights, dtype, stage)


def _vision(source: str, config: dict[str, Any], task: str, options: Options) -> Export:
    from tools.export.base.sentence_files import check_types
    from tools.export.vision.export_vision import VisionUse, export_vision, refuse

    fault = family_fault(config)
    if options.form == "onnx":
        fault = "a vision model is served from OpenVINO IR alone"
    if fault:
        raise refuse(f"{source}: {fault}")
    if options.activations:
        raise click.BadParameter("it does not go with a vision model", param_hint="--activations")
    if task == EMBED:
        check_types(source)
    answers, template = _scoring(source, task, config, options)
    if task == RERANK and (answers is None or template is None):
        raise ExportError(
            f"{source} sees, and is no decoder of which it is known how it is asked about a pair; a decoder "
            "that answers no or yes is exported with --score-template FILE.jinja"
        )
    use = VisionUse(task == EMBED, answers, template)
    return lambda folder, stage: export_vision(source, folder, options.weights, stage, use)


def _whole(source: str, task: str, config: dict[str, Any], options: Options) -> Export:
    from tools.export.base.sentence_files import check_types
    from tools.export.encoders.encoder import EncoderOptions, export_encoder

    if task not in SCORING:
        check_types(source)
        _check_reading(source, config)
    answers, template = _scoring(source, task, config, options)
    form = "openvino" if options.form == AUTO else options.form
    wanted = EncoderOptions(task, form, options.weights, options.activations, answers, template)
    return lambda folder, stage: export_encoder(source, folder, wanted, stage)


def _check_reading(source: str, config: dict[str, Any]) -> None:
    """Raise `ExportError` for another vision model, unless its modules.json says how it embeds texts."""
    from tools.export.base.sentence_files import read_types

    if config.get("vision_config") and not read_types(source):
        raise ExportError(
            f"{source} is {', '.join(config.get('architectures') or ['a model'])}, a vision model: its "
            "vectors of images are not exported; those of CLIP, SigLIP and decoders of type "
            f"{', '.join(ENCODERS)} "
            "are, and another decoder with a modules.json of sentence-transformers is exported to embed texts"
        )


def _scoring(
    source: str, task: str, config: dict[str, Any], options: Options
) -> tuple[tuple[str, str] | None, Path | None]:
    """The answers and the template of a decoder that scores.  Raises for models without a score."""
    from tools.export.base.sentence_files import find

    named = tuple(config.get("architectures") or ())
    if task in SCORING and any(name.endswith(CLASSIFIERS) for name in named):
        return None, options.template
    if task == "rerank" and any(name.endswith(GENERATIVE) for name in named):
        asks = find(source, OWN_TEMPLATE) or RERANKER_TEMPLATES.get(str(config.get("model_type")))
        return options.answers or ANSWERS, options.template or asks
    if task in SCORING:
        raise ExportError(
            f"{source} is {', '.join(named) or 'of no architecture'}, which has no head for --task {task}; "
            "…ForSequenceClassification has one, and …ForCausalLM for rerank"
        )
    return None, None
