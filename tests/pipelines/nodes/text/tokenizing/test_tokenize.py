"""Prompts that a model goes on with, cut to size; texts that it only reads."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from breadth import after
from prompt_nodes import call_of, framed_tokenizer
from tokenizers import Tokenizer

from pipelines.base.errors import ContextTooLong, RequestError
from pipelines.loading.load import Resources
from pipelines.nodes.text.tokenizing.tokenize import Tokenize
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput, PoolingInput
from pipelines.wire.address import EngineAddress

DEMO = Path(__file__).parents[5] / "model_repo" / "braid-demo"


def tokenize_node(tokenizer, tmp_path, max_context=16, **settings):
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    node = Tokenize(Tokenize.Config(tokenizer="tokenizer.json", **settings), tmp_path)
    node.load(Resources(EngineAddress("m", 1, ""), max_context))
    return node


def run(node, prompts, **fields):
    """What the node returns for a request."""
    return node.run(SimpleNamespace(request=GenerationInput(**fields)), prompts)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, " A b\n"),
        ({"strip": True}, "A b"),
        ({"lowercase": True}, " a b\n"),
        ({"strip": True, "lowercase": True}, "a b"),
    ],
)
def test_texts_are_cleaned_as_the_graph_says(tokenizer, tmp_path, settings, text):
    node = tokenize_node(tokenizer, tmp_path, **settings)
    prompts = [Prompt(text=" A b\n"), Prompt(text=" A b\n", is_rendered=True), Prompt(ids=[1])]
    cleaned, rendered, ids = node.run(SimpleNamespace(request=PoolingInput()), prompts)
    assert (tokenizer.decode(cleaned.ids), tokenizer.decode(rendered.ids)) == (text, " A b\n")
    assert ids.ids == [1]


def test_text_that_cannot_fit_is_refused_before_it_is_read(tokenizer, tmp_path):
    node = tokenize_node(tokenizer, tmp_path)
    with pytest.raises(ContextTooLong, match="input characters") as error:
        run(node, [Prompt(text="a" * (node.max_chars + 1))])
    assert error.value.field == "prompt"
    (kept,) = run(node, [Prompt(text="a" * (node.max_chars + 1))], truncate_prompt_tokens=2)
    assert len(kept.ids) == 2


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({}, "abcdefgh"),
        ({"truncate_prompt_tokens": 3}, "fgh"),
        ({"truncate_prompt_tokens": 3, "truncate_left": False}, "abc"),
        ({"truncate_prompt_tokens": 16}, "abcdefgh"),
        ({"truncate_prompt_tokens": -1}, "abcdefgh"),
    ],
)
def test_prompts_are_cut_as_asked(tokenizer, tmp_path, fields, kept):
    ids = [tokenizer.encode(char).ids[0] for char in "abcdefgh"]
    wanted = [tokenizer.encode(char).ids[0] for char in kept]
    (found,) = run(tokenize_node(tokenizer, tmp_path), [Prompt(ids=ids)], **fields)
    assert found.ids == wanted


def test_minus_one_leaves_room_for_one_token(tokenizer, tmp_path):
    (tokens,) = run(
        tokenize_node(tokenizer, tmp_path, 8), [Prompt(ids=list(range(20)))], truncate_prompt_tokens=-1
    )
    assert tokens.ids == list(range(13, 20))


@pytest.mark.parametrize("kept", [0, -2, 17])
def test_a_size_that_no_prompt_can_have_is_refused(tokenizer, tmp_path, kept):
    with pytest.raises(RequestError) as error:
        run(tokenize_node(tokenizer, tmp_path), [Prompt(ids=[1])], truncate_prompt_tokens=kept)
    assert error.value.field == "truncate_prompt_tokens"


def test_the_beginning_of_the_reply_follows_the_prompt(tokenizer, tmp_path):
    begun = tokenizer.encode("ab").ids
    (found,) = run(tokenize_node(tokenizer, tmp_path), [Prompt(ids=[5, 6])], completion_ids=begun)
    assert found.ids == [5, 6, *begun]
    assert found.reply_text == "ab"


def test_parsers_read_how_a_prompt_in_ids_ends(tokenizer, tmp_path):
    ids = tokenizer.encode("<|im_start|>assistant\n<think>\n").ids
    (found,) = run(tokenize_node(tokenizer, tmp_path), [Prompt(ids=ids)])
    assert found.prompt_text.endswith("<think>\n")
    (found,) = run(tokenize_node(tokenizer, tmp_path), [Prompt(ids=ids)], parse_reasoning=False)
    assert found.prompt_text == ""


def test_a_prompt_s_text_goes_with_its_tokens(tokenizer, tmp_path):
    first, second = run(tokenize_node(tokenizer, tmp_path), [Prompt(text="ab"), Prompt(text="c")])
    assert (first.prompt_text, second.prompt_text) == ("ab", "c")


class Counted:
    """A tokenizer that counts the characters it reads."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.num_chars = 0

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)

    def encode_batch(self, texts, **options):
        self.num_chars += sum(map(len, texts))
        return self.tokenizer.encode_batch(texts, **options)


LONG = "".join(f"{i} is a number, {i * 7919} another.\n" for i in range(15_000))
"""Half a million characters."""


@pytest.fixture(scope="module")
def whole():
    """The tokens of `LONG`."""
    return Tokenizer.from_file(str(DEMO / "model/tokenizer.json")).encode(LONG, add_special_tokens=False).ids


