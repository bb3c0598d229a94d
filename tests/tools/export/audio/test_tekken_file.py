"""Mistral's vocabulary and Voxtral's chat template give the ids of mistral-common 1.9 for the same messages."""

from __future__ import annotations

import click
import pytest
from later import missing

if missing("transformers"):
    pytest.skip("needs the extra export", allow_module_level=True)

from tiny_voxtral import write_tekken

from pipelines.nodes.text.templates.jinja_template import ChatTemplateError, Template
from tools.export.audio.export_voxtral import TEMPLATE, check_alone, is_voxtral
from tools.export.audio.tekken_file import read_tekken
from tools.export.base.folder import ExportError
from tools.export.base.options import Options

AUDIO = {"type": "audio"}


def text(words):
    return {"type": "text", "text": words}


def user(*parts):
    return {"role": "user", "content": parts[0] if isinstance(parts[0], str) else list(parts)}


def rendered(template, messages):
    return template.render(
        messages=messages, tools=None, add_generation_prompt=True, continue_final_message=False, kwargs={}
    )


HEARD = 24
RECORDED = [
    ([user("hello")], [1, 3, 299, 4]),
    ([user(text("hello what"), AUDIO)], [1, 3, 299, 300, 144, 301, HEARD, 4]),
    (
        [user(text("hello"), text("hello"), AUDIO, text("x"), text("y"))],
        [1, 3, 299, 303, 299, HEARD, 160, 303, 161, 4],
    ),
    ([user("hello"), user("what")], [1, 3, 299, 303, 159, 144, 301, 4]),
    (
        [{"role": "system", "content": [text("this is")]}, user(text("hello"))],
        [1, 17, 306, 302, 18, 3, 299, 4],
    ),
    ([user("hello"), {"role": "assistant", "content": "what"}], [1, 3, 299, 4, 159, 144, 301, 2]),
]
"""Messages → ids; a sound is one token here."""


def test_ids_are_those_of_mistral_common(tmp_path):
    write_tekken(tmp_path)
    tokenizer = read_tekken(tmp_path / "tekken.json")
    template = Template(TEMPLATE.read_text(), {"bos_token": "<s>", "eos_token": "</s>"})
    for messages, ids in RECORDED:
        written = rendered(template, messages)
        assert tokenizer(written, add_special_tokens=False)["input_ids"] == ids
    assert tokenizer("naïve 今天 <SPECIAL_39>", add_special_tokens=False)["input_ids"][-1] == 39
    refused = (
        ([{"role": "system", "content": "a"}, user(AUDIO)], "System messages are not yet allowed"),
        ([{"role": "tool", "content": "a"}], "not of tool"),
    )
    for messages, words in refused:
        with pytest.raises(ChatTemplateError, match=words):
            rendered(template, messages)


def test_another_file_is_refused(tmp_path):
    (tmp_path / "tekken.json").write_text('{"config": {}}')
    with pytest.raises(ExportError, match="no vocabulary of the form tekken"):
        read_tekken(tmp_path / "tekken.json")


@pytest.mark.parametrize(
    "options",
    [{"form": "onnx"}, {"weights": "bf16"}, {"activations": "f16"}, {"answers": ("a", "b")}],
)
def test_options_of_other_models_are_refused(options, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "voxtral"}')
    assert is_voxtral(str(tmp_path))
    assert not is_voxtral(str(tmp_path / "none"))
    with pytest.raises(click.BadParameter, match="audio model"):
        check_alone(Options(**options))
