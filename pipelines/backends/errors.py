"""What can go wrong while a model is opened.  Knows nothing of requests."""

from __future__ import annotations

EXPORT_ADVICE = (
    "Export it as a decoder with a cache: braid export HF_FOLDER --name NAME "
    "(or optimum-cli export openvino --task text-generation-with-past)."
)


class ModelError(Exception):
    """An exported model cannot be served as asked; the message says why and what to do."""
