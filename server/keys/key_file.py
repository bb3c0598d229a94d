"""The file of named API keys: what each of them may use.  It is read again when it changes.

A key is known by its SHA-256 digest alone, so the file opens nothing to those who read it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

log = logging.getLogger("braid.server")

MAX_BYTES = 8 << 20
MAX_KEYS = 10_000
NAME = r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}"
KEYS_COPY = "keys.yaml"
"""The name of the copy in the private folder of a server."""
DIGEST = re.compile(r"[0-9a-f]{64}")


class KeyFileError(ValueError):
    """The file cannot be used; the message says where and why."""


class NamedKey(BaseModel):
    """One named key.  A bound of None is none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=f"^{NAME}$")
    digest: str
    models: tuple[str, ...] = ("*",)
    requests_per_minute: int | None = Field(default=None, ge=1, le=10**9)
    tokens_per_minute: int | None = Field(default=None, ge=1, le=10**12)
    admin: bool = False

    @field_validator("digest")
    @classmethod
    def _check_digest(cls, digest: str) -> str:
        if not DIGEST.fullmatch(digest):
            raise ValueError("expected the SHA-256 digest of a key, 64 hexadecimal digits in small letters")
        return digest

    @property
    def account(self) -> str:
        """The owner of stored responses and files: another key is another owner."""
        return hashlib.blake2b(bytes.fromhex(self.digest), digest_size=8, person=b"braid tenant").hexdigest()

    @property
    def allows_all(self) -> bool:
        return "*" in self.models

    def allows(self, model: str) -> bool:
        """Whether the key may use a model: one of `models` is its name, or a pattern with `*` that fits."""
        return any(fnmatchcase(model, pattern) for pattern in self.models)


KEYS = TypeAdapter(tuple[NamedKey, ...])


def digest_of(key: str) -> str:
    """How the file knows a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def parse_keys(text: str, where: str = "the keys file") -> tuple[NamedKey, ...]:
    """The keys of a YAML list.  Raises KeyFileError."""
    try:
        entries = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        keys = KEYS.validate_python(() if entries is None else entries)
    except yaml.YAMLError as error:
        raise KeyFileError(f"{where} is not valid YAML: {error}") from None
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()[:5]
        ]
        raise KeyFileError(f"{where}: {'; '.join(problems)}") from None
    if len(keys) > MAX_KEYS:
        raise KeyFileError(f"{where} holds {len(keys)} keys; at most {MAX_KEYS} are read")
    for what, values in (("name", [key.name for key in keys]), ("digest", [key.digest for key in keys])):
        if twice := [value for value, times in Counter(values).items() if times > 1]:
            raise KeyFileError(f"{where}: two keys have the {what} {twice[0]}")
    return keys


def read_text(path: Path) -> str:
    """The text of a keys file.  Raises KeyFileError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise KeyFileError(f"{path} has more than {MAX_BYTES} bytes")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError(f"{path} cannot be read: {error}") from None


def add_key(path: Path, key: NamedKey) -> None:
    """Append a key to a file, which is made where there is none; comments stay.  Raises KeyFileError."""
    before = read_text(path) if path.exists() else ""
    entry = key.model_dump(exclude_defaults=True, mode="json")
    after = before + ("\n" if before and not before.endswith("\n") else "")
    after += yaml.safe_dump([entry], sort_keys=False, default_flow_style=False)
    parse_keys(after, str(path))
    _replace(path, after)


def _replace(path: Path, text: str) -> None:
    """Write a file that its user alone may read, whole or not at all."""
    target = path.resolve()
    written = target.with_name(f".{target.name}.{os.getpid()}")
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        written.replace(target)
    except BaseException:
        written.unlink(missing_ok=True)
        raise


class KeyFile:
    """The keys of a file in one process.  `refresh` takes a changed file; a broken one changes nothing.

    `copy` is where the last good text of the file is, for processes of the same server that start while the
    file is broken.
    """

    def __init__(self, path: Path, copy: Path | None = None) -> None:
        """Raises KeyFileError where neither the file nor its copy can be used."""
        self.path = path
        self._copy = copy
        self._stamp = self._stamp_now()
        self._by_digest: dict[str, NamedKey] = {}
        self._by_account: dict[str, NamedKey] = {}
        try:
            self._read()
        except KeyFileError as error:
            if copy is None or not copy.exists():
                raise
            log.error("%s; the keys from before stay", error)
            self._take(parse_keys(read_text(copy), str(copy)))

    def find(self, digests: Iterable[bytes]) -> NamedKey | None:
        """The key that has one of these digests.

        A look-up by digest may take unequal times: the digests of wrong keys cannot be chosen.
        """
        found = (self._by_digest.get(digest.hex()) for digest in digests)
        return next((key for key in found if key is not None), None)

    def of_account(self, account: str) -> NamedKey | None:
        return self._by_account.get(account)

    def has_changed(self) -> bool:
        """Whether the file is another one than what counts, or what was refused, is from."""
        return self._stamp_now() != self._stamp

    def refresh(self) -> None:
        """Take a changed file; of a broken one say so, and stay with the keys from before."""
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return
        try:
            self._read()
        except KeyFileError as error:
            log.error("%s; the keys from before stay", error)
        else:
            log.info("%s was read again: %d keys", self.path, len(self._by_digest))
        self._stamp = stamp

    def _read(self) -> None:
        text = read_text(self.path)
        self._take(parse_keys(text, str(self.path)))
        if self._copy is not None:
            with suppress(OSError):
                _replace(self._copy, text)

    def _take(self, keys: Iterable[NamedKey]) -> None:
        self._by_digest = {key.digest: key for key in keys}
        self._by_account = {key.account: key for key in self._by_digest.values()}

    def _stamp_now(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
