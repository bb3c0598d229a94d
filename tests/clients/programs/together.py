"""Runs programs one after the other in one process, so that what they import is read once.

Arguments: the programs' files, `--`, and the arguments that each is given.  Prints `ended FILE STATUS SECONDS`
after each.
"""

import runpy
import sys
import time
import traceback


def status_of(file: str) -> object:
    """What the program exits with; 1 where it raises."""
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as ended:
        return ended.code or 0
    except Exception:
        traceback.print_exc()
        return 1
    return 0


at = sys.argv.index("--")
files, arguments = sys.argv[1:at], sys.argv[at + 1 :]
for each in files:
    sys.argv = [each, *arguments]
    begin = time.monotonic()
    print("ended", each, status_of(each), f"{time.monotonic() - begin:.1f}", flush=True)
