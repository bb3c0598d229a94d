"""What may stand in a config.json of OpenVINO Model Server, as strict as its own schema."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from graphs.errors import hint
from pipelines.base.deferred_model import DeferredModel
from pipelines.repository.ovms import STATEFUL

PREPROCESSING = "only a flag of one model; convert the model with it built in"
REFUSED_KEYS = {
    **dict.fromkeys(
        ("stateful", "idle_sequence_cleanup", "max_sequence_number", "low_latency_transformation"), STATEFUL
    ),
    **dict.fromkeys(("mean", "scale", "color_format", "precision"), PREPROCESSING),
}
"""Key that older versions had, or only flags have → why it is refused."""


def _entry(value: Any) -> Any:
    """`{"config": {…}}` → what is in it."""
    return value["config"] if isinstance(value, dict) and list(value) == ["config"] else value


class _Strict(DeferredModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class AllVersions(_Strict):
    pass


class LatestVersions(_Strict):
    num_versions: int = Field(ge=1)


class SpecificVersions(_Strict):
    versions: list[Annotated[int, Field(ge=1)]]


class VersionPolicies(_Strict):
    """One of them."""

    all: AllVersions | None = None
    latest: LatestVersions | None = None
    specific: SpecificVersions | None = None


class LoaderOptions(DeferredModel):
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    loader_name: str


class GraphEntry(_Strict):
    name: str = Field(min_length=1)
    base_path: str | None = None
    graph_path: str | None = None
    subconfig: str | None = None
    group_name: str | None = None


class ModelEntry(GraphEntry):
    batch_size: Annotated[int, Field(ge=0)] | str | None = None
    shape: str | dict[str, str] | None = None
    layout: str | dict[str, str] | None = None
    model_version_policy: VersionPolicies | None = None
    nireq: int | None = Field(default=None, ge=0)
    target_device: str | None = None
    allow_cache: bool | None = None
    plugin_config: dict[str, str | bool | int | float] = {}
    custom_loader_options: LoaderOptions | None = None


class PipelineEntry(DeferredModel):
    """A DAG, of which only the name is read: none is run."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    name: str


class Metrics(_Strict):
    enable: bool
    metrics_list: list[str] = []


class Monitoring(_Strict):
    metrics: Metrics


Models = list[Annotated[ModelEntry, BeforeValidator(_entry)]]


class SubConfig(_Strict):
    model_config_list: Models


class ServerConfig(SubConfig):
    mediapipe_config_list: list[GraphEntry] = []
    pipeline_config_list: list[PipelineEntry] = []
    custom_node_library_config_list: list[dict[str, Any]] = []
    custom_loader_config_list: list[dict[str, Any]] = []
    monitoring: Monitoring | None = None
    idle_unload_timeout_seconds: int | None = Field(default=None, ge=0)


def sentences(error: ValidationError) -> list[str]:
    """What is wrong, each with the key at which it is."""
    return list(dict.fromkeys(_sentence(dict(each)) for each in error.errors()))


def _sentence(error: dict[str, Any]) -> str:
    path, key = _path(error["loc"]), str(error["loc"][-1]) if error["loc"] else ""
    if error["type"] == "extra_forbidden":
        known = {name for entry in (ModelEntry, ServerConfig, VersionPolicies) for name in entry.model_fields}
        why = REFUSED_KEYS.get(key)
        return f"{path}: {why}" if why else f"{path}: unknown key{hint(key, sorted(known))}"
    return f"{path}: {error['msg']}"


def _path(location: tuple[str | int, ...]) -> str:
    text = ""
    for each in location:
        text += f"[{each}]" if isinstance(each, int) else f".{each}" if text else each
    return text or "the file"
