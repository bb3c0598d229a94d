"""A batch without a server: an engine host of its own, and the same code that runs batches in a worker."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from server.apis.batches.batch_models import UNFINISHED, Batch, LineError
from server.apis.batches.batch_worker import BatchWorker
from server.apis.batches.database import OfflineDatabase
from server.apis.batches.files.file_table import StoredFile
from server.apis.batches.input_lines import decode, read_lines
from server.apis.batches.offline_store import OfflineStore
from server.base.environment import read_settings
from server.base.settings import Settings
from server.connect import connect
from server.process import startup
from server.process.worker_state import WorkerProcess, WorkerState
from server.services.server_ready import is_ready
from server.services.services import Services
from server.sqlite.pages import ListPage

log = logging.getLogger("braid.server")

YEARS_S = 10 * 365 * 86_400.0
LOOK_S = 0.2
NO_BOUND = 1 << 40
"""MB, lines: the file is the user's own."""


class InvalidInput(Exception):
    """The input file cannot be run; the message says what is wrong with which line."""


@dataclass(frozen=True, slots=True)
class Progress:
    total: int
    done: int
    failed: int


async def run_alone(
    settings: Settings,
    input_file: Path,
    output_file: Path,
    model: str | None,
    show: Callable[[Progress], None],
    make_worker: Callable[[Services], BatchWorker],
) -> Progress:
    """Run the lines that have no result yet, and write the file of results.

    `model`, where given, is that of every line.  Raises InvalidInput, and RuntimeError where the folder of
    progress cannot be used.
    """
    folder = output_file.with_name(output_file.name + ".progress")
    private = startup.open_folder(settings, log)
    own = {"files": folder, "files_mb": NO_BOUND, "batch_lines": NO_BOUND, "files_days": YEARS_S / 86_400.0}
    settings = read_settings().model_copy(update=own)
    engines = startup.supervise(settings, private, log, with_banner=False)
    engines.poll()
    services = connect(settings)
    try:
        await services.start(WorkerProcess(WorkerState()))
        await services.offline.open()
        while not is_ready(services):
            await asyncio.sleep(LOOK_S)
            engines.poll()
        batch = await _prepared(services.offline, input_file, model)
        worker = make_worker(services)
        worker.start()
        try:
            while batch.status in UNFINISHED:
                await asyncio.sleep(LOOK_S)
                engines.poll()
                batch = await services.offline.run(OfflineDatabase.batch, batch.id, "")
                show(_progress(batch))
        finally:
            await worker.close()
        if batch.errors is None:
            await asyncio.to_thread(_write, services.offline, batch, output_file)
    finally:
        await services.close()
        await asyncio.to_thread(engines.stop)
        private.remove()
    shutil.rmtree(folder)
    if batch.errors is not None:
        raise InvalidInput("\n".join(_text(problem) for problem in batch.errors.data))
    return _progress(batch)


async def _prepared(store: OfflineStore, input_file: Path, model: str | None) -> Batch:
    """The batch of an earlier run on the same input, or a new one.  Raises InvalidInput for another input."""
    digest = await asyncio.to_thread(_digest, input_file, model)
    earlier = await store.run(OfflineDatabase.batches, "", ListPage(1))
    if earlier:
        if earlier[0].metadata != {"input": digest}:
            raise InvalidInput(f"{store.folder.path} has results of another input: delete it")
        return earlier[0]
    now, file_id = time.time(), f"file-{digest}"
    size = await asyncio.to_thread(_copy, store, input_file, file_id, model)
    file = StoredFile(file_id, "", "batch", input_file.name, size, now, now + YEARS_S)
    await store.run(OfflineDatabase.add_file, file)
    batch = Batch(
        id=f"batch_{digest}",
        endpoint="",
        input_file_id=file_id,
        completion_window="",
        created_at=int(now),
        expires_at=int(now + YEARS_S),
        metadata={"input": digest},
    )
    await store.run(OfflineDatabase.add_batch, batch, "", None)
    return batch


def _digest(file: Path, model: str | None) -> str:
    with file.open("rb") as data:
        content = hashlib.file_digest(data, "sha256").digest()
    return hashlib.sha256(content + (model or "").encode()).hexdigest()[:32]


def _copy(store: OfflineStore, input_file: Path, file_id: str, model: str | None) -> int:
    """The input as the batch reads it; the number of its bytes."""
    with store.folder.writing(file_id) as file:
        size = 0
        for _, line in read_lines(input_file, store.lines.max_line_bytes):
            copied = line.rstrip(b"\n") if model is None else _with_model(line, model)
            size += file.write(copied + b"\n")
        return size


def _with_model(line: bytes, model: str) -> bytes:
    """A line with this model; one that is invalid as it is, for the check to find."""
    try:
        fields = msgspec.json.decode(line)
        fields["body"]["model"] = model
    except (msgspec.DecodeError, TypeError, KeyError):
        return line.rstrip(b"\n")
    return msgspec.json.encode(fields)


def _write(store: OfflineStore, batch: Batch, output_file: Path) -> None:
    """All results in the order of the input, as one file."""
    paths = [store.folder.file(file_id) for file_id in (batch.output_file_id, batch.error_file_id) if file_id]
    heads = [iter(_results(path)) for path in paths]
    waiting = [next(lines, None) for lines in heads]
    part = output_file.with_name(output_file.name + ".part")
    with part.open("wb") as out:
        for _, line in read_lines(store.folder.file(batch.input_file_id), store.lines.max_line_bytes):
            custom_id = decode(line).custom_id
            for place, head in enumerate(waiting):
                if head is not None and head[0] == custom_id:
                    out.write(head[1])
                    waiting[place] = next(heads[place], None)
    part.rename(output_file)


def _results(file: Path) -> Iterator[tuple[str, bytes]]:
    """(custom_id, line) of each line of a file of results."""
    with file.open("rb") as lines:
        for line in lines:
            yield msgspec.json.decode(line)["custom_id"], line


def _progress(batch: Batch) -> Progress:
    counts = batch.request_counts
    return Progress(counts.total, counts.completed + counts.failed, counts.failed)


def _text(error: LineError) -> str:
    return error.message if error.line is None else f"line {error.line}: {error.message}"
