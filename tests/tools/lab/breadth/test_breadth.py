"""The page of families has a row for each that was tried, and a number for each sentence."""

from __future__ import annotations

import json

from tools.lab.breadth.families import FAMILIES
from tools.lab.breadth.page import page


def test_a_page_of_two_versions(tmp_path):
    equal, on_runtime = ({"state": "equal", "why": engine} for engine in ("openvino", "onnxruntime"))
    sinks = {"state": "refused", "why": "it has sinks"}
    older = {
        "llama": {"onnx": equal, "openvino": equal},
        "gpt_oss": {"onnx": sinks, "openvino": equal},
        "mpt": {"openvino": {"state": "refused", "why": "it parts"}},
    }
    newer = {
        "llama": {"onnx": on_runtime},
        "gpt_oss": {"onnx": sinks},
        "bloom": {"onnx": {"state": "failed", "why": "KeyError: x"}},
        "mpt": {"onnx": {"state": "unknown", "why": "ValueError: mpt"}},
    }
    (tmp_path / "transformers-4.0.0.json").write_text(json.dumps(older))
    (tmp_path / "transformers-5.0.0.json").write_text(json.dumps(newer))
    hybrids = {"mpt": {"openvino": {"state": "equal", "why": "transformers 5.4.0"}}}
    (tmp_path / "optimum-intel-2.2.0.json").write_text(json.dumps(hybrids))
    text = page(tmp_path, list(FAMILIES))
    rows = ("| family", "| llama |", "| bloom", "| gpt_oss", "| mpt")
    assert [line for line in text.splitlines() if line.startswith(rows)] == [
        "| family | ONNX, transformers 4.0.0 | IR, transformers 4.0.0 | ONNX, transformers 5.0.0 | IR, optimum-intel 2.2.0 |",
        "| llama | = | = | = (ORT) | – |",
        "| gpt_oss | 1 | = | 1 | – |",
        "| bloom | – | – | 2 | – |",
        "| mpt | – | 3 | – | = (5.4.0) |",
    ]
    assert text.endswith("1. it has sinks\n2. FAILED: KeyError: x\n3. it parts\n")
    assert "qwen3" not in text.partition("| family")[2]
