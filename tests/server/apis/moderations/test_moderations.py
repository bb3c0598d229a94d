"""Moderation by a classifier and by small random guard models in the formats of their families."""

from __future__ import annotations

import re

import pytest
from fake_decoder import FAKE_GRAPH, byte_tokenizer, write_fake_model
from fake_encoder import FAKE_BATCHER, row_of, use_fake_encoders, write_fake_encoder
from live_app import answers

from pipelines.nodes.text.parsers.guards import GUARDS, find_guard
from server.apis.moderations.categories import CATEGORIES

CLASSES = "  classes: {type: label, from: rows, labels: labels.json}\n"
GRAMMAR = "      allowed: {type: grammar, from: logits, tokenizer: tokenizer.json}\n"
USER = "{{ messages[-1].content }}"
TEMPLATES = {
    "llama_guard": f"Task.\n<BEGIN UNSAFE CONTENT CATEGORIES>\nS1: Violent Crimes.\n<END>\nUser: {USER}\n\n",
    "qwen3guard": f"Rate.\n{USER}\nWrite Safety: Safe, Unsafe or Controversial.\n<think>\n\n</think>\n\n",
    "granite_guardian": f"Risk: {{{{ guardian_config.criteria_id }}}}\n{USER}\n",
    "shieldgemma": f"You are a policy expert.\n{USER}\n{{{{ guideline }}}}\n",
}


def guard_graph(name):
    graph = FAKE_GRAPH.replace("next: {type: sampler, from: logits}", "next: {type: sampler, from: allowed}")
    graph = graph.replace("      next:", GRAMMAR + "      next:")
    return graph.replace("reasoning: qwen3, tools: hermes", f"guard: {name}")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    for name, template in TEMPLATES.items():
        write_fake_model(folder / name, guard_graph(name))
        (folder / name / "chat_template.jinja").write_text(template)
    classify = FAKE_BATCHER.replace("task: embed", "task: classify")
    mapped = CLASSES.replace("labels.json}", "labels.json, moderation: {spam: [], sad: [self-harm]}}")
    for name, classes in (("toxic", CLASSES), ("mapped", mapped), ("moods", CLASSES)):
        write_fake_encoder(folder / name, classify + classes, size=2)
    (folder / "toxic/labels.json").write_text('["fine", "threat"]')
    (folder / "mapped/labels.json").write_text('["spam", "sad"]')
    (folder / "moods/labels.json").write_text('["sad", "glad"]')
    return folder


@pytest.fixture
def ask(models, monkeypatch):
    use_fake_encoders(monkeypatch)
    return lambda *given, **settings: answers(models, given, **settings)


def test_the_format_is_found_in_the_template():
    assert {name: find_guard(template) for name, template in TEMPLATES.items()} == dict(
        zip(TEMPLATES, TEMPLATES, strict=True)
    )
    assert find_guard("{{ messages }}") is None


@pytest.mark.parametrize(
    ("name", "text", "is_unsafe", "names"),
    [
        ("llama_guard", "\n\nsafe", False, []),
        ("llama_guard", "unsafe\nS1,S10", True, ["S1", "S10"]),
        ("llama_guard", "I cannot", None, []),
        ("qwen3guard", "Safety: Unsafe\nCategories: Violent, PII", True, ["Violent", "PII"]),
        ("qwen3guard", "Safety: Controversial\nCategories: Unethical Acts", True, ["Unethical Acts"]),
        ("qwen3guard", "Safety: Safe\nCategories: None", False, []),
        ("granite_guardian", "<think>\n</think>\n<score> yes </score>", True, []),
        ("granite_guardian", "<score>no</score>", False, []),
        ("granite_guardian", "No", False, []),
        ("shieldgemma", "Yes", True, []),
        ("shieldgemma", "Yesterday", None, []),
    ],
)
def test_verdicts(name, text, is_unsafe, names):
    guard = GUARDS[name]
    found = guard.verdict.match(text)
    assert (None if found is None else found["unsafe"] is not None) == is_unsafe
    assert guard.names(text) == names
    if is_unsafe is not None:
        assert re.fullmatch(guard.reply, text), "a grammar allows what is read"


