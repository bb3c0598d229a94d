"""Composed graphs that cannot run: each is refused before anything is loaded, with its line and what is meant."""

from every_case import every_case

from graphs.compose import Graphs, GraphSource
from graphs.errors import GraphError
from pipelines.nodes import VOCABULARY
from pipelines.values.tasks import TASKS

TEXT = """\
  tokens: {{type: tokenize, from: {source}, tokenizer: t.json}}
  generated:
    type: scheduler
    from: tokens
    body:
      logits: {{type: model, from: step, path: m.onnx}}
      next: {{type: sampler, from: logits}}
  text: {{type: detokenize, from: generated, tokenizer: t.json}}
"""
POOLED = """\
  pooled:
    type: batcher
    from: {source}
    body:
      hidden: {{type: encoder, from: batch, path: m.onnx}}
      rows: {{type: pool, from: hidden, how: mean}}
"""
MODELS = {
    "talker": "task: chat\nnodes:\n  prompt: {type: chat_template, template: c.jinja}\n"
    + TEXT.format(source="prompt")
    + "  reply: {type: parse_reply, from: text}\n",
    "writer": "task: completion\nnodes:\n" + TEXT.format(source="request.prompts"),
    "words": "task: embed\nnodes:\n  tokens: {type: tokenize, from: request.prompts, tokenizer: t.json}\n"
    + POOLED.format(source="tokens"),
    "topics": "task: classify\nnodes:\n  tokens: {type: tokenize, from: request.prompts, tokenizer: t.json}\n"
    + POOLED.format(source="tokens")
    + "  classes: {type: label, from: pooled, labels: l.json}\n",
    "ranker": "task: rerank\nnodes:\n  pairs: {type: tokenize_pairs, from: request, tokenizer: t.json}\n"
    + POOLED.format(source="pairs")
    + "  ranking: {type: rank, from: {scores: pooled, pairs: pairs}}\n",
    "books": """\
task: search
nodes:
  question: {type: graph, graph: words, from: request}
  hits:
    type: search
    from: question
    body:
      found: {type: index, from: batch, path: index}
""",
    "circle": "task: chat\nnodes:\n  reply: {type: choose, from: {value: request}, cases: {a: wrong}, "
    "otherwise: talker}\n",
}
SAYS = "said: {type: ask, graph: talker, template: '{{ request }}'}"
FOUND = "found: {type: find, graph: books, from: request}"
CITED = "cited: {type: cite, from: {passages: found}}"
ANSWER = "reply: {type: graph, graph: talker, from: cited}"
CASES = {
    # lines below `nodes:`, the line with the problem (the first below `nodes:` is 4), words of its message
    "no such model": (["reply: {type: ask, graph: taker, template: hi}"], 4, "did you mean `talker`"),
    "a model by another word": (
        ["reply: {type: ask, model: talker, template: hi}"],
        4,
        "unknown setting `model`: the other model is named by `graph`",
    ),
    "a template by another word": (
        ["reply: {type: ask, graph: talker, prompt: hi}"],
        4,
        "unknown setting `prompt`: what is asked is the `template`",
    ),
    "an index by another word": (
        ["found: {type: find, index: books, from: request}", CITED, ANSWER],
        4,
        "unknown setting `index`: the search model is named by `graph`",
    ),
    "a number of passages by another word": (
        [FOUND, "best: {type: rerank_hits, graph: ranker, from: found, top_n: 3}", CITED, ANSWER],
        5,
        "unknown setting `top_n`: how many passages is `top`",
    ),
    "a ranking by another word": (
        [FOUND, "best: {type: rerank, graph: ranker, from: found}", CITED, ANSWER],
        5,
        "unknown node type `rerank`; did you mean `rerank_hits`?",
    ),
    "a chat by another word": (
        ["reply: {type: llm, graph: talker, template: hi}"],
        4,
        "unknown node type `llm`; did you mean `ask`?",
    ),
    "a task that asks nothing": (
        ["reply: {type: ask, graph: words, template: hi}"],
        4,
        "`chat` or `completion`",
    ),
    "no template": (["reply: {type: ask, graph: talker}"], 4, "`template` is missing"),
    "a template that is none": (
        ["reply: {type: ask, graph: talker, template: '{{ a'}"],
        4,
        "does not compile",
    ),
    "a name of the template that is no line": (
        [SAYS, "reply: {type: ask, graph: talker, template: '{{ said }} {{ sad }}', from: {said: said}}"],
        5,
        "needs the input `sad`",
    ),
    "an input that the template does not read": (
        [SAYS, "reply: {type: ask, graph: talker, template: '{{ said }}', from: {sad: said}}"],
        5,
        "did you mean `said`",
    ),
    "a misspelt setting": (
        ["reply: {type: ask, graph: talker, templat: hi}"],
        4,
        "unknown setting `templat`; did you mean `template`",
    ),
    "a setting of another type": (
        ["reply: {type: ask, graph: talker, template: hi, max_tokens: many}"],
        4,
        "`max_tokens` must be a valid integer",
    ),
    "two forms of a reply": (
        ["reply: {type: ask, graph: talker, template: hi, choice: [a], json_schema: {type: object}}"],
        4,
        "exclude each other",
    ),
    "a system message for a completion": (
        ["said: {type: ask, graph: writer, template: hi, system: hi}", ANSWER.replace("cited", "said")],
        4,
        "`system` needs a chat model",
    ),
    "a completion as the reply of a chat": (
        ["reply: {type: ask, graph: writer, template: hi}"],
        4,
        "replies",
    ),
    "a line that nothing reads": ([SAYS, SAYS.replace("said", "reply")], 4, "nothing reads `said`"),
    "a line that is read above it": (
        [
            SAYS.replace("request", "later").replace("}'}", "}', from: {later: later}}"),
            SAYS.replace("said", "later"),
        ],
        4,
        "a line reads only lines above it",
    ),
    "vectors as a text": (
        [
            "rows: {type: graph, graph: words, from: wanted}",
            "reply: {type: ask, graph: talker, template: '{{ rows }}', from: {rows: rows}}",
        ],
        5,
        "takes a value with a text",
    ),
    "a search of a model that finds nothing": (
        [FOUND.replace("books", "topics"), CITED, ANSWER],
        4,
        "needs one of `search`",
    ),
    "a search for nothing": (
        ["found: {type: find, graph: books}", CITED, ANSWER],
        4,
        "needs the input `query`",
    ),
    "passages as a reply": ([FOUND], 4, "the task `chat` replies"),
    "a ranking model that does not rank": (
        [
            FOUND,
            "best: {type: rerank_hits, graph: topics, from: found}",
            CITED.replace("found", "best"),
            ANSWER,
        ],
        5,
        "needs one of `rerank`",
    ),
    "a ranking of no passages": (
        [
            SAYS,
            "best: {type: rerank_hits, graph: ranker, from: said}",
            CITED.replace("found", "best"),
            ANSWER,
        ],
        5,
        "takes Deferred[Hits]",
    ),
    "citations of no passages": ([SAYS, CITED.replace("found", "said"), ANSWER], 5, "takes Deferred[Hits]"),
    "a template of citations without passages": (
        [FOUND, CITED.replace("cite,", "cite, template: '{{ question }}',"), ANSWER],
        5,
        "does not show the `passages`",
    ),
    "a misspelt name in it": (
        [FOUND, CITED.replace("cite,", "cite, template: '{{ pasages }} {{ passages }}',"), ANSWER],
        5,
        "did you mean `passages`",
    ),
    "a line of a search model where one is asked": (
        [FOUND.replace("type: find", "type: search"), CITED, ANSWER],
        4,
        "a line that asks a search model is of type `find`",
    ),
    "a line of a ranking model where one is asked": (
        [FOUND, "best: {type: rank, graph: ranks, from: found}", CITED.replace("found", "best"), ANSWER],
        5,
        "a line that asks a model that ranks is of type `rerank_hits`",
    ),
    "tokens of no model in it": (
        [FOUND, CITED.replace("cite,", "cite, max_tokens: 9,"), ANSWER],
        5,
        "`max_tokens` and `graph`, whose tokens they are, go together",
    ),
    "a request for citations as the reply": ([FOUND, CITED], 5, "gives GenerationInput"),
    "a request that a model does not take": (
        [FOUND, CITED, "reply: {type: graph, graph: words, from: cited}"],
        6,
        "takes PoolingInput",
    ),
    "passages as a request": (
        [FOUND, "reply: {type: graph, graph: talker, from: found}"],
        5,
        "gives Deferred[Hits]; a `cite` line makes one from the other; to be read here: request",
    ),
    "a choice of nothing": (["reply: {type: choose}"], 4, "must name the models"),
    "a choice without a model for the rest": (
        ["reply: {type: choose, from: {value: request}, cases: {a: talker}}"],
        4,
        "`otherwise` is missing",
    ),
    "a choice by no value": (
        ["reply: {type: choose, cases: {a: talker}, otherwise: talker}"],
        4,
        "input `value`",
    ),
    "a choice of a model that is not there": (
        ["reply: {type: choose, from: {value: request}, cases: {a: taker}, otherwise: talker}"],
        4,
        "did you mean `talker`",
    ),
    "a choice between tasks": (
        ["reply: {type: choose, from: {value: request}, cases: {a: talker}, otherwise: words}"],
        4,
        "the task of `words` is `embed`; this line needs one of `chat`",
    ),
    "a case that is no comparison": (
        ["reply: {type: choose, from: {value: request}, cases: {'> much': talker}, otherwise: talker}"],
        4,
        "is no comparison",
    ),
    "a case that is there twice": (
        ["reply: {type: choose, from: {value: request}, cases: {a: talker, A: talker}, otherwise: talker}"],
        4,
        "is there twice",
    ),
    "cases and shares": (
        [
            "reply: {type: choose, from: {value: request}, cases: {a: talker}, shares: {talker: 1}, otherwise: talker}"
        ],
        4,
        "exclude each other",
    ),
    "shares of nothing": (["reply: {type: choose, shares: {talker: 0}}"], 4, "one of them more than 0"),
    "a circle through a choice": (
        ["reply: {type: choose, from: {value: request}, cases: {a: circle}, otherwise: talker}"],
        4,
        "a graph cannot contain itself: wrong → circle → wrong",
    ),
    "a misspelt node type": (["reply: {type: chose, shares: {talker: 1}}"], 4, "did you mean `choose`"),
    "a body where there is none": (
        ["reply: {type: ask, graph: talker, template: hi, body: {a: {type: model}}}"],
        4,
        "takes no body",
    ),
}


def problems(lines):
    graph = "version: 1\ntask: chat\nnodes:\n" + "".join(f"  {line}\n" for line in lines)
    texts = {name: f"version: 1\n{text}" for name, text in MODELS.items()} | {"wrong": graph}
    sources = {name: GraphSource(text) for name, text in texts.items()}
    try:
        Graphs(sources, VOCABULARY, TASKS)("wrong")
    except GraphError as error:
        return error.problems
    return ()


@every_case("name", CASES)
def test_each_wrong_graph_is_refused_with_its_line(name):
    lines, at, words = CASES[name]
    found = [(problem.line, problem.message) for problem in problems(lines)]
    assert any(line == at and words in message for line, message in found), (name, found)


def test_what_they_are_made_from_is_right():
    assert problems([SAYS.replace("said", "reply")]) == ()
    assert problems([FOUND, CITED, ANSWER]) == ()
    ranked = "best: {type: rerank_hits, graph: ranker, from: found, top: 3, least_score: 0.1}"
    assert problems([FOUND, ranked, CITED.replace("found", "best"), ANSWER]) == ()
    assert problems(["reply: {type: choose, shares: {talker: 1, wrong2: 0}}"]) != ()
