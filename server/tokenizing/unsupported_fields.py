"""Fields of tokenizer requests that are not honoured, and why.

A field that a request model declares is honoured; any other is in a table here, or unknown and refused.
"""

from __future__ import annotations

from server.generation.requests.known_fields import OPERATOR_SETS, Refused

REFUSED_CHAT: dict[str, Refused] = {
    "mm_processor_kwargs": Refused(OPERATOR_SETS, ({},)),
    "media_io_kwargs": Refused(OPERATOR_SETS, ({},)),
    "required_prefix_token_ids": Refused(
        "a conversation is rendered anew; send what must stay as it is as token ids", ([],)
    ),
}
"""Fields of the chat form that a request may carry only with a neutral value."""
