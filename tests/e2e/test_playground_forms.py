"""The playground in a real browser, with the shipped models: texts in, numbers out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from browser import axe_violations, open_page
from patience import PATIENCE_S

TEXTS = ["How far away is the moon?", "Why does bread dough rise?", "The moon is far away."]


@pytest.fixture
def page(tab, demo) -> Iterator[Any]:
    with tab.opened(f"{demo.url}/status#/playground") as page:
        page.set_default_timeout(PATIENCE_S * 1000)
        page.get_by_label("Message", exact=True).wait_for()
        yield page


def choose(page: Any, model: str) -> None:
    page.get_by_label("Model", exact=True).locator("visible=true").select_option(model)


def rows(page: Any) -> list[list[str]]:
    """The cells of the table that is shown, row by row."""
    shown = page.locator(".play-table:visible tbody tr")
    shown.first.wait_for()
    return [row.locator("th, td").all_inner_texts() for row in shown.all()]


def test_similarities_are_the_cosines_of_the_vectors(page, demo):
    choose(page, "braid-embed")
    page.get_by_label("Texts").fill("\n".join(TEXTS))
    page.get_by_role("button", name="Compare").click()
    shown = np.array([[float(cell) for cell in row[1:]] for row in rows(page)])
    reply = httpx.post(
        f"{demo.url}/v1/embeddings", json={"model": "braid-embed", "input": TEXTS}, verify=False
    )
    vectors = np.array([row["embedding"] for row in reply.json()["data"]])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(shown, unit @ unit.T, atol=6e-4)


def test_the_best_document_is_first(page):
    choose(page, "braid-rerank")
    page.get_by_label("Query").fill("Why does bread dough rise?")
    page.get_by_role("button", name="Rank").click()
    best, *others = rows(page)
    assert best[:2] == ["1", "Yeast makes dough rise."]
    assert all(float(best[2]) > float(each[2]) for each in others)


@pytest.mark.breadth
def test_each_text_has_its_class_for_two_models_side_by_side(page):
    choose(page, "braid-sentiment")
    page.get_by_label("Beside it").select_option("braid-topics")
    page.get_by_role("button", name="Classify", exact=True).click()
    page.locator(".play-table:visible").nth(1).wait_for()
    found = [(row[0], row[1]) for row in rows(page)]
    assert found[:2] == [("The food was wonderful.", "positive"), ("It broke after two days.", "negative")]
    assert found[2] == ("The food was wonderful.", "food")


@pytest.mark.breadth
def test_pairs_have_scores(page):
    choose(page, "braid-rerank")
    page.get_by_role("radio", name="Score").check(force=True)
    page.get_by_role("button", name="Score", exact=True).click()
    scores = {row[1]: float(row[2]) for row in rows(page)}
    assert max(scores, key=scores.__getitem__) == "The moon is 384,000 kilometres away."


@pytest.mark.breadth
def test_a_raw_prompt_is_continued_and_shown_before_its_text(page):
    page.get_by_role("radio", name="Completion").check(force=True)
    page.get_by_label("Prompt", exact=True).fill("<i>The</i> sun")
    page.get_by_label("max_tokens").locator("visible=true").fill("8")
    page.get_by_label("echo").check()
    page.get_by_label("log-probabilities").locator("visible=true").fill("2")
    page.get_by_role("button", name="Complete").click()
    page.locator(".play-token").first.wait_for()
    assert page.locator(".play-tokens").inner_text().startswith("<i>The</i> sun")
    assert page.locator(".play-tokens i").count() == 0
    assert "8 tokens" in page.locator(".play-stats:visible").inner_text()


@pytest.mark.breadth
def test_what_the_server_refuses_is_shown(chromium, demo):
    of_browser = "Failed to load resource: the server responded with a status of 400 (Bad Request)"
    with open_page(chromium, f"{demo.url}/status#/playground", [of_browser]) as page:
        page.get_by_label("max_tokens").locator("visible=true").fill("999999")
        page.get_by_label("Message", exact=True).fill("Hello")
        page.get_by_role("button", name="Send").click()
        assert "max_tokens=999999" in page.locator(".play-error").inner_text()


@pytest.mark.breadth
def test_a_field_that_cannot_be_read_is_pointed_to(page):
    page.locator(".play-settings summary", has_text="Tools").locator("visible=true").click()
    tools = page.get_by_label("declarations (JSON)")
    tools.fill("[{]")
    page.locator(".play-settings summary", has_text="Tools").locator("visible=true").click()
    page.get_by_label("Message", exact=True).fill("Hello")
    page.get_by_label("Message", exact=True).press("Enter")
    tools.wait_for(state="visible")
    assert tools.evaluate("field => document.activeElement === field")
    assert page.locator(".play-entry").count() == 0


@pytest.mark.breadth
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_wrong_in_the_other_forms(chromium, demo, scheme):
    url = f"{demo.url}/status#/playground"
    with open_page(chromium, url, color_scheme=scheme, viewport={"width": 360, "height": 800}) as page:
        page.get_by_label("Message", exact=True).wait_for()
        for model, action in (
            ("braid-embed", "Compare"),
            ("braid-rerank", "Rank"),
            ("braid-topics", "Classify"),
        ):
            choose(page, model)
            page.get_by_role("button", name=action, exact=True).click()
            rows(page)
            assert axe_violations(page) == []
            assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
