"""What new models begin with: words keep their meaning, and like words of two texts find each other."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import BertModel  # noqa: E402

from tools.train_demo.pooling.encoder import begin, config, inputs  # noqa: E402
from tools.train_demo.pooling.sizes import SIZE  # noqa: E402
from tools.train_demo.pooling.training import rate_share  # noqa: E402
from tools.train_demo.pooling.words import SPECIALS, new_tokenizer  # noqa: E402

WORDS = [*SPECIALS, "red", "fox", "owl", "blue", "##s", "?"]


@pytest.fixture(scope="module")
def tokenizer():  # type: ignore[no-untyped-def]
    return new_tokenizer({word: number for number, word in enumerate(WORDS)})


def test_pairs_are_framed_as_bert_reads_them(tokenizer) -> None:  # type: ignore[no-untyped-def]
    read = inputs(tokenizer, [("Red fox?", "owls"), ("owl", "owl")])
    first = [WORDS[token] for token in read["input_ids"][0].tolist()]
    assert first == ["[CLS]", "red", "fox", "?", "[SEP]", "owl", "##s", "[SEP]"]
    assert read["token_type_ids"][0].tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert read["attention_mask"].sum(1).tolist() == [8, 5]


def test_a_matching_head_looks_at_the_same_word_of_the_other_text(tokenizer) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(3)
    vectors = (0.08 * np.random.default_rng(3).standard_normal((len(WORDS), SIZE))).astype(np.float32)
    model = BertModel(config(1, len(WORDS)), add_pooling_layer=False).eval()
    model.set_attn_implementation("eager")
    begin(model, vectors, num_matching=2)
    read = inputs(tokenizer, [("red fox owl", "blue owl red fox")])
    with torch.inference_mode():
        attention = model(**read, output_attentions=True).attentions[0][0]
    looks_at = attention[:2, 1:4].argmax(-1).tolist()
    assert looks_at == [[7, 8, 6], [7, 8, 6]]


def test_the_learning_rate_rises_and_falls() -> None:
    shares = [rate_share(step / 100) for step in range(101)]
    assert max(shares) == pytest.approx(1, abs=0.01)
    assert shares[0] < 0.01
    assert shares[-1] == pytest.approx(0, abs=1e-6)
