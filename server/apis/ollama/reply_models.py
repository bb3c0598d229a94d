"""Ollama's replies.  Members that are not set are not sent."""

from __future__ import annotations

from typing import Any

from server.schema.reply_models import ChosenLogprobs, Reply


class OllamaFunction(Reply):
    index: int
    name: str
    arguments: dict[str, Any]


class OllamaCall(Reply):
    id: str
    function: OllamaFunction


class OllamaMessage(Reply):
    role: str
    content: str
    thinking: str | None = None
    tool_calls: list[OllamaCall] | None = None


class OllamaPart(Reply):
    """What every object of a reply has; the last one has the rest.  Durations are in nanoseconds."""

    model: str
    created_at: str
    logprobs: ChosenLogprobs | None = None
    done: bool
    done_reason: str | None = None
    total_duration: int | None = None
    load_duration: int | None = None
    prompt_eval_count: int | None = None
    prompt_eval_duration: int | None = None
    eval_count: int | None = None
    eval_duration: int | None = None


class ChatPart(OllamaPart):
    """A piece of a message, or the whole."""

    message: OllamaMessage


class GeneratePart(OllamaPart):
    """A piece of a text, or the whole."""

    response: str
    thinking: str | None = None


class OllamaVectors(Reply):
    """`embeddings` are vectors of length 1, in the order of the texts."""

    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class OllamaVector(Reply):
    embedding: list[float]


class ModelDetails(Reply):
    parent_model: str
    format: str
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str
    context_length: int | None = None
    embedding_length: int | None = None


class InstalledModel(Reply):
    """`size` is in bytes."""

    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    details: ModelDetails
    capabilities: list[str]


class InstalledModels(Reply):
    models: list[InstalledModel]


class ModelInMemory(Reply):
    """`size` and `size_vram` are in bytes."""

    name: str
    model: str
    size: int
    digest: str
    details: ModelDetails
    expires_at: str
    size_vram: int
    context_length: int


class ModelsInMemory(Reply):
    models: list[ModelInMemory]


class ShownModel(Reply):
    """`model_info` has names and values as those of a GGUF file."""

    parameters: str
    template: str
    details: ModelDetails
    model_info: dict[str, Any]
    capabilities: list[str]
    modified_at: str


class ApiVersion(Reply):
    version: str


class PullProgress(Reply):
    """`total` and `completed` are in bytes."""

    status: str
    digest: str | None = None
    total: int | None = None
    completed: int | None = None
