"""The files of a batch that ends: one with the results of requests that succeeded, one with the others."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from typing import Any

from server.apis.batches.batch_table import StoredBatch
from server.apis.batches.database import OfflineDatabase
from server.apis.batches.files.file_table import StoredFile, new_file_id
from server.apis.batches.offline_store import OfflineStore

READ_RESULTS = 256
"""Results that are read from the database at a time."""
KINDS = {True: "output", False: "error"}


async def write_files(store: OfflineStore, stored: StoredBatch, owner: str) -> bool:
    """Write the results of a batch into its files and end it; False where `owner` lost it.

    A file without lines is left out.  Raises StorageFull where the disk is full.
    """
    ids = {succeeded: new_file_id() for succeeded in KINDS}
    sizes = dict.fromkeys(KINDS, 0)
    with ExitStack() as stack:
        files = {kind: stack.enter_context(store.folder.writing(ids[kind])) for kind in KINDS}
        line = 0
        while results := await store.run(OfflineDatabase.results, stored.number, line, READ_RESULTS):
            line = results[-1].line
            for succeeded, file in files.items():
                data = b"".join(result.data + b"\n" for result in results if result.succeeded == succeeded)
                store.check_disk(len(data))
                sizes[succeeded] += await asyncio.to_thread(file.write, data)
        await asyncio.to_thread(stack.close)
    rows = {kind: _row(store, stored, ids[kind], KINDS[kind], sizes[kind]) for kind in KINDS if sizes[kind]}
    fields: dict[str, Any] = {f"{KINDS[kind]}_file_id": row.id for kind, row in rows.items()}
    ended = await store.run(OfflineDatabase.end, stored.number, owner, list(rows.values()), fields)
    for kind in KINDS:
        if not ended or not sizes[kind]:
            store.folder.remove(ids[kind])
    return ended


def _row(store: OfflineStore, stored: StoredBatch, file_id: str, kind: str, size: int) -> StoredFile:
    now, age_s = time.time(), store.max_age_s
    age_s = age_s if stored.output_s is None else min(stored.output_s, age_s)
    name = f"{stored.batch.id}_{kind}.jsonl"
    return StoredFile(file_id, stored.account, "batch_output", name, size, now, now + age_s)
