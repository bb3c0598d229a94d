"""An update that is stopped ends by an error of its own, not as if the worker's task were cancelled."""

import asyncio
from types import SimpleNamespace

import pytest

from pipelines.base.errors import Unavailable
from server.apis.retrieval.stores.index_run import IndexRun
from server.apis.retrieval.stores.rows import StoreFileRow, StoreRow
from server.apis.retrieval.stores.work_table import StoreWork


class EndlessRun(IndexRun):
    """A run whose model never answers."""

    def __init__(self, index, content):
        store = StoreRow(1, "vs_1", "", "", None, "m", None, None, 0.0, 0.0, expired=False, usage=0)
        services = SimpleNamespace(stores=SimpleNamespace(files=SimpleNamespace(folder=None)))
        super().__init__(services, store, index)
        self._texts = SimpleNamespace(read=lambda file: content, errors={})
        self.began = asyncio.Event()

    async def _given_kinds(self):
        return ("dense",)

    async def _vectors(self, texts):
        self.began.set()
        await asyncio.Event().wait()


FILE = StoreFileRow(1, "file-1", "a.txt", "in_progress", {}, None, 0.0, usage=0, error=None, tries=1)


@pytest.mark.parametrize("is_embedding", [True, False])
def test_an_update_that_is_stopped_raises_what_its_worker_expects(tmp_path, is_embedding):
    async def stopped():
        run = EndlessRun(tmp_path / "index", "text " * 50)
        updating = asyncio.create_task(run.run(StoreWork([FILE], [], [])))
        if is_embedding:
            await run.began.wait()
        run.stop()
        with pytest.raises(Unavailable, match="stopped"):
            await updating
        assert not updating.cancelled()

    asyncio.run(stopped())
    assert not (tmp_path / "index" / "current").exists()
