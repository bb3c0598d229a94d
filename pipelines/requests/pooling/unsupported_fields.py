"""Tables of the fields of pooling requests that have no effect, and why."""

from __future__ import annotations

from pipelines.requests.fields.known_fields import NO_MEDIA, Refused

REFUSED: dict[str, Refused] = {
    "normalize": Refused("Parameter `normalize` was removed; use `use_activation` instead"),
}
"""Fields that a request may carry only with a neutral value."""

REFUSED_EMBEDDING: dict[str, Refused] = {
    "embedding_type": Refused("use `encoding_format`, or POST v2/embed with `embedding_types`", ("float",)),
    "late_chunking": Refused("each text gets a vector of its own", (False,)),
    "task": Refused("this path has one task; use POST pooling for others", ("embed",)),
}
REFUSED_POOLING: dict[str, Refused] = {
    "dimensions": Refused("dimensions is currently not supported; use POST embeddings"),
    "data": Refused(
        "No IOProcessor plugin installed. Please refer to the documentation and to the "
        "'prithvi_geospatial_mae_io_processor' offline inference example for more details."
    ),
}
REFUSED_RERANKING: dict[str, Refused] = {
    "relevant_spans": Refused("a document is scored as a whole; relevant spans are not computed", ({},)),
}
REFUSED_COHERE: dict[str, Refused] = {
    "truncate_prompt_tokens": Refused("use `max_tokens`"),
    "truncation_side": Refused("use `truncate`"),
}

IGNORED: dict[str, str] = {
    "media_io_kwargs": NO_MEDIA,
    "mm_processor_kwargs": NO_MEDIA,
    "user": "a label for the operator's statistics; it does not change the result",
    "padding": "the server chooses padding itself; it does not change the result",
}
IGNORED_EMBEDDING: dict[str, str] = {
    "truncate": "a text that is too long is refused; see `truncate_prompt_tokens`",
}
IGNORED_CLASSIFICATION: dict[str, str] = {
    "encoding_format": "probabilities and scores are JSON numbers",
}
IGNORED_SCORING: dict[str, str] = {
    "encoding_format": "probabilities and scores are JSON numbers",
    "normalize": "scores are from 0 to 1 already; see `use_activation`",
}
IGNORED_RERANKING: dict[str, str] = {
    "max_chunks_per_doc": "documents are not limited to a number of parts; see `chunk_documents`",
}
"""Field → why it is accepted without effect."""
