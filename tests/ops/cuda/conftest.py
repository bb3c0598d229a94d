"""Kernels compiled for the host: one device for each order in which the threads of a block run."""

from __future__ import annotations

import pytest
from breadth import after
from host_device import BACKWARD, FORWARD, SHUFFLED, HostDevice

ORDERS = {"forward": FORWARD, "shuffled": SHUFFLED, "backward": BACKWARD}


@pytest.fixture(scope="session", params=after(2, ORDERS))
def device(request) -> HostDevice:
    return HostDevice(ORDERS[request.param])


@pytest.fixture(scope="session")
def one_device() -> HostDevice:
    return HostDevice(BACKWARD)
