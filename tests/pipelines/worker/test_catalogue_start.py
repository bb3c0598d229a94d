"""What a worker that starts waits for, before it takes requests."""

import asyncio
import time

from patience import PATIENCE_S

from pipelines.wire.messages import ModelStatus, Status
from pipelines.worker.catalogue import Catalogue


class StatusClient:
    """A client whose host says what the test wants it to say."""

    connected = True
    status = None

    def on_status(self, callback):
        self._callback = callback

    def say(self, status):
        self.status = status
        self._callback(status)

    def report_use(self, instance_ids, status):
        return True


LONG_S = 3600.0


def waited_s(at_most_s, *statuses):
    """How long a worker waits whose host says these, one after the other; None: the host went away.

    Raises TimeoutError where it waits for long.
    """

    async def scene():
        client = StatusClient()
        catalogue = Catalogue(client)
        await catalogue.start()
        start_s = time.monotonic()
        waiting = asyncio.create_task(catalogue.caught_up(at_most_s))
        for status in statuses:
            client.say(status)
            await asyncio.sleep(0.05)
        await asyncio.wait_for(waiting, PATIENCE_S)
        await catalogue.close()
        return time.monotonic() - start_s

    return asyncio.run(scene())


def status(*names):
    return Status(1, "ready", [ModelStatus(name, 1, 1, "ready", snapshot="nowhere") for name in names])


def test_a_host_without_models_is_waited_for_once():
    waited_s(LONG_S, status())


def test_a_model_that_cannot_be_built_costs_no_start_any_time():
    """It is tried once before a worker takes requests, and then it is `failed`; all others are served."""
    waited_s(LONG_S, status("broken"))


def test_a_host_that_goes_is_not_waited_for():
    """Its master was killed, say: the worker must come to look for it."""
    waited_s(LONG_S, status("broken"), None)
