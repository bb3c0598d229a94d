"""Decisions by a decoder, a classifier, a classifier of pairs and a cross-encoder, over real graphs."""

from __future__ import annotations

import math

import pytest
from fake_decoder import CHAT_TEMPLATE, write_fake_model
from fake_encoder import FAKE_BATCHER, row_of, use_fake_encoders, write_fake_encoder
from live_app import answers
from test_decision_bodies import CHOICE, PREDICATE, SCORE, asked, named

PAIRS = FAKE_BATCHER.replace(
    "tokens: {type: tokenize, from: request.prompts,", "tokens: {type: tokenize_pairs, from: request,"
)
CLASSES = "  classes: {type: label, from: rows, labels: labels.json}\n"
TEXT = "It is wet outside."
LONG = "It is wet outside. " * 40


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    write_fake_model(folder / "judge")
    write_fake_encoder(
        folder / "moods", FAKE_BATCHER.replace("task: embed", "task: classify") + CLASSES, size=3
    )
    write_fake_encoder(folder / "entails", PAIRS.replace("task: embed", "task: classify") + CLASSES, size=3)
    ranking = "  ranking: {type: rank, from: {scores: rows, pairs: tokens}}\n"
    write_fake_encoder(folder / "ranks", PAIRS.replace("task: embed", "task: rerank") + ranking, size=1)
    (folder / "moods/labels.json").write_text('["Sad", "calm", "glad"]')
    (folder / "entails/labels.json").write_text('["contradiction", "neutral", "entailment"]')
    return folder


@pytest.fixture
def ask(models, monkeypatch):
    """What the server answers each (path, body)."""
    use_fake_encoders(monkeypatch)
    return lambda *given: answers(models, given)


def prompt(question):
    """What the decoder reads."""
    user = f"<|im_start|>user\n{TEXT}\n\n{question}<|im_end|>\n"
    assert CHAT_TEMPLATE.startswith("{%- for message in messages -%}\n<|im_start|>{{ message.role }}\n")
    return user + "<|im_start|>assistant\n"


CHOICE_TEXT = 'Question: Which?\nA: "a"\nB: "b"\nAnswer with the letter of the best option only.'
SCORE_TEXT = 'Question: How much?\n0: "low"\n1: "high"\nAnswer with the number of the best level only.'


def label_shares(reply, words):
    """The shares of words among the alternatives that completions give, each with a space before it too."""
    (top,) = reply.json["choices"][0]["logprobs"]["top_logprobs"]
    powers = [math.exp(top[word]) for word in words]
    return [power / sum(powers) for power in powers], sum(powers)


def test_a_decoder_answers_by_the_probabilities_of_one_token(ask):
    from fake_decoder import byte_tokenizer

    ids = {word: byte_tokenizer().token_to_id(word) for word in "AB01"}
    completion = {"model": "judge", "max_tokens": 1, "temperature": 0, "logprobs": 0}
    decided, completed, other, system = ask(
        ("/v1/decisions", asked(CHOICE, {**SCORE, "name": "much"}, model="judge")),
        (
            "/v1/completions",
            completion | {"prompt": prompt(CHOICE_TEXT), "logprob_token_ids": [ids["A"], ids["B"]]},
        ),
        (
            "/v1/completions",
            completion | {"prompt": prompt(SCORE_TEXT), "logprob_token_ids": [ids["0"], ids["1"]]},
        ),
        (
            "/v1/systemone",
            named(
                {"type": "choice", "instructions": "Which?", "criteria": {"a": None, "b": None}},
                model="judge",
            ),
        ),
    )
    choice, score = decided.json["answers"]
    shares, mass = label_shares(completed, "AB")
    assert [probability["value"] for probability in choice["probabilities"]] == ["a", "b"]
    assert [probability["probability"] for probability in choice["probabilities"]] == pytest.approx(shares)
    assert choice["choice"] == "ab"[shares.index(max(shares))]
    assert (choice["name"], score["name"]) == (None, "much")
    (low, high), _ = label_shares(other, "01")
    assert score["score"] == pytest.approx(high)
    assert [(probability["value"], probability["label"]) for probability in score["probabilities"]] == [
        (0, "low"),
        (1, "high"),
    ]
    assert system.json["answers"]["wet"]["probabilities"] == pytest.approx({"a": shares[0], "b": shares[1]})
    assert system.json["diagnostics"]["wet"]["label_mass"] == pytest.approx(mass)
    usage = decided.json["usage"]
    assert usage["output_tokens"] == 2
    assert (
        usage["input_tokens"]
        == completed.json["usage"]["prompt_tokens"] + other.json["usage"]["prompt_tokens"]
    )
    assert usage["total_tokens"] == usage["input_tokens"] + 2


