"""Vector stores, their files and what a search finds, as clients see them."""

from __future__ import annotations

from typing import Any, Literal

from server.apis.batches.files.page_reply import Identified, PageReply
from server.apis.retrieval.stores.bodies import AUTO_CHUNKS
from server.apis.retrieval.stores.rows import FileBatchRow, StoreFileRow, StoreRow
from server.schema.reply_models import Reply

DAY_S = 86_400


class StoreFileCounts(Reply):
    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    total: int = 0


class ExpiryPolicy(Reply):
    anchor: Literal["last_active_at"] = "last_active_at"
    days: int


class VectorStore(Identified):
    """`embedding_model` gives the vectors of its passages and of queries."""

    object: Literal["vector_store"] = "vector_store"
    created_at: int
    name: str
    description: str | None
    usage_bytes: int
    file_counts: StoreFileCounts
    status: Literal["expired", "in_progress", "completed"]
    expires_after: ExpiryPolicy | None
    expires_at: int | None
    last_active_at: int
    metadata: dict[str, str] | None
    embedding_model: str


class VectorStoreList(PageReply[VectorStore]):
    pass


class DeletedStore(Reply):
    id: str
    object: Literal["vector_store.deleted"] = "vector_store.deleted"
    deleted: bool = True


class IndexingError(Reply):
    """Why a file is not in its store."""

    code: str
    message: str


class ShownChunkTokens(Reply):
    max_chunk_size_tokens: int
    chunk_overlap_tokens: int


class ShownChunking(Reply):
    type: Literal["static"] = "static"
    static: ShownChunkTokens


class VectorStoreFile(Identified):
    object: Literal["vector_store.file"] = "vector_store.file"
    created_at: int
    usage_bytes: int
    vector_store_id: str
    status: Literal["in_progress", "completed", "cancelled", "failed"]
    last_error: IndexingError | None
    chunking_strategy: ShownChunking
    attributes: dict[str, str | bool | int | float]


class VectorStoreFileList(PageReply[VectorStoreFile]):
    pass


class DeletedStoreFile(Reply):
    id: str
    object: Literal["vector_store.file.deleted"] = "vector_store.file.deleted"
    deleted: bool = True


class StoreFileBatch(Identified):
    """Files that one request added together."""

    object: Literal["vector_store.files_batch"] = "vector_store.files_batch"
    created_at: int
    vector_store_id: str
    status: Literal["in_progress", "completed", "cancelled", "failed"]
    file_counts: StoreFileCounts


class PassageText(Reply):
    type: Literal["text"] = "text"
    text: str


class StoreFileContent(Reply):
    """The passages of a file in their order."""

    object: Literal["vector_store.file_content.page"] = "vector_store.file_content.page"
    data: list[PassageText]
    has_more: bool = False
    next_page: None = None


class StoreResult(Reply):
    """A passage of a file, and how well it answers the query."""

    file_id: str
    filename: str
    score: float
    attributes: dict[str, Any]
    content: list[PassageText]


class StoreResults(Reply):
    """The best passages first, of all queries together."""

    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: list[str]
    data: list[StoreResult]
    has_more: bool = False
    next_page: None = None


def file_counts(counts: dict[str, int]) -> StoreFileCounts:
    """The counts of files by their status."""
    return StoreFileCounts(**counts, total=sum(counts.values()))


def store_object(store: StoreRow, counts: dict[str, int]) -> VectorStore:
    status: Literal["expired", "in_progress", "completed"]
    status = "expired" if store.expired else "in_progress" if counts.get("in_progress") else "completed"
    policy = None if store.days is None else ExpiryPolicy(days=store.days)
    return VectorStore(
        id=store.id,
        created_at=int(store.created),
        name=store.name,
        description=store.description,
        usage_bytes=store.usage,
        file_counts=file_counts(counts),
        status=status,
        expires_after=policy,
        expires_at=None if store.days is None else int(store.active + store.days * DAY_S),
        last_active_at=int(store.active),
        metadata=store.metadata,
        embedding_model=store.model,
    )


def store_file_object(store: StoreRow, file: StoreFileRow) -> VectorStoreFile:
    size, overlap = file.chunks or (AUTO_CHUNKS.max_chunk_size_tokens, AUTO_CHUNKS.chunk_overlap_tokens)
    error = None if file.error is None else IndexingError(code=file.error[0], message=file.error[1])
    return VectorStoreFile(
        id=file.id,
        created_at=int(file.created),
        usage_bytes=file.usage,
        vector_store_id=store.id,
        status=file.status,
        last_error=error,
        chunking_strategy=ShownChunking(
            static=ShownChunkTokens(max_chunk_size_tokens=size, chunk_overlap_tokens=overlap)
        ),
        attributes=file.attributes,
    )


def file_batch_object(store: StoreRow, batch: FileBatchRow, counts: dict[str, int]) -> StoreFileBatch:
    status: Literal["in_progress", "completed", "cancelled"]
    status = "cancelled" if batch.cancelled else "in_progress" if counts.get("in_progress") else "completed"
    return StoreFileBatch(
        id=batch.id,
        created_at=int(batch.created),
        vector_store_id=store.id,
        status=status,
        file_counts=file_counts(counts),
    )
