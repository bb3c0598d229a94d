"""The variables of the Hugging Face libraries, with their meaning and defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.base.cache_folder import default_cache
from pipelines.hub.base.errors import HubError

TRUE = {"1", "ON", "YES", "TRUE"}
ENDPOINT, MODELSCOPE_DOMAIN = "https://huggingface.co", "modelscope.cn"
TIMEOUT_S = 10.0


@dataclass(frozen=True)
class HubEnvironment:
    """The addresses of hubs, what may be sent to them, and where files are stored.

    `own_cache` is for what does not come from Hugging Face: its layout is the same.
    """

    endpoint: str = ENDPOINT
    token: str | None = field(default=None, repr=False)
    hub_cache: Path = Path("hub")
    own_cache: Path = Path("own")
    max_cache_bytes: int | None = None
    """What both caches may take, with what other programs put there; None: the disk alone bounds them."""
    is_offline: bool = False
    timeout_s: float = TIMEOUT_S
    authorities: Path | None = None
    """A file or folder of the authorities to trust; None: those of the system, or of SSL_CERT_FILE."""
    modelscope: str = f"https://{MODELSCOPE_DOMAIN}"
    modelscope_token: str | None = field(default=None, repr=False)

    @classmethod
    def read(
        cls,
        cache: Path | None = None,
        variables: Mapping[str, str] = os.environ,
        max_cache_gb: float | None = None,
    ) -> HubEnvironment:
        """The environment of this process; `cache` is Braid's own folder.  Raises HubError."""
        home = _home(variables)
        named = variables.get("HF_HUB_CACHE") or variables.get("HUGGINGFACE_HUB_CACHE")
        domain = variables.get("MODELSCOPE_DOMAIN") or MODELSCOPE_DOMAIN
        return cls(
            endpoint=_address("HF_ENDPOINT", variables.get("HF_ENDPOINT") or ENDPOINT),
            token=_token(home, variables),
            hub_cache=_path(named) if named else home / "hub",
            own_cache=(cache or default_cache()) / "hub",
            max_cache_bytes=None if max_cache_gb is None else round(max_cache_gb * 2**30),
            is_offline=_is_true(variables, "HF_HUB_OFFLINE") or _is_true(variables, "TRANSFORMERS_OFFLINE"),
            timeout_s=_seconds(variables),
            authorities=_authorities(variables),
            modelscope=_address("MODELSCOPE_DOMAIN", domain if "://" in domain else f"https://{domain}"),
            modelscope_token=_clean(variables.get("MODELSCOPE_API_TOKEN")),
        )


def _home(variables: Mapping[str, str]) -> Path:
    if named := variables.get("HF_HOME"):
        return _path(named)
    cache = variables.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "huggingface"


def _path(text: str) -> Path:
    return Path(os.path.expandvars(text)).expanduser().absolute()


def _authorities(variables: Mapping[str, str]) -> Path | None:
    """The authorities of the variables that other libraries of HTTP read.  Raises HubError."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        if text := variables.get(name):
            if not _path(text).exists():
                raise HubError(f"{name}={text[:200]}: there is no such file or folder")
            return _path(text)
    return None


def _is_true(variables: Mapping[str, str], name: str) -> bool:
    return variables.get(name, "").upper() in TRUE


def _address(name: str, text: str) -> str:
    if not text.startswith(("http://", "https://")) or not text.isprintable() or " " in text:
        raise HubError(f"{name}={text[:100]!r} is no address, as {ENDPOINT}")
    return text.rstrip("/")


def _token(home: Path, variables: Mapping[str, str]) -> str | None:
    """The token of a variable, else that of the file that `hf auth login` writes."""
    if _is_true(variables, "HF_HUB_DISABLE_IMPLICIT_TOKEN"):
        return None
    if named := variables.get("HF_TOKEN") or variables.get("HUGGING_FACE_HUB_TOKEN"):
        return _clean(named)
    file = variables.get("HF_TOKEN_PATH")
    try:
        return _clean((_path(file) if file else home / "token").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _clean(token: str | None) -> str | None:
    """A token that may stand in a header; None for an empty one.  Raises HubError, which does not show it."""
    text = (token or "").strip()
    if text and not (text.isascii() and text.isprintable() and " " not in text):
        raise HubError("the token holds characters that no token has: look at HF_TOKEN, or `hf auth login`")
    return text or None


def _seconds(variables: Mapping[str, str]) -> float:
    text = variables.get("HF_HUB_DOWNLOAD_TIMEOUT") or str(TIMEOUT_S)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise HubError(f"HF_HUB_DOWNLOAD_TIMEOUT={text[:40]}: expected seconds")
    return seconds
