"""Text that can be copied and drafted: the model follows a chain of tokens, and prompts hold it or mislead."""

import numpy as np
import pytest

from tools.lab.bench.bigram_chain import chain, ordinary, similar_successors, successors
from tools.lab.bench.making import MISLED_TOKENS, make_load
from tools.lab.bench.shapes import AGREEMENT, DRAFTS, SHAPES
from tools.lab.bench.weights import LIKELIHOOD, write_bigram_model
from tools.lab.bench.workloads import QUICK, WORKLOADS

VOCABULARY = 4000


@pytest.mark.parametrize("vocab_size", [64, 2048, VOCABULARY])
def test_a_chain_has_every_ordinary_token_before_it_repeats_one(vocab_size):
    usual = ordinary(vocab_size)
    assert sorted(chain(vocab_size, usual[5], len(usual))) == list(usual)
    assert sorted(successors(vocab_size)) == list(range(vocab_size))


def test_a_draft_has_other_successors_for_its_share():
    same, usual = similar_successors(VOCABULARY, AGREEMENT) == successors(VOCABULARY), ordinary(VOCABULARY)
    assert same[list(usual)].mean() == pytest.approx(AGREEMENT, abs=1e-3)
    assert sorted(similar_successors(VOCABULARY, AGREEMENT)) == list(range(VOCABULARY))
    for start in range(400, 3400, 600):
        assert same[chain(VOCABULARY, start, 200)].mean() == pytest.approx(AGREEMENT, abs=0.12)


def answers(load):
    return [chain(VOCABULARY, one.prompt[-1], one.output_tokens + 1)[1:] for one in load.requests]


def holds(prompt, tokens):
    text, part = (np.array(ids, np.int64).tobytes() for ids in (prompt, tokens))
    return part in text


@pytest.mark.parametrize("name", [name for name, one in WORKLOADS.items() if not one.misleading])
def test_the_prompts_that_should_hold_their_answer_do(name):
    one = WORKLOADS[name]
    load = make_load(one, 3, VOCABULARY)
    held = [holds(each.prompt, answer) for each, answer in zip(load.requests, answers(load), strict=True)]
    assert sum(held) == one.copying * one.requests


def test_the_quick_copies_are_held_too():
    load = make_load(QUICK["copying"], 3, VOCABULARY)
    assert holds(load.requests[0].prompt, answers(load)[0])


def test_copies_lie_among_others():
    load = make_load(WORKLOADS["half copying, 8 streams"], 3, VOCABULARY)
    held = [holds(each.prompt, answer) for each, answer in zip(load.requests, answers(load), strict=True)]
    assert held == [False, True] * 4


def test_a_misleading_prompt_is_wrong_about_every_token():
    one = WORKLOADS["misleading"]
    load = make_load(one, 3, VOCABULARY)
    for each, answer in zip(load.requests, answers(load), strict=True):
        assert len(each.prompt) == one.prompt_tokens
        text = [each.prompt[-1], *answer]
        for end in range(MISLED_TOKENS, one.output_tokens - 4):
            piece = text[end - MISLED_TOKENS : end]
            assert holds(each.prompt, piece)
            assert not holds(each.prompt, [*piece, text[end]])


@pytest.mark.parametrize("shape", [SHAPES["tiny"], DRAFTS["tiny"]])
def test_the_model_writes_the_chain(tmp_path, shape):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    after = successors(shape["vocab_size"])
    write_bigram_model(shape, after, tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    asked = torch.randint(shape["vocab_size"], (1, 400), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        chances = model(asked).logits.float().softmax(-1)[0].numpy()
    assert (chances.argmax(-1) == after[asked[0].numpy()]).all()
    assert np.median(chances.max(-1)) == pytest.approx(LIKELIHOOD, abs=0.03)
    assert len(transformers.AutoTokenizer.from_pretrained(tmp_path)) == shape["vocab_size"]
