"""Generates docs/fields.md, the page of every request field of every text API.

Run `python -m server.openapi.fields_page > docs/fields.md`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pipelines.inference.engine.batching.text_checks import MAX_ANSWER_VALUES
from pipelines.requests.fields import known_fields as generation
from pipelines.requests.fields.known_fields import NONE, Refused
from pipelines.requests.pooling.embedding import MAX_IN_HEADER
from pipelines.requests.pooling.input_parsing import MAX_TEXTS, MAX_TOTAL_CHARS
from server.apis.gemini import unsupported_fields as gemini
from server.apis.generation.requests.batch import ONE_ONLY
from server.apis.kserve import parameters as kserve
from server.apis.messages import unsupported_fields as messages
from server.apis.ollama import options as ollama
from server.apis.responses import unsupported_fields as responses
from server.openapi.gemini_operations import GENERATE as GEMINI
from server.openapi.llama_operations import COMPLETION as LLAMA_COMPLETION
from server.openapi.llama_operations import INFILL as LLAMA_INFILL
from server.openapi.ollama_operations import CHAT as OLLAMA_CHAT
from server.openapi.ollama_operations import GENERATE as OLLAMA_GENERATE
from server.openapi.operation import (
    CHAT,
    CLASSIFICATION,
    COHERE_EMBED,
    COMPLETION,
    COUNT,
    DECISION,
    EMBEDDING,
    INFER,
    MESSAGES,
    MODERATION,
    POOLING,
    RERANK,
    RESPONSE,
    SCORE,
    SCORING,
    SEARCH,
    SPEECH,
    SYSTEM_ONE,
    TOKENIZE,
    TRANSCRIPTION,
)
from server.openapi.schemas import BodySchema
from server.openapi.store_operations import CREATE_STORE, SEARCH_STORE

INTRODUCTION = """\
# Request fields

Every field on this page is honoured, refused with a 400 that names it, or ignored for the reason given here.
Null means: not set.

A field that is not on this page is ignored, at any depth of a request.  `/metrics` counts these by path
(`braid:ignored_request_fields_total`), each name is logged once at level debug, and a name that misspells a
known one is reported in a header of the reply, at most 8 of them:

    X-Braid-Ignored-Fields: temprature;nearest=temperature

With `BRAID_STRICT_FIELDS=1` an unknown field is a 400 with the nearest known name.

A field is refused where to ignore it would change the meaning of a request: audio output of a chat model,
an edit of the text by a plug-in, a conversation that is stored elsewhere.

