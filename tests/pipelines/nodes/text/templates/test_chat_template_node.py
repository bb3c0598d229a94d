"""A request's own template and kwargs, and conversations of requests for vectors."""

import pytest
from fake_decoder import CHAT_TEMPLATE
from prompt_nodes import call_of

from pipelines.base.errors import RequestError
from pipelines.loading.load import Resources
from pipelines.nodes.text.templates.chat_template import ChatTemplate
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput, PoolingInput
from pipelines.wire.address import EngineAddress

USER = [{"role": "user", "content": "Hello"}]
MOODY = "{{ mood | default('calm') }} {{ messages[0].content }}"


def template_node(tmp_path, source=CHAT_TEMPLATE, **settings):
    (tmp_path / "chat_template.jinja").write_text(source)
    node = ChatTemplate(ChatTemplate.Config(template="chat_template.jinja", **settings), tmp_path)
    node.load(Resources(EngineAddress("m", 1, "")))
    return node


def test_a_request_may_bring_its_own_template(tmp_path):
    node = template_node(tmp_path)
    request = GenerationInput(messages=USER, chat_template="<{{ messages[0].content }}>")
    assert node.text(request) == "<Hello>"


def test_declared_tools_choose_the_template_for_them(tmp_path):
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("{{ tools[0].name }}")
    node = template_node(tmp_path, "{{ messages[0].content }}")
    texts = [node.text(GenerationInput(messages=USER, tools=tools)) for tools in ([], [{"name": "f"}])]
    assert texts == ["Hello", "f"]


@pytest.mark.parametrize(
    "source", ["{% if %}", "{{ raise_exception('no') }}", "x" * (1 << 21), "{{ ''.__class__.x }}"]
)
def test_a_request_s_template_that_fails_is_the_request_s_fault(tmp_path, source):
    with pytest.raises(RequestError) as error:
        template_node(tmp_path).text(GenerationInput(messages=USER, chat_template=source))
    assert error.value.field == "chat_template"


def test_a_conversation_that_the_model_s_template_refuses_is_named(tmp_path):
    with pytest.raises(RequestError) as error:
        template_node(tmp_path, "{{ raise_exception('no') }}").text(GenerationInput(messages=USER))
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
    assert node.text(GenerationInput(messages=USER, template_kwargs=kwargs)) == text


def test_a_template_says_what_it_reads(tmp_path):
    assert template_node(tmp_path, MOODY).template.variables == {"mood", "messages"}


def test_the_graph_may_say_how_content_is_read(tmp_path):
    node = template_node(tmp_path, "{{ messages[0].content }}", content_format="openai")
    assert node.text(GenerationInput(messages=USER)) == "[{'type': 'text', 'text': 'Hello'}]"


def test_each_conversation_of_a_pooling_request_is_a_prompt(tmp_path):
    request = PoolingInput(
        conversations=[USER, [{"role": "user", "content": "Bye"}]],
        add_generation_prompt=False,
        add_special_tokens=True,
    )
    first, second = template_node(tmp_path).run(call_of(request), request)
    text = "<|im_start|>user\nHello<|im_end|>\n"
    assert first == Prompt(text=text, add_special_tokens=True, is_rendered=True)
    assert second.text == "<|im_start|>user\nBye<|im_end|>\n"


def test_a_pooling_request_may_want_the_answer_begun(tmp_path):
    request = PoolingInput(conversations=[USER], add_generation_prompt=True)
    (prompt,) = template_node(tmp_path).run(call_of(request), request)
    assert prompt.text.endswith("<|im_start|>assistant\n")


def test_texts_of_a_pooling_request_pass_through(tmp_path):
    request = PoolingInput(prompts=[Prompt(text="Hello"), Prompt(ids=[1, 2])])
    assert template_node(tmp_path).run(call_of(request), request) == request.prompts


def test_a_conversation_among_several_that_is_refused_is_named(tmp_path):
    request = PoolingInput(conversations=[USER])
    with pytest.raises(RequestError) as error:
        template_node(tmp_path, "{{ raise_exception('no') }}").run(call_of(request), request)
    assert error.value.field == "messages"
