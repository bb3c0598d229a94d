"""A repository of real folders, served in one process or over a real socket, for one scene."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager

from patience import PATIENCE_S
from scripted_host import until

from pipelines.host.host import Host
from pipelines.host.in_process import InProcessClient
from pipelines.host.models.loader import ModelSource
from pipelines.wire.socket_link import over_socket
from pipelines.wire.socket_listener import SocketListener
from pipelines.worker.catalogue import Catalogue


async def serve(client, models, scene):
    """What `scene` gives, once every model of the repository is live in the worker."""
    catalogue = Catalogue(client)
    await catalogue.start()
    await client.start()
    try:
        await until(lambda: client.status is not None and client.status.state == "ready")
        await until(lambda: all(card.state == "ready" for card in catalogue.cards()))
        return await scene(client, catalogue)
    finally:
        await catalogue.close()
        await client.close()


def in_one_process(scene, models):
    async def run():
        return await serve(InProcessClient(ModelSource(models)), models, scene)

    return asyncio.run(run())


@contextmanager
def socket_host(models):
    """A host in a thread; gives what runs a scene with a worker of its own."""
    path = models.parent / "engine.sock"
    host = Host(ModelSource(models), SocketListener(path))
    thread = threading.Thread(target=host.run)
    thread.start()
    try:
        yield lambda scene: asyncio.run(serve(over_socket(str(path)), models, scene))
    finally:
        host.drain()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def over_a_socket(scene, models):
    with socket_host(models) as over:
        return over(scene)
