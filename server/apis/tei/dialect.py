"""The dialect of text-embeddings-inference: its errors."""

from __future__ import annotations

from server.apis.tei.errors import tei_error
from server.dialects import Dialect

TEI = Dialect("tei", tei_error)
