"""What the OpenAPI document says of vector stores."""

from __future__ import annotations

from server.apis.retrieval.stores.bodies import (
    AddFileBatch,
    AddStoreFile,
    ChangeStore,
    ChangeStoreFile,
    CreateStore,
    SearchStore,
)
from server.apis.retrieval.stores.objects import (
    DeletedStore,
    DeletedStoreFile,
    StoreFileBatch,
    StoreFileContent,
    StoreResults,
    VectorStore,
    VectorStoreFile,
    VectorStoreFileList,
    VectorStoreList,
)
from server.openapi.operation import GETS, PAGE, Operation
from server.openapi.schemas import BodySchema, Model, Schema

CREATE_STORE, SEARCH_STORE = BodySchema(CreateStore), BodySchema(SearchStore)
FILE_LIST: dict[str, Schema] = {
    **PAGE,
    "filter": {"enum": ["in_progress", "completed", "failed", "cancelled"]},
}
LISTS = (*GETS, 400)
POSTS = (400, 401, 404, 408, 413, 429, 500, 503)
STORE = "/vector_stores/{store_id}"


def _post(summary: str, reply: Model, body: BodySchema) -> Operation:
    return Operation(summary, "retrieval", (body,), (reply,), errors=POSTS)


def _get(summary: str, reply: Model) -> Operation:
    return Operation(summary, "retrieval", reply=(reply,), errors=GETS)


STORE_OPERATIONS: dict[str, dict[str, Operation]] = {
    "/vector_stores": {
        "POST": _post("Create a vector store", VectorStore, CREATE_STORE),
        "GET": Operation(
            "List vector stores", "retrieval", reply=(VectorStoreList,), query=PAGE, errors=LISTS
        ),
    },
    STORE: {
        "GET": _get("One vector store", VectorStore),
        "POST": _post("Change a vector store", VectorStore, BodySchema(ChangeStore)),
        "DELETE": _get("Delete a vector store with its index", DeletedStore),
    },
    f"{STORE}/search": {"POST": _post("The passages of a store for a query", StoreResults, SEARCH_STORE)},
    f"{STORE}/files": {
        "POST": _post("Index an uploaded file", VectorStoreFile, BodySchema(AddStoreFile)),
        "GET": Operation(
            "List the files of a store",
            "retrieval",
            reply=(VectorStoreFileList,),
            query=FILE_LIST,
            errors=LISTS,
        ),
    },
    f"{STORE}/files/{{file_id}}": {
        "GET": _get("One file of a store", VectorStoreFile),
        "POST": _post("Change the attributes of a file", VectorStoreFile, BodySchema(ChangeStoreFile)),
        "DELETE": _get("Remove a file from a store", DeletedStoreFile),
    },
    f"{STORE}/files/{{file_id}}/content": {"GET": _get("The passages of a file", StoreFileContent)},
    f"{STORE}/file_batches": {
        "POST": _post("Index several uploaded files", StoreFileBatch, BodySchema(AddFileBatch))
    },
    f"{STORE}/file_batches/{{batch_id}}": {"GET": _get("One batch of files", StoreFileBatch)},
    f"{STORE}/file_batches/{{batch_id}}/cancel": {
        "POST": Operation(
            "Cancel the files of a batch that wait", "retrieval", reply=(StoreFileBatch,), errors=LISTS
        )
    },
    f"{STORE}/file_batches/{{batch_id}}/files": {
        "GET": Operation(
            "List the files of a batch",
            "retrieval",
            reply=(VectorStoreFileList,),
            query=FILE_LIST,
            errors=LISTS,
        )
    },
}
