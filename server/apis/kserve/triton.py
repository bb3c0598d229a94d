"""Triton's description of a model and its counts, as far as Braid has such."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipelines.telemetry.step_profile import Steps
from pipelines.wire.messages import Profiled, how_far
from pipelines.worker.model_table import ModelCard
from server.apis.kserve.messages import ModelMetadata, TensorMetadata
from server.apis.kserve.served import find_served
from server.services.services import Services

BODY = "body"
"""How the phases of a model's own lines begin."""
STRING, BYTES = "STRING", "BYTES"
"""Triton's word in a configuration, KServe's."""
STATES = {
    "ready": "READY",
    "loading": "LOADING",
    "unloading": "UNLOADING",
    "unloaded": "UNAVAILABLE",
    "failed": "UNAVAILABLE",
}


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


async def model_statistics(services: Services, name: str, version: str | None) -> dict[str, Any]:
    """The counts of one version of a model that is loaded."""
    served = find_served(services, name, version)
    profiled = await services.client.profile(served.key)
    return {"model_stats": [statistics(name, str(served.status.version), profiled)]}


def repository_index(cards: Iterable[ModelCard], only_ready: bool) -> list[dict[str, str]]:
    """Triton's list of models."""
    return [_entry(card) for card in cards if card.state == "ready" or not only_ready]


def _entry(card: ModelCard) -> dict[str, str]:
    why = "; ".join(card.problems) or how_far(card.doing, card.share)
    return {
        "name": card.name,
        "version": str(card.version),
        "state": STATES[card.state],
        "reason": "unloaded" if card.state == "unloaded" else why,
    }


def statistics(name: str, version: str, profiled: Profiled) -> dict[str, Any]:
    """What a model has done since it was loaded; requests that failed, and how long they waited, are metrics.

    `inference_count` are requests, or texts; `execution_count` are runs, each of one or more of them.
    """
    steps = [step for kinds in profiled.engines.values() for step in kinds]
    num_runs = sum(step.steps for step in steps)
    return {
        "name": name,
        "version": version,
        "inference_count": sum(step.sequences for step in steps),
        "execution_count": num_runs,
        "inference_stats": {"compute_infer": {"count": num_runs, "ns": _body_ns(steps)}},
    }


def _tensor(tensor: TensorMetadata) -> dict[str, Any]:
    word = STRING if tensor.datatype == BYTES else tensor.datatype
    return {"name": tensor.name, "data_type": f"TYPE_{word}", "dims": tensor.shape}


def _body_ns(steps: list[Steps]) -> int:
    phases = (phase for one in steps for phase in one.phases if phase.name.startswith(BODY))
    return int(sum(phase.seconds for phase in phases) * 1e9)
