"""Folders of vision models: those that are served have a graph, the others are refused by name."""

from __future__ import annotations

import json

import pytest

from pipelines.repository.exports.vision_graph import DECODER, ENCODERS, FURTHER, NEEDED
from pipelines.repository.new_graph import new_graph, recognise

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


@pytest.mark.parametrize(
    ("prompts", "said"),
    [
        ({}, 'instruction: "Represent the user\'s input."'),
        ({"prompts": {"q": "Find."}}, "prompts: config_sentence_transformers.json, instruction: "),
        (
            {"prompts": {"q": "Find."}, "default_prompt_name": "q"},
            "prompts: config_sentence_transformers.json}",
        ),
    ],
)
def test_modules_make_a_model_that_sees_an_embedder(tmp_path, prompts, said):
    folder = write(tmp_path, "qwen3_vl", {"model_type": "qwen3_vl"})
    types = [("Transformer", ""), ("Pooling", "1_Pooling")]
    (folder / "modules.json").write_text(json.dumps([{"type": kind, "path": path} for kind, path in types]))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "lasttoken"}')
    with pytest.raises(ValueError, match="chat_template.jinja is missing, by which images are shown"):
        new_graph(folder)
    (folder / "chat_template.jinja").touch()
    graph = new_graph(folder)
    assert said in graph
    for line in ("task: embed", "from: {tokens: tokens, images: seen}", "how: last", "max_tokens: 8192"):
        assert line in graph
    assert "normalize" not in graph  # no such module
