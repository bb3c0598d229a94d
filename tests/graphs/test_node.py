"""Ports read from the signature of `run`, and file settings outside the checker."""

from __future__ import annotations

from pathlib import Path

import pytest
import toys
from pydantic import ValidationError

from graphs import node
from graphs.node import FilePath, Node, NodeConfig


class Settings(NodeConfig):
    file: FilePath
    other: FilePath | None = None


def test_inputs_stand_in_the_order_of_the_parameters():
    assert list(node.inputs(toys.Pairs)) == ["query", "documents", "instruction"]


def test_a_default_makes_an_input_optional():
    assert [port.optional for port in node.inputs(toys.Pairs).values()] == [False, False, True]


def test_the_call_is_no_input_and_its_annotation_is_not_needed():
    assert list(node.inputs(toys.ChatTemplate)) == ["request"]


def test_annotations_in_quotes_are_resolved():
    assert node.output(toys.Pairs) == list[toys.Tokens]


def test_a_node_type_without_settings_takes_none():
    with pytest.raises(ValidationError):
        Node.Config(anything=1)


def test_settings_cannot_be_changed():
    with pytest.raises(ValidationError):
        Settings(file="x").file = FilePath("y")


def test_a_file_setting_is_a_file_path():
    assert type(Settings(file="a/./b").file) is FilePath
    assert Settings(file="a/./b").file == "a/b"


def test_a_file_setting_is_judged_without_a_folder():
    with pytest.raises(ValidationError, match="leaves the model's folder"):
        Settings(file="../x")


def test_a_node_keeps_its_settings_and_opens_nothing():
    made = toys.Tokenize(toys.Tokenize.Config(tokenizer="none.json"), Path("nowhere"))
    assert (made.config.tokenizer, made.folder) == ("none.json", Path("nowhere"))
