"""The status page adds a model: its progress, a cancel, and the model in the list; and shows what others fetch."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import ExitStack

import httpx
import pytest
from browser import open_page
from fake_hub import FakeHub
from patience import PATIENCE_S
from server_process import ROOT, ServerProcess

REFUSED = "Failed to load resource: the server responded with a status of 400 (Bad Request)"
MODEL = ROOT / "model_repo" / "braid-embed" / "model"


@pytest.mark.breadth
def test_a_model_is_added_and_the_fetch_of_another_one_cancelled(chromium, tmp_path, monkeypatch):
    files = {path.relative_to(MODEL).as_posix(): path for path in MODEL.rglob("*") if path.is_file()}
    (tmp_path / "models").mkdir()
    shutil.copytree(ROOT / "model_repo" / "braid-rerank", tmp_path / "models" / "braid-rerank")
    with FakeHub({"braid/embed": files, "braid/slow": {"slow-Q8_0.gguf": bytes(20_000_000)}}) as hub:
        for name, value in hub.environment(tmp_path, HF_HUB_DOWNLOAD_TIMEOUT="60").items():
            monkeypatch.setenv(name, value)
        server = ServerProcess(tmp_path / "models", PULL="braid/*", CACHE=str(tmp_path / "braid"))
        with server, ExitStack() as opened:
            server.all_ready()
            page = opened.enter_context(open_page(chromium, f"{server.url}/", console=[REFUSED]))
            page.set_default_timeout(PATIENCE_S * 1000)
            hub.goes_on.clear()
            add(page, "braid/slow")
            row = page.get_by_role("list", name="Models that are fetched").get_by_role("listitem")
            row.get_by_text("0 B of 20.0 MB").or_(row.get_by_text("looking it up")).first.wait_for()
            row.get_by_role("button", name="Cancel braid/slow").click()
            page.get_by_text("braid/slow is not fetched: cancelled").wait_for()
            hub.goes_on.set()
            add(page, "braid/embed")
            page.get_by_text("braid/embed is fetched.").wait_for()
            page.get_by_role("link", name="braid/embed").wait_for()
            add(page, "other/model")
            page.get_by_text("BRAID_PULL does not allow other/model").wait_for()
            hub.delay_s = 0.05
            fetched = ask_to_fetch(server, "braid/slow")
            row.get_by_text(re.compile(r"[\d.]+ MB of 20.0 MB")).wait_for()  # nobody asked for it here
            bar = page.get_by_role("progressbar", name="How much of braid/slow is fetched")
            assert 0 < bar.evaluate("bar => bar.value") < 1
            later = opened.enter_context(open_page(chromium, f"{server.url}/"))
            later.get_by_role("button", name="Cancel braid/slow").wait_for()
            page.get_by_text("braid/slow is not fetched").wait_for(state="detached")
            assert httpx.delete(f"{server.url}/models/pull/{fetched['id']}").is_success
            for shown_page in (page, later):
                shown_page.get_by_text("braid/slow is not fetched: cancelled").wait_for()
                shown_page.get_by_role("button", name="Cancel braid/slow").wait_for(state="detached")
            ask_to_fetch(server, "braid/slow", {"as": "theirs"})
            for shown_page in (page, later):
                shown_page.get_by_text("theirs is fetched and not served: ").wait_for()  # it is no GGUF file


def ask_to_fetch(server, name, more=None):
    """The first event of a fetch that another client begins, which leaves at once."""
    with httpx.stream("POST", f"{server.url}/models/pull", json={"model": name, **(more or {})}) as reply:
        data = next(line for line in reply.iter_lines() if line.startswith("data: "))
        return json.loads(data.removeprefix("data: "))


def add(page, name):
    page.get_by_role("button", name="Add a model").click()
    page.get_by_label("Name on a hub").fill(name)
    page.get_by_role("button", name="Fetch").click()
