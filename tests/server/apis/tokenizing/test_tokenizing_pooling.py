"""tokenize and its kin on models that generate no text: real nodes of their graphs, no engine."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from pooled_calls import PooledPipeline
from prompt_nodes import framed_tokenizer, loaded

from pipelines.nodes.text.tokenizing.tokenize import Tokenize
from pipelines.nodes.text.tokenizing.tokenize_pairs import TokenizePairs
from server.apis.tokenizing.request import MAX_PADDED_IDS, TokenizeTexts

TOKENIZER = framed_tokenizer()
CLS, SEP = (TOKENIZER.token_to_id(token) for token in ("[CLS]", "[SEP]"))
HI = TOKENIZER.encode("hi", add_special_tokens=False).ids
FRAMED = [CLS, *HI, SEP]


@pytest.fixture
def make(make_rig, tmp_path):
    TOKENIZER.save(str(tmp_path / "tokenizer.json"))

    def rig(task):
        pipeline = PooledPipeline(task)
        kind = TokenizePairs if task == "rerank" else Tokenize
        node = loaded(kind, tmp_path, 512, tokenizer="tokenizer.json")
        pipeline.lines = [SimpleNamespace(node=node)]
        return make_rig(pipeline)

    return rig


@pytest.mark.parametrize("task", ["embed", "token_embed", "classify", "rerank"])
def test_a_prompt_as_vllm_shows_it(make, task):
    rig = make(task)
    reply = {"count": len(FRAMED), "max_model_len": 512, "tokens": FRAMED, "token_strs": None}
    assert rig.post("/tokenize", {"model": "tiny", "prompt": "hi"}).json == reply
    bare = rig.post(
        "/tokenize", {"prompt": "hi", "add_special_tokens": False, "return_token_strs": True}
    ).json
    assert (bare["tokens"], bare["token_strs"]) == (HI, ["h", "i"])
    text = TOKENIZER.decode(FRAMED, False)
    assert rig.post("/detokenize", {"tokens": FRAMED}).json == {"prompt": text, "content": text}
    described = rig.get("/tokenizer_info").json
    assert described["added_tokens_decoder"][str(CLS)] == "[CLS]"
    assert described["chat_template"] is None


@pytest.mark.parametrize(
    ("task", "fields", "wanted"),
    [
        ("embed", {}, FRAMED),
        ("embed", {"add_special_tokens": False}, HI),
        ("classify", {}, FRAMED),
        ("rerank", {}, HI),
        ("rerank", {"add_special_tokens": True}, HI),
    ],
)
def test_a_text_as_openvino_shows_it(make, task, fields, wanted):
    body = {"model": "tiny", "text": ["hi"], **fields}
    assert make(task).post("/v3/tokenize", body).json == {"tokens": [wanted]}


def test_a_model_without_a_template_holds_no_conversation(make):
    answer = make("embed").post("/tokenize", {"messages": [{"role": "user", "content": "hi"}]})
    assert (answer.status, answer.error["param"]) == (400, "model")


def test_a_short_body_may_ask_for_many_ids(make, monkeypatch):
    rig, threads, padded = make("embed"), [], TokenizeTexts._padded

    def recorded(*parts):
        threads.append(threading.current_thread())
        return padded(*parts)

    monkeypatch.setattr(TokenizeTexts, "_padded", recorded)
    body = {"text": "hi", "max_length": MAX_PADDED_IDS - 1, "pad_to_max_length": True}
    assert len(rig.post("/tokenize", body).json["tokens"]) == MAX_PADDED_IDS - 1
    assert threading.main_thread() not in threads
    answer = rig.post("/tokenize", {**body, "text": ["hi", "hi"]})
    assert (answer.status, answer.error["param"]) == (400, "max_length")
