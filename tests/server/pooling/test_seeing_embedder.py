"""A decoder that sees as an embedder (Qwen3-VL-Embedding's shape) over HTTP: vectors of texts, of images and of
both equal those of transformers, on every endpoint that gives or compares them.
"""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

pytest.importorskip("openvino", reason="needs the extra cpu")
pytest.importorskip("torch", reason="needs the extra export")

import torch
from asking import asker
from test_dual_encoder import content, shown, url_of, user, written
from tiny_qwen_vl import IMAGE_ID, qwen_processor, write_qwen
from tiny_seeing import picture

from pipelines.repository.new_graph import new_graph

MODEL = "seeing"
INSTRUCTION = "Represent the user's input."
MODULES = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
SMALL, TALL = (1, 140, 90), (2, 70, 200)
CASES = [("hello you", []), ("", [SMALL]), ("both", [TALL, SMALL]), ("a longer text " * 6, []), ("", [TALL])]
"""Texts and images of inputs, which are read in one batch."""


@pytest.fixture(scope="module", params=["qwen3_vl", pytest.param("qwen2_vl", marks=pytest.mark.breadth)])
def served(request, tmp_path_factory):
    """(family, Hugging Face's folder, a repository with the exported model)."""
    folder, model = tmp_path_factory.mktemp("seeing"), tmp_path_factory.mktemp("models") / MODEL
    with warnings.catch_warnings():  # of torch's tracing
        warnings.simplefilter("ignore")
        source, made = write_qwen(request.param, folder)
    if request.param == "qwen3_vl":
        made.rename(model)
        modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in MODULES]
        (model / "modules.json").write_text(json.dumps(modules))
        (model / "1_Pooling").mkdir()
        (model / "1_Pooling" / "config.json").write_text('{"pooling_mode": "lasttoken"}')
    else:
        from tools.export.choose_export import Options, choose

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            choose(str(source), Options(task="embed", weights="fp32"))(model / "model", lambda _: None)
    graph = new_graph(model).replace("device: cpu", "device: cpu, precision: f32")
    (model / "graph.yaml").write_text(graph)
    return request.param, source, model.parent


@pytest.fixture(scope="module")
def ask(served):
    return asker(served[2], MODEL)


@pytest.fixture(scope="module")
def wanted(served):
    """float32[CASES, size] and the tokens of each, as transformers computes them."""
    from transformers import AutoModelForImageTextToText

    family, source, _ = served
    torch.set_num_threads(1)
    model = AutoModelForImageTextToText.from_pretrained(source).eval()
    processor = qwen_processor(family)
    found = [_vector(model, processor, family, *case) for case in CASES]
    return np.array([vector for vector, _ in found]), [length for _, length in found]


@torch.no_grad()
def _vector(model, processor, family, text, images):
    """(the vector of the last token, of length 1, the number of tokens)"""
    system = [{"role": "system", "content": INSTRUCTION}] if family == "qwen3_vl" else []
    parts = [{"type": "image"} for _ in images] + ([written(text)] if text else [])
    prompt = processor.tokenizer.apply_chat_template(
        [*system, *user(*parts)], tokenize=False, add_generation_prompt=True
    )
    read = (
        processor.image_processor([picture(*each) for each in images], return_tensors="pt") if images else {}
    )
    before, *others = prompt.split("<|image_pad|>")
    for grid, after in zip(read.get("image_grid_thw", ()), others, strict=True):
        before += "<|image_pad|>" * (int(grid.prod()) // 4) + after
    ids = torch.tensor([processor.tokenizer(before)["input_ids"]])
    states = model.model(input_ids=ids, attention_mask=torch.ones_like(ids), **read).last_hidden_state
    vector = states[0, -1].numpy()
    return vector / np.linalg.norm(vector), ids.shape[1]


def conversation(text, images):
    return user(*(shown(url_of(each)) for each in images), *([written(text)] if text else []))


def vectors(answer):
    assert answer.status == 200, answer.body
    return np.array([each["embedding"] for each in answer.json["data"]])


def test_vectors_and_scores_equal_those_of_transformers(ask, wanted):
    values, lengths = wanted
    asked = [conversation(*case) for case in CASES]
    texts = [CASES[0][0], CASES[3][0]]
    continued = [*asked[1], {"role": "assistant", "content": [written("")]}]
    documents = [content(*asked[1][0]["content"]), content(*asked[2][0]["content"]), texts[0]]
    together, plain, ends, scored, cohere, inputs, pooled = ask(
        ("/v1/embeddings", {"messages": asked}),
        ("/v1/embeddings", {"input": texts}),
        ("/v1/embeddings", {"messages": continued, "continue_final_message": True}),  # as vLLM's example does
        ("/v1/score", {"queries": texts[0], "documents": documents}),
        ("/v2/embed", {"images": [url_of(SMALL)], "input_type": "image"}),
        ("/v2/embed", {"inputs": documents[:2], "input_type": "search_document"}),
        ("/pooling", {"messages": asked[4]}),
    )
    np.testing.assert_allclose(vectors(together), values, atol=1e-5)
    assert together.json["usage"]["prompt_tokens"] == sum(lengths)
    np.testing.assert_allclose(vectors(plain), values[[0, 3]], atol=1e-5)
    np.testing.assert_allclose(vectors(ends), values[[1]], atol=1e-5)
    scores = [each["score"] for each in scored.json["data"]]
    np.testing.assert_allclose(scores, values[[1, 2, 0]] @ values[0], atol=1e-5)
    np.testing.assert_allclose(cohere.json["embeddings"]["float"], values[[1]], atol=1e-5)
    num_image = cohere.json["meta"]["billed_units"]["image_tokens"]
    assert 0 < num_image < lengths[1] == cohere.json["meta"]["tokens"]["input_tokens"]
    np.testing.assert_allclose(inputs.json["embeddings"]["float"], values[[1, 2]], atol=1e-5)
    np.testing.assert_allclose(pooled.json["data"][0]["data"], values[4], atol=1e-5)


def test_what_would_be_read_otherwise_is_refused_and_marks_are_text(ask):
    seen, typed = conversation("", [SMALL]), "a <|vision_start|><|image_pad|><|vision_end|>"
    cut, ids, marks, alone, same, known = ask(
        ("/v1/embeddings", {"messages": seen, "truncate_prompt_tokens": 5}),
        ("/v1/embeddings", {"input": [[1, IMAGE_ID]]}),
        ("/v1/embeddings", {"input": typed}),
        ("/v1/embeddings", {"messages": [user(written(typed)), seen]}),
        ("/v1/embeddings", {"messages": seen, "add_generation_prompt": False}),
        ("/v1/embeddings", {"messages": [seen, seen]}),
    )
    assert (cut.status, cut.error["param"]) == (400, "truncate_prompt_tokens")
    assert (ids.status, ids.error["param"]) == (400, "input")
    np.testing.assert_allclose(vectors(marks)[0], vectors(alone)[0], atol=1e-5)
    assert np.abs(vectors(same)[0] - vectors(alone)[1]).max() > 0.01  # it ends elsewhere
    np.testing.assert_allclose(vectors(known), vectors(alone)[[1, 1]], atol=1e-5)
