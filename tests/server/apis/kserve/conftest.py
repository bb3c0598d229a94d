from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fake_decoder import write_fake_model
from kserve_requests import TYPES, Asked, services
from patience import PATIENCE_S
from raw_server import RawServer
from tensor_models import write_one, write_two

from server.app import create_app

MODEL_REPO = Path(__file__).resolve().parents[4] / "model_repo"


@pytest.fixture(scope="package")
def models(tmp_path_factory):
    """A detector, two joined models in a folder with a slash in its name, one with a tensor of each type; a model
    of text, and a composed graph that asks it.
    """
    folder = tmp_path_factory.mktemp("kserve")
    write_one(folder / "detector")
    write_two(folder / "org" / "two")
    write_one(folder / "types", text=TYPES)
    write_fake_model(folder / "text")
    asks = "version: 1\ntask: chat\nnodes:\n  reply: {type: ask, graph: text, template: '<{{ request }}>'}\n"
    write_fake_model(folder / "asks", asks)
    shutil.copytree(MODEL_REPO / "braid-embed", folder / "vectors")
    shutil.copytree(MODEL_REPO / "braid-rerank", folder / "ranks")
    return folder


@pytest.fixture(scope="package")
def server(models) -> Iterator[RawServer]:
    with RawServer(create_app(services(models, max_body_mb=4))) as running:
        wait_ready(running)
        yield running


def wait_ready(server: RawServer) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while httpx.get(f"http://127.0.0.1:{server.port}/v2/health/ready").status_code != 200:
        assert time.monotonic() < until_s
        time.sleep(0.02)


@pytest.fixture(scope="package")
def ask(server) -> Iterator[Asked]:
    with Asked(base_url=f"http://127.0.0.1:{server.port}") as client:
        yield client
