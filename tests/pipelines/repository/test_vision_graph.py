"""Folders of models that see: those that are served have a graph, the others are refused by name."""

from __future__ import annotations

import json

import pytest

from pipelines.repository.new_graph import new_graph, recognise
from pipelines.repository.vision_graph import DECODER, ENCODERS, FURTHER, NEEDED

OTHERS = (
    *("deepseek_ocr2", "gemma3n", "gemma4", "got_ocr2", "internvl", "llama4", "llava-qwen2", "llava_next"),
    *(
        "llava_next_video",
        "maira2",
        "minicpmo",
        "minicpmv",
        "mistral3",
        "mllama",
        "phi3_v",
        "phi4_multimodal",
    ),
    *("phi4mm", "qwen3_5", "qwen3_omni_moe", "qwen3_vl_moe"),
)
"""Further families that optimum-intel exports, and relatives of those that are served."""


def write(folder, kind, vision, without=()):
    for name in {DECODER, *NEEDED, *FURTHER.get(kind, ())} - set(without):
        (folder / name).touch()
    config = {"model_type": kind, "architectures": ["XForConditionalGeneration"], "vision_config": vision}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("kind", OTHERS)
def test_other_families_are_refused_by_name(kind, tmp_path):
    folder = write(tmp_path, kind, {"model_type": "siglip_vision_model"})
    assert recognise(folder) == "openvino"
    with pytest.raises(ValueError, match=f"models of type {kind} with images are not served yet; those of"):
        new_graph(folder)


@pytest.mark.parametrize("kind", ENCODERS)
def test_a_vision_model_of_another_kind_or_a_missing_file_is_named(kind, tmp_path):
    folder = write(tmp_path, kind, {"model_type": "other"})
    with pytest.raises(ValueError, match="a vision model of type other is not served"):
        new_graph(folder)
    last = (*NEEDED, *FURTHER.get(kind, ()))[-1]
    (folder / last).unlink()
    write(folder, kind, {"model_type": ENCODERS[kind][0]}, without=[last])
    with pytest.raises(ValueError, match=f"{last} is missing; braid export"):
        new_graph(folder)
