"""The nodes before the engine: a request's own template and kwargs, and prompts cut to size."""

from types import SimpleNamespace

import pytest
from fake_models import CHAT_TEMPLATE

from pipelines.build import Resources
from pipelines.errors import RequestError
from pipelines.nodes.text import ChatTemplate, Tokenize
from pipelines.tasks import Generation
from pipelines.values import Prompt
from pipelines.work import EngineAddress

USER = [{"role": "user", "content": "Hello"}]
MOODY = "{{ mood | default('calm') }} {{ messages[0].content }}"


def template_node(tmp_path, source=CHAT_TEMPLATE, **settings):
    (tmp_path / "chat_template.jinja").write_text(source)
    node = ChatTemplate(ChatTemplate.Config(template="chat_template.jinja", **settings), tmp_path)
    node.load(Resources(EngineAddress("m", 1, "")))
    return node


def tokenize_node(tokenizer, tmp_path, max_context=16):
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    node = Tokenize(Tokenize.Config(tokenizer="tokenizer.json"), tmp_path)
    node.load(Resources(EngineAddress("m", 1, ""), max_context))
    return node


def run(node, prompts, **fields):
    """The call after the node ran, and the ids it gave."""
    call = SimpleNamespace(request=Generation(**fields), prompt_text="", reply_text="", prompt_ids=[])
    return call, [tokens.ids for tokens in node.run(call, prompts)]


def test_a_request_may_bring_its_own_template(tmp_path):
    node = template_node(tmp_path)
    request = Generation(messages=USER, chat_template="<{{ messages[0].content }}>")
    assert node.text(request) == "<Hello>"
    assert node.template_for(request) is node.template_for(request)


@pytest.mark.parametrize(
    "source", ["{% if %}", "{{ raise_exception('no') }}", "x" * (1 << 21), "{{ ''.__class__.x }}"]
)
def test_a_request_s_template_that_fails_is_the_request_s_fault(tmp_path, source):
    with pytest.raises(RequestError) as error:
        template_node(tmp_path).text(Generation(messages=USER, chat_template=source))
    assert error.value.field == "chat_template"


def test_a_conversation_that_the_model_s_template_refuses_is_named(tmp_path):
    with pytest.raises(RequestError) as error:
        template_node(tmp_path, "{{ raise_exception('no') }}").text(Generation(messages=USER))
    assert error.value.field == "messages"


@pytest.mark.parametrize(
    ("settings", "kwargs", "text"),
    [
        ({}, {}, "calm Hello"),
        ({"kwargs": {"mood": "glad"}}, {}, "glad Hello"),
        ({"kwargs": {"mood": "glad"}}, {"mood": "sad"}, "sad Hello"),
    ],
)
def test_variables_of_the_graph_and_of_the_request(tmp_path, settings, kwargs, text):
    node = template_node(tmp_path, MOODY, **settings)
    assert node.text(Generation(messages=USER, template_kwargs=kwargs)) == text


def test_a_template_says_what_it_reads(tmp_path):
    assert template_node(tmp_path, MOODY).template.variables == {"mood", "messages"}


def test_the_graph_may_say_how_content_is_read(tmp_path):
    node = template_node(tmp_path, "{{ messages[0].content }}", content_format="openai")
    assert node.text(Generation(messages=USER)) == "[{'type': 'text', 'text': 'Hello'}]"


def test_text_that_cannot_fit_is_refused_before_it_is_read(tokenizer, tmp_path):
    node = tokenize_node(tokenizer, tmp_path)
    with pytest.raises(RequestError, match="input characters") as error:
        run(node, [Prompt(text="a" * (node.max_chars + 1))])
    assert error.value.field == "prompt"
    _, (kept,) = run(node, [Prompt(text="a" * (node.max_chars + 1))], truncate_prompt_tokens=2)
    assert len(kept) == 2


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
    call, found = run(tokenize_node(tokenizer, tmp_path), [Prompt(ids=ids)], **fields)
    assert found == call.prompt_ids == [wanted]


def test_minus_one_leaves_room_for_one_token(tokenizer, tmp_path):
    call, (ids,) = run(
        tokenize_node(tokenizer, tmp_path, 8), [Prompt(ids=list(range(20)))], truncate_prompt_tokens=-1
    )
    assert ids == list(range(13, 20))


@pytest.mark.parametrize("kept", [0, -2, 17])
def test_a_size_that_no_prompt_can_have_is_refused(tokenizer, tmp_path, kept):
    with pytest.raises(RequestError) as error:
        run(tokenize_node(tokenizer, tmp_path), [Prompt(ids=[1])], truncate_prompt_tokens=kept)
    assert error.value.field == "truncate_prompt_tokens"


def test_the_beginning_of_the_reply_follows_the_prompt(tokenizer, tmp_path):
    begun = tokenizer.encode("ab").ids
    call, found = run(tokenize_node(tokenizer, tmp_path), [Prompt(ids=[5, 6])], completion_ids=begun)
    assert found == [[5, 6, *begun]]
    assert call.reply_text == "ab"


def test_parsers_read_how_a_prompt_in_ids_ends(tokenizer, tmp_path):
    ids = tokenizer.encode("<|im_start|>assistant\n<think>\n").ids
    call, _ = run(tokenize_node(tokenizer, tmp_path), [Prompt(ids=ids)])
    assert call.prompt_text.endswith("<think>\n")
    call, _ = run(tokenize_node(tokenizer, tmp_path), [Prompt(ids=ids)], parse_reasoning=False)
    assert call.prompt_text == ""
