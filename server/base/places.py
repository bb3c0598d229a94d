"""Where a server is: the folder of its packages, its model repository, its host in a URL."""

from __future__ import annotations

from pathlib import Path

from pipelines.base import ROOT


def default_models() -> Path:
    """The model repository where no setting names one: ./model_repo, else the checkout's."""
    here = Path("model_repo")
    return here if here.is_dir() else ROOT / "model_repo"


def bracketed(host: str) -> str:
    """A host as part of a URL: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host
