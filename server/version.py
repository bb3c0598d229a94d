"""The version that the server reports.  A test holds it equal to pyproject.toml."""

from __future__ import annotations

VERSION = "0.1.0"
FINGERPRINT = f"braid-{VERSION}"
