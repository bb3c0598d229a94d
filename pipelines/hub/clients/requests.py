"""Requests to a hub that are repeated while that may help, and its refusals in words."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from pipelines.hub.base.errors import AccessDenied, HubError, NotThere, Unreachable
from pipelines.hub.base.events import Stop
from pipelines.hub.clients.transport import Broken, HubReply

RETRIED = (408, 425, 429, 500, 502, 503, 504)
MAX_TRIES = 5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
Result = TypeVar("Result")


class Again(Exception):
    """A reply that says that the same request may succeed, after `pause_s` where it names a time."""

    def __init__(self, message: str, pause_s: float | None = None) -> None:
        super().__init__(message)
        self.pause_s = pause_s


def repeated(
    call: Callable[[], Result],
    stop: Stop,
    has_progressed: Callable[[], bool] = lambda: False,
) -> Result:
    """What `call` returns, after at most MAX_TRIES failures in a row that may pass.

    Tries in which `has_progressed` is true do not count.  Raises Unreachable with the last reason.
    """
    tries = 0
    while True:
        stop.check()
        try:
            return call()
        except (Broken, Again) as error:
            tries = 1 if has_progressed() else tries + 1
            if tries >= MAX_TRIES:
                raise Unreachable(str(error)) from error
            wanted = error.pause_s if isinstance(error, Again) and error.pause_s is not None else None
            stop.wait(_pause(wanted, tries))


def _pause(wanted: float | None, tries: int) -> float:
    """Twice as long each time, and not the same for all threads; or what the hub asks for, within a bound."""
    grown = FIRST_PAUSE_S * 2 ** (tries - 1) * (1 + random.random() / 2)
    return min(grown if wanted is None else max(wanted, 0.0), LONGEST_PAUSE_S)


def check_status(reply: HubReply, what: str, page: str, has_token: bool) -> None:
    """Raise the error that a reply is: `what` was asked for, and `page` is where people see it."""
    if reply.status in (200, 206):
        return
    if reply.status in RETRIED:
        raise Again(_busy(reply), _retry_after(reply))
    raise refusal(reply, what, page, has_token)


def refusal(reply: HubReply, what: str, page: str, has_token: bool) -> HubError:
    """The error of a reply that the same request will get again."""
    code = reply.headers.get("x-error-code", "")
    if code == "GatedRepo":
        return AccessDenied(_gated(what, page, has_token))
    if code == "RevisionNotFound":
        return NotThere(f"{what}: the hub has no such revision")
    if code == "EntryNotFound":
        return NotThere(f"{what}: the hub has no such file")
    text = reply.error_text()
    because = f" ({text})" if text else ""
    if code == "RepoNotFound" or reply.status == 404:
        return NotThere(f"{what}: the hub has no such model{_or_private(has_token)}")
    if reply.status == 401:
        if has_token:
            return AccessDenied(f"{what}: the hub does not accept the token{because}")
        return AccessDenied(f"{what}: the hub has no such model{_or_private(has_token)}")
    if reply.status == 403:
        return AccessDenied(f"{what}: the hub refuses access{because}; look at {page}")
    return HubError(f"{what}: the hub answers {reply.status}{because}")


def _gated(what: str, page: str, has_token: bool) -> str:
    if has_token:
        return f"{what} is gated, and the account of the token has no access: accept the licence at {page}"
    return (
        f"{what} is gated: accept the licence at {page}, then set HF_TOKEN to a token of "
        "https://huggingface.co/settings/tokens"
    )


def _or_private(has_token: bool) -> str:
    if has_token:
        return ", or the account of the token does not have access to it"
    return ", or it is private: HF_TOKEN is not set"


def _busy(reply: HubReply) -> str:
    if reply.status == 429:
        return "the hub has had too many requests from here (429); try again later, a token raises the bound"
    return f"the hub answers {reply.status}"


def _retry_after(reply: HubReply) -> float | None:
    try:
        return float(reply.headers.get("retry-after", ""))
    except ValueError:
        return None
