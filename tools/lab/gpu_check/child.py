"""Runs one check in a separate process: `python -m tools.lab.gpu_check.child NAME SETTING RESULT`.

A faulty kernel destroys the CUDA context of its process, and a check that hangs is stopped with its
process; neither must cost the next check anything.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

from tools.lab.gpu_check.base.setting import Absent, Failed, Setting
from tools.lab.gpu_check.checks import CHECKS, Check

TAIL = 12  # lines of a traceback that are shown
Outcome = dict[str, str]


def outcome(check: Check, setting: Setting) -> Outcome:
    """Run the check here: its state ("pass", "fail" or "absent"), why, and where to look."""
    try:
        check.load()(setting)
    except Absent as absent:
        return {"state": "absent", "why": str(absent), "look_at": ""}
    except Failed as failed:
        return {"state": "fail", "why": str(failed), "look_at": failed.look_at}
    except Exception as error:
        lines = traceback.format_exc().rstrip().splitlines()
        return {
            "state": "fail",
            "why": f"{type(error).__name__}: {error}",
            "look_at": "\n".join(lines[-TAIL:]),
        }
    return {"state": "pass", "why": "", "look_at": ""}


def main() -> None:
    name, setting, result = sys.argv[1:]
    check = next(check for check in CHECKS if check.name == name)
    Path(result).write_text(json.dumps(outcome(check, Setting.from_json(setting))))


if __name__ == "__main__":
    main()
