"""Fields of these bodies that are not honoured, and why.  Data only."""

from __future__ import annotations

from server.generation.requests.known_fields import OPERATOR_SETS, Refused

REFUSED: dict[str, Refused] = {
    "normalize": Refused("Parameter `normalize` was removed; use `use_activation` instead"),
    "mm_processor_kwargs": Refused(OPERATOR_SETS, ({},)),
    "media_io_kwargs": Refused(OPERATOR_SETS, ({},)),
}
"""Fields that a request may carry only with a neutral value."""

REFUSED_EMBEDDING: dict[str, Refused] = {
    "task": Refused("the path says it; POST pooling has tasks", ("embed",)),
}
REFUSED_POOLING: dict[str, Refused] = {
    "dimensions": Refused("dimensions is currently not supported; ask POST embeddings"),
    "data": Refused(
        "No IOProcessor plugin installed. Please refer to the documentation and to the "
        "'prithvi_geospatial_mae_io_processor' offline inference example for more details."
    ),
}
REFUSED_RERANKING: dict[str, Refused] = {
    "relevant_spans": Refused("a document is scored as a whole; spans of it are not looked for", ({},)),
}
REFUSED_COHERE: dict[str, Refused] = {
    "images": Refused("this model reads text; send `texts`, or `inputs` of text", ([],)),
    "truncate_prompt_tokens": Refused("use `max_tokens`"),
    "truncation_side": Refused("use `truncate`"),
}

IGNORED: dict[str, str] = {
    "user": "a name for the operator's own statistics; it does not change the answer",
    "padding": "padding is the server's own affair; it does not change the answer",
}
IGNORED_RERANKING: dict[str, str] = {
    "max_chunks_per_doc": "a document is read whole; with `chunk_documents` in as many parts as it takes",
}
"""Field → why it may be accepted without effect."""
