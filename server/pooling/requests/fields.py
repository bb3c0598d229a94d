"""Fields of these bodies that are not honoured, and why.  Data only."""

from __future__ import annotations

from server.generation.requests.fields import OPERATOR_SETS, Refused

REFUSED: dict[str, Refused] = {
    "normalize": Refused("Parameter `normalize` was removed; use `use_activation` instead"),
    "mm_processor_kwargs": Refused(OPERATOR_SETS, ({},)),
    "media_io_kwargs": Refused(OPERATOR_SETS, ({},)),
}
"""Fields that a request may carry only with a neutral value."""

IGNORED: dict[str, str] = {
    "user": "a name for the operator's own statistics; it does not change the answer",
    "padding": "padding is the server's own affair; it does not change the answer",
}
"""Field → why it may be accepted without effect."""
