"""Kernels compiled for the host: one device for each order in which the threads of a block run."""

from __future__ import annotations

import pytest
from host_device import BACKWARD, FORWARD, SHUFFLED, HostDevice

ORDERS = {"forward": FORWARD, "backward": BACKWARD, "shuffled": SHUFFLED}


@pytest.fixture(scope="session", params=ORDERS)
def device(request) -> HostDevice:
    return HostDevice(ORDERS[request.param])


@pytest.fixture(scope="session")
def one_device() -> HostDevice:
    return HostDevice(BACKWARD)
