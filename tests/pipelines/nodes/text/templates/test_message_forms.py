"""Which forms of messages templates take: well-known ones, in short."""

import pytest

from pipelines.nodes.text.templates.jinja_template import Template

IN_LOOP = "{% for message in messages %}BODY{% endfor %}"
STRING = {
    "chatml": "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] }}",
    "llama 3": "{% set content = message['content'] | trim %}{{ content }}",
    "qwen 3": "{% set content = message.content if message.content is string else '' %}{{ content.split('</think>')[-1] }}",
    "tools only": "{% for tool in tools %}{{ tool.name }}{% endfor %}{{ message.content }}",
    "the text of each part, quoted": "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{{ part | tojson }}{% endfor %}{% endif %}",
    "the first part alone": "{{ message.content if message.content is string else message.content[0].text }}",
}
BOTH = {
    "qwen 2 vl": "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for content in message['content'] %}{{ content['text'] }}{% endfor %}{% endif %}",
    "glm 4.5": "{% macro visible_text(content) %}{% if content is string %}{{ content }}{% else %}"
    "{% for item in content %}{{ item.text }}{% endfor %}{% endif %}{% endmacro %}{{ visible_text(message.content) }}",
}
OPENAI = {
    "llava": "{% for content in message['content'] %}{{ content['text'] }}{% endfor %}",
    "a filtered loop": "{% for p in message.content | selectattr('type', 'equalto', 'text') %}{{ p.text }}{% endfor %}",
}
FORMS = {"string": STRING, "both": BOTH, "openai": OPENAI}


@pytest.mark.parametrize(("form", "name"), [(form, name) for form, named in FORMS.items() for name in named])
def test_content(form, name):
    content = Template(IN_LOOP.replace("BODY", FORMS[form][name]), {}).forms.content
    assert content == {"user": form, "system": form, "assistant": form, "tool": form}


def test_roles_differ():
    source = "{% if message.role == 'tool' or message.content is string %}{{ message.content }}{% else %}"
    source += "{{ message.content[0].text }}{{ message.content[1].text }}{% endif %}"
    content = Template(IN_LOOP.replace("BODY", source), {}).forms.content
    assert content == {"user": "both", "system": "both", "assistant": "both", "tool": "string"}


def test_parts_that_are_lost_beside_tools_are_not_taken():
    source = "{% if tools %}{{ messages[0].content | upper }}{% else %}{{ messages[0].content[0].text }} "
    source += "{{ messages[0].content[1].text }}{% endif %}"
    assert Template(source, {}).forms.content["user"] == "string"


def test_the_graph_may_say_it():
    source = IN_LOOP.replace("BODY", BOTH["qwen 2 vl"])
    assert Template(source, {}, "openai").forms.other_content == "openai"
    assert Template(source, {}, "openai").forms.content == {}


@pytest.mark.parametrize(
    ("shown", "as_text"),
    [
        ("call.function.arguments | tojson", False),
        ("call.function.arguments.city", False),
        ("call.function.arguments", True),
        ("'=' + call.function.arguments", True),
    ],
)
def test_arguments_of_calls(shown, as_text):
    source = "{% for call in message.tool_calls or [] %}{{ SHOWN }}{% endfor %}".replace("SHOWN", shown)
    assert Template(IN_LOOP.replace("BODY", source), {}).forms.arguments_as_text is as_text


CALLS = "{% for call in message.tool_calls or [] %}{{ call.function.arguments | tojson }}{% endfor %}"


@pytest.mark.parametrize(
    ("source", "taken"),
    [
        ("{% if message.content is not none %}<a>{{ message.content }}{% endif %}", None),
        ("{{ message.content }}", ""),
        ("{{ message.content | trim }}", ""),
        ("{{ message.content | tojson }}", ""),
        ("{{ '<a>' + message.content }}", ""),
    ],
)
def test_content_beside_calls(source, taken):
    assert Template(IN_LOOP.replace("BODY", source + CALLS), {}).forms.without_content == taken


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ("{{ message.thinking }}", True),
        ("{{ message.reasoning_content }}", False),
        ("{{ message.reasoning or message.thinking }}", False),
        ("{{ message.content }}", False),
    ],
)
def test_the_name_of_reasoning(source, reads):
    assert Template(IN_LOOP.replace("BODY", source), {}).forms.reads_thinking is reads


def test_a_template_that_refuses_everything_has_the_usual_forms():
    forms = Template("{{ raise_exception('no') }}", {}).forms
    assert set(forms.content.values()) == {"string"}
    assert (forms.arguments_as_text, forms.without_content, forms.reads_thinking) == (False, "", False)
