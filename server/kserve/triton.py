"""Triton's description of a model and its counts, as far as Braid has such."""

from __future__ import annotations

from typing import Any

from pipelines.telemetry.step_profile import Steps
from pipelines.wire.messages import Profiled
from server.kserve.messages import ModelMetadata, TensorMetadata

BODY = "body"
"""How the phases of a model's own lines begin."""
STRING, BYTES = "STRING", "BYTES"
"""Triton's word in a configuration, KServe's."""


def model_config(model: ModelMetadata) -> dict[str, Any]:
    """`max_batch_size` 0 says that the shapes are whole: no length in front of them is left out."""
    return {
        "name": model.name,
        "platform": model.platform,
        "backend": "braid",
        "max_batch_size": 0,
        "input": list(map(_tensor, model.inputs)),
        "output": list(map(_tensor, model.outputs)),
    }


def statistics(name: str, version: str, profiled: Profiled) -> dict[str, Any]:
    """What a model has done since it was loaded; requests that failed, and how long they waited, are metrics.

    `inference_count` are requests, or texts; `execution_count` are runs, each of one or more of them.
    """
    steps = [one for kinds in profiled.engines.values() for one in kinds]
    num_runs = sum(one.steps for one in steps)
    return {
        "name": name,
        "version": version,
        "inference_count": sum(one.sequences for one in steps),
        "execution_count": num_runs,
        "inference_stats": {"compute_infer": {"count": num_runs, "ns": _body_ns(steps)}},
    }


def _tensor(tensor: TensorMetadata) -> dict[str, Any]:
    word = STRING if tensor.datatype == BYTES else tensor.datatype
    return {"name": tensor.name, "data_type": f"TYPE_{word}", "dims": tensor.shape}


def _body_ns(steps: list[Steps]) -> int:
    phases = (phase for one in steps for phase in one.phases if phase.name.startswith(BODY))
    return int(sum(phase.seconds for phase in phases) * 1e9)
