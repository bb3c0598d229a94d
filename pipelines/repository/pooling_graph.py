"""The graph of an exported model that reads whole texts: vectors of them or of their tokens, classes, scores.

Knows the lines of such a graph and the files that they are made from; opens no model.
"""

from __future__ import annotations

from pipelines.repository import ovms_graph
from pipelines.repository.exports import CONFIG, Export, find_chat_template
from pipelines.repository.model_task import count_labels, reads_forward
from pipelines.repository.sentence_modules import FIRST_POOLING, module_lines, read_pooling

PROMPTS, LENGTHS = "config_sentence_transformers.json", "sentence_bert_config.json"
SCORE_TEMPLATE, SCORE = "score_template.jinja", "score"
"""How a query and a document are asked about; the head of a decoder, for one row of each text."""
ASKED_WHOLE = ("prompt", "pairs")
"""Lines that read all of a request, not its prompts alone."""
RAW = "Identity"
DRAFT_TOKEN = "  # a draft token: no modules.json here says how; see the model's card"

Lines = list[tuple[str, str]]
"""Pairs of a line's name and its settings; each reads the line above it."""


def pooling_lines(export: Export, task: str) -> list[str]:
    """Of graph.yaml, from the task on; `task`: embed, token_embed, classify or rerank.

    Raises ValueError where the folder asks for something that no graph can say.
    """
    vectors = task in ("embed", "token_embed")
    name, before = ("scores", _pairs(export)) if task == "rerank" else ("rows", _texts(export))
    body = _vectors(export) if vectors else _logits(export) + _activation(export, task)
    after = {"rerank": _ranking(), "classify": _labels(export)}.get(task, _matryoshka(export))
    return [
        f"task: {task}",
        "nodes:",
        *_chain(before, "request" if before[0][0] in ASKED_WHOLE else "request.prompts", "  "),
        f"  {name}:",
        "    type: batcher",
        f"    from: {before[-1][0]}",
        *_longest(export),
        "    body:",
        *_chain([(_encoded(export, vectors), _encoder(export)), *body], "batch", "      "),
        *_chain(after, name, "  "),
    ]


def _chain(lines: Lines, source: str, indent: str) -> list[str]:
    """The text of lines, the first of which reads `source`; a line that says what it reads keeps that.

    What follows a # is a note to whoever reads the file.
    """
    written = []
    for name, told in lines:
        settings, mark, note = told.partition("  #")
        kind, _, others = settings.partition(", ")
        reads = "" if "from: " in settings else f", from: {source}"
        written.append(f"{indent}{name}: {{{kind}{reads}{', ' + others if others else ''}}}{mark}{note}")
        source = name
    return written


def _texts(export: Export) -> Lines:
    """Conversations and prompts → tokens."""
    template, _ = find_chat_template(export)
    lines: Lines = [("prompt", f"type: chat_template, template: {template}")] if template else []
    if export.read(PROMPTS).get("prompts"):
        lines.append(("prefixed", f"type: add_prompt, prompts: {export.names(PROMPTS)}"))
    return [*lines, ("tokens", f"type: tokenize, tokenizer: {export.tokenizer}")]


def _pairs(export: Export) -> Lines:
    template = export.names(SCORE_TEMPLATE)
    asked = f", template: {template}" if template else ""
    return [("pairs", f"type: tokenize_pairs, tokenizer: {export.tokenizer}{asked}")]


def _encoder(export: Export) -> str:
    return f"type: encoder, path: {export.model_path}, device: cpu"


def _encoded(export: Export, vectors: bool) -> str:
    """What the model itself gives."""
    return "hidden" if vectors or _has_head(export) else "logits"


def _longest(export: Export) -> list[str]:
    """The bound of texts that sentence-transformers keeps, where that says one."""
    longest = export.read(LENGTHS).get("max_seq_length")
    return [f"    max_tokens: {longest}  # of one text"] if isinstance(longest, int) else []


def _vectors(export: Export) -> Lines:
    """What the modules of the folder do; without modules the model server's words, or the model's family."""
    lines = module_lines(export.place, export.prefix)
    if lines:
        return lines
    said = _said_pooling(export)
    pooled = ("pooled", f"type: pool, how: {said or _usual_pooling(export)}{'' if said else DRAFT_TOKEN}")
    return [pooled, ("unit", "type: normalize")] if ovms_graph.normalizes(export.place) else [pooled]


def _said_pooling(export: Export) -> str | None:
    if said := ovms_graph.find_pooling(export.place):
        return said
    if export.names(f"{FIRST_POOLING}/{CONFIG}"):
        return read_pooling(export.place / FIRST_POOLING)
    return None


def _usual_pooling(export: Export) -> str:
    """What vLLM and OpenVINO Model Server take of a family where a folder says nothing."""
    return "last" if reads_forward(export.read(CONFIG)) else "cls"


def _has_head(export: Export) -> bool:
    return export.names(f"{SCORE}/{CONFIG}") is not None


def _logits(export: Export) -> Lines:
    """Lines between the encoder and the logits of labels, where its own head is not among it."""
    if not _has_head(export):
        return []
    return [("pooled", "type: pool, how: last"), ("logits", f"type: dense, path: {export.prefix}{SCORE}")]


def _activation(export: Export, task: str) -> Lines:
    """What makes probabilities of logits: what the model was trained with, unless that is nothing."""
    config = export.read(CONFIG)
    name = "score" if task == "rerank" else "probabilities"
    trained = config.get("sentence_transformers")
    functions = (
        config.get("sbert_ce_default_activation_function"),
        trained.get("activation_fn") if isinstance(trained, dict) else None,
    )
    if config.get("problem_type") == "regression" or any(str(each).endswith(RAW) for each in functions):
        return []
    alone = config.get("problem_type") == "multi_label_classification" or count_labels(config) == 1
    return [(name, f"type: {'sigmoid' if alone else 'softmax'}")]


def _ranking() -> Lines:
    return [("ranking", "type: rank, from: {scores: scores, pairs: pairs}")]


def _labels(export: Export) -> Lines:
    return [("classes", f"type: label, labels: {export.prefix}{CONFIG}")]


def _matryoshka(export: Export) -> Lines:
    """A line where config.json says that vectors may be cut."""
    config = export.read(CONFIG)
    dimensions = config.get("matryoshka_dimensions")
    if not dimensions and not config.get("is_matryoshka"):
        return []
    allowed = f", dimensions: {dimensions}" if isinstance(dimensions, list) and dimensions else ""
    return [("vectors", f"type: matryoshka{allowed}")]
