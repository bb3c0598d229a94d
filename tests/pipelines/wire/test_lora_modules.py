"""The forms in which adapters are named when the server starts."""

import pytest

from pipelines.wire.lora_modules import LoraModule, parse_module
from server.base.environment import SettingsError, read_settings


def test_forms_of_vllm():
    assert parse_module("a=/x/y=z") == LoraModule("a", "/x/y=z")
    assert parse_module('{"name": "a", "path": "/x", "base_model_name": "m"}') == LoraModule("a", "/x", "m")


@pytest.mark.parametrize(
    "text", ["a", "=x", "a=", '{"name": "a"}', '{"name": "a", "path": "b", "rank": 1}', "{"]
)
def test_others_are_refused(text):
    with pytest.raises(ValueError, match="name"):
        parse_module(text)


def test_several_in_one_setting():
    text = 'a=/x b=/y\n{"name": "c", "path": "/z z"}'
    assert read_settings({"BRAID_LORA_MODULES": text}).lora_modules == (
        *("a=/x", "b=/y"),
        '{"name": "c", "path": "/z z"}',
    )
    with pytest.raises(SettingsError, match="BRAID_LORA_MODULES"):
        read_settings({"BRAID_LORA_MODULES": "a"})
