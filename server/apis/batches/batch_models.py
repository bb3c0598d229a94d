"""OpenAI's batches: the request that makes one, and the object that shows its state."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from pipelines.base.deferred_model import DeferredModel
from pipelines.requests.fields.known_fields import check_fields
from server.apis.batches.files.page_reply import Identified, PageReply
from server.schema.reply_models import Reply

ENDPOINTS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/rerank",
    "/v1/score",
)
Endpoint = Literal[
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/rerank",
    "/v1/score",
]
Status = Literal[
    "validating",
    "failed",
    "in_progress",
    "finalizing",
    "completed",
    "expired",
    "cancelling",
    "cancelled",
]
UNFINISHED = ("validating", "in_progress", "finalizing", "cancelling")
CANCELLABLE = ("validating", "in_progress")

MetadataKey = Annotated[str, StringConstraints(max_length=64)]
MetadataValue = Annotated[str, StringConstraints(max_length=512)]
Metadata = Annotated[dict[MetadataKey, MetadataValue], Field(max_length=16)]


class OutputExpiry(DeferredModel):
    """How long the files of results are stored, from when they are made."""

    model_config = ConfigDict(extra="forbid")

    anchor: Literal["created_at"]
    seconds: int = Field(ge=3600, le=2_592_000)


class CreateBatch(DeferredModel):
    """The body of POST batches; unknown fields are ignored, and reported where they are misspelt."""

    model_config = ConfigDict(extra="allow")

    input_file_id: str
    endpoint: Endpoint
    completion_window: Literal["24h"]
    metadata: Metadata | None = None
    output_expires_after: OutputExpiry | None = None

    @model_validator(mode="after")
    def _check_other_fields(self) -> CreateBatch:
        check_fields(self.model_extra or {}, type(self).model_fields)
        return self


class LineError(Reply):
    """What is wrong with a line of the input file, or with the whole file where `line` is None."""

    code: str
    line: int | None = None
    message: str
    param: str | None = None


class BatchErrors(Reply):
    object: Literal["list"] = "list"
    data: list[LineError]


class RequestTotals(Reply):
    total: int = 0
    completed: int = 0
    failed: int = 0


class Batch(Identified):
    """A batch as it is sent and stored; times are whole seconds of the wall clock."""

    object: Literal["batch"] = "batch"
    endpoint: str
    model: str | None = None
    errors: BatchErrors | None = None
    input_file_id: str
    completion_window: str
    status: Status = "validating"
    output_file_id: str | None = None
    error_file_id: str | None = None
    created_at: int
    in_progress_at: int | None = None
    expires_at: int
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    request_counts: RequestTotals = RequestTotals()
    metadata: dict[str, str] | None = None


class BatchList(PageReply[Batch]):
    pass
