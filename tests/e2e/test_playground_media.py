"""The playground in a real browser: speech, the microphone, and images, with models that take and make them."""

from __future__ import annotations

import os
from base64 import b64encode
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from browser import axe_violations, open_chromium, open_page
from patience import PATIENCE_S
from PIL import Image
from server_process import ROOT, ServerProcess

from pipelines.nodes.voice.espeak import find_espeak

VOICE = Path(os.environ.get("VOICE", ROOT / "model_repo" / "joe"))
WHISPER = Path(os.environ.get("WHISPER", ROOT / "model_repo" / "whisper"))
FETCHES = {VOICE: "make demo-voice", WHISPER: "make demo-speech"}
TEXT = "The quick brown fox jumps over the lazy dog."
MICROPHONE = (
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--use-file-for-fake-audio-capture={}%noloop",
)
PASTE = """(field, data) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([bytes], "teal.png", { type: "image/png" }));
    field.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}"""
pytestmark = [pytest.mark.breadth, pytest.mark.slow]


def choose(page: Any, model: str) -> None:
    page.set_default_timeout(PATIENCE_S * 1000)
    page.get_by_label("Model", exact=True).locator("visible=true").select_option(model)


@pytest.fixture(scope="module")
def speaking(tmp_path_factory):
    """The address of a server with a voice and a model that hears it."""
    for path, command in FETCHES.items():
        if not path.exists():
            pytest.skip(f"{path} is missing: `{command}` fetches it")
    if find_espeak() is None:
        pytest.skip("espeak-ng is not installed")
    models = tmp_path_factory.mktemp("speaking") / "models"
    models.mkdir()
    for name, folder in (("joe", VOICE), ("whisper", WHISPER)):
        (models / name).symlink_to(folder.resolve())
    with ServerProcess(models) as running:
        running.all_ready()
        yield running.url


def test_what_is_spoken_is_heard_from_the_microphone(speaking, tmp_path):
    body = {"model": "joe", "voice": "alloy", "input": TEXT, "response_format": "wav"}
    spoken = tmp_path / "spoken.wav"
    spoken.write_bytes(
        httpx.post(f"{speaking}/v1/audio/speech", json=body, verify=False, timeout=PATIENCE_S).content
    )
    arguments = (flag.format(spoken) for flag in MICROPHONE)
    with open_chromium(*arguments) as browser, open_page(browser, f"{speaking}/status#/playground") as page:
        choose(page, "whisper")
        page.get_by_role("button", name="Record", exact=True).click()
        page.wait_for_timeout(5000)  # as long as the sentence takes
        page.get_by_role("button", name="Stop recording and send").click()
        heard = page.locator(".play-transcript")
        heard.wait_for()
        assert "brown fox" in heard.inner_text()
        page.get_by_label("Recording").set_input_files(spoken)
        page.get_by_label("times of words").check()
        page.get_by_role("button", name="Transcribe").click()
        page.get_by_role("table").wait_for()
        assert page.locator(".play-table tbody tr").count() == len(TEXT.split())
        assert axe_violations(page) == []


def test_a_text_is_spoken_and_can_be_played(speaking):
    with open_chromium() as browser, open_page(browser, f"{speaking}/status#/playground") as page:
        choose(page, "joe")
        page.get_by_label("Text").fill(TEXT)
        page.get_by_role("button", name="Speak").click()
        page.get_by_role("link", name="Save speech.mp3").wait_for()
        length = "a => new Promise((on) => (a.duration ? on(a.duration) : (a.onloadedmetadata = () => on(a.duration))))"
        assert 1.5 < page.locator(".play-pane audio").evaluate(length) < 5
        assert axe_violations(page) == []


@pytest.mark.filterwarnings("ignore")  # of torch, while the model is exported
def test_a_pasted_image_reaches_a_model_that_sees(tmp_path):
    from tiny_llava import write_llava

    _, served = write_llava(tmp_path / "made")
    models = tmp_path / "models"
    models.mkdir()
    (models / "llava").symlink_to(served)
    png = BytesIO()
    Image.new("RGB", (64, 48), "teal").save(png, "PNG")
    data = b64encode(png.getvalue()).decode()
    with ServerProcess(models) as running, open_chromium() as browser:
        running.all_ready()
        with open_page(browser, f"{running.url}/status#/playground") as page:
            page.set_default_timeout(PATIENCE_S * 1000)
            page.get_by_role("button", name="Attach").wait_for()
            sent = []
            page.on(
                "request", lambda request: request.method == "POST" and sent.append(request.post_data_json)
            )
            page.get_by_label("Message", exact=True).evaluate(PASTE, data)
            page.locator(".play-attached img").wait_for()
            page.get_by_label("max_tokens").fill("4")
            page.get_by_label("Message", exact=True).fill("a b")
            page.get_by_role("button", name="Send").click()
            page.get_by_role("button", name="Regenerate").wait_for()
            image, text = sent[0]["messages"][0]["content"]
            assert image["image_url"]["url"] == f"data:image/png;base64,{data}"
            assert text == {"type": "text", "text": "a b"}
            assert "4 tokens" in page.locator(".play-stats").inner_text()
            assert page.locator(".play-user img").evaluate("i => i.naturalWidth") == 64
            assert axe_violations(page) == []
