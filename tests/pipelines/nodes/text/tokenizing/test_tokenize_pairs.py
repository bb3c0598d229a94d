"""Pairs of a query and a document as one text each, in parts where that is asked for."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_nodes import call_of, framed_tokenizer, loaded

from pipelines.base.errors import RequestError
from pipelines.nodes.text.tokenizing.tokenize_pairs import TokenizePairs
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput

TEMPLATE = """{{ instruction | default("judge") }}: \
{{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }} / \
{{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }}"""
TOKENIZER = framed_tokenizer()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("pairs")
    TOKENIZER.save(str(path / "tokenizer.json"))
    (path / "score.jinja").write_text(TEMPLATE)
    (path / "tokenizer_config.json").write_text('{"bos_token": "[CLS]"}')
    return path


@cache
def pairs_node(folder, max_context=16, **settings):
    return loaded(TokenizePairs, folder, max_context, tokenizer="tokenizer.json", **settings)


def pair(query, document):
    return Prompt(text=query, add_special_tokens=True), Prompt(text=document, add_special_tokens=True)


def run(node, *pairs, **fields):
    request = PoolingInput(pairs=[pair(*each) for each in pairs], **fields)
    return node.run(call_of(request), request)


def text(tokens):
    return TOKENIZER.decode(tokens.ids, skip_special_tokens=False)


def test_a_pair_is_what_the_tokenizer_makes_of_it(folder):
    found = run(pairs_node(folder), ("q", "doc"), ("q", ""))
    for tokens, (query, document) in zip(found, [("q", "doc"), ("q", "")], strict=True):
        wanted = TOKENIZER.encode(query, document)
        assert (tokens.ids, tokens.types) == (wanted.ids, wanted.type_ids)
    assert [tokens.of for tokens in found] == [0, 1]


def test_a_prompt_is_put_before_each_query(folder):
    node = pairs_node(folder, query_prompt="find ")
    (found,) = run(node, ("q", "doc"))
    assert found.ids == TOKENIZER.encode("find q", "doc").ids


@settings(max_examples=30)
@given(
    pairs=st.lists(st.tuples(st.text(max_size=12), st.text(max_size=12)), min_size=1, max_size=4),
    most=st.none() | st.integers(3, 12),
)
def test_pairs_together_are_as_each_alone(folder, pairs, most):
    node = pairs_node(folder, 999)
    together = run(node, *pairs, truncate_prompt_tokens=most)
    alone = [run(node, each, truncate_prompt_tokens=most)[0] for each in pairs]
    assert [(each.ids, each.types) for each in together] == [(each.ids, each.types) for each in alone]


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"truncate_prompt_tokens": 8, "truncate_left": False}, "[CLS]qu[SEP]abc[SEP]"),
        ({"truncate_prompt_tokens": 8, "truncate_left": True}, "[CLS]qu[SEP]lmn[SEP]"),
        ({"truncate_prompt_tokens": 3}, "[CLS][SEP][SEP]"),
        ({"max_document_tokens": 2}, "[CLS]qu[SEP]ab[SEP]"),
        ({"max_query_tokens": 1, "max_document_tokens": 1}, "[CLS]q[SEP]a[SEP]"),
    ],
)
def test_a_pair_is_cut_as_asked(folder, fields, kept):
    (tokens,) = run(pairs_node(folder), ("qu", "abcdefghijklmn"), **fields)
    assert text(tokens) == kept


def test_a_pair_that_is_too_long_is_refused_in_vllm_s_words(folder):
    assert len(run(pairs_node(folder), ("qu", "a" * 11))[0].ids) == 16
    with pytest.raises(RequestError, match="contains at least 17 input tokens, which exceeds") as error:
        run(pairs_node(folder), ("qu", "a" * 12))
    assert error.value.field == "input_tokens"


def test_a_document_of_too_many_characters_is_not_read(folder):
    node = pairs_node(folder)
    with pytest.raises(RequestError, match="upper bound"):
        run(node, ("qu", "a" * (node.max_chars + 1)))


@settings(max_examples=50)
@given(
    query=st.text("abc", max_size=20),
    documents=st.lists(st.text("xyz", max_size=60), min_size=1, max_size=3),
    max_context=st.integers(7, 20),
)
def test_chunks_hold_the_whole_document_beside_its_query(folder, query, documents, max_context):
    node = pairs_node(folder, max_context)
    found = run(node, *((query, document) for document in documents), chunk=True)
    assert [tokens.of for tokens in found] == sorted(tokens.of for tokens in found)
    for of, document in enumerate(documents):
        parts = [text(tokens).removeprefix("[CLS]").split("[SEP]") for tokens in found if tokens.of == of]
        assert {part[0] for part in parts} == {query[: max_context // 2]}
        assert "".join(part[1] for part in parts) == document
        assert all(part[2:] == [""] for part in parts)
    assert all(len(tokens.ids) <= max_context for tokens in found)


def test_chunks_are_bounded(folder):
    node = pairs_node(folder, max_allowed_chunks=4)
    with pytest.raises(RequestError, match="^Number of documents exceeds max_allowed_chunks$"):
        run(node, *[("q", "d")] * 5, chunk=True)
    with pytest.raises(RequestError, match="after chunking limit: 4; actual: 5$"):
        run(node, ("q", "d" * (12 * 4 + 1)), chunk=True)


def test_no_room_beside_the_special_tokens_is_said(folder):
    with pytest.raises(RequestError, match="no document fits"):
        run(pairs_node(folder, 6), ("query", "d"), chunk=True)


@pytest.mark.parametrize(
    ("setting", "fields", "begin"),
    [
        ({}, {}, "judge"),
        ({"instruction": "rank"}, {}, "rank"),
        ({"instruction": "rank"}, {"instruction": "sort"}, "sort"),
        ({"instruction": "rank"}, {"template_kwargs": {"instruction": "own"}}, "own"),
    ],
)
def test_a_template_writes_pairs(folder, setting, fields, begin):
    (tokens,) = run(pairs_node(folder, 99, template="score.jinja", **setting), ("q", "d"), **fields)
    assert text(tokens) == f"[CLS]{begin}: q / d[SEP]"
    assert tokens.types is None


def test_a_template_reads_texts_that_were_cut(folder):
    node = pairs_node(folder, 99, template="score.jinja")
    (tokens,) = run(node, ("query", "document"), max_query_tokens=2, max_document_tokens=3)
    assert text(tokens) == "[CLS]judge: qu / doc[SEP]"


@pytest.mark.parametrize("setting", [{}, {"template": "score.jinja"}])
def test_a_request_may_bring_its_own_template(folder, setting):
    node = pairs_node(folder, 99, **setting)
    (tokens,) = run(
        node,
        ("q", "d"),
        chat_template="{{ bos_token }}{% for each in messages %}{{ each.role[0] }}:{{ each.content }};{% endfor %}",
    )
    assert text(tokens) == "[CLS][CLS]q:q;d:d;[SEP]"
    with pytest.raises(RequestError, match="does not compile") as error:
        run(node, ("q", "d"), chat_template="{% if %}")
    assert error.value.field == "chat_template"


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"truncate_prompt_tokens": 9, "truncate_left": False}, "[CLS]judge: [SEP]"),
        ({"truncate_prompt_tokens": 9, "truncate_left": True}, "[CLS]efghijk[SEP]"),
        ({"truncate_prompt_tokens": -1, "max_document_tokens": 1}, "[CLS]judge: qu / a[SEP]"),
    ],
)
def test_what_a_template_wrote_is_cut_as_asked(folder, fields, kept):
    (tokens,) = run(pairs_node(folder, 20, template="score.jinja"), ("qu", "abcdefghijk"), **fields)
    assert text(tokens) == kept


def test_what_a_template_wrote_may_be_too_long(folder):
    with pytest.raises(RequestError, match="contains at least 21 input tokens"):
        run(pairs_node(folder, 20, template="score.jinja"), ("qu", "abcdefghijk"))


def test_a_request_without_pairs_is_read_as_single_texts(folder):
    prompts = [Prompt(text="ab", add_special_tokens=True)]
    request = PoolingInput(prompts=prompts)
    (tokens,) = pairs_node(folder).run(call_of(request), request)
    assert tokens.ids == TOKENIZER.encode("ab").ids


def test_token_ids_are_no_pair(folder):
    request = PoolingInput(pairs=[(Prompt(text="q"), Prompt(ids=[1]))])
    with pytest.raises(RequestError, match="not token ids"):
        pairs_node(folder).run(call_of(request), request)


@settings(max_examples=50)
@given(
    query=st.text("abc", max_size=30), document=st.text("xyä\n", max_size=60), max_context=st.integers(36, 50)
)
def test_with_a_template_chunks_hold_the_whole_document_too(folder, query, document, max_context):
    found = run(pairs_node(folder, max_context, template="score.jinja"), (query, document), chunk=True)
    kept = query[: max_context // 2]
    parts = [text(tokens).removeprefix(f"[CLS]judge: {kept} / ").removesuffix("[SEP]") for tokens in found]
    assert "".join(parts) == document
    assert all(len(tokens.ids) <= max_context and tokens.of == 0 for tokens in found)


@pytest.mark.parametrize("around", [13, 20, 21])
def test_little_room_beside_a_template_s_words_is_used(folder, around):
    """`[CLS]judge: q / [SEP]` are 13 tokens."""
    node = pairs_node(folder, around + 1, template="score.jinja")
    found = run(node, ("q" * (around - 12), "abc"), chunk=True)
    assert "".join(text(tokens)[-6] for tokens in found) == "abc"
    with pytest.raises(RequestError, match="no document fits"):
        run(pairs_node(folder, 13, template="score.jinja"), ("q", "d"), chunk=True)


def test_chunks_of_a_template_belong_to_their_pairs(folder):
    node = pairs_node(folder, 32, template="score.jinja")
    assert [tokens.of for tokens in run(node, ("q", "d"), ("q", "d" * 20), ("q", ""), chunk=True)] == [
        0,
        1,
        1,
        2,
    ]
