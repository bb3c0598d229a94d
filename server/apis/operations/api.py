"""The paths that every server has, those of the status page, and OpenVINO Model Server's status of models."""

from __future__ import annotations

from server.apis.operations.cancel import CancelRequestEndpoint
from server.apis.operations.graph import ModelGraphEndpoint
from server.apis.operations.health import HealthEndpoint, LiveEndpoint, PingEndpoint, ReadyEndpoint
from server.apis.operations.invocations import InvocationsEndpoint
from server.apis.operations.load import LoadEndpoint
from server.apis.operations.loading import (
    ConfigStatusEndpoint,
    LoadModelEndpoint,
    ReloadConfigEndpoint,
    RepositoryIndexEndpoint,
    RepositoryModelEndpoint,
    UnloadModelEndpoint,
)
from server.apis.operations.lora_adapters import LoadLoraEndpoint, UnloadLoraEndpoint
from server.apis.operations.metrics import MetricsEndpoint
from server.apis.operations.models import ModelEndpoint, ModelsEndpoint
from server.apis.operations.prefix_cache import ResetPrefixCacheEndpoint
from server.apis.operations.profile import ModelProfileEndpoint
from server.apis.operations.pulling import PullEndpoint, PullsEndpoint
from server.apis.operations.status import StatusEndpoint
from server.apis.operations.status_page import FrontEndpoint, StatusPageEndpoint
from server.apis.operations.version import VersionEndpoint
from server.dialects import OVMS
from server.services.api import Api

ROOT = {
    "/invocations": InvocationsEndpoint,
    "/reset_prefix_cache": ResetPrefixCacheEndpoint,
    "/models": ModelsEndpoint,
    "/models/load": LoadModelEndpoint,
    "/models/unload": UnloadModelEndpoint,
    "/models/pull": PullsEndpoint,
    "/models/pull/{pull_id}": PullEndpoint,
    "/health": HealthEndpoint,
    "/v1/health": HealthEndpoint,
    "/ping": PingEndpoint,
    "/v2/health/live": LiveEndpoint,
    "/v2/health/ready": ReadyEndpoint,
    "/load": LoadEndpoint,
    "/version": VersionEndpoint,
    "/metrics": MetricsEndpoint,
}
PREFIXED = {
    "/models": ModelsEndpoint,
    "/models/{name:path}": ModelEndpoint,
    "/models/{name:path}/profile": ModelProfileEndpoint,
    "/load_lora_adapter": LoadLoraEndpoint,
    "/unload_lora_adapter": UnloadLoraEndpoint,
}
OPERATIONS = Api("operations", ROOT, PREFIXED)
STATUS = Api(
    "status",
    {"/": FrontEndpoint, "/status": StatusPageEndpoint, "/status/{file}": StatusPageEndpoint},
    {
        "/status": StatusEndpoint,
        "/models/{name:path}/graph": ModelGraphEndpoint,
        "/requests/{request_id}/cancel": CancelRequestEndpoint,
    },
)
"""What BRAID_STATUS turns off."""

TRITON_LOADING = Api(
    "kserve",
    {
        "/v2/repository/index": RepositoryIndexEndpoint,
        "/v2/repository/models/{name:path}": RepositoryModelEndpoint,
    },
)
OVMS_CONFIG = Api(
    "ovms",
    {"/v1/config": ConfigStatusEndpoint, "/v1/config/reload": ReloadConfigEndpoint},
    dialect=OVMS,
    speaks=r"/v3(?:/.*)?|/v1/config(?:/.*)?",
)
OVMS_V1 = Api("v1", dialect=OVMS, speaks=r"/v1(?:/.*)?")
"""What BRAID_V1=ovms turns on."""
