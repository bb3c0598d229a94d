"""Names of models on hubs: what people write → repository, tag, revision and hub."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from pipelines.base.digests import digest
from pipelines.hub.base.errors import NameFault

HUGGING_FACE, MODELSCOPE, URL = "huggingface", "modelscope", "url"
HUBS = (HUGGING_FACE, MODELSCOPE)
HOSTS = {
    "huggingface.co": HUGGING_FACE,
    "www.huggingface.co": HUGGING_FACE,
    "hf.co": HUGGING_FACE,
    "modelscope.cn": MODELSCOPE,
    "www.modelscope.cn": MODELSCOPE,
}
"""Hosts whose pages name models."""
PREFIXES = {"hf:": HUGGING_FACE, "modelscope:": MODELSCOPE}
FORM = "names on a hub have the form ORG/NAME or ORG/NAME:TAG, as Qwen/Qwen3-4B-GGUF:Q4_K_M"
_PART = re.compile(r"[A-Za-z0-9](?:[\w.-]{0,94}\w)?", re.ASCII)
_TAG = re.compile(r"[\w.+-]+(?:/[\w.+-]+){0,7}", re.ASCII)
_REVISION = re.compile(r"[\w.+-]+(?:/[\w.+-]+){0,7}", re.ASCII)
PAGES = ("blob", "resolve", "tree")
"""Parts of a page's path before its revision."""


@dataclass(frozen=True, slots=True)
class HubName:
    """One model: `repo` is ORG/NAME on `hub`, or the whole address where `hub` is `url`.

    `tag` chooses among what the repository offers, also as the path of a file; `revision` is a branch, tag or
    commit, None for the main one.
    """

    repo: str
    tag: str | None = None
    revision: str | None = None
    hub: str = HUGGING_FACE

    @property
    def local(self) -> str:
        """The name under which the model is served: as it was written, without its hub."""
        if self.hub == URL:
            return self.file.rpartition(".")[0]
        tag = (self.tag or "").rpartition("/")[2]
        return f"{self.repo}:{tag.removesuffix('.gguf')}" if tag else self.repo

    @property
    def cache_key(self) -> str:
        """ORG/NAME; of an address a digest of it, since it may be a secret."""
        return f"{digest(self.repo.encode(), num_bytes=8)}/{self.file}" if self.hub == URL else self.repo

    @property
    def file(self) -> str:
        """The name of the file that an address leads to."""
        return unquote(urlsplit(self.repo).path).rpartition("/")[2]

    def __str__(self) -> str:
        shown = self.repo.partition("?")[0]  # what follows may be a secret of a signed address
        return f"{shown}:{self.tag}" if self.tag else shown


def parse_name(text: str, hub: str | None = None, revision: str | None = None) -> HubName:
    """The model that a text names; `hub` and `revision` are options, which go before what the text says.

    Raises NameFault.
    """
    if hub not in (None, *HUBS):
        raise NameFault(f"{hub} is no hub: expected {' or '.join(HUBS)}")
    if revision is not None and not is_revision(revision):
        raise NameFault(f"{revision!r} is no revision: expected a branch, a tag or a commit")
    named = _parse(text.strip(), hub)
    if named.hub == URL and (hub or revision):
        raise NameFault(f"{named}: an address has neither a hub nor a revision")
    chosen_hub = named.hub if named.hub == URL else hub or named.hub
    return HubName(named.repo, named.tag, revision or named.revision, chosen_hub)


def is_revision(text: str) -> bool:
    """Whether a text may be a branch, tag or commit."""
    return bool(_REVISION.fullmatch(text)) and _is_plain_path(text)


def is_repo(text: str) -> bool:
    """Whether a text has the form ORG/NAME, as hubs allow it."""
    parts = text.split("/")
    return len(parts) == 2 and all(_is_part(part) for part in parts)


def _is_part(text: str) -> bool:
    return bool(_PART.fullmatch(text)) and "--" not in text and ".." not in text and not text.endswith(".git")


def _is_plain_path(text: str) -> bool:
    return not any(part in (".", "..") for part in text.split("/"))


def _parse(text: str, hub: str | None) -> HubName:
    for prefix, named in PREFIXES.items():
        if text.startswith(prefix):
            return _of_path(text.removeprefix(prefix), hub or named)
    scheme, colon, rest = text.partition("://")
    if colon and scheme.lower() in ("http", "https"):
        return _of_address(text, rest, hub)
    host, _, path = text.partition("/")
    if host.lower() in HOSTS:
        return _of_path(path, hub or HOSTS[host.lower()])
    return _of_path(text, hub or HUGGING_FACE)


def _of_address(text: str, rest: str, hub: str | None) -> HubName:
    """A page of a hub, or a file anywhere."""
    where = rest.partition("?")[0].rpartition("@")[2]
    try:
        parts = urlsplit(text)
        host, _ = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise NameFault(f"{where!r} is no address of a file") from None
    if host in HOSTS:
        path = unquote(parts.path).strip("/").removeprefix("models/")
        return _of_path(path, hub or HOSTS[host])
    if not host or parts.username is not None or not text.isascii() or not text.isprintable() or " " in text:
        raise NameFault(f"{where!r} is no address of a file")
    name = HubName(text, hub=URL)
    if not name.file.lower().endswith(".gguf") or not _TAG.fullmatch(name.file):
        raise NameFault(f"{name}: only the address of a GGUF file is fetched; {FORM}")
    return name


def _of_path(path: str, hub: str) -> HubName:
    """ORG/NAME with a tag, the path of a file, or that of a page about one."""
    stem, _, tag = path.partition(":")
    org, _, rest = stem.partition("/")
    name, _, below = rest.partition("/")
    repo = f"{org}/{name}"
    if not is_repo(repo):
        raise NameFault(f"{path!r} names no model: {FORM}")
    revision = None
    page, _, behind = below.partition("/")
    if page in PAGES and behind:
        revision, _, below = behind.partition("/")
    if (below and tag) or (path.endswith(":") and not tag):
        raise NameFault(f"{path!r} names no model: {FORM}")
    chosen = tag or below.removesuffix("/") or None
    if chosen is not None and not (_TAG.fullmatch(chosen) and _is_plain_path(chosen)):
        raise NameFault(f"{path!r} names no model: {chosen!r} is no tag; {FORM}")
    if revision is not None and not is_revision(revision):
        raise NameFault(f"{path!r} names no model: {revision!r} is no revision")
    return HubName(repo, chosen, revision, hub)
