"""Whether Python code of models is run, with all rights of the server, and how long one call may take.

The environment says it, in the words of `server.base.settings`, which a test compares: processes without a
server read this too.
"""

from __future__ import annotations

import os

SETTING = "BRAID_ALLOW_NODE_CODE"
LIMIT_SETTING = "BRAID_NODE_CODE_S"
LIMIT_S = 10.0
"""Seconds that one call of such code may take, where the setting says nothing."""
ON = ("1", "true", "yes", "on", "t", "y")


def allows_code() -> bool:
    return os.environ.get(SETTING, "").lower() in ON


def limit_s() -> float:
    return float(os.environ.get(LIMIT_SETTING) or LIMIT_S)
