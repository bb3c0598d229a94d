"""The prefix caches of a host, emptied by a worker."""

from __future__ import annotations

from scripted_host import over


def test_every_engine_has_reset_its_prefixes_when_the_reply_comes(running_host, repository):
    async def scene(client):
        await client.reset_prefix_cache()
        return repository.engine.num_resets

    assert over(running_host, scene) == 1
