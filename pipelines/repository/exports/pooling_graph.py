"""Writes the graph of an exported embedding or pooling model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.repository.exports.decoder_graph import MediaLines
from pipelines.repository.exports.export_files import CONFIG, Export, find_chat_template
from pipelines.repository.exports.model_task import count_labels, is_causal
from pipelines.repository.exports.other_vectors import beside_dense, query_weights, sparse_tokens
from pipelines.repository.exports.sentence_modules import (
    FIRST_POOLING,
    SETTINGS,
    cleaning,
    module_lines,
    read_pooling,
)
from pipelines.repository.files.yaml_words import settings_text

PROMPTS = "config_sentence_transformers.json"
SCORE_TEMPLATE, SCORE = "score_template.jinja", "score"
"""The template of a pair of query and document; the folder of a decoder's classification head."""
TAKES_REQUEST = ("prompt", "pairs")
"""Lines whose input is the whole request, not its prompts."""
INSTRUCTIONS = {"qwen3_vl": "Represent the user's input."}
"""`model_type` of a vision-language decoder → the instruction of its makers where there is no other."""
LONGEST = 8192
IDENTITY = "Identity"
UNIT = "unit"
ASSUMED = "  # assumed: no file here names the pooling; see the model card"

RESULTS = {
    "embed": "embeddings",
    "token_embed": "embeddings",
    "classify": "outputs",
    "token_classify": "outputs",
    "rerank": "scores",
}
"""Task → name of the batcher's line."""

Lines = list[tuple[str, str]]
"""(name, settings) of each line; its input is the line above it."""


@dataclass(frozen=True)
class PoolingSettings:
    """What is said of the lines beside the export's own files; None: those files decide."""

    model: Mapping[str, Any] = field(default_factory=lambda: {"device": "cpu"})
    tokens: Mapping[str, Any] = field(default_factory=dict)
    how: str | None = None
    normalize: bool | None = None
    max_tokens: int | None = None


def pooling_lines(
    export: Export, task: str, said: PoolingSettings | None = None, media: MediaLines | None = None
) -> list[str]:
    """The lines of graph.yaml from the task on; `task` is embed, token_embed, classify or rerank.  `media`
    are those for the images of a vision-language decoder.

    Raises ValueError when a file of the folder requires something that no graph can express.
    """
    said = said or PoolingSettings()
    embeds = task in ("embed", "token_embed")
    name = RESULTS[task]
    tokens = settings_text(said.tokens)
    takes_pairs = task == "rerank" or (task == "classify" and tells_entailment(export))
    before = _pairs(export, tokens, media) if takes_pairs else _texts(export, tokens, media)
    body = _vectors(export, said) if embeds else _logits(export) + _activation(export, task)
    queries = query_weights(export) if embeds else None
    others = beside_dense(export) if task == "embed" else []
    others += [("queries", sparse_tokens(export, queries))] if queries else []
    after = {
        "rerank": _ranking(before[-1][0]),
        "classify": _labels(export),
        "token_classify": _entities(export, before[-1][0]),
    }.get(task, _matryoshka(export))
    return [
        f"task: {task}",
        "nodes:",
        *(media.lines if media else ()),
        *_chain(before, "request" if before[0][0] in TAKES_REQUEST else "request.prompts", "  "),
        f"  {name}:",
        "    type: batcher",
        f"    from: {{tokens: tokens, images: {media.rows}}}" if media else f"    from: {before[-1][0]}",
        *_max_tokens(export, said),
        *(["    queries: queries"] if queries else []),
        "    body:",
        *_chain([(_encoded(export, embeds), _encoder(export, said)), *body, *others], "batch", "      "),
        *_chain(after, name, "  "),
    ]


