"""Calls of a model's own nodes: in threads, with a limit; what fails there fails its request alone."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from graphs.node import Node
from pipelines.base.bounded_thread import TookTooLong, run_within
from pipelines.base.cancellation import need_long_work
from pipelines.base.errors import BraidError, EngineError
from pipelines.nodes.own_setting import limit_s
from pipelines.values.stream_values import Deferred, Series, Stream

log = logging.getLogger("braid.worker")

OF_LOADING = ("__init__", "load", "close")
OF_REQUESTS = ("plan", "check", "run")


def bound_methods(kind: type[Node], source: str) -> None:
    """Replace the methods that a class has of its own; `source` is its file, for messages."""
    for names, bounded in ((OF_LOADING, _bounded_load), (OF_REQUESTS, _bounded)):
        for name in names:
            if name in vars(kind):
                setattr(kind, name, bounded(vars(kind)[name], source))
    kind.takes_long = True


def line_in(source: str, stack: traceback.StackSummary) -> int:
    """The innermost line of a file in a stack; 1 where there is none."""
    return next((frame.lineno or 1 for frame in reversed(stack) if frame.filename == source), 1)


def _bounded_load(method: Callable[..., Any], source: str) -> Callable[..., Any]:
    @wraps(method)
    def bounded(*args: Any) -> Any:
        return run_within(limit_s(), partial(method, *args))

    return bounded


def _bounded(method: Callable[..., Any], source: str) -> Callable[..., Any]:
    @wraps(method)
    def bounded(self: Node, *args: Any, **inputs: Any) -> Any:
        need_long_work()
        value = _run(partial(method, self, *args, **inputs), type(self).__name__, source)
        return _bounded_value(value, list(inputs.values()), type(self).__name__, source)

    return bounded


def _bounded_value(value: Any, inputs: list[Any], name: str, source: str) -> Any:
    """What the node makes of a value that is still to come is bounded too."""
    if isinstance(value, Stream | Series) and not any(value is given for given in inputs):
        raise EngineError(f"`{name}` of {source} gives a {type(value).__name__}")
    if not isinstance(value, Deferred):
        return value
    known = {id(make) for given in inputs if isinstance(given, Deferred) for make in given.makers}
    makers = (make if id(make) in known else _bounded_maker(make, name, source) for make in value.makers)
    return Deferred(value.source, tuple(makers))


def _bounded_maker(make: Callable[[Any], Any], name: str, source: str) -> Callable[[Any], Any]:
    def bounded(value: Any) -> Any:
        return _bounded_value(_run(partial(make, value), name, source), [], name, source)

    bounded.takes_long = True  # type: ignore[attr-defined]
    return bounded


def _run(work: Callable[[], Any], name: str, source: str) -> Any:
    """Raises BraidError."""
    try:
        return run_within(limit_s(), work)
    except BraidError:
        raise
    except TookTooLong as error:
        place = f"{source}:{line_in(source, error.stack)}"
        raise EngineError(f"`{name}` did not end within {limit_s():g} s; it was at {place}") from None
    except BaseException as error:  # one that the node raised: even KeyboardInterrupt must not end a worker
        stack = traceback.extract_tb(error.__traceback__)
        if not isinstance(error, Exception) and all(frame.filename != source for frame in stack):
            raise
        place = f"{source}:{line_in(source, stack)}"
        log.exception("`%s` failed at %s", name, place)
        raise EngineError(f"`{name}` failed at {place}; see the server's log") from error
