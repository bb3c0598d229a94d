"""A real server with PP-OCRv4 of `make demo-ocr`: the client of KServe's protocol reads a picture's lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont
from server_process import ROOT, ServerProcess

from tools.read_text import known_characters, read_text

OCR = Path(os.environ.get("OCR", ROOT / "model_repo" / "ocr"))
pytestmark = [
    pytest.mark.skipif(not OCR.exists(), reason=f"{OCR} is missing: `make demo-ocr` fetches it"),
    pytest.mark.slow,
    pytest.mark.breadth,
]
LINES = {
    "Braid serves models": (40, 30, 40, "black"),
    "Invoice 2026-11-23": (40, 120, 28, "navy"),
    "Total: 148.50": (380, 120, 28, "darkred"),
    "over KServe's protocol, version 2": (60, 220, 30, "darkgreen"),
}
"""Text → its left and top pixel, size and colour."""


def test_a_picture_is_read(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "ocr").symlink_to(OCR.resolve())
    picture = Image.new("RGB", (640, 360), "white")
    pen = ImageDraw.Draw(picture)
    for text, (left, top, size, colour) in LINES.items():
        pen.text((left, top), text, font=ImageFont.load_default(size), fill=colour)
    with ServerProcess(tmp_path / "models") as running:
        running.all_ready()
        lines = read_text(running.url, "none", picture, known_characters(OCR / "rec" / "model.onnx"))
    assert [text.replace(" ", "") for text, _ in lines] == [text.replace(" ", "") for text in LINES]
    for (_, box), (left, top, size, _) in zip(lines, LINES.values(), strict=True):
        assert abs(box[0] - left) < 8
        assert top - 8 < box[1] < box[3] < top + 1.5 * size