This page is generated from the tables that the server itself uses:
`python -m server.openapi.fields_page > docs/fields.md`.
"""


class Inside(NamedTuple):
    """The tables of an object inside a request."""

    where: str
    refused: Mapping[str, Refused] = NONE
    ignored: Mapping[str, str] = NONE


class Page(NamedTuple):
    """The section of one API."""

    title: str
    body: BodySchema
    inside: tuple[Inside, ...] = ()
    note: str = ""


BATCH_NOTE = (
    "`POST chat/completions/batch` takes the same fields, with `n` and `best_of` of at most 1 and without "
    + ", ".join(f"`{name}`" for name in ONE_ONLY)
    + "."
)
EMBEDDING_NOTE = (
    f"One request may hold {MAX_TEXTS} texts, and its reply {MAX_ANSWER_VALUES} numbers: a request for more "
    "is refused before the model runs. `bytes` sends all vectors concatenated, and their offsets as JSON "
    f"in the header `metadata`, for at most {MAX_IN_HEADER} texts; `bytes_only` omits the header. "
    "`cache_salt` has no effect: nothing is cached between requests."
)
RERANK_NOTE = (
    "With `chunk_documents` a cross-encoder scores a document that is too long in parts, and the best part "
    "counts; under /v3 this is the default. The default of `return_documents` is true, under /v3 false."
)
SCORE_NOTE = (
    f"One request may hold {MAX_TEXTS} documents; for a cross-encoder its pairs may hold {MAX_TOTAL_CHARS} "
    "characters together, where the query and the instruction count for each document."
)
COHERE_NOTE = (
    "`POST v1/embed` takes the same fields. Of `embedding_types`, `int8` is round(127 x) for the numbers x "
    "of a vector, `uint8` the same + 128; a bit of `ubinary` is 1 where x is not negative, the first number "
    "at the highest bit of the first byte; `binary` is `ubinary` - 128; `base64` is float32, little endian."
)
INFER_NOTE = (
    "Of the parameters, "
    + ", ".join(f"`{name}`" for name in kserve.EVERY_HONOURED)
    + " are honoured, of a request, an input and an output. [kserve.md](kserve.md) describes the protocol."
)

SPEECH_NOTE = (
    "`POST audio/translations` takes the same fields but `timestamp_granularities[]`, and `to_language`, "
    "which must be `en`. The body is a form, multipart/form-data; [speech.md](speech.md) describes the "
    "fields."
)

LLAMA_NOTE = (
    "llama.cpp's own path, without a prefix; `POST completions` without a prefix is the same. A sampler that "
    "is not in `samplers` does nothing; their order is fixed, and `infill` among them has no effect."
)
DECISION_NOTE = (
    "`min_label_mass` is Braid's own: an answer whose labels are together less probable is a refusal. "
    "[decisions.md](decisions.md) describes questions and answers."
)
SEARCH_NOTE = "[retrieval.md](retrieval.md) describes searches, and how an index is made."
STORE_NOTE = "[retrieval.md](retrieval.md#vector-stores) describes stores, their files and searches."
VOICE_NOTE = (
    "`response_format` is mp3 by default, under /v3 wav; `voice` is that of the model by default. "
    "[speech.md](speech.md#text-to-speech) describes the fields."
)

PAGES = (
    Page("POST completions", COMPLETION),
    Page(
        "POST chat/completions",
        CHAT,
        (
            Inside("a message", ignored=generation.IGNORED_IN_MESSAGES),
            Inside("a content part", ignored=generation.IGNORED_IN_PARTS),
            Inside("an earlier tool call", ignored=generation.IGNORED_IN_CALLS),
            Inside("`stream_options`", ignored=generation.IGNORED_STREAM_OPTIONS),
        ),
        BATCH_NOTE,
    ),
    Page(
        "POST responses",
        RESPONSE,
        (
            Inside("`text`", ignored=responses.IGNORED_TEXT),
            Inside("`reasoning`", responses.REFUSED_REASONING, responses.IGNORED_REASONING),
            Inside("`stream_options`", ignored=generation.IGNORED_STREAM_OPTIONS),
            Inside("a tool", responses.REFUSED_TOOL, responses.IGNORED_TOOL),
            Inside("an item of `input`", ignored=responses.IGNORED_IN_ITEMS),
            Inside("`include` (values)", ignored=responses.IGNORED_INCLUDES),
        ),
        "`POST responses/input_tokens` takes the same fields; `input` is optional there.",
    ),
    Page(
        "POST messages",
        MESSAGES,
        (
            Inside("a content block", ignored=messages.IGNORED_IN_BLOCKS),
            Inside("`content` (kinds of blocks)", ignored=messages.IGNORED_BLOCKS),
            Inside("a tool", messages.REFUSED_IN_TOOLS, messages.IGNORED_IN_TOOLS),
        ),
        "`POST messages/count_tokens` takes " + ", ".join(f"`{name}`" for name in COUNT.fields) + ".",
    ),
    Page(
        "POST v1beta/models/M:generateContent",
        GEMINI,
        (
            Inside("`generationConfig`", gemini.REFUSED_IN_CONFIG, gemini.IGNORED_IN_CONFIG),
            Inside("a part", ignored=gemini.LEFT_OUT_PARTS),
            Inside("a function", ignored=gemini.IGNORED_IN_FUNCTIONS),
            Inside("`toolConfig`", ignored=gemini.IGNORED_IN_TOOL_CONFIG),
            Inside("`functionCallingConfig`", ignored=gemini.IGNORED_IN_CALLING),
        ),
    ),
    Page(
        "POST api/chat",
        OLLAMA_CHAT,
        (Inside("`options`", ignored=ollama.IGNORED),),
        "Of the options, " + ", ".join(f"`{name}`" for name in ollama.OPTIONS) + " are honoured.",
    ),
    Page("POST api/generate", OLLAMA_GENERATE, note="The options are those of `POST api/chat`."),
    Page("POST completion", LLAMA_COMPLETION, note=LLAMA_NOTE),
    Page("POST infill", LLAMA_INFILL),
    Page("POST audio/transcriptions", TRANSCRIPTION, note=SPEECH_NOTE),
    Page("POST audio/speech", SPEECH, note=VOICE_NOTE),
    Page("POST decisions", DECISION, note=DECISION_NOTE),
    Page("POST systemone", SYSTEM_ONE),
    Page("POST generative_scoring", SCORING),
    Page("POST moderations", MODERATION),
    Page("POST search", SEARCH, note=SEARCH_NOTE),
    Page("POST vector_stores", CREATE_STORE, note=STORE_NOTE),
    Page("POST vector_stores/{id}/search", SEARCH_STORE),
    Page("POST embeddings", EMBEDDING, note=EMBEDDING_NOTE),
    Page("POST pooling", POOLING),
    Page("POST classify", CLASSIFICATION),
    Page("POST score", SCORE, note=SCORE_NOTE),
    Page("POST rerank", RERANK, note=RERANK_NOTE),
    Page("POST v2/embed", COHERE_EMBED, note=COHERE_NOTE),
    Page(
        "POST v2/models/{name}/infer",
        INFER,
        (
            Inside("`parameters`", kserve.REFUSED, kserve.IGNORED),
            Inside("`parameters` of an input", kserve.OF_SHARED_MEMORY),
            Inside("`parameters` of an output", kserve.REFUSED_IN_OUTPUTS),
        ),
        INFER_NOTE,
    ),
    *(
        Page(f"POST tokenize, with `{name}`", body)
        for name, body in zip(("prompt", "messages", "text", "content", "inputs"), TOKENIZE, strict=True)
    ),
)


def page() -> str:
    """The page as Markdown."""
    return "\n".join([INTRODUCTION, *(line for each in PAGES for line in _section(each))])


def _section(section: Page) -> Iterator[str]:
    honoured, refused, ignored = _by_treatment(section.body)
    yield f"## {section.title}\n"
    yield "Honoured: " + ", ".join(f"`{name}`" for name in honoured) + ".\n"
    if section.note:
        yield section.note + "\n"
    yield from _table("Refused", refused)
    yield from _table("Ignored", ignored)
    for inside in section.inside:
        yield from _table(f"Refused in {inside.where}", _reasons(inside.refused))
        yield from _table(f"Ignored in {inside.where}", inside.ignored)


def _by_treatment(body: BodySchema) -> tuple[list[str], Mapping[str, str], Mapping[str, str]]:
    """A body's fields: the honoured ones, and the refused and ignored ones with their reasons."""
    refused, ignored = _reasons(body.refused), dict(body.ignored)
    for name in body.passed:
        if name in generation.IGNORED:
            ignored[name] = generation.IGNORED[name]
        elif name in CHAT.refused:
            refused |= _reasons({name: CHAT.refused[name]})
    names = [*body.fields, *body.passed]
    return [name for name in names if name not in (*refused, *ignored)], refused, ignored


def _reasons(refused: Mapping[str, Refused]) -> dict[str, str]:
    return {name: entry.reason + _neutral_values(entry) for name, entry in refused.items()}


def _neutral_values(refused: Refused) -> str:
    values = [f"`{json.dumps(value)}`" for value in refused.neutral]
    return f" ({' and '.join(values)} may be sent)" if values else ""


def _table(title: str, reasons: Mapping[str, str]) -> Iterator[str]:
    if reasons:
        yield f"| {title} | Because |\n|---|---|"
        for name, reason in sorted(reasons.items()):
            yield f"| `{name}` | {reason} |"
        yield ""


if __name__ == "__main__":
    sys.stdout.write(page())
