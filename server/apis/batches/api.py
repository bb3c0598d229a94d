"""The paths of OpenAI's files and batches."""

from __future__ import annotations

from server.apis.batches.endpoint import BatchEndpoint, BatchesEndpoint, CancelBatchEndpoint
from server.apis.batches.files_endpoint import FileContentEndpoint, FileEndpoint, FilesEndpoint
from server.services.api import Api

API = Api(
    "batches",
    prefixed={
        "/files": FilesEndpoint,
        "/files/{file_id}": FileEndpoint,
        "/files/{file_id}/content": FileContentEndpoint,
        "/batches": BatchesEndpoint,
        "/batches/{batch_id}": BatchEndpoint,
        "/batches/{batch_id}/cancel": CancelBatchEndpoint,
    },
)
