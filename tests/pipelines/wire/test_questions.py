"""A worker's questions to the engine host that end early."""

import asyncio
from types import SimpleNamespace

import pytest

from pipelines.wire.messages import PrefixCacheReset
from pipelines.wire.questions import HostQuestions


class Asking(HostQuestions):
    def _listening_link(self):
        return SimpleNamespace(send=lambda message: None)


def test_a_question_that_is_cancelled_as_its_reply_comes_ends():
    """A task that follows the host's load went on for ever, and with it the batch that it followed for."""

    async def scene():
        asking = Asking(connect=None)
        task = asyncio.create_task(asking.reset_prefix_cache())
        await asyncio.sleep(0)
        asking.received(PrefixCacheReset(1))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())
