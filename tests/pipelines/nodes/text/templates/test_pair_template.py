"""Pairs of a query and a document as prompts of a vision-language reranker."""

from __future__ import annotations

import pytest
from prompt_nodes import call_of, loaded

from pipelines.base.errors import RequestError
from pipelines.nodes.text.templates.pair_template import PairTemplate
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput

TEMPLATE = """\
{%- for message in messages %}{{ message.role }}:
{%- for part in message.content %}{{ part.text if part.type == "text" else "<image>" }}{% endfor %};{% endfor -%}
{{ instruction }}"""
PAIR = (Prompt("who", add_special_tokens=True), Prompt("a cat", add_special_tokens=True))


def prompts_of(folder, request, **settings):
    (folder / "score.jinja").write_text(TEMPLATE)
    given = {"template": "score.jinja", "add_special_tokens": True}
    return loaded(PairTemplate, folder, **given, **settings).run(call_of(request), request)


@pytest.mark.parametrize(
    ("settings", "asked", "text"),
    [
        ({}, {}, "query:who;document:a cat;"),
        ({"instruction": "Judge."}, {}, "system:Judge.;query:who;document:a cat;Judge."),
        (
            {"instruction": "Judge."},
            {"instruction": "Be fair."},
            "system:Be fair.;query:who;document:a cat;Be fair.",
        ),
        ({}, {"template_kwargs": {"instruction": "Mine."}}, "query:who;document:a cat;Mine."),
    ],
)
def test_a_pair_is_a_prompt_with_its_instruction(tmp_path, settings, asked, text):
    found = prompts_of(tmp_path, PoolingInput(pairs=[PAIR], **asked), **settings)
    assert found == [Prompt(text, add_special_tokens=True, is_rendered=True)]


def test_conversations_of_both_roles_show_images_and_raw_prompts_stay(tmp_path):
    shown = [{"type": "text", "text": "this"}, {"type": "image"}]
    pair = [{"role": "query", "content": shown}, {"role": "document", "content": "a cat"}]
    assert [each.text for each in prompts_of(tmp_path, PoolingInput(conversations=[pair]))] == [
        "query:this<image>;document:a cat;"
    ]
    ids = [Prompt(ids=[1, 2])]
    assert prompts_of(tmp_path, PoolingInput(prompts=ids)) == ids


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"max_query_tokens": 3}, "`max_tokens_per_query`"),
        ({"max_document_tokens": 3}, "`max_tokens_per_doc`"),
        ({"pairs": [(PAIR[0], Prompt(ids=[1]))]}, "not token ids"),
    ],
)
def test_what_a_pair_cannot_be_is_refused(tmp_path, fields, words):
    with pytest.raises(RequestError, match=words):
        prompts_of(tmp_path, PoolingInput(**({"pairs": [PAIR]} | fields)))
