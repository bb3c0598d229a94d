"""The process in which a new model is loaded and run once: `python -m pipelines.host.first_run`.

Reads a pickled `NewModel` from stdin; writes lines of JSON to stdout: OPENED, what it does and the share of
it that is done, RUNNING once it is loaded, and at the end its problems, [] for none.  What engines print goes
to stderr.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import pickle
import sys
from typing import TextIO

from pipelines.base.load_progress import watched
from pipelines.host.first_run.new_models import OPENED, RUNNING, NewModel
from pipelines.host.first_run.run_once import run_once
from pipelines.host.models.model import build_for_host
from pipelines.host.models.process_death import die_first_without_memory, die_with_parent
from pipelines.inference.backends import cpu_kernels
from pipelines.loading.load import BuildError, graphs_from
from pipelines.loading.request_lines import check_request_lines


def main() -> None:
    """Never returns."""
    reply = _own_stdout()
    faulthandler.enable()
    logging.basicConfig(level=logging.ERROR)
    die_first_without_memory()
    cpu_kernels.tries_models = True
    new: NewModel = pickle.load(sys.stdin.buffer)
    die_with_parent(new.parent)
    _write(reply, _problems(new, reply))
    os._exit(0)  # a library may not end cleanly, which is no fault of the model


def _problems(new: NewModel, reply: TextIO) -> list[str]:
    try:
        faulthandler.dump_traceback_later(new.open_s, exit=True)
        check_request_lines(new.folder, graphs_from(new.sources))
        faulthandler.cancel_dump_traceback_later()
        _write(reply, OPENED)
        with watched(lambda what, share: _write(reply, {"doing": what, "share": share})):
            model = build_for_host(new.folder, new.sources, new.device, prepared=new.prepared)
        _write(reply, RUNNING)
        faulthandler.dump_traceback_later(new.limit_s, exit=True)
        run_once(model)
    except BuildError as error:
        return error.problems
    except BaseException as error:  # libraries in other languages raise those too
        return [f"{type(error).__name__}: {error}"]
    return []


def _own_stdout() -> TextIO:
    """Our end of the pipe to the parent; whatever libraries print to stdout goes to stderr."""
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return own


def _write(reply: TextIO, message: object) -> None:
    reply.write(json.dumps(message) + "\n")
    reply.flush()


if __name__ == "__main__":
    main()
