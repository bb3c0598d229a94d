"""Drawings of graphs."""

from __future__ import annotations

import re

import pytest
import toys

from graphs import draw
from graphs.check import check

TEXT = """\
chat: Ask → Reply

○ request                                 Ask
● prompt      chat_template  ← request    Text                                                worker
│             template: model/chat_template.jinja
● tokens      tokenize       ← prompt     list[Tokens]                                        worker
│             tokenizer: model/tokenizer.json
◆ generated   scheduler      ← tokens     Stream[list[int]]                              engine host
│             max_sequences: 128 · cache.memory_gb: 4 · cache.reuse_prefixes: true
│ ╭─ once per step ────────────────────────────────────────────────────────────────────────────────╮
│ │ ○ step                                Step                                                     │
│ │ ● logits  model          ← step       Logits                                                   │
│ │ │         path: model/model.xml · device: cpu                                                  │
│ │ ● next    sampler        ← logits     Sampled                                                  │
│ ╰────────────────────────────────────────────────────────────────────────────────────────────────╯
● text        detokenize     ← generated  Stream[str]                                         worker
● reply       parse          ← text       Reply                                               worker
              reasoning: qwen3
"""

MERMAID = """\
flowchart TD
    request(["request<br/>Ask"])
    prompt_["prompt<br/>chat_template"]
    tokens_["tokens<br/>tokenize"]
    subgraph generated_["generated<br/>scheduler"]
        generated__step(["step"])
        generated__logits["logits<br/>model"]
        generated__next["next<br/>sampler"]
        generated__step --> generated__logits
        generated__logits --> generated__next
    end
    text_["text<br/>detokenize"]
    reply_["reply<br/>parse"]
    request --> prompt_
    prompt_ --> tokens_
    tokens_ --> generated_
    generated_ --> text_
    text_ --> reply_
    reply(["reply<br/>Reply"])
    reply_ --> reply
"""


def checked(text):
    return check(text, toys.NODE_TYPES, toys.TASKS)


def test_the_chat_graph_as_text(chat):
    assert draw.text(chat) == TEXT


def test_the_chat_graph_as_mermaid(chat):
    assert draw.mermaid(chat) == MERMAID


@pytest.mark.parametrize("name", ["n", "n" * 23, "n" * 60, "n" * 200])
def test_no_line_is_wider_than_the_terminal(name):
    text = toys.CHAT.replace("tokens:", f"{name}:").replace("from: tokens", f"from: {name}")
    assert max(map(len, draw.text(checked(text)).splitlines())) <= draw.WIDTH


@pytest.mark.parametrize("name", ["n" * 60, "n" * 200])
def test_the_box_of_a_body_keeps_its_edge(name):
    text = toys.CHAT.replace("logits: {", f"{name}: {{").replace("from: logits", f"from: {name}")
    box = [line for line in draw.text(checked(text)).splitlines() if line.startswith("│ │")]
    assert {len(line) for line in box} == {draw.WIDTH}
    assert all(line.endswith(" │") for line in box)


def test_many_settings_are_wrapped():
    parts = ", ".join(f"{{file: some/folder/part{index}.bin}}" for index in range(12))
    drawn = draw.text(checked(toys.CHAT.replace("device: cpu", f"parts: [{parts}]")))
    assert max(map(len, drawn.splitlines())) <= draw.WIDTH
    assert "part11.bin" in drawn


def test_defaults_are_left_out():
    assert "max_sequences" not in draw.text(checked(toys.CHAT.replace("    max_sequences: 128\n", "")))


def test_the_description_is_shown():
    assert "serves chats" in draw.text(checked(toys.CHAT + "description: serves chats\n"))


def test_several_inputs_are_named():
    text = (
        "version: 1\ntask: tokens\nnodes:\n"
        "  end: {type: pairs, from: {query: request.query, documents: request.documents}}\n"
    )
    graph = checked(text)
    assert "← query: request.query, documents: request.documents" in draw.text(graph)
    assert 'request -->|"query: request.query"| end_' in draw.mermaid(graph)


def test_no_mermaid_id_is_a_word_of_mermaid(chat):
    ids = re.findall(r"^ +(\w+)[\[(]", draw.mermaid(chat), re.MULTILINE)
    assert not {"end", "graph", "subgraph", "style", "class", "click"} & set(ids)


def test_quotes_in_a_type_do_not_end_a_label():
    assert draw._quoted('a"b<c>') == '"a&quot;b&lt;c>"'
