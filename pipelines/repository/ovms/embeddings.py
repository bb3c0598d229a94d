"""EmbeddingsCalculatorOV: the options of an embedding model, and its graph lines."""

from __future__ import annotations

from pathlib import Path

from pipelines.repository.exports.export_files import CONFIG
from pipelines.repository.exports.pooling_graph import ASSUMED, PoolingSettings, pooling_lines
from pipelines.repository.files.report import Report
from pipelines.repository.ovms.devices import device, read_plugin_config
from pipelines.repository.ovms.model_place import find_model
from pipelines.repository.ovms.options import Given, Option

MESSAGE = "EmbeddingsCalculatorOVOptions"
OPTIONS = (
    Option("models_path", str, required=True, sets="tokenizer"),
    Option("pooling", ("CLS", "LAST", "MEAN"), sets="how"),
    Option("normalize_embeddings", bool, default=True, sets="type: normalize, from"),
    Option("truncate", bool, default=False, sets="truncate"),
    Option("target_device", str, "", sets="type: encoder, from"),
    Option("plugin_config", str, ""),
)


def graph_lines(options: Given, folder: Path, override: str | None, report: Report) -> list[str]:
    """The lines of graph.yaml from the task on; [] with a problem in `report`."""
    export = find_model(options, "models_path", folder, report)
    pooling = options["pooling"]
    settings = PoolingSettings(
        model=encoder_settings(options, override, report),
        tokens={"truncate": True} if options["truncate"] else {},
        how=pooling.lower() if pooling else None,
        normalize=options["normalize_embeddings"],
    )
    if export is None:
        return []
    try:
        lines = pooling_lines(export, "embed", settings)
    except ValueError as error:
        report.problem(options.line("models_path"), str(error))
        return []
    if any(ASSUMED in line for line in lines):
        report.note(
            options.node.line, f"no `pooling` here, and no 1_Pooling/{CONFIG}: it follows the model's family"
        )
    return lines


def encoder_settings(options: Given, override: str | None, report: Report) -> dict[str, object]:
    """The settings of the encoder's line."""
    line = options.line("target_device")
    where = device(
        options["target_device"],
        override,
        gpus=False,
        problem=lambda text: report.problem(line, text),
        note=lambda text: report.note(line, text),
    )
    return {"device": where, **read_plugin_config(options, report)}
