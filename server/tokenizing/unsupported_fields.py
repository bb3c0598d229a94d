"""Table of the fields of tokenizer requests that have no effect, and why.

Fields that a request model declares are honoured; others are in the table, or unknown and refused.
"""

from __future__ import annotations

from server.generation.requests.known_fields import OPERATOR_SETS, Refused

REFUSED_CHAT: dict[str, Refused] = {
    "mm_processor_kwargs": Refused(OPERATOR_SETS, ({},)),
    "media_io_kwargs": Refused(OPERATOR_SETS, ({},)),
    "required_prefix_token_ids": Refused(
        "a conversation is always rendered from its messages; send fixed tokens as token ids instead", ([],)
    ),
}
"""Fields of the chat format that a request may carry only with a neutral value."""
