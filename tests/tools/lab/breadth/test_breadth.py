"""The page of families has a row for each that was tried, and a number for each sentence."""

from __future__ import annotations

import importlib.util
import json

import pytest
from breadth import after
from click.testing import CliRunner

from tools.lab.breadth.__main__ import main
from tools.lab.breadth.families import FAMILIES
from tools.lab.breadth.page import page
from tools.lab.breadth.trial import try_family


def test_a_page_of_two_versions(tmp_path):
    equal, on_runtime = ({"state": "equal", "why": engine} for engine in ("openvino", "onnxruntime"))
    sinks = {"state": "refused", "why": "it has sinks", "tried": "2026-12-01"}
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
        "| family | ONNX, transformers 4.0.0 | IR, transformers 4.0.0 | ONNX, transformers 5.0.0 | "
        "IR, optimum-intel 2.2.0 | tried |",
        "| llama | = | = | = (ORT) | – | 2026-11-28 |",
        "| gpt_oss | 1 | = | 1 | – | 2026-12-01 |",
        "| bloom | – | – | 2 | – | 2026-11-28 |",
        "| mpt | – | 3 | – | = (5.4.0) | – |",
    ]
    assert text.endswith("1. it has sinks\n2. FAILED: KeyError: x\n3. it parts\n")
    assert "qwen3" not in text.partition("| family")[2]


@pytest.mark.skipif(not importlib.util.find_spec("transformers"), reason="needs the export extra")
@pytest.mark.parametrize(
    "row",
    after(
        1,
        [
            "bloom",
            "mpt",
            "gptj",
            "gpt_neo",
            "codegen",
            "xglm",
            "falcon, new architecture",
            "diffllama",
            "doge",
            "deepseek_v2",
            "llama4_text, no rope",
            "longcat_flash",
        ],
    ),
)
def test_families_with_attention_of_their_own_are_equal(row, tmp_path):
    assert try_family(row, "onnx", tmp_path) == {"state": "equal", "why": "openvino"}


def test_a_row_that_is_not_known_is_no_row():
    result = CliRunner().invoke(main, ["--only", "lama"])
    assert (result.exit_code, "no row or family is called lama" in result.output) == (2, True)
