"""The checker: good graphs become bindings, bad ones every problem with its line."""

from __future__ import annotations

import pytest
import toys

from graphs.check import GraphError, Source, check

HEAD = "version: 1\ntask: chat\nnodes:\n"

PAIRS = """\
version: 1
task: tokens
nodes:
  pairs: {type: pairs, from: {query: request.query, documents: request.documents}}
"""


def checked(text, folder=None):
    return check(text, toys.NODE_TYPES, toys.TASKS, folder)


# --- good graphs


def test_bindings_stand_in_the_order_of_the_file(chat):
    assert [each.name for each in chat.bindings] == ["prompt", "tokens", "generated", "text", "reply"]


def test_a_binding_knows_its_line_type_and_settings(chat):
    tokens = chat["tokens"]
    assert (tokens.line, tokens.type_name, tokens.type) == (5, "tokenize", toys.Tokenize)
    assert tokens.config.tokenizer == "model/tokenizer.json"
    assert tokens.gives == list[toys.Tokens]


def test_a_name_feeds_the_first_input(chat):
    assert chat["tokens"].sources == {"text": Source("prompt")}


def test_a_root_binds_by_name(chat):
    assert chat["prompt"].sources == {"request": Source("request")}


def test_a_body_is_bound_like_a_graph(chat):
    logits, sampled = chat["generated"].body
    assert logits.sources == {"step": Source("step")}
    assert sampled.sources == {"logits": Source("logits")}
    assert sampled.line == 13


def test_step_binds_by_name_beside_a_given_first_input(folder):
    text = toys.CHAT.replace("from: logits", "from: masked").replace(
        "      next:", "      masked: {type: mask, from: logits}\n      next:"
    )
    body = checked(text, folder)["generated"].body
    assert body[1].sources == {"logits": Source("logits"), "step": Source("step")}


def test_a_field_of_the_request():
    assert checked(PAIRS)["pairs"].sources["documents"] == Source("request", ("documents",))


def test_an_optional_input_may_be_left_out():
    assert "instruction" not in checked(PAIRS)["pairs"].sources


def test_an_optional_input_may_be_given():
    text = PAIRS.replace("{query:", "{instruction: request.query, query:")
    assert checked(text)["pairs"].sources["instruction"] == Source("request", ("query",))


def test_sources_stand_in_the_order_of_the_inputs():
    text = PAIRS.replace(
        "{query: request.query, documents: request.documents}",
        "{documents: request.documents, query: request.query}",
    )
    assert list(checked(text)["pairs"].sources) == ["query", "documents"]


def test_a_description_is_kept():
    assert checked(PAIRS + "description: ranks\n").description == "ranks"


def test_without_a_folder_files_are_not_looked_up():
    assert checked(toys.CHAT)["prompt"].config.template == "model/chat_template.jinja"


def test_the_result_is_the_last_line(chat):
    assert chat.result.name == "reply"


def test_no_line_of_that_name(chat):
    with pytest.raises(KeyError):
        chat["nothing"]


# --- one change to the good chat graph, and what is said of it

