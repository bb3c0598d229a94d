"""A vision-language decoder as an embedder (Qwen3-VL-Embedding's shape) over HTTP: vectors of texts, of images and of
both equal those of transformers, on every endpoint that gives or compares them.
"""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from later import Later, missing

pytest.importorskip("openvino", reason="needs the extra cpu")
if missing("torch"):
    pytest.skip("needs the extra export", allow_module_level=True)

from asking import asker
from live_app import live_app
from safetensors.numpy import load_file, save_file
from test_dual_encoder import content, shown, url_of, user, written
from tiny_qwen_vl import IMAGE_ID, qwen_processor, write_qwen
from tiny_vision import picture

from pipelines.repository.new_graph import new_graph

torch = Later("torch")

MODEL = "seeing"
INSTRUCTION = "Represent the user's input."
MODULES = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
SMALL, TALL = (1, 140, 90), (2, 70, 200)
CASES = [("hello you", []), ("", [SMALL]), ("both", [TALL, SMALL]), ("a longer text " * 6, []), ("", [TALL])]
"""Texts and images of inputs, which are read in one batch."""
DECODER = "openvino_language_model.xml"
ADAPTER, ADAPTED = "tuned", ("self_attn.q_proj", "mlp.down_proj")


@pytest.fixture(scope="module", params=["qwen3_vl", pytest.param("qwen2_vl", marks=pytest.mark.breadth)])
def served(request, tmp_path_factory):
    """(family, Hugging Face's folder, a repository with the exported model)."""
    folder, model = tmp_path_factory.mktemp("vision"), tmp_path_factory.mktemp("models") / MODEL
    with warnings.catch_warnings():  # of torch's tracing
        warnings.simplefilter("ignore")
        source, built_model = write_qwen(request.param, folder)
    if request.param == "qwen3_vl":
        built_model.rename(model)
        modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in MODULES]
        (model / "modules.json").write_text(json.dumps(modules))
        (model / "1_Pooling").mkdir()
        (model / "1_Pooling" / "config.json").write_text('{"pooling_mode": "lasttoken"}')
    else:
        from tools.export.base.options import Options
        from tools.export.choose_export import choose

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            choose(str(source), Options(task="embed", weights="fp32"))(model / "model", lambda _: None)
    graph = new_graph(model).replace("device: cpu", "device: cpu, precision: f32")
    assert graph.count(DECODER) == 1
    graph = graph.replace(DECODER, f"{DECODER}, adapters: {{folder: adapters}}")
    (model / "graph.yaml").write_text(graph)
    _write_adapter(source, model / "adapters" / ADAPTER)
    return request.param, source, model.parent


def _write_adapter(source, folder):
    """An adapter of rank 3 of the first layer, as PEFT writes it."""
    shapes = {name: weight_of_layer.weight.shape for name, weight_of_layer in _adapted(_model(source))}
    rng, tensors = np.random.default_rng(0), {}
    for name, (size_out, size_in) in shapes.items():
        begin = f"base_model.model.language_model.layers.0.{name}.lora"
        tensors[f"{begin}_A.weight"] = rng.standard_normal((3, size_in)).astype(np.float32) * 0.3
        tensors[f"{begin}_B.weight"] = rng.standard_normal((size_out, 3)).astype(np.float32) * 0.3
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "r": 3,
        "lora_alpha": 3,
        "target_modules": [f"layers.0.{shape}" for shape in shapes],
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))


def _model(source):
    from transformers import AutoModelForImageTextToText

    return AutoModelForImageTextToText.from_pretrained(source).eval()


def _adapted(model):
    """The products that the adapter changes, by name."""
    layer = model.model.language_model.layers[0]
    return [(name, layer.get_submodule(name)) for name in ADAPTED]


@pytest.fixture(scope="module")
def ask(served):
    return asker(served[2], MODEL)


@pytest.fixture(scope="module")
def wanted(served):
    """float32[CASES, size] and the tokens of each, as transformers computes them."""
    family, source, _ = served
    torch.set_num_threads(1)
    model = _model(source)
    processor = qwen_processor(family)
    found = [_vector(model, processor, family, *case) for case in CASES]
    return np.array([vector for vector, _ in found]), [length for _, length in found]


def _vector(model, processor, family, text, images):
    """(the vector of the last token, of length 1, the number of tokens)"""
    with torch.no_grad():
        system = [{"role": "system", "content": INSTRUCTION}] if family == "qwen3_vl" else []
        parts = [{"type": "image"} for _ in images] + ([written(text)] if text else [])
        prompt = processor.tokenizer.apply_chat_template(
            [*system, *user(*parts)], tokenize=False, add_generation_prompt=True
        )
        read = (
            processor.image_processor([picture(*image) for image in images], return_tensors="pt")
            if images
            else {}
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
    scores = [score_entry["score"] for score_entry in scored.json["data"]]
    np.testing.assert_allclose(scores, values[[1, 2, 0]] @ values[0], atol=1e-5)
    np.testing.assert_allclose(cohere.json["embeddings"]["float"], values[[1]], atol=1e-5)
    num_image = cohere.json["meta"]["billed_units"]["image_tokens"]
    assert 0 < num_image < lengths[1] == cohere.json["meta"]["tokens"]["input_tokens"]
    np.testing.assert_allclose(inputs.json["embeddings"]["float"], values[[1, 2]], atol=1e-5)
    np.testing.assert_allclose(pooled.json["data"][0]["data"], values[4], atol=1e-5)


def test_an_adapter_changes_texts_beside_images_as_merged_weights_do(ask, served):
    family, source, models = served
    tensors = load_file(models / MODEL / "adapters" / ADAPTER / "adapter_model.safetensors")
    model, processor = _model(source), qwen_processor(family)
    for name, product in _adapted(model):
        begin = f"base_model.model.language_model.layers.0.{name}.lora"
        more = tensors[f"{begin}_B.weight"] @ tensors[f"{begin}_A.weight"]
        product.weight.data += torch.from_numpy(more)
    bodies = [{"messages": conversation(*case)} for case in CASES]
    names = [ADAPTER, f"{MODEL}:{ADAPTER}"]
    asked = [("/v1/embeddings", {"model": names[i % 2], **body}) for i, body in enumerate(bodies)]
    embedded = np.concatenate([vectors(answer) for answer in ask(*asked)])
    expected = np.array([_vector(model, processor, family, *case)[0] for case in CASES])
    np.testing.assert_allclose(embedded, expected, rtol=0, atol=1e-4)
    plain = np.concatenate([vectors(reply) for reply in ask(*[("/v1/embeddings", body) for body in bodies])])
    assert np.abs(plain - expected).max(axis=1).min() > 0.01


def test_the_uuid_of_an_image_is_enough_for_the_session_that_sent_it(served):
    sent = {**shown(url_of(SMALL)), "uuid": "small"}
    named = {"type": "image_url", "image_url": None, "uuid": "small"}

    async def scene(client):
        async def embedded(part, session):
            body = {"model": MODEL, "messages": user(part)}
            return await client.post("/v1/embeddings", body, **{"X-Session-ID": session})

        return [await embedded(*asked) for asked in ((sent, "one"), (named, "one"), (named, "two"))]

    app = live_app(served[2])
    first, again, other = app.run(scene(app.client))
    np.testing.assert_allclose(vectors(again), vectors(first), atol=1e-5)
    assert (other.status, "Cache miss" in other.error["message"]) == (400, True), other.body


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
