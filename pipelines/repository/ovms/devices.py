"""Devices and properties of OpenVINO as settings of a model's graph line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from graphs.errors import hint
from pipelines.repository.files.report import Report
from pipelines.repository.ovms.options import Given

Say = Callable[[str], None]

ON_CPU = ("", "CPU", "AUTO")
GPU = re.compile(r"GPU(\.\d+)?")
ADVICE = "set BRAID_DEVICE (cpu, cuda:0) to run every model there"
KV_CACHES = ("f32", "f16", "bf16", "u8", "i8", "u4")
PRECISIONS = ("f32", "bf16", "f16")
TRUE = (True, "true", "True", "1", 1)
THREADS, PROMPT_LOOKUP, KV_CACHE = "INFERENCE_NUM_THREADS", "prompt_lookup", "KV_CACHE_PRECISION"
STREAMS, OWN_STREAMS = "NUM_STREAMS", ("AUTO", "-1", "")
ONE_CALL = "one call at a time uses all cores"
SEVERAL_CALLS = "`NUM_STREAMS` and `nireq` of a tensor model say how many calls run at once"
NO_EFFECT = {
    STREAMS: ONE_CALL,
    "PERFORMANCE_HINT": SEVERAL_CALLS,
    "PERFORMANCE_HINT_NUM_REQUESTS": SEVERAL_CALLS,
    "CACHE_DIR": "compiled models are not stored",
    "CACHE_MODE": "compiled models are not stored",
    "ATTENTION_BACKEND": "attention is always paged",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "OpenVINO's own choice; `activation_group` of a graph sets it",
    "EXECUTION_MODE_HINT": "OpenVINO's own choice is taken; `INFERENCE_PRECISION_HINT` sets the type",
    "MODEL_PRIORITY": "all models share the processor evenly",
    "ENABLE_CPU_PINNING": "the operating system places threads",
    "ENABLE_HYPER_THREADING": "the operating system places threads",
    "SCHEDULING_CORE_TYPE": "the operating system places threads",
    "AFFINITY": "the operating system places threads",
    "ENABLE_MMAP": "OpenVINO's own choice is taken",
    "LOG_LEVEL": "BRAID_LOG_LEVEL is the level of the log",
    "PERF_COUNT": "`GET /v1/models/{name}/profile` measures steps",
}
"""Property → why it changes nothing here."""


def device(value: str, override: str | None, gpus: bool, problem: Say, note: Say) -> str:
    """The `device` of a graph line; `override` is the device that all models run on instead of their own."""
    if override is not None:
        if value not in ON_CPU:
            note(f"device {value}: BRAID_DEVICE is {override}")
        return override if gpus or override == "cpu" else "cpu"
    if value in ON_CPU:
        return "cpu"
    if gpus and GPU.fullmatch(value):
        return value.lower()
    where = "on CPU or GPU" if gpus else "on CPU"
    problem(f"device {value}: OpenVINO models of this kind run {where} here; {ADVICE}")
    return "cpu"


def read_plugin_config(options: Given, report: Report, *, decodes: bool = False) -> dict[str, Any]:
    """What a node's `plugin_config`, JSON in a string, sets of its model's line."""
    text, line = options["plugin_config"], options.line("plugin_config")
    if not text.strip():
        return {}
    try:
        plugin_config = json.loads(text)
    except ValueError as error:
        report.problem(line, f"plugin_config is not JSON: {error}")
        return {}
    if not isinstance(plugin_config, dict):
        report.problem(line, "plugin_config must be a JSON object")
        return {}
    return model_settings(
        plugin_config, lambda text: report.problem(line, text), lambda text: report.note(line, text), decodes
    )


def model_settings(
    config: Mapping[str, Any], problem: Say, note: Say, decodes: bool = False, streams: bool = False
) -> dict[str, Any]:
    """What properties of OpenVINO set of a model's line; `prompt_lookup` is left to the caller.

    `decodes`, `streams`: whether it is a decoder, and whether it can run several calls at once.
    """
    settings: dict[str, Any] = {}
    for name, value in config.items():
        if name == KV_CACHE and decodes:
            _choose(settings, "kv_cache", name, value, KV_CACHES, problem)
        elif name == "INFERENCE_PRECISION_HINT":
            _choose(settings, "precision", name, value, PRECISIONS, problem)
        elif name == THREADS:
            _number(settings, "threads", name, value, problem)
        elif name == STREAMS and streams and str(value) not in OWN_STREAMS:
            _number(settings, "streams", name, value, problem)
        elif name == PROMPT_LOOKUP and decodes:
            settings[PROMPT_LOOKUP] = value in TRUE
        elif name == "MAX_PROMPT_LEN":
            problem("plugin_config MAX_PROMPT_LEN: only NPU has a longest prompt of its own; remove it")
        elif name in NO_EFFECT:
            note(f"plugin_config {name} changes nothing here: {NO_EFFECT[name]}")
        else:
            known = [KV_CACHE, PROMPT_LOOKUP] if decodes else []
            known += ["INFERENCE_PRECISION_HINT", THREADS, *NO_EFFECT]
            problem(f"plugin_config has the property `{name}`, which Braid does not know{hint(name, known)}")
    return settings


def _number(made: dict[str, Any], setting: str, name: str, value: Any, problem: Say) -> None:
    if not re.fullmatch(r"[1-9]\d{0,3}", str(value)):
        problem(f"plugin_config {name} must be a number of {setting}, not {json.dumps(value)}")
    else:
        made[setting] = int(value)


def _choose(
    made: dict[str, Any], setting: str, name: str, value: Any, allowed: tuple[str, ...], problem: Say
) -> None:
    chosen = str(value).lower()
    if chosen in allowed:
        made[setting] = chosen
    elif chosen != "":  # the exporters' word for OpenVINO's own choice
        problem(f"plugin_config {name} must be one of {', '.join(allowed)}, not {json.dumps(value)}")