ONE_PROBLEM = {
    "unknown key at the top": (
        "version: 1",
        "version: 1\nnotes: x",
        "2: unknown key `notes`; did you mean `nodes`?",
    ),
    "unlike any key": (
        "version: 1",
        "version: 1\nzzz: x",
        "2: unknown key `zzz`; keys: version, task, description, pinned, keep_alive, nodes",
    ),
    "version missing": ("version: 1\n", "", "1: no version is given; write `version: 1`"),
    "version of the future": ("version: 1", "version: 2", "1: version 2 is unknown; write `version: 1`"),
    "version as a truth value": (
        "version: 1",
        "version: true",
        "1: version True is unknown; write `version: 1`",
    ),
    "version misspelt": ("version: 1", "vresion: 1", "1: unknown key `vresion`; did you mean `version`?"),
    "description of another type": (
        "version: 1",
        "version: 1\ndescription: 3",
        "2: `description` must be text",
    ),
    "task missing": (
        "task: chat\n",
        "",
        "1: no task is given; write `task: NAME` with one of: chat, tokens, text",
    ),
    "task misspelt": ("task: chat", "task: chats", "2: unknown task `chats`; did you mean `chat`?"),
    "task of another type": (
        "task: chat",
        "task: [chat]",
        "2: unknown task `['chat']`; did you mean `chat`?",
    ),
    "type misspelt": (
        "type: tokenize",
        "type: tokenise",
        "5: unknown node type `tokenise`; did you mean `tokenize`?",
    ),
    "type of another type": (
        "type: tokenize",
        "type: 3",
        "5: unknown node type `3`; types: " + ", ".join(toys.NODE_TYPES),
    ),
    "type missing": (
        "type: detokenize, ",
        "",
        "14: `text` has no `type`; types: " + ", ".join(toys.NODE_TYPES),
    ),
    "type key misspelt": (
        "{type: detokenize",
        "{tpye: detokenize",
        "14: `text` has no `type`; did you mean `type` by `tpye`?",
    ),
    "name misspelt": (
        "from: prompt",
        "from: promt",
        "5: no line above is called `promt`; did you mean `prompt`?",
    ),
    "name unlike any": (
        "from: prompt",
        "from: zzz",
        "5: no line above is called `zzz`; readable here: request, prompt",
    ),
    "reads itself": (
        "from: prompt",
        "from: tokens",
        "5: `tokens` reads itself; a line reads only lines above it",
    ),
    "reads a line below": (
        "from: prompt",
        "from: text",
        "5: `text` is below, at line 14; a line reads only lines above it",
    ),
    "reads a line of a body": (
        "from: generated",
        "from: next",
        "14: `next` is a line of the body of `generated`, which only that body reads; "
        "readable here: request, prompt, tokens, generated",
    ),
    "a body reads the graph": (
        "from: step",
        "from: tokens",
        "12: `tokens` is a line of the request graph, which a body cannot read; readable here: step",
    ),
    "a body reads the request": (
        "from: step",
        "from: request",
        "12: there is no `request` in the body of `generated`; its root is `step`",
    ),
    "a graph reads the step": (
        "from: prompt",
        "from: step",
        "5: there is no `step` in a graph; its root is `request`",
    ),
    "a body reads another root": (
        "from: step",
        "from: batch",
        "12: there is no `batch` in the body of `generated`; its root is `step`",
    ),
    "from is a list": (
        "from: prompt",
        "from: [prompt]",
        "5: `from` is a name or a mapping of inputs to names, such as {text: NAME}",
    ),
    "from is empty": (
        "from: prompt",
        "from:",
        "5: `from` is a name or a mapping of inputs to names, such as {text: NAME}",
    ),
    "from is no name": (
        "from: prompt",
        "from: 'a b'",
        "5: `a b` is not a name of a value; write NAME or NAME.FIELD",
    ),
    "a source is a number": (
        "from: prompt",
        "from: {text: 3}",
        "5: `3` is not a name of a value; write NAME or NAME.FIELD",
    ),
    "input misspelt": (
        "from: prompt",
        "from: {txt: prompt}",
        "5: `tokenize` has no input `txt`; did you mean `text`?",
    ),
    "field misspelt": (
        "from: prompt",
        "from: request.qery",
        "5: Ask has no field `qery`; did you mean `query`?",
    ),
    "field of a value without fields": ("from: prompt", "from: prompt.x", "5: Text has no field `x`"),
    "input missing": (
        ", from: prompt",
        "",
        "5: `tokenize` needs the input `text`: str; to be read here: prompt, request.query",
    ),
    "input of another type": (
        "from: prompt",
        "from: request",
        "5: the input `text` of `tokenize` takes str, but `request` gives Ask; "
        "to be read here: prompt, request.query",
    ),
    "element of another type": (
        "from: tokens",
        "from: request.documents",
        "8: the input `prompts` of `scheduler` takes list[Tokens], but `request.documents` gives list[str]; "
        "to be read here: tokens",
    ),
    "setting misspelt": (
        "max_sequences",
        "max_sequence",
        "9: unknown setting `max_sequence`; did you mean `max_sequences`?",
    ),
    "setting renamed": (
        "max_sequences",
        "max_batch",
        "9: unknown setting `max_batch`: it is called `max_sequences` now",
    ),
    "nested setting renamed": (
        "reuse_prefixes",
        "prefixes",
        "10: unknown setting `cache.prefixes`: it is called `cache.reuse_prefixes` now",
    ),
    "from misspelt": ("from: tokens", "form: tokens", None),
    "body misspelt": ("body:", "boby:", None),
    "nested setting misspelt": (
        "reuse_prefixes",
        "reuse_prefix",
        "10: unknown setting `cache.reuse_prefix`; did you mean `reuse_prefixes`?",
    ),
    "setting of another type": (
        "max_sequences: 128",
        "max_sequences: many",
        '9: `max_sequences` must be a valid integer, not "many"',
    ),
    "number as text": (
        "max_sequences: 128",
        "max_sequences: '128'",
        '9: `max_sequences` must be a valid integer, not "128"',
    ),
    "truth value as a number": (
        "max_sequences: 128",
        "max_sequences: true",
        "9: `max_sequences` must be a valid integer, not true",
    ),
    "truth value of YAML 1.1": (
        "reuse_prefixes: true",
        "reuse_prefixes: yes",
        '10: `cache.reuse_prefixes` must be a valid boolean, not "yes"',
    ),
    "mapping expected": (
        "cache: {memory_gb: 4, reuse_prefixes: true}",
        "cache: 4",
        "10: `cache` must be a mapping, not 4",
    ),
    "choice misspelt": (
        "device: cpu",
        "device: cpuu",
        "12: `device` must be 'cpu' or 'cuda', not \"cpuu\"; did you mean 'cpu'?",
    ),
    "pattern": ("device: cpu", "precision: f8", '12: `precision` must be f32 or f16, not "f8"'),
    "range": (
        "device: cpu",
        "threads: 0",
        "12: `threads` must be greater than or equal to 1, not 0",
    ),
    "neither of a union": (
        "reasoning: qwen3",
        "tools: [a]",
        '15: `tools` must be a valid string, not ["a"], or `tools` must be a valid integer, not ["a"]',
    ),
    "setting missing": (", tokenizer: model/tokenizer.json", "", "5: the setting `tokenizer` is missing"),
    "setting of no node": (
        "{type: detokenize",
        "{type: detokenize, x: 1",
        "14: unknown setting `x`; settings: type, from",
    ),
    "step node in the graph": (
        "  text: {type: detokenize, from: generated}",
        "  text: {type: mask, from: generated}",
        "14: `mask` runs once per step: put it in the `body` of an engine node, not under `nodes`",
    ),
    "request node in a body": (
        "next: {type: sampler",
        "next: {type: detokenize",
        "13: `detokenize` runs once per request: put it under `nodes`, not in a body",
    ),
    "engine node in a body": (
        "next: {type: sampler",
        "next: {type: scheduler",
        "13: `scheduler` owns a loop: put it under `nodes`, not in a body",
    ),
    "body on a node without one": (
        "{type: detokenize, from: generated}",
        "{type: detokenize, from: generated, body: {}}",
        "14: `detokenize` takes no body; delete it",
    ),
    "body ends with another type": (
        "      next: {type: sampler, from: logits}\n",
        "",
        "12: the body of `generated` must give Sampled, but the last line, `logits`, gives Logits",
    ),
    "graph ends with another type": (
        "  reply: {type: parse, from: text, reasoning: qwen3}\n",
        "",
        "14: the task `chat` replies Reply, but the last line, `text`, gives Stream[str]",
    ),
    "nothing reads a line": (
        "  text:",
        "  spare: {type: detokenize, from: generated}\n  text:",
        "14: nothing reads `spare`; read it below, or delete the line",
    ),
    "nothing reads a line of a body": (
        "      next:",
        "      spare: {type: model, path: model/model.xml}\n      next:",
        "13: nothing reads `spare`; read it below, or delete the line",
    ),
    "line named as a root": ("  text:", "  batch: {type: detokenize, from: generated}\n  text:", None),
    "name with a hyphen": (
        "reply: {",
        "my-reply: {",
        "15: `my-reply` is not a name: letters, digits and `_`, no digit first",
    ),
    "line is no mapping": ("{type: detokenize, from: generated}", "detokenize", None),
    "line twice": (
        "  reply:",
        "  text: {type: parse, from: text}\n  reply:",
        "15: `text` is written twice; the first is at line 14",
    ),
}