def _chain(lines: Lines, source: str, indent: str) -> list[str]:
    """The text of lines, the first with the input `source`; a line with its own `from` keeps it.

    Settings may end in a comment, which follows the line.
    """
    texts = []
    for name, line in lines:
        settings, hash_sign, comment = line.partition("  #")
        kind, _, others = settings.partition(", ")
        source_setting = "" if "from: " in settings else f", from: {source}"
        more = f", {others}" if others else ""
        texts.append(f"{indent}{name}: {{{kind}{source_setting}{more}}}{hash_sign}{comment}")
        source = name
    return texts


def _texts(export: Export, settings: str, media: MediaLines | None) -> Lines:
    """Lines from conversations and prompts to tokens."""
    found_template = find_chat_template(export)
    template = found_template and found_template.file
    if media:
        return _shown(export, template, settings, media)
    lines: Lines = [("prompt", f"type: chat_template, template: {template}")] if template else []
    if export.read(PROMPTS).get("prompts"):
        lines.append(("prefixed", f"type: add_prompt, prompts: {export.names(PROMPTS)}"))
    cleaned = "".join(f", {name}: true" for name in cleaning(export.place))
    return [*lines, ("tokens", f"type: tokenize, tokenizer: {export.tokenizer}{cleaned}{settings}")]


def _shown(export: Export, template: str | None, settings: str, media: MediaLines) -> Lines:
    """The lines for a decoder with vision, which reads texts too as messages below an instruction."""
    if template is None:
        raise ValueError("chat_template.jinja is missing, by which images are shown; copy it here")
    prompts = export.read(PROMPTS)
    said = {"prompts": export.names(PROMPTS) if prompts.get("prompts") else None}
    if not prompts.get("default_prompt_name"):
        said["instruction"] = INSTRUCTIONS.get(str(export.read(CONFIG).get("model_type")))
    options = settings_text({"template": template, "add_special_tokens": True, **said})
    read = f"from: {{prompts: prompt, images: {media.given}}}, tokenizer: {export.tokenizer}"
    return [("prompt", f"type: embed_template{options}"), ("tokens", f"type: tokenize, {read}{settings}")]


def _pairs(export: Export, settings: str, media: MediaLines | None) -> Lines:
    template = export.names(SCORE_TEMPLATE)
    if media:
        read = f"from: {{prompts: prompt, images: {media.given}}}, tokenizer: {export.tokenizer}"
        prompt = f"type: pair_template, template: {template}, add_special_tokens: true"
        return [("prompt", prompt), ("tokens", f"type: tokenize, {read}{settings}")]
    setting = f", template: {template}" if template else ""
    said = {"instruction" if template else "query_prompt": _default_prompt(export)}
    setting += settings_text({name: text for name, text in said.items() if text})
    return [("pairs", f"type: tokenize_pairs, tokenizer: {export.tokenizer}{setting}{settings}")]


def _default_prompt(export: Export) -> str | None:
    """The prompt that a cross-encoder puts before each query where a request names none."""
    config = export.read(PROMPTS)
    name, prompts = config.get("default_prompt_name"), config.get("prompts")
    text = prompts.get(name) if isinstance(prompts, dict) and name is not None else None
    return text if isinstance(text, str) else None


def _encoder(export: Export, said: PoolingSettings) -> str:
    return f"type: encoder{settings_text({'path': export.model_path, **said.model})}"


def _encoded(export: Export, embeds: bool) -> str:
    """The name of the model's own output."""
    return "hidden" if embeds or _has_head(export) else "logits"


def longest_input(export: Export) -> int:
    """The longest input of a vision-language decoder, in tokens: its keys and values take memory."""
    fields = export.read(CONFIG)
    own = (fields.get("text_config") or fields).get("max_position_embeddings")
    return min(LONGEST, own) if isinstance(own, int) else LONGEST


def _max_tokens(export: Export, said: PoolingSettings) -> list[str]:
    """The maximum length of a text, if one is said or sentence-transformers' settings have one."""
    limit = said.max_tokens or export.read(SETTINGS).get("max_seq_length")
    return [f"    max_tokens: {limit}  # of one text"] if isinstance(limit, int) else []


