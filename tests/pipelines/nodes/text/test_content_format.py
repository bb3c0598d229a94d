"""What well-known templates, in short, take for a message's content."""

import pytest

from pipelines.nodes.text.templates.jinja_template import Template

STRING = {
    "chatml": "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] }}{% endfor %}",
    "llama 3": "{% for message in messages %}{% set content = message['content'] | trim %}{{ content }}{% endfor %}",
    "mistral 7b": "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% endif %}"
    "{% for message in loop_messages %}{{ message['content'] }}{% endfor %}",
    "qwen 3": "{% for message in messages %}{% if message.content is string %}{% set content = message.content %}"
    "{% else %}{% set content = '' %}{% endif %}{% for call in message.tool_calls %}{{ call.name }}{% endfor %}"
    "{% for part in content.split('</think>') %}{{ part }}{% endfor %}{% endfor %}",
    "tools only": "{% for tool in tools %}{{ tool }}{% endfor %}{{ messages[0].content }}",
    "another key": "{% for message in messages %}{% for part in message.parts %}{{ part }}{% endfor %}{% endfor %}",
    "content of a tool": "{% for tool in tools %}{% for part in tool.content %}{{ part }}{% endfor %}{% endfor %}",
}
OPENAI = {
    "qwen 2 vl": "{% for message in messages %}{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for content in message['content'] %}{{ content['text'] }}{% endfor %}{% endif %}{% endfor %}",
    "llama 4": "{% for message in messages %}{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for content in message.content %}{{ content.text | trim }}{% endfor %}{% endif %}{% endfor %}",
    "gemma 3": "{% set loop_messages = messages[1:] %}{% for message in loop_messages %}"
    "{% for item in message['content'] %}{{ item['text'] }}{% endfor %}{% endfor %}",
    "set": "{% for m in messages %}{% set c = m.content %}{% for part in c %}{{ part.text }}{% endfor %}{% endfor %}",
    "set twice": "{% for m in messages %}{% set b = m %}{% set c = b['content'] or [] %}{% for p in c %}{{ p }}{% endfor %}{% endfor %}",
    "glm 4.5": "{% macro visible_text(content) %}{% if content is string %}{{ content }}{% else %}"
    "{% for item in content %}{{ item.text }}{% endfor %}{% endif %}{% endmacro %}"
    "{% for m in messages %}{{ visible_text(m.content) }}{% endfor %}",
    "a macro's keyword": "{% macro show(role, parts) %}{% for p in parts %}{{ p.text }}{% endfor %}{% endmacro %}"
    "{% for m in messages %}{{ show(m.role, parts=m['content']) }}{% endfor %}",
    "a filtered loop": "{% for m in messages %}{% for p in m.content | selectattr('type', 'equalto', 'text') %}{{ p.text }}"
    "{% endfor %}{% endfor %}",
    "the first message": "{% for part in messages[0]['content'] %}{{ part.text }}{% endfor %}",
}


@pytest.mark.parametrize("name", STRING)
def test_text(name):
    assert Template(STRING[name], {}).content_format == "string"


@pytest.mark.parametrize("name", OPENAI)
def test_parts(name):
    assert Template(OPENAI[name], {}).content_format == "openai"


def test_the_graph_may_say_it():
    assert Template(OPENAI["set"], {}, "string").content_format == "string"
