"""Table of the fields of tokenizer requests that have no effect, and why.

Fields that a request model declares are honoured; others are in the table, or unknown and refused.
"""

from __future__ import annotations

from pipelines.requests.fields.known_fields import NO_MEDIA, Refused

REFUSED_CHAT: dict[str, Refused] = {
    "required_prefix_token_ids": Refused(
        "a conversation is always rendered from its messages; send fixed tokens as token ids instead", ([],)
    ),
}
"""Fields of the chat format that a request may carry only with a neutral value."""

IGNORED_CHAT: dict[str, str] = {
    "media_io_kwargs": NO_MEDIA,
    "mm_processor_kwargs": NO_MEDIA,
}
"""Field of the chat format → why it may be accepted without effect."""