def _vectors(export: Export, said: PoolingSettings) -> Lines:
    """The lines of the folder's modules; else pooling by 1_Pooling, or by the model's family."""
    modules = module_lines(export.place, export.prefix) if said.how is None else []
    lines = [line for line in modules if line[0] != UNIT] or [_pooled(export, said)]
    trained_so = len(lines) < len(modules) or not modules
    is_unit = trained_so if said.normalize is None else said.normalize
    is_sparse = any(line.startswith("type: sparse") for _, line in lines)
    return [*lines, (UNIT, "type: normalize")] if is_unit and not is_sparse else lines


def _pooled(export: Export, said: PoolingSettings) -> tuple[str, str]:
    has_settings = export.names(f"{FIRST_POOLING}/{CONFIG}") is not None
    how = said.how or (read_pooling(export.place / FIRST_POOLING) if has_settings else None)
    return ("pooled", f"type: pool, how: {how or default_pooling(export)}{'' if how else ASSUMED}")


def default_pooling(export: Export) -> str:
    """The pooling that vLLM and OpenVINO Model Server assume for a model family."""
    return "last" if is_causal(export.read(CONFIG)) else "cls"


def _has_head(export: Export) -> bool:
    return export.names(f"{SCORE}/{CONFIG}") is not None


def scores_pairs(export: Export) -> bool:
    """Whether a vision-language decoder has what makes it a reranker."""
    return _has_head(export) and export.names(SCORE_TEMPLATE) is not None


def tells_entailment(export: Export) -> bool:
    """Whether a classifier judges pairs of texts: by one of its labels the first entails the second."""
    labels = export.read(CONFIG).get("id2label")
    return isinstance(labels, dict) and any(str(label).lower() == "entailment" for label in labels.values())


def _logits(export: Export) -> Lines:
    """The lines from the encoder to the logits, when the head is a separate file."""
    if not _has_head(export):
        return []
    return [("pooled", "type: pool, how: last"), ("logits", f"type: dense, path: {export.prefix}{SCORE}")]


def _activation(export: Export, task: str) -> Lines:
    """The activation that the model was trained with: sigmoid, softmax or none."""
    config = export.read(CONFIG)
    name = "score" if task == "rerank" else "probabilities"
    trained = config.get("sentence_transformers")
    functions = (
        config.get("sbert_ce_default_activation_function"),
        trained.get("activation_fn") if isinstance(trained, dict) else None,
    )
    if config.get("problem_type") == "regression" or any(
        str(function).endswith(IDENTITY) for function in functions
    ):
        return []
    is_tagger = task == "token_classify"
    independent = config.get("problem_type") == "multi_label_classification" or count_labels(config) == 1
    independent = independent and not is_tagger
    return [(name, f"type: {'sigmoid' if independent else 'softmax'}")]


def _ranking(pairs: str) -> Lines:
    return [("ranking", f"type: rank, from: {{scores: scores, pairs: {pairs}}}")]


def _entities(export: Export, tokens: str) -> Lines:
    read = f"from: {{scores: outputs, tokens: {tokens}, prompts: request.prompts}}"
    files = f"tokenizer: {export.tokenizer}, labels: {export.prefix}{CONFIG}"
    return [("entities", f"type: token_labels, {read}, {files}")]


def _labels(export: Export) -> Lines:
    return [("classes", f"type: label, labels: {export.prefix}{CONFIG}")]


def _matryoshka(export: Export) -> Lines:
    """The matryoshka line, if config.json allows shorter embeddings."""
    config = export.read(CONFIG)
    dimensions = config.get("matryoshka_dimensions")
    if not dimensions and not config.get("is_matryoshka"):
        return []
    allowed = f", dimensions: {dimensions}" if isinstance(dimensions, list) and dimensions else ""
    return [("vectors", f"type: matryoshka{allowed}")]
