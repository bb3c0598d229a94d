"""The page of families has a row for each that was tried, and a number for each sentence."""

from __future__ import annotations

import json

from tools.breadth.families import FAMILIES
from tools.breadth.page import page


def test_a_page_of_two_versions(tmp_path):
    older = {
        "llama": {"state": "equal", "why": "model.onnx"},
        "bloom": {"state": "equal", "why": "openvino_model.xml"},
        "gpt_oss": {"state": "refused", "why": "it has sinks"},
        "mpt": {"state": "refused", "why": "it parts"},
    }
    newer = {
        "llama": {"state": "equal", "why": "model.onnx"},
        "gpt_oss": {"state": "refused", "why": "it has sinks"},
        "bloom": {"state": "failed", "why": "KeyError: x"},
        "mpt": {"state": "unknown", "why": "ValueError: mpt"},
    }
    (tmp_path / "transformers-4.0.0.json").write_text(json.dumps(older))
    (tmp_path / "transformers-5.0.0.json").write_text(json.dumps(newer))
    text = page(tmp_path, list(FAMILIES))
    assert "| family | transformers 4.0.0 | transformers 5.0.0 |" in text
    assert [
        line for line in text.splitlines() if line.startswith(("| llama", "| bloom", "| gpt_oss", "| mpt"))
    ] == [
        "| llama | = | = |",
        "| gpt_oss | 1 | 1 |",
        "| bloom | = (IR) | 2 |",
        "| mpt | 3 | – |",
    ]
    assert text.endswith("1. it has sinks\n2. FAILED: KeyError: x\n3. it parts\n")
    assert "qwen3" not in text.partition("| family")[2]
