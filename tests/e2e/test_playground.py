"""The playground in a real browser, with the shipped models: conversations."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from browser import Tab, axe_violations, open_page
from patience import PATIENCE_S
from recording_server import recording_server
from server_process import ServerProcess

MS = PATIENCE_S * 1000
MARKUP = "<b>bold</b><img src=x onerror=alert(1)>"
WEATHER = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Current weather of a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]


@pytest.fixture
def page(tab: Tab, demo: ServerProcess) -> Iterator[Any]:
    """The playground, just opened."""
    with tab.opened(f"{demo.url}/status#/playground") as page:
        page.set_default_timeout(MS)
        page.get_by_label("Message", exact=True).wait_for()
        yield page


def say(page: Any, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_label("Message", exact=True).press("Enter")


def unfold(page: Any, name: str) -> None:
    page.locator(".play-settings summary", has_text=name).locator("visible=true").click()


def replies(page: Any, number: int = 1) -> list[str]:
    """The texts of all replies, once there are so many and none is being written."""
    buttons = page.get_by_role("button", name="Regenerate")
    buttons.nth(number - 1).wait_for()
    return page.locator(".play-reply .play-text:visible").all_inner_texts()


def running(server: ServerProcess) -> float:
    metrics = httpx.get(f"{server.url}/metrics", verify=False).text
    found = re.findall(r'^vllm:num_requests_running\{.*model_name="braid-demo".*\} (\S+)', metrics, re.M)
    return sum(map(float, found))


def test_a_reply_arrives_in_pieces_and_stop_frees_its_sequence(page, demo):
    unfold_if_folded(page, "Sampling")
    page.get_by_label("ignore_eos").check()
    say(page, "Tell me a story")
    text = page.locator(".play-reply .play-text:visible")
    first = wait_for_more(text, "")
    assert wait_for_more(text, first).startswith(first)
    demo.wait_for(lambda: running(demo) == 1)
    page.get_by_role("button", name="Stop").click()
    demo.wait_for(lambda: running(demo) == 0)
    stats = page.locator(".play-stats").inner_text()
    assert re.fullmatch(r"\d+ tokens · [\d.]+ tokens/s · first token [\d.]+ s · .*stopped", stats)
    assert int(stats.split()[0]) < 1900


def unfold_if_folded(page: Any, name: str) -> None:
    details = page.locator(".play-settings details:visible", has=page.locator("summary", has_text=name))
    if details.first.get_attribute("open") is None:
        details.first.locator("summary").click()


def wait_for_more(text: Any, before: str) -> str:
    """The text once it is longer than `before`."""
    text.filter(has_text=re.compile(re.escape(before) + r"\s*\S", re.S)).wait_for()
    return text.inner_text()


def test_a_tool_is_declared_called_and_answered(page):
    unfold(page, "Tools")
    page.get_by_label("declarations (JSON)").fill(json.dumps(WEATHER))
    say(page, "What is the weather in Oslo?")
    result = page.get_by_label("Result of get_weather")
    result.wait_for()  # the call is whole
    assert json.loads(page.locator(".play-call pre").inner_text()) == {"city": "Oslo"}
    result.fill('{"temperature": 4, "sky": "rain"}')
    page.get_by_role("button", name="Send result").click()
    said = replies(page, 2)
    assert "4" in said[-1]
    assert "rain" in said[-1]


def test_json_is_held_to_a_schema_and_markup_in_it_stays_text(page):
    unfold(page, "JSON")
    page.get_by_label("JSON Schema").fill(json.dumps({"enum": [MARKUP]}))
    say(page, f"Hello {MARKUP}")
    [reply] = replies(page)
    assert json.loads(reply) == MARKUP
    assert page.locator(".play-log b, .play-log img").count() == 0


def test_a_token_shows_its_alternatives(page):
    page.get_by_label("log-probabilities").fill("3")
    say(page, "What is the capital of France?")
    replies(page)
    page.locator(".play-token", has_text="Paris").hover()
    detail = page.locator(".play-alternatives")
    assert "Paris" in detail.locator("p").inner_text()
    assert detail.locator("li").count() == 3
    page.locator(".play-tokens").press("ArrowLeft")
    assert "Paris" not in detail.locator("p").inner_text()


def test_two_models_side_by_side_keep_their_own_conversations(page):
    page.get_by_label("Beside it").select_option("pirate")
    say(page, "What is the capital of France?")
    one, other = replies(page, 2)
    assert "Paris" in one
    assert "Paris" in other
    assert one != other
    page.get_by_role("link", name="Status").click()
    page.get_by_role("link", name="Playground").click()
    assert replies(page, 2) == [one, other]


def test_a_message_is_edited_and_a_reply_made_again(page):
    say(page, "What is the capital of France?")
    assert "Paris" in replies(page)[0]
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Edit the message").fill("What is the capital of Norway?")
    page.get_by_role("button", name="Send again").click()
    page.locator(".play-reply", has_text="Oslo").wait_for()
    page.get_by_role("button", name="Regenerate").click()
    assert ["Oslo" in each for each in replies(page)] == [True]


def copied(page: Any, name: str) -> str:
    page.locator(".play-composer:visible, .play-pane:visible").get_by_role("button", name=name).first.click()
    page.get_by_text("copied", exact=True).first.wait_for()
    return page.evaluate("() => navigator.clipboard.readText()")


def test_copied_curl_sends_the_request_of_the_page(page, demo):
    sent = bodies(page)
    unfold(page, "Tools")
    page.get_by_label("declarations (JSON)").fill(json.dumps(WEATHER))
    page.get_by_label("temperature").fill("0.5")
    page.get_by_label("seed").fill("7")
    say(page, "It's \"quoted\" \\ and 'so' on:\n<tag> 你好 $HOME `id`")
    replies(page)
    with recording_server(demo.url) as recorded:
        command = copied(page, "Copy as curl").replace(demo.url, recorded.url)
        ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S)
    assert ran.stdout.rstrip().endswith("data: [DONE]"), ran.stderr
    [(path, body)] = recorded.requests
    assert path == "/v1/chat/completions"
    assert json.loads(body) == sent[0]
    assert set(sent[0]) == {"model", "messages", "temperature", "seed", "tools", "stream", "stream_options"}


def bodies(page: Any) -> list[dict[str, Any]]:
    """The JSON of each request that the page makes from now on."""
    sent: list[dict[str, Any]] = []
    page.on("request", lambda made: made.method == "POST" and sent.append(made.post_data_json))
    return sent


@pytest.mark.breadth
@pytest.mark.parametrize(
    ("model", "action"),
    [("braid-demo", ""), ("braid-embed", "Compare"), ("braid-rerank", "Rank"), ("braid-topics", "Classify")],
)
def test_copied_python_sends_the_request_of_the_page(page, demo, model, action):
    sent = bodies(page)
    page.get_by_label("Model", exact=True).locator("visible=true").select_option(model)
    if action:
        page.get_by_role("button", name=action, exact=True).click()
        page.get_by_role("table").wait_for()
    else:
        page.get_by_label("top_k").fill("5")
        unfold(page, "JSON")
        page.get_by_label("any JSON object").check()
        say(page, 'Anna\'s "age" is 31. Write it as JSON.')
        replies(page)
    with recording_server(demo.url) as recorded:
        program = copied(page, "Copy as Python").replace(demo.url, recorded.url)
        ran = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S
        )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
    [(_, body)] = recorded.requests
    assert json.loads(body) == sent[0]


@pytest.mark.breadth
def test_several_replies_and_reasoning_apart(page):
    page.get_by_label("n", exact=True).fill("2")
    unfold(page, "Reasoning")
    page.get_by_label("enable_thinking").select_option("on")
    say(page, "What is 12 plus 7?")
    assert [text for text in replies(page) if "19" in text]
    assert page.locator(".play-choice").count() == 2
    assert page.get_by_text("I calculate", exact=False).first.is_hidden()
    page.locator(".play-choice summary").first.click()
    assert page.locator(".play-choice details .play-text").first.is_visible()
    page.get_by_role("button", name="Go on with reply 2").click()
    page.get_by_label("n", exact=True).fill("")
    say(page, "Thank you!")
    assert page.get_by_role("button", name="Go on with reply 2").get_attribute("aria-pressed") == "true"
    replies(page, 2)


@pytest.mark.breadth
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_nothing_wrong(chromium, demo, scheme, width):
    viewport = {"width": width, "height": 900}
    url = f"{demo.url}/status#/playground"
    with open_page(chromium, url, color_scheme=scheme, viewport=viewport) as page:
        page.set_default_timeout(MS)
        page.get_by_label("Message", exact=True).wait_for()
        for name in ("Sampling", "Reasoning", "Tools", "JSON", "Other fields"):
            unfold_if_folded(page, name)
        page.get_by_label("declarations (JSON)").fill(json.dumps(WEATHER))
        page.get_by_label("log-probabilities").fill("2")
        say(page, "What is the weather in Oslo?")
        page.get_by_label("Result of get_weather").fill("rain")
        page.get_by_role("button", name="Send result").click()
        replies(page, 2)
        assert axe_violations(page) == []
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


@pytest.mark.breadth
def test_all_of_a_conversation_by_keyboard(page):
    page.get_by_label("Message", exact=True).focus()
    page.keyboard.type("What is the capital of France?")
    page.keyboard.press("Enter")
    assert "Paris" in replies(page)[0]
    for key in ("Tab", "Tab"):  # from the text over Send to New chat; Stop is off
        page.keyboard.press(key)
    assert page.evaluate("() => document.activeElement.textContent") == "New chat"
    page.keyboard.press("Enter")
    assert page.locator(".play-entry").count() == 0
    assert page.evaluate("() => document.activeElement.ariaLabel") == "Message"
    page.get_by_role("radio", name="Chat").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Complete").wait_for()