def test_questions_about_one_input_share_what_they_begin_with(ask):
    (decided,) = ask(("/v1/decisions", asked(*[CHOICE] * 4, PREDICATE, model="judge", input=LONG)))
    usage = decided.json["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] >= 4 * len(LONG)  # a token is a byte
    assert len({answer["choice"] for answer in decided.json["answers"][:4]}) == 1


def test_a_label_mass_that_is_too_small_is_a_refusal(ask):
    (decided,) = ask(("/v1/decisions", asked(CHOICE, model="judge", min_label_mass=1)))
    assert decided.json["answers"] == [{"type": "refusal", "name": None}]


def test_a_conversation_keeps_its_roles(ask):
    items = [
        {"role": "user", "content": "Is it wet?"},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [{"type": "input_json", "data": {"wet": True}}],
        },
    ]
    decided, refused = ask(
        ("/v1/decisions", asked(PREDICATE, model="judge", input=items)),
        (
            "/v1/decisions",
            asked(
                PREDICATE,
                model="judge",
                input=[
                    {
                        "role": "user",
                        "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}],
                    }
                ],
            ),
        ),
    )
    assert decided.json["answers"][0]["type"] == "predicate"
    assert (refused.status, refused.error["param"]) == (400, "input.0.content.0")


def test_a_classifier_answers_what_its_labels_are(ask):
    moods = {"type": "choice", "instructions": "?", "choices": [{"value": "glad"}, {"value": "SAD"}]}
    decided, named_reply = ask(
        ("/v1/decisions", asked(moods, CHOICE, {"type": "predicate", "instructions": "calm"}, model="moods")),
        ("/v1/systemone", named({"type": "noul", "instructions": "wet?"}, model="moods")),
    )
    sad, calm, glad = row_of(list(map(int, _ids(TEXT))), size=3).tolist()
    mood, unknown, predicate = decided.json["answers"]
    assert [probability["probability"] for probability in mood["probabilities"]] == pytest.approx(
        [glad / (glad + sad), sad / (glad + sad)]
    )
    assert unknown == {"type": "refusal", "name": None}
    assert predicate["probability"] == pytest.approx(calm)
    assert decided.json["usage"]["input_tokens"] == len(TEXT)
    assert (named_reply.status, named_reply.error["param"]) == (400, "questions.wet")
    assert "Sad, calm, glad" in named_reply.error["message"]


def test_a_cross_encoder_scores_each_statement(ask):
    (decided,) = ask(("/v1/decisions", asked(PREDICATE, CHOICE, model="ranks")))
    predicate, choice = decided.json["answers"]
    odds = [_pair(claim)[0] for claim in ("It rains.", "Which? a", "Which? b")]
    assert predicate["probability"] == pytest.approx(1 / (1 + math.exp(-odds[0])))
    assert choice["choice"] == "ab"[odds[1:].index(max(odds[1:]))]
    assert decided.json["usage"]["output_tokens"] == 0


def test_a_classifier_of_pairs_says_what_follows(ask):
    (decided,) = ask(("/v1/decisions", asked(PREDICATE, SCORE, model="entails")))
    predicate, score = decided.json["answers"]
    against, _, follows = _pair("It rains.", 3)
    assert predicate["probability"] == float(follows > against)
    assert score["score"] in (0, 1)


def _ids(text):
    from fake_decoder import byte_tokenizer

    return byte_tokenizer().encode(text).ids


def _pair(claim, size=1):
    return row_of(_ids(claim) + _ids(TEXT), activate=False, size=size).tolist()


def test_a_long_input_is_not_written_once_for_each_question(ask):
    body = asked(*[PREDICATE] * 400, input="x" * 100_000)
    (reply,) = ask(("/v1/decisions", body | {"model": "judge"}))
    assert (reply.status, reply.json["error"]["param"]) == (400, "questions")
