"""The paths of searches and of vector stores."""

from __future__ import annotations

from server.apis.retrieval.search_endpoint import SearchEndpoint
from server.apis.retrieval.stores.store_files_endpoint import (
    CancelFileBatchEndpoint,
    FileBatchEndpoint,
    FileBatchesEndpoint,
    FileBatchFilesEndpoint,
    StoreFileContentEndpoint,
    StoreFileEndpoint,
    StoreFilesEndpoint,
)
from server.apis.retrieval.stores.stores_endpoint import (
    StoreSearchEndpoint,
    VectorStoreEndpoint,
    VectorStoresEndpoint,
)
from server.services.api import Api

STORE = "/vector_stores/{store_id}"
API = Api(
    "retrieval",
    prefixed={
        "/search": SearchEndpoint,
        "/vector_stores": VectorStoresEndpoint,
        STORE: VectorStoreEndpoint,
        f"{STORE}/search": StoreSearchEndpoint,
        f"{STORE}/files": StoreFilesEndpoint,
        f"{STORE}/files/{{file_id}}": StoreFileEndpoint,
        f"{STORE}/files/{{file_id}}/content": StoreFileContentEndpoint,
        f"{STORE}/file_batches": FileBatchesEndpoint,
        f"{STORE}/file_batches/{{batch_id}}": FileBatchEndpoint,
        f"{STORE}/file_batches/{{batch_id}}/cancel": CancelFileBatchEndpoint,
        f"{STORE}/file_batches/{{batch_id}}/files": FileBatchFilesEndpoint,
    },
)
