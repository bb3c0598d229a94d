"""Converts texts and conversations to token ids and back, with a graph's template and tokenizer.

Needs no engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tokenizers import Encoding

from pipelines.base.errors import RequestError
from pipelines.nodes.images.places import place_images, write_images
from pipelines.nodes.naming import nodes_of
from pipelines.nodes.text.add_prompt import AddPrompt
from pipelines.nodes.text.replies.incremental_decoder import IncrementalDecoder
from pipelines.nodes.text.templates.chat_template import ChatTemplate
from pipelines.nodes.text.tokenizing.tokenize import TokenizerNode
from pipelines.values.node_values import Images, Prompt
from pipelines.values.tasks import GenerationInput
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.request_checks import refuse_media
from pipelines.worker.required_nodes import of_type

if TYPE_CHECKING:
    from pipelines.nodes.audio.sounds import ReadAudio
    from pipelines.nodes.images.images import ReadImages

MAX_CHARS = 4 << 20
"""Most characters of a text that is only tokenized, also where a model takes fewer."""

Kind = TypeVar("Kind")


def _first(pipeline: Pipeline, kind: type[Kind]) -> Kind | None:
    return next((node for node in nodes_of(pipeline) if isinstance(node, kind)), None)


def tokenize_node(pipeline: Pipeline) -> TokenizerNode:
    """The graph's tokenize node.  Raises RequestError when it has none."""
    node = _first(pipeline, TokenizerNode)
    if node is None:
        raise RequestError(
            f"The model `{pipeline.name}` has no tokenizer: its graph has no tokenize node", field="model"
        )
    return node


def chat_prompt(pipeline: Pipeline, generation: GenerationInput) -> Prompt:
    """The rendered prompt of a conversation.  Raises RequestError for a graph without a template."""
    node = _first(pipeline, ChatTemplate)
    if node is None:
        raise RequestError(
            f"The model `{pipeline.name}` does not chat: its graph has no chat_template node", field="model"
        )
    return node.prompt(generation)


def chat_ids(pipeline: Pipeline, generation: GenerationInput, add_special_tokens: bool = False) -> list[int]:
    """The token ids of a conversation, which may be longer than the model takes.  Raises RequestError."""
    prompt = chat_prompt(pipeline, generation)
    check_chars([prompt.text or ""], "messages")
    special = prompt.add_special_tokens or add_special_tokens
    prompt = replace(prompt, add_special_tokens=special)
    node, media = tokenize_node(pipeline), _media(pipeline, generation)
    if media is None:
        return node.ids(prompt)
    (written,) = write_images([prompt], media, "messages")
    return place_images([node.ids(written)], media, "messages")[0][0]


def _media(pipeline: Pipeline, generation: GenerationInput) -> Images | None:
    """The images or sounds of a conversation; None for a model of text.  Raises RequestError."""
    vision: ReadImages | None = next(of_type(pipeline, "images"), None)
    audio: ReadAudio | None = next(of_type(pipeline, "audio"), None)
    if generation.images and vision is None:
        refuse_media(pipeline.name, generation.images[0], {"sounds"} if audio else ())
    if generation.sounds and audio is None:
        refuse_media(pipeline.name, generation.sounds[0], {"images"} if vision else ())
    if vision is not None:
        return vision.read(generation.images)
    return None if audio is None else audio.read(generation.sounds)


def check_chars(texts: list[str], field: str) -> None:
    """Raise RequestError for texts that are too long to be tokenized in one request."""
    num_chars = sum(map(len, texts))
    if num_chars > MAX_CHARS:
        raise RequestError(
            f"`{field}` has {num_chars} characters; one request may have {MAX_CHARS} of them tokenized at "
            "most: send it in parts",
            field,
        )


def tokenize_texts(
    pipeline: Pipeline, texts: list[str], add_special_tokens: bool, max_length: int | None, field: str
) -> list[list[int]]:
    """The token ids of each text, truncated at the end to `max_length`; special tokens are preserved.

    Raises RequestError, naming the `field` of the texts, where they are too long.
    """
    check_chars(texts, field)
    node = tokenize_node(pipeline)
    if max_length is None:
        prompts = [Prompt(text=text, add_special_tokens=add_special_tokens) for text in texts]
        return [node.ids(prompt) for prompt in prompts]
    return [_truncated(node, text, add_special_tokens, max_length) for text in texts]


class TextToken(NamedTuple):
    """A token and where it stands in its text, in bytes of UTF-8; None for one that the tokenizer adds."""

    id: int
    text: str
    special: bool = False
    start: int | None = None
    stop: int | None = None