@pytest.mark.parametrize("case", [name for name, row in ONE_PROBLEM.items() if row[2]])
def test_one_problem(case, problems):
    old, new, expected = ONE_PROBLEM[case]
    assert old in toys.CHAT
    found = problems(toys.CHAT.replace(old, new, 1))
    assert found == [expected]


def test_from_misspelt_is_one_cause_with_two_words(problems):
    assert problems(toys.CHAT.replace("from: tokens", "form: tokens")) == [
        "6: `scheduler` needs the input `prompts`: list[Tokens]; to be read here: tokens",
        "8: unknown setting `form`; did you mean `from`?",
    ]


def test_body_misspelt(problems):
    assert problems(toys.CHAT.replace("body:", "boby:")) == [
        "6: `scheduler` needs a `body`: lines that start from `step`, the last of which gives Sampled",
        "11: unknown setting `boby`; did you mean `body`?",
    ]


@pytest.mark.parametrize("body", ["{}", "[]", "sampler", ""])
def test_a_body_without_lines(body, problems):
    head, tail = toys.CHAT.split("    body:\n")
    text = f"{head}    body: {body}\n" + tail[tail.index("  text:") :]
    assert problems(text) == [
        "11: `scheduler` needs a `body`: lines that start from `step`, the last of which gives Sampled"
    ]