def test_a_guard_model_gives_all_categories(ask):
    replies = ask(*[("/v1/moderations", {"model": name, "input": ["hi", "you"]}) for name in TEMPLATES])
    for name, reply in zip(TEMPLATES, replies, strict=True):
        assert reply.status == 200, reply.body
        assert len(reply.json["results"]) == 2
        for result in reply.json["results"]:
            for of in ("categories", "category_scores", "category_applied_input_types"):
                assert [*result[of]] == [*CATEGORIES]
            assert all(0 <= score <= 1 for score in result["category_scores"].values())
            if runs := GUARDS[name].runs:
                assert {*result["model_scores"]} == {*runs}
            if any(result["categories"].values()):
                assert result["flagged"]


def test_what_a_guard_model_writes_decides(ask):
    """The same conversation as a chat, in the same format."""
    body = {"model": "llama_guard", "messages": [{"role": "user", "content": "hi"}], "temperature": 0}
    chat, moderated = ask(
        ("/v1/chat/completions", body | {"structured_outputs": {"regex": GUARDS["llama_guard"].reply}}),
        ("/v1/moderations", {"model": "llama_guard", "input": "hi"}),
    )
    text = chat.json["choices"][0]["message"]["content"]
    (result,) = moderated.json["results"]
    if "unsafe" in text:
        assert result["flagged"]
        assert {*result["model_scores"]} == {*(GUARDS["llama_guard"].names(text) or ["unsafe"])}
    else:
        assert {*result["model_scores"]} == {"unsafe"}


def test_a_classifier_by_its_labels(ask):
    (known, mapped, moods) = ask(
        ("/v1/moderations", {"model": "toxic", "input": "hi"}),
        ("/v1/moderations", {"model": "mapped", "input": [{"type": "text", "text": "hi"}]}),
        ("/v1/moderations", {"model": "moods", "input": "hi"}),
    )
    fine, threat = row_of(byte_tokenizer().encode("hi").ids, size=2).tolist()
    (result,) = known.json["results"]
    assert result["category_scores"]["violence"] == threat
    assert result["category_scores"]["harassment/threatening"] == threat
    assert result["category_applied_input_types"]["violence"] == ["text"]
    assert result["category_applied_input_types"]["hate"] == []
    assert result["model_scores"] == {"fine": fine, "threat": threat}
    assert mapped.json["results"][0]["category_scores"]["self-harm"] == threat
    assert mapped.json["results"][0]["flagged"] == (max(fine, threat) >= 0.5)
    assert (moods.status, moods.error["param"]) == (404, "model")


def test_openais_names_mean_the_default_model(ask):
    asked = ("/v1/moderations", {"model": "omni-moderation-latest", "input": "hi"})
    (found,) = ask(asked, default_model="toxic")
    assert found.json["model"] == "toxic"
    (several,) = ask(("/v1/moderations", {"input": "hi"}))
    assert (several.status, several.error["param"]) == (400, "model")


WRONG = [
    ({}, "input"),
    ({"input": None}, "input"),
    ({"input": []}, "input"),
    ({"input": 5}, "input"),
    ({"input": ["a", 5]}, "input"),
    ({"input": [["a"]]}, "input"),
    ({"input": [{"type": "audio"}]}, "input"),
    ({"input": ["a"] * 1025}, "input"),
    ({"input": "a", "model": 5}, "model"),
]


@pytest.mark.parametrize(("body", "param"), WRONG)
def test_a_wrong_body_names_its_field(rig, body, param):
    found = rig.post("/v1/moderations", body)
    assert (found.status, found.error["param"]) == (400, param)


def test_a_model_that_does_not_moderate(rig):
    assert rig.post("/v1/moderations", {"input": "hi", "model": "tiny"}).status == 404
    assert (
        rig.post("/v1/moderations", {"input": "hi"}).error["message"] == "There is no model that can moderate"
    )
