"""The lines of an input file: read one by one, checked before anything runs."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from server.apis.batches.batch_models import ENDPOINTS, BatchErrors, LineError

MAX_ERRORS = 100
"""Errors of one file that are reported."""
MAX_ID_CHARS = 512
ID_RULE = f"a text of 1 to {MAX_ID_CHARS} characters"


class InputLine(msgspec.Struct):
    """A request of a batch; `body` is the body that its endpoint gets, as it stands in the file."""

    custom_id: str
    method: str
    url: str
    body: msgspec.Raw


class _BodyHead(msgspec.Struct):
    """The fields of a body that a batch looks at; the endpoint checks all of them."""

    model: Any = None
    stream: Any = None
    background: Any = None


_DECODER = msgspec.json.Decoder(InputLine)
_HEADS = msgspec.json.Decoder(_BodyHead)


@dataclass(frozen=True, slots=True)
class LineLimits:
    max_lines: int
    max_line_bytes: int


@dataclass(slots=True)
class Checked:
    """What the lines of a file hold: their number, the first one's model, and what is wrong with them."""

    total: int = 0
    model: str | None = None
    errors: list[LineError] = field(default_factory=list)

    @property
    def as_errors(self) -> BatchErrors:
        return BatchErrors(object="list", data=self.errors)


def read_lines(path: Path, max_line_bytes: int) -> Iterator[tuple[int, bytes]]:
    """(number from 1, line) of each line that is not blank; of one that is too long only its beginning.

    A byte order mark before the first one is left out.
    """
    with path.open("rb") as file:
        number = 0
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        while line := file.readline(max_line_bytes + 1):
            number += 1
            while not line.endswith(b"\n") and (rest := file.readline(1 << 20)):
                if rest.endswith(b"\n"):
                    break
            if line.strip():
                yield number, line


def decode(line: bytes) -> InputLine:
    """A line that was checked."""
    return _DECODER.decode(line)


def check_lines(path: Path, endpoint: str | None, limits: LineLimits) -> Checked:
    """Check all lines; `endpoint` None: each may be for another one of ENDPOINTS.  Raises OSError."""
    checked, seen = Checked(), set[bytes]()
    for number, line in read_lines(path, limits.max_line_bytes):
        checked.total += 1
        if checked.total > limits.max_lines:
            text = f"the file has more than {limits.max_lines} lines (BRAID_BATCH_LINES)"
            checked.errors.append(LineError(code="too_many_tasks", line=number, message=text))
            break
        error = _check(line, endpoint, limits, seen, checked)
        if error is not None:
            checked.errors.append(error.model_copy(update={"line": number}))
        if len(checked.errors) >= MAX_ERRORS:
            break
    if not checked.total:
        checked.errors.append(LineError(code="empty_file", message="the input file has no lines"))
    return checked


def _check(
    line: bytes, endpoint: str | None, limits: LineLimits, seen: set[bytes], checked: Checked
) -> LineError | None:
    """What is wrong with a line, if anything is; notes its id and its model."""
    if len(line) > limits.max_line_bytes:
        text = f"the line has more than {limits.max_line_bytes} bytes (BRAID_MAX_BODY_MB)"
        return LineError(code="line_too_long", message=text)
    try:
        parsed = _DECODER.decode(line)
        head = _HEADS.decode(parsed.body)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _invalid(error)
    digest = hashlib.blake2b(parsed.custom_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    if digest in seen:
        text = f"the custom_id {parsed.custom_id[:64]!r} is that of an earlier line"
        return LineError(code="duplicate_custom_id", message=text, param="custom_id")
    seen.add(digest)
    if checked.model is None and isinstance(head.model, str):
        checked.model = head.model
    return _check_fields(parsed, head, endpoint)


def _check_fields(parsed: InputLine, head: _BodyHead, endpoint: str | None) -> LineError | None:
    urls = ENDPOINTS if endpoint is None else (endpoint,)
    for is_wrong, code, param, text in (
        (
            not 0 < len(parsed.custom_id) <= MAX_ID_CHARS,
            "invalid_custom_id",
            "custom_id",
            ID_RULE,
        ),
        (parsed.method != "POST", "invalid_method", "method", "POST"),
        (parsed.url not in urls, "mismatched_endpoint", "url", " or ".join(urls)),
        (head.stream not in (None, False), "invalid_value", "body.stream", "false: a result is whole"),
        (head.background not in (None, False), "invalid_value", "body.background", "false: a batch waits"),
    ):
        if is_wrong:
            return LineError(code=code, message=f"`{param}` must be {text}", param=param)
    return None


def _invalid(error: Exception) -> LineError:
    if isinstance(error, msgspec.ValidationError):
        return LineError(code="invalid_request", message=f"the line is no request: {error}")
    return LineError(code="invalid_json_line", message=f"the line is not valid JSON: {error}")
