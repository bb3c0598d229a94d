"""The status page in a real browser, with the shipped models."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from breadth import after
from browser import Tab, axe_violations, open_page
from patience import PATIENCE_S
from server_process import ROOT, ServerProcess, chat

from graphs.compose import Graphs, GraphSource
from graphs.graph import Graph
from pipelines.nodes import VOCABULARY
from pipelines.values.tasks import TASKS

MS = PATIENCE_S * 1000
MODELS = sorted(folder.name for folder in (ROOT / "model_repo").iterdir() if (folder / "graph.yaml").exists())
NUMBER = re.compile(r"\d")


@pytest.fixture
def page(tab: Tab, demo: ServerProcess) -> Iterator[Any]:
    """The status of the demo model, which is connected and drawn."""
    with tab.opened(f"{demo.url}/") as page:
        page.set_default_timeout(MS)
        drawn(page, "braid-demo")
        yield page


def drawn(page: Any, model: str) -> list[str]:
    """The paths of the nodes that are drawn, once the graph is that of a model."""
    page.get_by_role("group", name=f"Graph of {model}").wait_for()
    return page.locator(".graph .node").evaluate_all("nodes => nodes.map(node => node.dataset.path)")


def paths(graph: Graph) -> list[str]:
    """The lines of a graph in the order of the file, those of a body as ENGINE.NAME."""
    return [
        path
        for line in graph.bindings
        for path in [line.name, *(f"{line.name}.{inner.name}" for inner in line.body)]
    ]


def edges(graph: Graph) -> set[tuple[str, str]]:
    """(source, target) of everything that is read, bodies included, and of the reply."""
    reads = {(graph.result.name, "reply")}
    for line in graph.bindings:
        reads |= {(source.root, line.name) for source in line.sources.values()}
        for inner in line.body:
            reads |= {
                (f"{line.name}.{source.root}", f"{line.name}.{inner.name}")
                for source in inner.sources.values()
            }
    return reads


def checked_graphs() -> Graphs:
    folders = {name: ROOT / "model_repo" / name for name in MODELS}
    sources = {name: GraphSource((path / "graph.yaml").read_text(), path) for name, path in folders.items()}
    return Graphs(sources, VOCABULARY, TASKS)


def test_the_drawing_of_every_model_has_the_nodes_and_edges_of_its_graph(page, demo):
    graphs = checked_graphs()
    for model in MODELS:
        page.get_by_label("Model", exact=True).select_option(model)
        reply = httpx.get(f"{demo.url}/v1/models/{model}/graph", verify=False).json()
        served = [part["path"] for node in reply["nodes"] for part in [node, *node["body"]]]
        assert sorted(drawn(page, model)) == sorted(served) == sorted(paths(graphs(model)))
        ends = page.locator(".graph .edge").evaluate_all(
            "edges => edges.map(edge => [edge.dataset.from, edge.dataset.to])"
        )
        assert set(map(tuple, ends)) == edges(graphs(model))


def test_each_node_has_a_time_after_a_request(page, demo):
    body = chat(8, model="braid-demo")
    assert httpx.post(
        f"{demo.url}/v1/chat/completions", json=body, verify=False, timeout=PATIENCE_S
    ).is_success
    page.get_by_role("button", name="since load").click()
    for path in drawn(page, "braid-demo"):
        page.locator(f'.node[data-path="{path}"] .time', has_text=NUMBER).wait_for()


@pytest.mark.breadth
def test_a_node_and_its_lines_show_each_other(page):
    page.get_by_role("button", name="allowed, grammar").press("Enter")
    block = page.locator('.block[aria-pressed="true"]')
    assert block.inner_text().strip().startswith("allowed: {type: grammar")
    page.locator(".block", has_text="generated:").click()
    assert page.locator('.node[aria-pressed="true"]').get_attribute("data-path") == "generated"
    page.get_by_text("max_step_tokens", exact=True).wait_for()


@pytest.mark.breadth
def test_the_node_of_a_model_says_how_it_is_run(page):
    page.get_by_role("button", name="logits, model").press("Enter")
    page.locator(".inspector dt", has_text="Linear layers").wait_for()


@pytest.mark.breadth
def test_a_graph_in_a_graph_is_a_link_to_it(page, demo):
    page.goto(f"{demo.url}/status#/status/braid-topics")
    page.locator(".graph").get_by_role("link", name="braid-embed").click()
    drawn(page, "braid-embed")
    assert page.get_by_role("heading", level=1).inner_text() == "braid-embed"


def test_a_request_is_found_by_its_id_with_the_time_of_each_node(page, demo):
    name = f"find-me-{uuid.uuid4().hex}"
    body = chat(4, model="braid-demo")
    headers = {"X-Request-Id": name}
    assert httpx.post(
        f"{demo.url}/v1/chat/completions", json=body, headers=headers, verify=False, timeout=PATIENCE_S
    ).is_success
    page.get_by_label("Filter requests").fill(name)
    page.get_by_role("button", name=name, exact=True).click()
    shown = page.locator(".details:visible").get_by_role("rowheader")
    shown.first.wait_for()
    assert set(shown.all_inner_texts()) == {"prompt", "tokens", "generated", "text", "reply"}


def test_an_error_is_listed_with_its_words(page, demo):
    httpx.post(f"{demo.url}/v1/chat/completions", json=chat(1, model="of-nobody"), verify=False)
    page.locator(".errors").get_by_text("of-nobody").first.wait_for()


@pytest.mark.parametrize("scheme", after(1, ["dark", "light"]))
def test_axe_finds_nothing(tab, demo, scheme):
    with tab.opened(f"{demo.url}/status", color_scheme=scheme) as page:
        drawn(page, "braid-demo")
        page.get_by_role("button", name="generated, scheduler").click()
        assert axe_violations(page) == []


@pytest.mark.breadth
def test_a_narrow_screen_shows_all_without_scrolling_sideways(chromium, demo):
    with open_page(chromium, f"{demo.url}/status", viewport={"width": 360, "height": 740}) as page:
        drawn(page, "braid-demo")
        page.get_by_role("button", name="generated, scheduler").click()
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        box = page.locator(".graph").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360


def test_everything_is_reached_by_the_keyboard(page):
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        name = page.evaluate(
            "(document.activeElement.dataset.path || document.activeElement.textContent || '').trim()"
        )
        reached.add(name)
        if len(reached) > 1 and page.evaluate("document.activeElement === document.body"):
            break
    assert reached >= {"Playground", "Key", "since load", "Source", *drawn(page, "braid-demo")}


def test_a_hidden_page_watches_nothing(page):
    def is_watched() -> bool:
        with page.expect_request("**/v1/status*"):
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        return True

    ended: list[str] = []
    page.on("requestfailed", lambda request: ended.append(request.url))
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    with page.expect_event("requestfailed"):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert "/v1/status" in ended[0]
    page.evaluate("Object.defineProperty(document, 'hidden', {value: false, configurable: true})")
    assert is_watched()