@pytest.fixture
def demo():
    node = Tokenize(Tokenize.Config(tokenizer="model/tokenizer.json"), DEMO)
    node.load(Resources(EngineAddress("m", 1, ""), 4096))
    node.tokenizer = node.reader.tokenizer = Counted(node.tokenizer)
    return node


def test_a_long_text_is_read_as_far_as_it_can_fit(demo):
    with pytest.raises(
        RequestError, match="4096 tokens. However, your prompt contains at least 4097"
    ) as error:
        run(demo, [Prompt(text=LONG[: demo.max_chars])])
    assert error.value.field == "prompt"
    assert 0 < demo.tokenizer.num_chars < 200_000


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("kept", after(2, [1, 4096, 1000]))
def test_a_long_text_that_is_cut_is_read_as_far_as_it_is_kept(demo, kept, left, whole):
    (found,) = run(demo, [Prompt(text=LONG)], truncate_prompt_tokens=kept, truncate_left=left)
    read = demo.tokenizer.num_chars
    assert found.ids == (whole[-kept:] if left else whole[:kept])
    assert read < 200_000 + kept * demo.reader.chars_per_token


@pytest.mark.parametrize("left", [True, False])
def test_a_long_text_to_embed_that_is_cut_is_read_as_far_as_it_is_kept(demo, left, whole):
    fields = {"truncate_prompt_tokens": 1000, "truncate_left": left}
    (found,) = texts(demo, [Prompt(text=LONG)], **fields)
    read = demo.tokenizer.num_chars
    assert found.ids == (whole[-1000:] if left else whole[:1000])
    assert read < 200_000 + 1000 * demo.reader.chars_per_token


def test_the_beginning_of_a_long_text_is_cut_without_reading_the_rest(demo):
    begun = demo.reader.cut_text(LONG, 10)
    assert demo.tokenizer.num_chars < 100_000
    assert demo.tokenizer.encode(begun).ids == demo.tokenizer.encode(LONG[:1000]).ids[:10]


def texts(node, prompts, **fields):
    """The tokens of a pooling request."""
    return node.run(call_of(PoolingInput(prompts=prompts, **fields)), prompts)


def test_texts_of_a_pooling_request_are_read_together(tmp_path):
    tokenizer = framed_tokenizer()
    node = tokenize_node(tokenizer, tmp_path)
    prompts = [
        Prompt(text="ab", add_special_tokens=True),
        Prompt(ids=[5, 6, 7]),
        Prompt(text="", add_special_tokens=True),
        Prompt(text="abc"),
    ]
    tokens = texts(node, prompts)
    wanted = [tokenizer.encode("ab").ids, [5, 6, 7], tokenizer.encode("").ids]
    assert [token.ids for token in tokens] == [*wanted, tokenizer.encode("abc", add_special_tokens=False).ids]
    assert [token.of for token in tokens] == [0, 1, 2, 3]
    assert [token.types for token in tokens] == [None] * 4


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"truncate_prompt_tokens": 5, "truncate_left": False}, "abc"),
        ({"truncate_prompt_tokens": 5}, "jkl"),
        ({"truncate_prompt_tokens": -1, "truncate_left": False}, "abcdef"),
        ({"truncate_prompt_tokens": 1, "truncate_left": False}, ""),
    ],
)
def test_a_text_that_is_cut_keeps_its_special_tokens(tmp_path, fields, kept):
    tokenizer = framed_tokenizer()
    node = tokenize_node(tokenizer, tmp_path, max_context=8)
    (tokens,) = texts(node, [Prompt(text="abcdefghijkl", add_special_tokens=True)], **fields)
    assert tokens.ids == tokenizer.encode(kept).ids


@pytest.mark.parametrize(("left", "kept"), [(True, [17, 18, 19]), (False, [0, 1, 2])])
def test_ids_are_cut_plainly(tmp_path, left, kept):
    node = tokenize_node(framed_tokenizer(), tmp_path)
    prompts = [Prompt(ids=list(range(20)))]
    (tokens,) = texts(node, prompts, truncate_prompt_tokens=3, truncate_left=left)
    assert tokens.ids == kept


@pytest.mark.parametrize(
    ("prompt", "contained"),
    [(Prompt(ids=[1] * 20), "contains 20 input"), (Prompt(text="a" * 20), "contains at least 17 input")],
)
def test_a_text_may_fill_the_context_and_not_more(tmp_path, prompt, contained):
    node = tokenize_node(framed_tokenizer(), tmp_path)
    assert len(texts(node, [Prompt(text="a" * 14, add_special_tokens=True)])[0].ids) == 16
    with pytest.raises(ContextTooLong, match="maximum context length is 16 tokens.*" + contained) as error:
        texts(node, [Prompt(ids=[1]), prompt])
    assert error.value.field == "input_tokens"


def test_a_text_of_too_many_characters_is_not_read(tmp_path):
    node = tokenize_node(framed_tokenizer(), tmp_path)
    with pytest.raises(ContextTooLong, match="characters, which is the upper bound") as error:
        texts(node, [Prompt(text="a" * (node.max_chars + 1))])
    assert error.value.field == "input_text"


@pytest.mark.parametrize("prompt", [Prompt(text=""), Prompt(ids=[])])
def test_a_text_without_tokens_is_refused(tmp_path, prompt):
    with pytest.raises(RequestError, match="^The decoder prompt cannot be empty$"):
        texts(tokenize_node(framed_tokenizer(), tmp_path), [Prompt(text="a"), prompt])


def test_a_conversation_without_a_template_is_refused(tmp_path):
    with pytest.raises(RequestError, match="chat_template"):
        texts(tokenize_node(framed_tokenizer(), tmp_path), [], conversations=[[]])