def placed_tokens(
    pipeline: Pipeline, texts: list[str], add_special_tokens: bool, field: str
) -> list[list[TextToken]]:
    """The tokens of each text.  Raises RequestError as `tokenize_texts` does."""
    check_chars(texts, field)
    tokenizer = tokenize_node(pipeline).tokenizer
    encodings = tokenizer.encode_batch(texts, add_special_tokens=add_special_tokens)
    return [[*_placed(text, each)] for text, each in zip(texts, encodings, strict=True)]


def _placed(text: str, encoding: Encoding) -> Iterator[TextToken]:
    lengths = accumulate((len(character.encode(errors="replace")) for character in text), initial=0)
    places = [*lengths]
    columns = (encoding.ids, encoding.tokens, encoding.special_tokens_mask, encoding.offsets)
    for token_id, token, is_added, (start, stop) in zip(*columns, strict=True):
        if is_added:
            yield TextToken(token_id, token, special=True)
        else:
            yield TextToken(token_id, text[start:stop], start=places[start], stop=places[stop])


def with_purpose(pipeline: Pipeline, texts: list[str], purpose: str | None) -> list[str]:
    """The texts with the model's prompt for a purpose before each.  Raises RequestError."""
    if purpose is None:
        return texts
    node = _first(pipeline, AddPrompt)
    if node is None:
        raise RequestError(f"The model `{pipeline.name}` has no prompts", field="prompt_name")
    before = node.known.text_for(purpose)
    return [before + text for text in texts]


def truncate_texts(pipeline: Pipeline, texts: list[str], num_tokens: int) -> list[str]:
    """The beginning of each text: its first `num_tokens` tokens, not counting special tokens, as text."""
    reader = tokenize_node(pipeline).reader
    return [reader.cut_text(text, num_tokens) for text in texts]


def _truncated(node: TokenizerNode, text: str, add_special_tokens: bool, max_length: int) -> list[int]:
    frame = node.reader.frames[1, add_special_tokens]
    (ids,) = node.reader.encode([text], max_length)
    return frame.around(ids[: max(0, max_length - frame.num_special)])[0][:max_length]


def pad(pipeline: Pipeline, ids: list[list[int]], max_length: int | None, left: bool) -> list[list[int]]:
    """Token ids padded to one length: `max_length`, or that of the longest text."""
    length = max(map(len, ids)) if max_length is None else max_length
    token = pad_id(pipeline)
    return [fill + each if left else each + fill for each in ids for fill in [[token] * (length - len(each))]]


def pad_id(pipeline: Pipeline) -> int:
    """The id of the model's padding token, else of its end token, else 0."""
    config = tokenizer_config(pipeline)
    for name in ("pad_token", "eos_token"):
        token = config.get(name)
        text = token.get("content") if isinstance(token, dict) else token
        if isinstance(text, str):
            token_id: int | None = tokenize_node(pipeline).tokenizer.token_to_id(text)
            if token_id is not None:
                return token_id
    return 0


def token_strings(pipeline: Pipeline, ids: list[int]) -> list[str]:
    """Each token as it is written in the vocabulary."""
    tokenizer = tokenize_node(pipeline).tokenizer
    return [tokenizer.id_to_token(token_id) or "" for token_id in ids]


def token_bytes(pipeline: Pipeline, ids: list[int]) -> list[bytes]:
    """The bytes of each token; one that is part of a character has bytes that are no text."""
    decoder = IncrementalDecoder(tokenize_node(pipeline).tokenizer, skip_special_tokens=False)
    return [decoder.token_text(token_id)[1] for token_id in ids]


def plain_ids(pipeline: Pipeline, text: str, add_special_tokens: bool) -> list[int]:
    """The ids of a text in which what looks like a special token is text."""
    check_chars([text], "content")
    node = tokenize_node(pipeline)
    return node.reader.frames[1, add_special_tokens].around(node.gaps.plain(text))[0]


def decode(pipeline: Pipeline, ids: list[int]) -> str:
    """The text of token ids, including special tokens; ids outside the vocabulary give no text."""
    text: str = tokenize_node(pipeline).tokenizer.decode(ids, skip_special_tokens=False)
    return text


def tokenizer_config(pipeline: Pipeline) -> dict[str, Any]:
    """The tokenizer_config.json next to the tokenizer file; {} when it is missing or invalid."""
    path = tokenize_node(pipeline).path.with_name("tokenizer_config.json")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def template_source(pipeline: Pipeline) -> str | None:
    """The text of the graph's chat template, None when it has no chat_template node."""
    node = _first(pipeline, ChatTemplate)
    return None if node is None else node.template.source


def added_tokens(pipeline: Pipeline) -> dict[str, str]:
    """Id → text of the tokens that were added to the vocabulary."""
    added = tokenize_node(pipeline).tokenizer.get_added_tokens_decoder()
    return {str(token_id): added[token_id].content for token_id in sorted(added)}