def test_a_line_that_is_no_mapping(problems):
    found = problems(toys.CHAT.replace("{type: detokenize, from: generated}", "detokenize"))
    assert found[-1] == "14: `text` must be a mapping, such as `text: {type: …}`"


def test_a_line_named_as_a_root(problems):
    found = problems(toys.CHAT.replace("  text:", "  batch: {type: detokenize, from: generated}\n  text:"))
    assert "14: `batch` is the name of a root; give the line another name" in found


@pytest.mark.parametrize("nodes", ["nodes:", "nodes: {}", "nodes: []", "nodes: x"])
def test_a_graph_without_lines(nodes, problems):
    assert problems(f"version: 1\ntask: chat\n{nodes}\n") == [
        "3: `nodes` must hold at least one line, `name: {type: …}`"
    ]


def test_nodes_missing(problems):
    assert problems("version: 1\ntask: chat\n") == [
        "1: `nodes` must hold at least one line, `name: {type: …}`"
    ]


def test_the_number_of_lines_is_bounded(problems):
    lines = "".join(f"  a{index}: {{type: zzz, from: z{index}}}\n" for index in range(501))
    assert problems(HEAD + lines) == ["3: this list has 501 lines; at most 500 are allowed"]


def test_a_text_that_is_no_yaml_has_only_that_problem(problems):
    assert len(problems(toys.CHAT.replace("nodes:", "nodes: {"))) == 1


def test_the_unread_line_that_fits_is_offered_at_the_end(problems):
    text = HEAD + "  a: {type: pairs, from: {query: request.query, documents: request.documents}}\n"
    found = problems(
        text.replace("task: chat", "task: tokens") + "  b: {type: chat_template, template: model/model.xml}\n"
    )
    assert (
        "5: the task `tokens` replies list[Tokens], but the last line, `b`, gives Text; `a` gives it" in found
    )


def test_every_problem_at_once_in_the_order_of_lines(problems):
    text = (
        toys.CHAT.replace("task: chat", "task: chatt")
        .replace("type: tokenize", "type: tokenise")
        .replace("memory_gb: 4", "memory_gb: much")
        .replace("device: cpu", "device: tpu")
        .replace("type: sampler", "type: sampeler")
        .replace("reasoning:", "resoning:")
    )
    assert [int(each.split(":")[0]) for each in problems(text)] == [2, 5, 10, 12, 13, 15]


def test_a_setting_on_its_own_line_has_that_line(problems):
    text = toys.CHAT.replace(
        "{memory_gb: 4, reuse_prefixes: true}", "\n      memory_gb: 4\n      reuse_prefixes: 3"
    )
    assert problems(text) == ["12: `cache.reuse_prefixes` must be a valid boolean, not 3"]


def test_a_problem_in_a_list_has_the_line_of_its_item(problems):
    text = toys.CHAT.replace(
        "path: model/model.xml, device: cpu}",
        "path: model/model.xml,\n        parts: [{file: model/model.xml},\n        {file: model/none.xml}]}",
    )
    (problem,) = problems(text)
    assert problem.startswith("14: `parts[1].file`: there is no file `model/none.xml`")


def test_a_node_type_that_cannot_be_imported_here(folder):
    class Broken(dict):
        def __getitem__(self, name):
            if name == "parse":
                raise ImportError("No module named 'cupy'")
            return super().__getitem__(name)

    with pytest.raises(GraphError) as caught:
        check(toys.CHAT, Broken(toys.NODE_TYPES), toys.TASKS, folder)
    assert (
        str(caught.value)
        == "graph.yaml:15: the node type `parse` cannot be used here: No module named 'cupy'"
    )


def test_only_the_named_node_types_are_loaded(folder):
    used = []

    class Lazy(dict):
        def __getitem__(self, name):
            used.append(name)
            return super().__getitem__(name)

    check(toys.CHAT, Lazy(toys.NODE_TYPES), toys.TASKS, folder)
    assert "pairs" not in used


def test_the_source_is_named_in_problems():
    with pytest.raises(GraphError) as caught:
        check("", toys.NODE_TYPES, toys.TASKS, source="qwen3/graph.yaml")
    assert str(caught.value).startswith("qwen3/graph.yaml:1: ")
