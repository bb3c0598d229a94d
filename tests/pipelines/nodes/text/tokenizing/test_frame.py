"""A frame learned from one example is what the tokenizer puts around every text."""

import pytest
from fake_decoder import byte_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from prompt_nodes import framed_tokenizer
from tokenizers.processors import BertProcessing, RobertaProcessing, TemplateProcessing

from pipelines.nodes.text.tokenizing.tokenizer import TokenizerFrame

FRAMED = framed_tokenizer()
CLS, SEP = (("[CLS]", FRAMED.token_to_id("[CLS]")), ("[SEP]", FRAMED.token_to_id("[SEP]")))
POST_PROCESSORS = {
    "bert": BertProcessing(SEP, CLS),
    "roberta": RobertaProcessing(SEP, CLS),
    "template": FRAMED.post_processor,
    "begin of text": TemplateProcessing(single="[CLS] $A", pair="[CLS] $A $B:1", special_tokens=[CLS]),
    "end of text": TemplateProcessing(
        single="$A [SEP]", pair="$A:0 [SEP]:0 $B:0 [SEP]:0", special_tokens=[SEP]
    ),
    "document first": TemplateProcessing(
        single="$A", pair="[CLS] $B:1 [SEP] $A:0", special_tokens=[CLS, SEP]
    ),
}


def ids(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("kind", POST_PROCESSORS)
@given(first=st.text(max_size=9), second=st.text(max_size=9), special=st.booleans())
def test_a_frame_gives_what_the_tokenizer_gives(kind, first, second, special):
    tokenizer = framed_tokenizer()
    tokenizer.post_processor = POST_PROCESSORS[kind]
    for texts in ([first], [first, second]):
        wanted = tokenizer.encode(*texts, add_special_tokens=special)
        found, types = TokenizerFrame.learned(tokenizer, len(texts), special).around(
            *(ids(tokenizer, t) for t in texts)
        )
        assert found == wanted.ids
        assert (types or [0] * len(found)) == wanted.type_ids


def test_types_without_special_tokens_are_a_default_that_says_nothing():
    tokenizer = byte_tokenizer()
    assert tokenizer.encode("a", "b").type_ids == [0, 1]
    assert TokenizerFrame.learned(tokenizer, 2, True).around([1, 2], [3]) == ([1, 2, 3], None)


def test_special_tokens_are_counted():
    tokenizer = framed_tokenizer()
    counts = [
        TokenizerFrame.learned(tokenizer, n, special).num_special for n in (1, 2) for special in (False, True)
    ]
    assert counts == [0, 2, 0, 3]
