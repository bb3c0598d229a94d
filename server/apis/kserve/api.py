"""The paths of KServe, Triton and TensorFlow Serving, and their dialect."""

from __future__ import annotations

from server.apis.kserve.endpoint import (
    InferEndpoint,
    ModelConfigEndpoint,
    ModelMetadataEndpoint,
    ModelNamesEndpoint,
    ModelReadyEndpoint,
    ModelStatsEndpoint,
    ServerMetadataEndpoint,
)
from server.apis.kserve.generate_endpoint import GenerateEndpoint, GenerateStreamEndpoint
from server.apis.kserve.predict_endpoint import PredictEndpoint, SignatureEndpoint, VersionStatusEndpoint
from server.dialects import Dialect
from server.schema.plain_errors import plain_error
from server.services.api import Api

API = Api(
    "kserve",
    root={
        "/v2": ServerMetadataEndpoint,
        "/v2/models": ModelNamesEndpoint,
        "/v2/models/{name:path}": ModelMetadataEndpoint,
        "/v2/models/{name:path}/ready": ModelReadyEndpoint,
        "/v2/models/{name:path}/config": ModelConfigEndpoint,
        "/v2/models/{name:path}/stats": ModelStatsEndpoint,
        "/v2/models/{name:path}/infer": InferEndpoint,
        "/v2/models/{name:path}/generate": GenerateEndpoint,
        "/v2/models/{name:path}/generate_stream": GenerateStreamEndpoint,
        "/v2/models/{name:path}/versions/{version}": ModelMetadataEndpoint,
        "/v2/models/{name:path}/versions/{version}/ready": ModelReadyEndpoint,
        "/v2/models/{name:path}/versions/{version}/config": ModelConfigEndpoint,
        "/v2/models/{name:path}/versions/{version}/stats": ModelStatsEndpoint,
        "/v2/models/{name:path}/versions/{version}/infer": InferEndpoint,
        "/v2/models/{name:path}/versions/{version}/generate": GenerateEndpoint,
        "/v2/models/{name:path}/versions/{version}/generate_stream": GenerateStreamEndpoint,
        "/v1/models/{name:path}/versions/{version}": VersionStatusEndpoint,
        "/v1/models/{name:path}/metadata": SignatureEndpoint,
        "/v1/models/{name:path}/versions/{version}/metadata": SignatureEndpoint,
        "/v1/models/{name:path}:predict": PredictEndpoint,
        "/v1/models/{name:path}/versions/{version}:predict": PredictEndpoint,
    },
    dialect=Dialect("kserve", plain_error),
    speaks=r"/v2(?:/.*)?|/v1/models/.+(?::predict|/metadata|/versions/[^/]+)",
)
