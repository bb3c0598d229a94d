import pytest
from fake_decoder import CHAT_TEMPLATE

from pipelines.nodes.text.templates.chat_template import read_template, read_templates, special_tokens
from pipelines.nodes.text.templates.jinja_template import ChatTemplateError, Template

HELLO = [{"role": "user", "content": "Hello"}]


def render(source, messages=HELLO, tools=None, generate=True, go_on=False, special=None, **kwargs):
    return Template(source, special or {}).render(messages, tools, generate, go_on, kwargs)


def test_chatml():
    assert render(CHAT_TEMPLATE) == "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"


def test_special_tokens_and_kwargs_are_variables():
    assert render("{{ bos_token }}{{ mood }}", special={"bos_token": "<s>"}, mood="calm") == "<s>calm"


def test_kwargs_that_the_template_does_not_read_are_left_out():
    assert render("{% if self is defined %}{% endif %}{{ mood }}", mood="calm", other=1) == "calm"


def test_numbers_and_repeated_text_of_common_size_may_be_computed():
    assert render("{{ '=' * 3 }}{{ 1000 * 2000 }}{{ 2 ** 10 }}{{ 1.5 * 2 }}") == "===200000010243.0"


def test_kwargs_cannot_replace_the_messages():
    assert render("{{ messages[0].content }}", messages=HELLO, tools="x") == "Hello"


def test_tools_are_given_as_none_when_there_are_none():
    assert render("{{ tools is none }}") == "True"


def test_to_json_keeps_html_and_unicode():
    assert render("{{ messages | tojson }}", messages=[{"a": "<é>"}]) == '[{"a": "<é>"}]'


def test_blocks_are_trimmed_as_hugging_face_does():
    assert render("{% if true %}\n  x\n{% endif %}\n") == "  x\n"


def test_loop_controls_and_generation_blocks():
    source = (
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% break %}{% endfor %}"
    )
    assert render(source, messages=HELLO * 2) == "Hello"


def test_a_template_may_refuse():
    with pytest.raises(ChatTemplateError, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


def test_a_template_that_does_not_compile_says_where():
    with pytest.raises(ChatTemplateError, match="does not compile"):
        Template("{% if %}", {})


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append({}) }}",
        "{% for i in range(10 ** 9) %}x{% endfor %}",
        "{{ messages[0].content.missing.deeper }}",
        "{{ 'x' * 10 ** 9 }}",
        "{{ [1] * 10 ** 9 }}",
        "{{ 10 ** 10000 }}",
    ],
)
def test_the_sandbox_holds(source):
    with pytest.raises(ChatTemplateError):
        render(source)


def test_a_prompt_cannot_grow_without_bound(monkeypatch):
    monkeypatch.setattr("pipelines.nodes.text.templates.jinja_template.FORMS_S", 0)
    source = "{% for i in range(99999) %}{% for j in range(99999) %}{{ messages[0].content }}{% endfor %}{% endfor %}"
    with pytest.raises(ChatTemplateError, match="grew beyond"):
        render(source, messages=[{"content": "x" * 65536}])


TRIMMED = "{% for m in messages %}<{{ m.content | trim }}>{% endfor %}"


@pytest.mark.parametrize(
    ("source", "final", "end"),
    [
        (CHAT_TEMPLATE, "The capital is ", "assistant\nThe capital is "),
        (TRIMMED, "The capital is ", "<The capital is"),
        (TRIMMED, "Hello", "<Hello><Hello"),
        ("{% for m in messages %}{{ m.content }}<end>{% endfor %}", "e", "<end>e"),
    ],
)
def test_the_final_message_can_be_continued(source, final, end):
    messages = [*HELLO, {"role": "assistant", "content": final}]
    assert render(source, messages=messages, generate=False, go_on=True).endswith(end)


def test_a_final_message_in_parts_can_be_continued():
    parts = [{"type": "text", "text": "The capital"}, {"type": "text", "text": "is"}]
    messages = [*HELLO, {"role": "assistant", "content": parts}]
    text = render(CHAT_TEMPLATE, messages=messages, generate=False, go_on=True)
    assert text.endswith("<|im_start|>assistant\nThe capital\nis")


def test_a_final_message_that_the_template_leaves_out_cannot_be_continued():
    with pytest.raises(ChatTemplateError, match="does not show"):
        render("{{ messages[0].content }}", messages=[*HELLO, *HELLO], go_on=True)


@pytest.mark.parametrize("content", ["", None, [{"type": "text", "text": ""}]])
def test_a_final_message_without_text_is_continued_from_its_beginning(content):
    messages = [*HELLO, {"role": "assistant", "content": content}]
    text = render(CHAT_TEMPLATE, messages=messages, generate=False, go_on=True)
    assert text.endswith("<|im_start|>assistant\n")


def test_a_final_message_of_an_image_cannot_be_continued():
    messages = [{"role": "user", "content": [{"type": "image"}]}]
    parts = "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}"
    with pytest.raises(ChatTemplateError, match="continue_final_message"):
        render(parts, messages=messages, generate=False, go_on=True)


def test_a_tokenizer_config_may_hold_the_template(tmp_path):
    path = tmp_path / "tokenizer_config.json"
    path.write_text('{"chat_template": "{{ eos_token }}", "eos_token": {"content": "</s>"}}')
    assert read_template(path).render([], None, True, False, {}) == "</s>"


def test_of_several_named_templates_the_one_for_tools_serves_those(tmp_path):
    path = tmp_path / "tokenizer_config.json"
    path.write_text(
        '{"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]}'
    )
    assert {name: each.source for name, each in read_templates(path).items()} == {
        "default": "d",
        "tool_use": "t",
    }


def test_other_templates_may_lie_in_a_folder_of_their_own(tmp_path):
    path, other = tmp_path / "chat_template.jinja", tmp_path / "additional_chat_templates" / "tool_use.jinja"
    path.write_text("d")
    assert {name: template.source for name, template in read_templates(path).items()} == {
        "default": "d",
        "tool_use": "d",
    }
    other.parent.mkdir()
    other.write_text("t")
    assert {name: template.source for name, template in read_templates(path).items()} == {
        "default": "d",
        "tool_use": "t",
    }


def test_a_config_without_a_template_says_so(tmp_path):
    path = tmp_path / "tokenizer_config.json"
    path.write_text("{}")
    with pytest.raises(ValueError, match="holds no chat template"):
        read_template(path)


def test_a_template_that_does_not_end_is_ended(monkeypatch):
    for limit in ("FORMS_S", "MAX_RENDER_S"):
        monkeypatch.setattr(f"pipelines.nodes.text.templates.jinja_template.{limit}", 0.05)
    endless = "{% for i in range(9999) %}{% for j in range(9999) %}x{% endfor %}{% endfor %}"
    with pytest.raises(ChatTemplateError, match="longer than"):
        render(endless)


def test_special_tokens_may_be_text_or_records():
    assert special_tokens({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "unk_token": None}) == {
        "bos_token": "<s>",
        "eos_token": "</s>",
    }
