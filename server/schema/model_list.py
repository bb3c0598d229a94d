"""Models as clients list them: in OpenAI's shape, with fields of vLLM, llama.cpp and Mistral."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from server.schema.reply_models import Reply


class Permission(Reply):
    id: str
    object: Literal["model_permission"] = "model_permission"
    created: int
    allow_create_engine: bool = False
    allow_sampling: bool = True
    allow_logprobs: bool = True
    allow_search_indices: bool = False
    allow_view: bool = True
    allow_fine_tuning: bool = False
    organization: str = "*"
    group: None = None
    is_blocking: bool = False


class ModelInfoStatus(Reply):
    """A state as llama.cpp has it: "unloaded", "loading", "loaded", "unloading" or "failed".

    `doing`: the task of a load that reports its progress, as the conversion of a file; `share`: how much of
    the task is done, from 0 to 1.
    """

    value: str
    doing: Annotated[str | None, Field(exclude_if=lambda doing: doing is None)] = None
    share: Annotated[float | None, Field(exclude_if=lambda share: share is None)] = None


class ModelCapabilities(Reply):
    """What a model can do, in Mistral's words."""

    completion_chat: bool
    classification: bool
    audio_transcription: bool
    audio_speech: bool


class ModelInfo(Reply):
    """vLLM's fields; then llama.cpp's `status`, and what mistralai needs to read the list."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "braid"
    root: str
    parent: str | None = None
    max_model_len: int | None
    permission: list[Permission]
    status: ModelInfoStatus
    type: Literal["base"] = "base"
    capabilities: ModelCapabilities


class ModelList(Reply):
    object: Literal["list"] = "list"
    data: list[ModelInfo]
