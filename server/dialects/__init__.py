"""Dialects: for each path, the shape of its errors, the rules for its bodies and its own defaults.

One endpoint serves all dialects; a dialect is a table of data.  Those of several families of endpoints are
here; the others stand beside the endpoints that speak them, in `server/apis`.
"""

from __future__ import annotations

from server.dialects.definitions import OPENAI, OVMS
from server.dialects.dialect import Dialect
from server.dialects.spoken import Dialects

__all__ = ["OPENAI", "OVMS", "Dialect", "Dialects"]
