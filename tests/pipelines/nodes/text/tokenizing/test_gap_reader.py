"""Prompts of texts with a gap, in the form of each family, by the tokens of its vocabulary."""

from __future__ import annotations

import pytest
from fake_decoder import byte_tokenizer
from tokenizers import AddedToken

from pipelines.base.errors import RequestError
from pipelines.nodes.text.tokenizing.gap_reader import GapReader
from pipelines.nodes.text.tokenizing.text_reader import TextReader
from pipelines.nodes.text.tokenizing.tokenize import Tokenize
from pipelines.values.node_values import Gap

QWEN = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>")
STARCODER = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<fim_pad>", "<repo_name>", "<file_sep>")
DEEPSEEK = ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>")
CODESTRAL = ("[PREFIX]", "[SUFFIX]", "[MIDDLE]")
MELLUM = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<filename>")
SEED = ("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>")
CODE_LLAMA = ("▁<PRE>", "▁<SUF>", "▁<MID>")
GLM = ("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>")


def node_with(*tokens, special=True):
    """A tokenize node whose tokenizer has these tokens, without its file."""
    node = Tokenize(Tokenize.Config(tokenizer="tokenizer.json"), None)
    node.tokenizer = byte_tokenizer()
    node.tokenizer.add_special_tokens([AddedToken(token, special=special) for token in tokens])
    node.reader = TextReader(node.tokenizer, 0)
    return node


def written(node, gap):
    """The prompt as text; each token has brackets of its own around it where it is none of a text."""
    ids = node.gaps.ids(gap, lambda ids: ids)
    return node.tokenizer.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (QWEN, "<|fim_prefix|>a<|fim_suffix|>z<|fim_middle|>"),
        (STARCODER, "<fim_prefix>a<fim_suffix>z<fim_middle>"),
        (DEEPSEEK, "<｜fim▁begin｜>a<｜fim▁hole｜>z<｜fim▁end｜>"),
        (CODE_LLAMA, "▁<PRE>a▁<SUF>z▁<MID>"),
        (CODESTRAL, "[SUFFIX]z[PREFIX]a"),
        (MELLUM, "<fim_suffix>z<fim_prefix>a<fim_middle>"),
        (SEED, "<[fim-suffix]>z<[fim-prefix]>a<[fim-middle]>"),
        (GLM, "<|code_suffix|>z<|code_prefix|>a<|code_middle|>"),
    ],
)
def test_each_family_has_its_form(tokens, text):
    assert written(node_with(*tokens), Gap("a", "z")) == text


def test_other_files_come_first_as_llama_cpp_writes_them():
    gap = Gap("a", "z", (("x.py", "x = 1"), ("y.py", "y = 2\n")))
    assert written(node_with(*QWEN), gap) == (
        "<|repo_name|>myproject\n<|file_sep|>x.py\nx = 1<|file_sep|>y.py\ny = 2\n<|file_sep|>filename\n"
        "<|fim_prefix|>a<|fim_suffix|>z<|fim_middle|>"
    )
    assert written(node_with(*DEEPSEEK), gap) == (
        "\n\n--- snippet ---\n\nx = 1\n\n--- snippet ---\n\ny = 2\n"
        "<｜fim▁begin｜>a<｜fim▁hole｜>z<｜fim▁end｜>"
    )


@pytest.mark.parametrize("special", [True, False])
def test_what_looks_like_a_token_is_text(special):
    node = node_with(*QWEN, special=special)
    ids = node.gaps.ids(Gap("a<|fim_suffix|>b", "<|im_end|>"), lambda ids: ids)
    form = node.gaps.form
    assert [ids.count(token) for token in (form.prefix, form.suffix, form.middle)] == [1, 1, 1]
    assert node.tokenizer.token_to_id("<|im_end|>") not in ids
    text = "<|fim_prefix|>a<|fim_suffix|>b<|fim_suffix|><|im_end|><|fim_middle|>"
    assert node.tokenizer.decode(ids, skip_special_tokens=False) == text


def test_far_ends_are_cut_where_there_is_no_room():
    gap = Gap("a" * 50 + "b" * 50, "y" * 9 + "z" * 91, (("x", "x" * 100),), room=40)
    node = node_with(*QWEN)
    ids = node.gaps.ids(gap, lambda ids: ids)
    assert node.tokenizer.decode(ids, skip_special_tokens=False) == (
        "<|fim_prefix|>" + "b" * 30 + "<|fim_suffix|>" + "y" * 9 + "z<|fim_middle|>"
    )


def test_the_tokens_of_files_end_what_fills_the_gap():
    node = node_with(*QWEN)
    ends = {node.tokenizer.token_to_id(token) for token in ("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>")}
    assert ends < {*node.gaps.form.stops}


def test_a_vocabulary_without_the_tokens_is_named():
    node = node_with("<|fim_prefix|>")
    with pytest.raises(
        RequestError, match="suffix is only supported for models with FIM completion rendering"
    ):
        node.gaps.ids(Gap("a", "z"), lambda ids: ids)
    assert isinstance(node.gaps, GapReader)
