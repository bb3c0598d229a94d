"""Bodies of decisions that do not fit: each is a 400 that names the place."""

from one_test import in_one_test

PREDICATE = {"type": "predicate", "instructions": "It rains."}
CHOICE = {"type": "choice", "instructions": "Which?", "choices": [{"value": "a"}, {"value": "b"}]}
SCORE = {"type": "score", "instructions": "How much?", "levels": [{"label": "low"}, {"label": "high"}]}
DEEP: dict = {}
for _ in range(40):
    DEEP = {"in": DEEP}


def asked(*questions, **fields):
    return {"model": "tiny", "input": "It is wet outside.", "questions": [*questions], **fields}


def named(question, **fields):
    return {"model": "tiny", "state": "It is wet outside.", "questions": {"wet": question}, **fields}


WRONG = [
    (asked(), "questions"),
    (asked(PREDICATE, input=""), "input"),
    (asked(PREDICATE, input=[]), "input"),
    (asked(PREDICATE, input=5), "input"),
    (
        asked(PREDICATE, input=[{"role": "user", "content": [{"type": "input_audio"}]}]),
        "input.0.content.0.input_audio",
    ),
    (asked(PREDICATE, input=[{"type": "item_reference", "id": "m"}]), "input.0"),
    (asked(PREDICATE, input=[{"type": "song"}]), "input.0.type"),
    (asked(*[PREDICATE] * 401), "questions"),
    (asked({"type": "guess", "instructions": "?"}), "questions.0.type"),
    (asked({"type": "predicate"}), "questions.0.instructions"),
    (asked({**PREDICATE, "instructions": [{"type": "video"}]}), "questions.0.instructions.0"),
    (asked({**PREDICATE, "instructions": 7}), "questions.0.instructions"),
    (asked({**PREDICATE, "choices": CHOICE["choices"]}), "questions.0.choices"),
    (asked(PREDICATE, {**CHOICE, "choices": [{"value": "a"}]}), "questions.1.choices"),
    (asked({**CHOICE, "choices": [{"value": "a"}, {"value": "a"}]}), "questions.0.choices"),
    (asked({**CHOICE, "choices": [{"value": 1}, {"value": 2}]}), "questions.0.choices.0.value.bool"),
    (asked({**CHOICE, "choices": [{"value": str(i)} for i in range(256)]}), "questions.0.choices"),
    (asked({"type": "score", "instructions": "?"}), "questions.0.levels"),
    (asked({**SCORE, "levels": [{"label": str(i)} for i in range(11)]}), "questions.0.levels"),
    (asked(PREDICATE, min_label_mass=2), "min_label_mass"),
    (asked(PREDICATE, cache_salt=""), "cache_salt"),
    (named({"type": "predicate", "instructions": "?"}), "questions.wet.type"),
    (named({"type": "noul"}), "questions.wet"),
    (named({"type": "noul", "criteria": {"maybe": "?"}}), "questions.wet.criteria"),
    (named({"type": "choice", "instructions": "?", "criteria": []}), "questions.wet.criteria"),
    (named({"type": "score", "instructions": "?", "criteria": {}}), "questions.wet.criteria"),
    (named({"type": "noul", "instructions": "?"}, state=DEEP), "state"),
]


@in_one_test("body, param", WRONG)
def test_a_wrong_body_names_its_place(rig, body, param):
    found = rig.post("/v1/decisions", body)
    assert (found.status, found.error["param"]) == (400, param), found.error
    assert not rig.pipeline.calls


def test_a_value_may_be_true_and_the_text_of_it(make_rig):
    from server.apis.decisions.openai_request import DecisionRequest

    question = {**CHOICE, "choices": [{"value": True}, {"value": "true"}]}
    read = DecisionRequest.model_validate(asked(question)).decision().questions[0]
    assert [option.text for option in read.options] == ["true", '"true"']


def test_unknown_models(rig):
    found = rig.post("/v1/systemone", named({"type": "noul", "instructions": "?"}, model="no"))
    assert found.status == 404
