"""The status page where things change: keys, engines that die, many requests, models that come and go."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest
from browser import open_page
from paced_model import write_model
from patience import PATIENCE_S
from server_process import ServerProcess

pytestmark = pytest.mark.breadth

MS = PATIENCE_S * 1000
KEY = {"Authorization": "Bearer secret"}
ADMIN = {"Authorization": "Bearer boss"}
MANY = """
import asyncio, sys, httpx
async def ask(client):
    body = {"model": "fake", "prompt": "hi", "max_tokens": 3000, "ignore_eos": True, "stream": True}
    async with client.stream("POST", sys.argv[1] + "/v1/completions", json=body) as reply:
        async for _ in reply.aiter_raw(): pass
async def main():
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=None, verify=False, headers={"Authorization": "Bearer secret"}) as client:
        await asyncio.gather(*(ask(client) for _ in range(int(sys.argv[2]))))
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the fake model that needs a key, and another one to load and unload."""
    models = tmp_path_factory.mktemp("guarded") / "models"
    write_model(models / "fake")
    with ServerProcess(models, API_KEYS="secret", ADMIN_KEYS="boss") as running:
        running.wait_for(lambda: is_ready(running))
        yield running


def is_ready(server: ServerProcess) -> bool:
    try:
        return httpx.get(f"{server.url}/v2/health/ready", verify=False).is_success
    except httpx.TransportError:
        return False


@pytest.fixture
def page(chromium: Any, guarded: ServerProcess) -> Iterator[Any]:
    """The status page, which was given the key.  A browser itself writes of a 401 and of a lost connection."""
    with open_page(chromium, f"{guarded.url}/status", ignored=r"401|503|ERR_|Failed to load") as page:
        page.set_default_timeout(MS)
        give_key(page, "API key", "secret")
        page.get_by_role("group", name="Graph of fake").wait_for()
        yield page


def give_key(page: Any, name: str, key: str) -> None:
    page.get_by_role("textbox", name=name).fill(key)
    page.get_by_role("button", name="Use key").click()


def test_a_wrong_key_is_asked_for_again_and_none_is_stored(chromium, guarded):
    with open_page(chromium, f"{guarded.url}/status", ignored="401") as page:
        page.set_default_timeout(MS)
        with page.expect_response(lambda reply: reply.status == 401):
            give_key(page, "API key", "wrong")
        give_key(page, "API key", "secret")
        page.get_by_role("group", name="Graph of fake").wait_for()
        assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
        page.reload()
        page.get_by_role("textbox", name="API key").wait_for()


def test_without_a_key_the_page_says_what_to_do(chromium, guarded):
    with open_page(chromium, f"{guarded.url}/status", ignored="401") as page:
        page.set_default_timeout(MS)
        page.get_by_role("button", name="Close").click()
        page.get_by_role("alert").get_by_text("needs a key").wait_for()
        page.get_by_role("button", name="Key", exact=True).click()
        give_key(page, "API key", "secret")
        page.get_by_role("group", name="Graph of fake").wait_for()
        page.get_by_role("alert").wait_for(state="hidden")


def killed(server: ServerProcess) -> int:
    """Kill the engine host; its pid."""
    server.wait_for(lambda: server.children()[0] is not None)
    pid = int(server.host().pid)
    psutil.Process(pid).kill()
    return pid


def test_an_engine_that_dies_is_said_so_and_comes_back(page, guarded):
    from playwright.sync_api import TimeoutError as NotSeen

    alert = page.get_by_role("alert").get_by_text(re.compile("engine is (down|starting)"))
    dead = killed(guarded)
    for _ in range(10):  # a host may be back before the page asks again
        try:
            alert.wait_for(timeout=5000)
            break
        except NotSeen:
            dead = killed(guarded)
    else:
        pytest.fail("the page never says that the engine is down")
    page.get_by_role("alert").wait_for(state="hidden")
    page.locator(".processes").get_by_text("ready").wait_for()
    assert guarded.host().pid != dead


def test_a_lost_server_is_said_so_and_old_numbers_stay(page, guarded):
    page.context.set_offline(True)
    guarded.reload()
    page.get_by_role("alert").get_by_text("last ones that arrived").wait_for()
    assert "stale" in page.locator("#status").get_attribute("class")
    assert page.locator(".graph .node").count() > 0
    page.context.set_offline(False)
    page.get_by_text("Live", exact=True).wait_for()
    page.get_by_role("alert").wait_for(state="hidden")


def test_models_are_unloaded_and_loaded_with_the_key_for_that(page, guarded):
    page.get_by_role("button", name="Unload fake", exact=True).click()
    page.get_by_role("button", name="Unload", exact=True).click()
    give_key(page, "Admin key", "boss")
    page.get_by_role("button", name="Load fake", exact=True).click()
    page.get_by_role("button", name="Unload fake", exact=True).wait_for()
    page.get_by_role("group", name="Graph of fake").wait_for()


def test_two_hundred_requests_in_flight_are_shown_and_one_is_cancelled(page, guarded):
    client = subprocess.Popen([sys.executable, "-c", MANY, guarded.url, "200"])
    try:
        rows = page.locator(".in-flight tbody tr")
        rows.nth(199).wait_for()
        first = rows.first.get_by_role("button")
        name = first.get_attribute("aria-label")
        long_tasks = page.evaluate(LONG_TASKS)
        assert max(long_tasks, default=0) < 500, "updates of the page keep it busy"
        first.click()
        page.get_by_role("button", name="Cancel request").click()
        give_key(page, "Admin key", "boss")
        page.get_by_role("button", name=name, exact=True).wait_for(state="detached")
        assert rows.count() >= 190
    finally:
        client.kill()
        client.wait()


LONG_TASKS = """() => new Promise((resolve) => {
    const found = [];
    new PerformanceObserver((list) => found.push(...list.getEntries().map((entry) => entry.duration)))
        .observe({type: 'longtask'});
    setTimeout(() => resolve(found), 4000);
})"""
"""The milliseconds of each task of four seconds that was longer than 50."""
